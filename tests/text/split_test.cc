#include "text/split.h"

#include <gtest/gtest.h>

#include <map>

#include "corpus.h"
#include "golden.h"
#include "sanitized.h"

namespace strobe {
namespace {

const std::map<std::string, SplitPattern> kPatterns = {{"kimi", SplitPattern::kKimi},
                                                       {"gpt2", SplitPattern::kGpt2},
                                                       {"qwen2", SplitPattern::kQwen2},
                                                       {"llama3", SplitPattern::kLlama3},
                                                       {"qwen35", SplitPattern::kQwen35}};

std::vector<size_t> pieces(SplitPattern pattern, std::string_view text) {
  CharRun run;
  run.assign(text);
  std::vector<size_t> lengths;
  for (size_t begin = 0; begin < run.size();) {
    const size_t end = piece_end(pattern, run, begin, run.size());
    lengths.push_back(end - begin);
    begin = end;
  }
  return lengths;
}

TEST(Split, RandomTextsAsTiktoken) {
  const auto file = testing::golden("split.json");
  ASSERT_GT(file["cases"].size(), 400U);
  for (const auto& item : file["cases"]) {
    const auto text = item["text"].get<std::string>();
    for (const auto& [name, pattern] : kPatterns) {
      EXPECT_EQ(pieces(pattern, text), item[name].get<std::vector<size_t>>()) << name << ": " << text;
    }
  }
}

// All strings of one to four characters over an alphabet with each kind of character that a pattern tells apart.
TEST(Split, EveryShortStringAsTiktoken) {
  const auto file = testing::golden("split.json");
  const testing::Text alphabet = testing::from_utf8(file["alphabet"].get<std::string>());
  for (const auto& [name, pattern] : kPatterns) {
    for (size_t first = 0; first < alphabet.size(); first += kSanitized ? 5 : 1) {
      uint64_t digest = testing::fnv1a("");
      const auto add = [&](const testing::Text& text) {
        std::string lengths;
        for (const size_t length : pieces(pattern, testing::to_utf8(text))) lengths += static_cast<char>(length);
        lengths += '\0';
        digest = testing::fnv1a(lengths, digest);
      };
      const testing::Text one(1, alphabet[first]);
      add(one);
      for (const char32_t b : alphabet) add(one + b);
      for (const char32_t b : alphabet) {
        for (const char32_t c : alphabet) add(one + b + c);
      }
      for (const char32_t b : alphabet) {
        for (const char32_t c : alphabet) {
          for (const char32_t d : alphabet) add(one + b + c + d);
        }
      }
      EXPECT_EQ(testing::hex_digest(digest), file["short_strings"][name][first].get<std::string>())
          << name << ", strings that begin with " << testing::to_utf8(one);
    }
  }
}

TEST(CharRun, TakesAtMostSoManyCharacters) {
  CharRun run;
  run.assign("aéz中x", 4);
  ASSERT_EQ(run.size(), 4U);
  EXPECT_EQ(run.offset(4), 7U);
  EXPECT_EQ(run.text(1, 3), "éz");
  EXPECT_EQ(run.char_at(3), 2U);
  EXPECT_EQ(run.char_at(7), 4U);
  run.assign("");
  EXPECT_EQ(run.size(), 0U);
  EXPECT_EQ(run.offset(0), 0U);
}

// Nothing beyond the end given counts for look-ahead.
TEST(Split, EndOfWindowIsEndOfText) {
  CharRun run;
  run.assign("  x 's");
  EXPECT_EQ(piece_end(SplitPattern::kKimi, run, 0, 2), 2U);
  EXPECT_EQ(piece_end(SplitPattern::kKimi, run, 0, 3), 1U);
  EXPECT_EQ(piece_end(SplitPattern::kKimi, run, 1, 2), 2U);
}

}  // namespace
}  // namespace strobe
