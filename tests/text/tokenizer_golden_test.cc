// Token ids against the tiktoken package, driven as Kimi's TikTokenTokenizer drives it.
#include <gtest/gtest.h>

#include "corpus.h"
#include "golden.h"
#include "text/tiktoken.h"
#include "text/tokenizer.h"

namespace strobe {
namespace {

using Ids = std::vector<int32_t>;

struct Vocabulary {
  const char* golden;
  std::unique_ptr<Tokenizer> (*load)();
};

std::unique_ptr<Tokenizer> load_pocket() {
  return Tokenizer::load(testing::source_path("models/pocket-k2/target")).value();
}

// Learned without pre-tokenization: its tokens run over words, digits, scripts and broken characters, so that a piece
// cut in another place gives other ids. pocket-k2's hardly has tokens outside English.
std::unique_ptr<Tokenizer> load_crossing() {
  const std::string model = testing::read_file(testing::golden_path("crossing.tiktoken"));
  const std::string config = testing::read_file(testing::golden_path("crossing_config.json"));
  return make_tiktoken_tokenizer({.model = model, .config = config}).value();
}

class Goldens : public ::testing::TestWithParam<Vocabulary> {
 protected:
  Goldens() : tokenizer_(GetParam().load()), golden_(testing::golden(GetParam().golden)) {}

  std::unique_ptr<Tokenizer> tokenizer_;
  nlohmann::ordered_json golden_;
};

TEST_P(Goldens, Cases) {
  ASSERT_GT(golden_["cases"].size(), 100U);
  for (const auto& item : golden_["cases"]) {
    const auto text = item["text"].get<std::string>();
    const auto ids = item["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_->encode(text, SpecialTokens::kRecognise), ids) << text;
    EXPECT_EQ(tokenizer_->encode(text, SpecialTokens::kAsText), item.value("plain", ids)) << text;
    EXPECT_EQ(tokenizer_->decode(ids, false), text);
  }
}

TEST_P(Goldens, TextsAtTheCuts) {
  for (const auto& item : golden_["long"]) {
    std::string text;
    for (const auto& part : item["parts"]) {
      for (size_t i = 0; i < part[1].get<size_t>(); ++i) text += part[0].get<std::string>();
    }
    const Ids ids = tokenizer_->encode(text, SpecialTokens::kRecognise);
    EXPECT_EQ(ids.size(), item["count"].get<size_t>()) << item["parts"];
    EXPECT_EQ(testing::ids_digest(ids), item["digest"].get<std::string>()) << item["parts"];
    EXPECT_EQ(tokenizer_->decode(ids, false), text);
  }
}

TEST_P(Goldens, MultilingualMegabyte) {
  const auto& golden = golden_["corpus"];
  const std::string text = testing::corpus(golden["seed"].get<uint64_t>(), golden["bytes"].get<size_t>(),
                                           tokenizer_->vocab_size() - kKimiControlTokens);
  ASSERT_EQ(testing::text_digest(text), golden["text_digest"].get<std::string>()) << "the corpus itself differs";
  const Ids ids = tokenizer_->encode(text, SpecialTokens::kRecognise);
  EXPECT_EQ(ids.size(), golden["count"].get<size_t>());
  size_t at = 0;
  for (const auto& digest : golden["every_20000"]) {
    const size_t count = std::min<size_t>(20'000, ids.size() - at);
    ASSERT_EQ(testing::ids_digest(std::span(ids).subspan(at, count)), digest.get<std::string>()) << "ids from " << at;
    at += count;
  }
  EXPECT_EQ(testing::ids_digest(ids), golden["digest"].get<std::string>());
  const Ids plain = tokenizer_->encode(text, SpecialTokens::kAsText);
  EXPECT_EQ(plain.size(), golden["plain_count"].get<size_t>());
  EXPECT_EQ(testing::ids_digest(plain), golden["plain_digest"].get<std::string>());
  EXPECT_EQ(tokenizer_->decode(plain, false), text);
}

TEST_P(Goldens, AnyUnicode) {
  const auto& golden = golden_["any_unicode"];
  testing::Random random(golden["seed"].get<uint64_t>());
  testing::Text text;
  while (text.size() < golden["characters"].get<size_t>()) text += testing::any_character(random);
  const std::string utf8 = testing::to_utf8(text);
  ASSERT_EQ(testing::text_digest(utf8), golden["text_digest"].get<std::string>()) << "the text itself differs";
  const Ids ids = tokenizer_->encode(utf8, SpecialTokens::kRecognise);
  EXPECT_EQ(ids.size(), golden["count"].get<size_t>());
  EXPECT_EQ(testing::ids_digest(ids), golden["digest"].get<std::string>());
}

TEST_P(Goldens, DecodesAnyIds) {
  for (const auto& item : golden_["decoded"]) {
    const auto ids = item["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_->decode(ids, false), item["text"].get<std::string>()) << item["ids"];
  }
}

INSTANTIATE_TEST_SUITE_P(Tiktoken, Goldens,
                         ::testing::Values(Vocabulary{"pocket_ids.json", load_pocket},
                                           Vocabulary{"crossing_ids.json", load_crossing}),
                         [](const auto& instance) { return std::string(instance.index == 0 ? "pocket" : "crossing"); });

}  // namespace
}  // namespace strobe
