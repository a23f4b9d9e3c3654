// What the tiktoken.model and tokenizer_config.json readers refuse, and how a tokenizer behaves on hostile input.
#include "text/tiktoken.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "corpus.h"
#include "golden.h"
#include "scratch_folder.h"
#include "tiktoken_writer.h"

namespace strobe {
namespace {

using ::testing::AllOf;
using testing::base64;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::model_text;
using testing::single_bytes;
using ::testing::StartsWith;

std::string model_complaint(const std::string& model) {
  const auto tokens = parse_tiktoken_model(model, "m.tiktoken");
  return tokens.ok() ? "accepted" : tokens.message();
}

std::string config_complaint(const std::string& config) {
  const std::string model = model_text(single_bytes());
  const auto made = make_tiktoken_tokenizer({.model = model, .config = config, .config_name = "c.json"});
  return made.ok() ? "accepted" : made.message();
}

std::unique_ptr<Tokenizer> make(std::vector<std::string> tokens, const std::string& config = "{}") {
  const std::string model = model_text(tokens);
  auto made = make_tiktoken_tokenizer({.model = model, .config = config});
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.message());
  return std::move(made).value();
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, SpecialTokens::kRecognise);
}

TEST(TiktokenModel, Accepts) {
  EXPECT_EQ(model_complaint(model_text(single_bytes())), "accepted");
  std::string lines = model_text(single_bytes());
  EXPECT_EQ(model_complaint("\n\n" + lines + "\n"), "accepted");              // blank lines, as the reference
  EXPECT_EQ(model_complaint(lines.substr(0, lines.size() - 1)), "accepted");  // no end of the last line
  for (size_t at = 0; (at = lines.find('\n', at)) != std::string::npos; at += 2) lines.insert(at, "\r");
  EXPECT_EQ(model_complaint(lines), "accepted");
}

TEST(TiktokenModel, AcceptsAnyOrderOfLines) {
  const std::string model = model_text(single_bytes());
  std::vector<std::string> lines;
  for (size_t at = 0; at < model.size();) {
    const size_t end = model.find('\n', at) + 1;
    lines.push_back(model.substr(at, end - at));
    at = end;
  }
  const std::string reversed = std::accumulate(lines.rbegin(), lines.rend(), std::string());
  EXPECT_EQ(parse_tiktoken_model(reversed, "m").value(), single_bytes());
}

TEST(TiktokenModel, RefusesWithFileAndLine) {
  const std::string good = model_text(single_bytes());
  const auto with = [&](const std::string& line) { return model_complaint(good + line + "\n"); };
  EXPECT_THAT(with("YWI="), AllOf(StartsWith("m.tiktoken:257: "), HasSubstr("BASE64 RANK")));
  EXPECT_THAT(with("YW*= 256"), AllOf(StartsWith("m.tiktoken:257: "), HasSubstr("not base64")));
  for (const char* bad : {"YWI 256", "YWI== 256", "YW=I 256", "YWJ= 256", "= 256", "==== 256", " 256", "A=== 256"}) {
    EXPECT_THAT(with(bad), AllOf(StartsWith("m.tiktoken:257: "), HasSubstr("base64"))) << bad;
  }
  for (const char* bad : {"YWI= x", "YWI= -1", "YWI= ", "YWI=  256", "YWI= 256 ", "YWI= 2.5",
                          "YWI= 99999999999999999999", "YWI= 16777216"}) {
    EXPECT_THAT(with(bad), AllOf(StartsWith("m.tiktoken:257: "), HasSubstr("rank"))) << bad;
  }
  EXPECT_THAT(with("YWI= 16777215"), AllOf(StartsWith("m.tiktoken:257: "), HasSubstr("above the number of lines")));
  EXPECT_THAT(with("YWI= 7"), AllOf(StartsWith("m.tiktoken:257: "), HasSubstr("of line 8 again")));
  EXPECT_THAT(with("AA== 256"), AllOf(StartsWith("m.tiktoken:257: "), HasSubstr("the token of line 1 again")));
  EXPECT_THAT(with("YWI= 257"), HasSubstr("no line has the rank 256"));
  EXPECT_THAT(with(base64(std::string(65537, 'a')) + " 256"), HasSubstr("65537 bytes"));
  EXPECT_THAT(with(std::string("\xff\xfe\0 1", 5)), AllOf(HasSubstr(":257: "), HasSubstr("\xef\xbf\xbd")));
}

TEST(TiktokenModel, RefusesAVocabularyWithoutEachByte) {
  EXPECT_THAT(model_complaint(""), HasSubstr("no tokens"));
  EXPECT_THAT(model_complaint("\n \n"), HasSubstr("m.tiktoken:2: "));
  for (const size_t missing : {0, 65, 255}) {
    auto tokens = single_bytes();
    tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(missing));
    EXPECT_THAT(model_complaint(model_text(tokens)), HasSubstr(fmt::format("single byte {:#04x}", missing)));
  }
}

TEST(TiktokenConfig, Refuses) {
  EXPECT_EQ(config_complaint("{}"), "accepted");
  EXPECT_THAT(config_complaint(""), StartsWith("c.json: "));
  EXPECT_THAT(config_complaint("[]"), HasSubstr("not an object"));
  EXPECT_THAT(config_complaint("{\n \"a\": }"), HasSubstr("line 2"));
  EXPECT_THAT(config_complaint("{\"a\":\"\xc3\x28\"}"), HasSubstr("UTF-8"));
  EXPECT_THAT(config_complaint(std::string(100'000, '[')), StartsWith("c.json: "));
  EXPECT_THAT(config_complaint(R"({"tokenizer_class":"LlamaTokenizer"})"), HasSubstr("LlamaTokenizer"));
  EXPECT_THAT(config_complaint(R"({"added_tokens_decoder":[]})"), HasSubstr("added_tokens_decoder is array"));
  EXPECT_THAT(config_complaint(R"({"added_tokens_decoder":{"255":{"content":"x"}}})"), HasSubstr("256 to 511"));
  EXPECT_THAT(config_complaint(R"({"added_tokens_decoder":{"512":{"content":"x"}}})"), HasSubstr("id 512"));
  for (const char* id : {"", "a", "-1", "1.0", " 300", "2147483647", "99999999999"}) {
    EXPECT_THAT(config_complaint(fmt::format(R"({{"added_tokens_decoder":{{"{}":{{"content":"x"}}}}}})", id)),
                HasSubstr(fmt::format("'{}'", id)));
  }
  EXPECT_THAT(config_complaint(R"({"added_tokens_decoder":{"300":{"content":""}}})"), HasSubstr("no text"));
  EXPECT_THAT(config_complaint(R"({"added_tokens_decoder":{"300":{"special":true}}})"), HasSubstr("content"));
  EXPECT_THAT(config_complaint(R"({"added_tokens_decoder":{"300":{"content":"x","special":1}}})"),
              HasSubstr("special"));
  EXPECT_THAT(config_complaint(R"({"added_tokens_decoder":{"300":{"content":"x"},"301":{"content":"x"}}})"),
              AllOf(HasSubstr("300"), HasSubstr("301"), HasSubstr("'x'")));
  EXPECT_THAT(config_complaint(R"({"added_tokens_decoder":{"300":{"content":"<|reserved_token_301|>"}}})"),
              HasSubstr("<|reserved_token_301|>"));
  EXPECT_THAT(config_complaint(R"({"bos_token":"[BOS]"})"), AllOf(HasSubstr("bos_token"), HasSubstr("[BOS]")));
  EXPECT_THAT(config_complaint(R"({"bos_token":7})"), HasSubstr("bos_token"));
}

TEST(Tiktoken, ControlTokens) {
  const auto tokenizer = make(single_bytes(), R"({"bos_token":"[BOS]","eos_token":{"content":"[EOS]"},"unk_token":null,
      "additional_special_tokens":["<|reserved_token_300|>"],
      "added_tokens_decoder":{"256":{"content":"[BOS]"},"257":{"content":"[EOS]"},
                              "258":{"content":"<think>","special":false},"511":{"content":"[PAD]","special":true}}})");
  EXPECT_EQ(tokenizer->vocab_size(), 512);
  EXPECT_EQ(tokenizer->special_ids().bos, 256);
  EXPECT_EQ(tokenizer->special_ids().eos, 257);
  EXPECT_EQ(tokenizer->special_ids().pad, std::nullopt);
  EXPECT_EQ(tokenizer->special_ids().unk, std::nullopt);
  for (int32_t id = 256; id < 512; ++id) {
    const std::string text(tokenizer->token_bytes(id));
    EXPECT_THAT(encode(*tokenizer, text), ElementsAre(id));
    EXPECT_GT(tokenizer->encode(text, SpecialTokens::kAsText).size(), 1U);
    EXPECT_EQ(tokenizer->token_id(text), id);
    EXPECT_EQ(tokenizer->is_special(id), id == 256 || id == 257 || id == 300 || id == 511) << id;
  }
  EXPECT_EQ(tokenizer->token_bytes(300), "<|reserved_token_300|>");
  EXPECT_EQ(tokenizer->token_id("a"), 'a');
  EXPECT_EQ(tokenizer->token_id("ab"), std::nullopt);
  EXPECT_EQ(tokenizer->token_id(""), std::nullopt);
  EXPECT_EQ(tokenizer->token_id("[BOS]x"), std::nullopt);
}

TEST(Tiktoken, DecodeLeavesSpecialOnesOutWhenAsked) {
  const auto tokenizer = make(single_bytes(), R"({"added_tokens_decoder":{"256":{"content":"[A]","special":true},
                                                                           "257":{"content":"<think>"}}})");
  const std::vector<int32_t> ids = {256, 'h', 257, 'i', 256, 300};
  EXPECT_EQ(tokenizer->decode(ids, false), "[A]h<think>i[A]<|reserved_token_300|>");
  EXPECT_EQ(tokenizer->decode(ids, true), "h<think>i<|reserved_token_300|>");
}

TEST(Tiktoken, IdsOutsideTheVocabularyAreNothing) {
  const auto tokenizer = make(single_bytes());
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{-1, 'a', 512, INT32_MAX, INT32_MIN}, false), "a");
  EXPECT_EQ(tokenizer->token_bytes(512), "");
  EXPECT_FALSE(tokenizer->is_special(-1));
  EXPECT_FALSE(tokenizer->is_special(512));
}

TEST(Tiktoken, BrokenUtf8IsReadAsReplacementCharacters) {
  const auto tokenizer = make(single_bytes());
  EXPECT_EQ(encode(*tokenizer, "a\xff\xe4\xbd"), encode(*tokenizer, "a\uFFFD\uFFFD"));
  EXPECT_EQ(encode(*tokenizer, "\xed\xa0\x80"), encode(*tokenizer, "\uFFFD\uFFFD\uFFFD"));
  testing::Random random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes;
    for (size_t n = random.below(40); n > 0; --n) bytes += static_cast<char>(random.next());
    const auto ids = encode(*tokenizer, bytes);
    EXPECT_EQ(ids.size(), tokenizer->decode(ids, false).size());  // one id a byte, and all of it valid
  }
}

// Merging must not depend on which of the two ways (plain search, heap) a piece takes: 96 bytes is where they part.
TEST(Tiktoken, ShortAndLongPiecesMergeAlike) {
  auto tokens = single_bytes();
  for (const char* token : {"ab", "bc", "aa", "abc", "aaa", "cab", "aaaa", "abab", "bcab"}) tokens.emplace_back(token);
  const auto tokenizer = make(tokens);
  // An independent statement of the rule: join the leftmost pair of lowest rank until none joins.
  const auto plainly = [&](const std::string& piece) {
    std::vector<std::string> parts;
    for (const char c : piece) parts.emplace_back(1, c);
    for (;;) {
      size_t best = parts.size(), best_rank = tokens.size();
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto rank =
            static_cast<size_t>(std::find(tokens.begin(), tokens.end(), parts[i] + parts[i + 1]) - tokens.begin());
        if (rank < best_rank) {
          best = i;
          best_rank = rank;
        }
      }
      if (best == parts.size()) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
    std::vector<int32_t> ids;
    for (const auto& part : parts) {
      ids.push_back(static_cast<int32_t>(std::find(tokens.begin(), tokens.end(), part) - tokens.begin()));
    }
    return ids;
  };
  testing::Random random(8);
  for (const size_t length : {2, 5, 30, 94, 95, 96, 97, 98, 130, 300}) {
    for (int i = 0; i < 20; ++i) {
      std::string piece;
      while (piece.size() < length) piece += "abc"[random.below(3)];
      if (std::find(tokens.begin(), tokens.end(), piece) != tokens.end()) continue;
      EXPECT_EQ(encode(*tokenizer, piece), plainly(piece)) << piece;
    }
  }
}

// Two megabytes without a place to cut: linear time, no recursion. A quadratic way would take hours, not seconds.
TEST(Tiktoken, LongRuns) {
  auto tokens = single_bytes();
  for (size_t length = 2; length <= 1024; length *= 2) tokens.emplace_back(length, 'a');
  const auto tokenizer = make(tokens);
  for (const char* unit :
       {"a", "A", "0", " ", "\n", "!", "\xcc\x81", "\xe4\xb8\xad", "<", "<|reserved_token_", "a\xcc\x81"}) {
    std::string text;
    while (text.size() < 2'000'000) text += unit;
    EXPECT_EQ(tokenizer->decode(encode(*tokenizer, text), false), text);
  }
}

TEST(TokenizerLoad, NamesTheFile) {
  const testing::ScratchFolder folder;
  EXPECT_THAT(Tokenizer::load(folder.path() / "absent").message(), HasSubstr("no such folder"));
  EXPECT_THAT(Tokenizer::load(folder.path()).message(), HasSubstr("no tokenizer"));
  folder.write("tokenizer.json", "{}");  // of another kind
  EXPECT_THAT(Tokenizer::load(folder.path()).message(),
              AllOf(HasSubstr("tokenizer.json"), HasSubstr("tiktoken.model")));
  folder.write("tiktoken.model", "x");
  EXPECT_THAT(Tokenizer::load(folder.path()).message(), HasSubstr("tokenizer_config.json: no such file"));
  folder.write("tokenizer_config.json", "{}");
  EXPECT_THAT(Tokenizer::load(folder.path()).message(), HasSubstr("tiktoken.model:1: "));
  folder.write("tiktoken.model", model_text(single_bytes()));
  EXPECT_TRUE(Tokenizer::load(folder.path()).ok());
}

}  // namespace
}  // namespace strobe
