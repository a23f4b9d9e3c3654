#include "text/detokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "corpus.h"
#include "golden.h"
#include "text/tiktoken.h"
#include "text/unicode.h"

namespace strobe {
namespace {

// A vocabulary whose tokens often end inside a character; its first 256 ids are the bytes.
std::unique_ptr<Tokenizer> crossing() {
  const std::string model = testing::read_file(testing::golden_path("crossing.tiktoken"));
  const std::string config = testing::read_file(testing::golden_path("crossing_config.json"));
  return make_tiktoken_tokenizer({.model = model, .config = config}).value();
}

std::vector<std::string> pushes(Detokenizer& detokenizer, std::string_view bytes) {
  std::vector<std::string> out;
  for (const char c : bytes) out.push_back(detokenizer.push(static_cast<unsigned char>(c)));
  return out;
}

using Strings = std::vector<std::string>;

TEST(Detokenizer, HoldsACharacterBackUntilItIsWhole) {
  const auto tokenizer = crossing();
  Detokenizer detokenizer(*tokenizer, false);
  EXPECT_EQ(pushes(detokenizer, "a\xf0\x9f\x98\x80z"), (Strings{"a", "", "", "", "😀", "z"}));
  EXPECT_FALSE(detokenizer.holds_back());
  EXPECT_EQ(detokenizer.push(0xE4), "");
  EXPECT_TRUE(detokenizer.holds_back());
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_FALSE(detokenizer.holds_back());
  EXPECT_EQ(detokenizer.finish(), "");
  EXPECT_EQ(detokenizer.push('b'), "b");  // as new
}

TEST(Detokenizer, BrokenBytesComeOutAsSoonAsTheyAreCertain) {
  const auto tokenizer = crossing();
  Detokenizer detokenizer(*tokenizer, false);
  EXPECT_EQ(pushes(detokenizer, "\xff"), (Strings{"\uFFFD"}));
  EXPECT_EQ(pushes(detokenizer,
                   "\xe4\xbd"
                   "a"),
            (Strings{"", "", "\uFFFDa"}));
  EXPECT_EQ(pushes(detokenizer, "\xe4\xe4\xbd\xa0"), (Strings{"", "\uFFFD", "", "你"}));
  EXPECT_EQ(pushes(detokenizer, "\xe0\x80"), (Strings{"", "\uFFFD\uFFFD"}));
  EXPECT_EQ(pushes(detokenizer, "\x80"), (Strings{"\uFFFD"}));  // the rest of a character that a prompt began
}

TEST(Detokenizer, SkipsSpecialTokensWhenAsked) {
  const auto tokenizer = crossing();
  const int32_t end = tokenizer->token_id("<|im_end|>").value();
  const int32_t think = tokenizer->token_id("<think>").value();
  ASSERT_TRUE(tokenizer->is_special(end));
  ASSERT_FALSE(tokenizer->is_special(think));
  Detokenizer skipping(*tokenizer, true);
  EXPECT_EQ(skipping.push(end), "");
  EXPECT_EQ(skipping.push(think), "<think>");
  Detokenizer showing(*tokenizer, false);
  EXPECT_EQ(showing.push(end), "<|im_end|>");
  // A skipped token is not there: it breaks no character in two.
  EXPECT_EQ(skipping.push(0xC3), "");
  EXPECT_EQ(skipping.push(end), "");
  EXPECT_EQ(skipping.push(0xA9), "é");
  EXPECT_EQ(showing.push(0xC3), "");
  EXPECT_EQ(showing.push(end), "\uFFFD<|im_end|>");
}

TEST(Detokenizer, UnknownIdsAreNothing) {
  const auto tokenizer = crossing();
  Detokenizer detokenizer(*tokenizer, false);
  EXPECT_EQ(detokenizer.push(-1), "");
  EXPECT_EQ(detokenizer.push(tokenizer->vocab_size()), "");
  EXPECT_EQ(detokenizer.push(tokenizer->vocab_size() - 3),
            fmt::format("<|reserved_token_{}|>", tokenizer->vocab_size() - 3));
}

TEST(Detokenizer, JoinedPiecesEqualDecode) {
  const auto tokenizer = crossing();
  testing::Random random(31);
  for (int round = 0; round < 400; ++round) {
    const bool skip = round % 2 == 1;
    std::vector<int32_t> ids;
    for (size_t n = random.below(60); n > 0; --n) {
      const size_t limit = random.below(2) == 0 ? 256 : static_cast<size_t>(tokenizer->vocab_size());
      ids.push_back(static_cast<int32_t>(random.below(limit)));
    }
    Detokenizer detokenizer(*tokenizer, skip);
    std::string joined;
    for (const int32_t id : ids) {
      const std::string piece = detokenizer.push(id);
      EXPECT_TRUE(is_valid_utf8(piece));
      joined += piece;
    }
    joined += detokenizer.finish();
    EXPECT_EQ(joined, tokenizer->decode(ids, skip));
  }
}

TEST(Detokenizer, TextComesBackFromItsIds) {
  const auto tokenizer = crossing();
  const std::string text = testing::corpus(77, 50'000, tokenizer->vocab_size() - kKimiControlTokens);
  Detokenizer detokenizer(*tokenizer, false);
  std::string joined;
  for (const int32_t id : tokenizer->encode(text, SpecialTokens::kRecognise)) joined += detokenizer.push(id);
  EXPECT_EQ(joined, text);
  EXPECT_FALSE(detokenizer.holds_back());
}

}  // namespace
}  // namespace strobe
