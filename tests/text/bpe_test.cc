#include "text/bpe.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "corpus.h"
#include "text/token_matcher.h"

namespace strobe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Vocabulary, BothWays) {
  const Vocabulary vocabulary({"a", "", "ab", "a", std::string("\0", 1)});
  EXPECT_EQ(vocabulary.size(), 5);
  EXPECT_EQ(vocabulary.bytes(2), "ab");
  EXPECT_EQ(vocabulary.bytes(1), "");
  EXPECT_EQ(vocabulary.find("a"), 0);  // the lower of two
  EXPECT_EQ(vocabulary.find("ab"), 2);
  EXPECT_EQ(vocabulary.find(std::string_view("\0", 1)), 4);
  EXPECT_EQ(vocabulary.find(""), std::nullopt);
  EXPECT_EQ(vocabulary.find("abc"), std::nullopt);
}

TEST(Vocabulary, FindsManyTokens) {
  std::vector<std::string> tokens;
  std::set<std::string> seen;
  testing::Random random(2);
  while (tokens.size() < 5000) {
    std::string token;
    for (size_t n = 1 + random.below(6); n > 0; --n) token += static_cast<char>(random.next());
    if (seen.insert(token).second) tokens.push_back(token);
  }
  const Vocabulary vocabulary(tokens);
  for (size_t id = 0; id < tokens.size(); ++id) ASSERT_EQ(vocabulary.find(tokens[id]), static_cast<int32_t>(id));
}

TEST(Vocabulary, Splits) {
  const Vocabulary vocabulary({"a", "b", "c", "ab", "bc", "abc", "abcd"});
  const auto splits = [&](int32_t id) {
    std::vector<std::pair<int32_t, int32_t>> found;
    vocabulary.for_each_split(id, [&](int32_t left, int32_t right) { found.emplace_back(left, right); });
    return found;
  };
  EXPECT_THAT(splits(5), ElementsAre(std::pair(0, 4), std::pair(3, 2)));
  EXPECT_THAT(splits(3), ElementsAre(std::pair(0, 1)));
  EXPECT_THAT(splits(0), IsEmpty());
  EXPECT_THAT(splits(6), IsEmpty());
}

TEST(MergeTable, KeepsTheLowerRankAndGrows) {
  MergeTable merges(0);
  merges.add(1, 2, {5, 50});
  merges.add(1, 2, {3, 30});
  merges.add(1, 2, {9, 90});
  EXPECT_EQ(merges.find(1, 2).id, 30);
  EXPECT_EQ(merges.find(2, 1).rank, INT32_MAX);
  for (int32_t i = 0; i < 10'000; ++i) merges.add(i, i * 7, {i, i});
  for (int32_t i = 0; i < 10'000; ++i) ASSERT_EQ(merges.find(i, i * 7).id, i);
  EXPECT_EQ(merges.size(), 10'001U);
}

// The two rules of whole pieces, and bytes that are no token of their own.
TEST(Bpe, WholePiecesAndMissingBytes) {
  const std::vector<std::string> tokens = {"a", "b", "abb", "ab"};
  const auto encode = [](const Bpe& bpe, std::string_view piece) {
    std::vector<int32_t> ids;
    bpe.encode_piece(piece, ids);
    return ids;
  };
  MergeTable merges(1);
  merges.add(0, 1, {0, 3});  // nothing leads to abb
  const Bpe merging(Vocabulary(tokens), merges, Bpe::WholePiece::kMergeOnly);
  const Bpe looking(Vocabulary(tokens), merges, Bpe::WholePiece::kLookUpFirst);
  EXPECT_THAT(encode(merging, "abb"), ElementsAre(3, 1));
  EXPECT_THAT(encode(looking, "abb"), ElementsAre(2));
  EXPECT_THAT(encode(looking, "abba"), ElementsAre(3, 1, 0));
  EXPECT_THAT(encode(merging, "a?b"), ElementsAre(3));
  EXPECT_THAT(encode(merging, "???"), IsEmpty());
  EXPECT_THAT(encode(merging, ""), IsEmpty());
  EXPECT_THAT(encode(Bpe::from_ranks(Vocabulary(tokens)), "ababb"), ElementsAre(3, 2));
}

TEST(TokenMatcher, LeftmostThenLongest) {
  TokenMatcher matcher;
  matcher.add("<a>", 1);
  matcher.add("<a><b>", 2);
  matcher.add("b>", 3);
  matcher.add("<a>", 9);  // the first id stays
  const auto find = [&](std::string_view text, size_t from = 0) {
    const auto match = matcher.find(text, from);
    return match ? fmt::format("{}-{}:{}", match->begin, match->end, match->id) : "none";
  };
  EXPECT_EQ(find("x<a>y"), "1-4:1");
  EXPECT_EQ(find("x<a><b>y"), "1-7:2");
  EXPECT_EQ(find("x<a><by"), "1-4:1");
  EXPECT_EQ(find("<<b>"), "2-4:3");
  EXPECT_EQ(find("<a>", 1), "none");
  EXPECT_EQ(find(""), "none");
  EXPECT_EQ(find("<a"), "none");
  EXPECT_FALSE(TokenMatcher().find("abc", 0).has_value());
}

}  // namespace
}  // namespace strobe
