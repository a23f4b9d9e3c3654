#include "schedule/answer_stream.h"

#include <gtest/gtest.h>

#include <random>

#include "table_tokenizer.h"

namespace strobe::schedule {
namespace {

using Strings = std::vector<std::string>;

// An answer in pieces: each piece is a token.
class Told {
 public:
  explicit Told(Strings pieces, std::set<int32_t> special = {}) : tokenizer_(std::move(pieces), std::move(special)) {}

  // Pushes the tokens in turn until one ends the answer. The text in parts, as a client gets it.
  Strings tell(const StopRules& rules, std::vector<int32_t> eos = {}, bool skip_special = true) {
    stream_.emplace(tokenizer_, rules, eos, skip_special);
    pieces_.clear();
    Strings parts;
    for (int32_t token = 0; token < tokenizer_.vocab_size(); ++token) {
      const bool ended = stream_->push(token);
      EXPECT_EQ(ended, stream_->finish().has_value());
      EXPECT_EQ(stream_->tokens(), token + 1);
      const AnswerText news = stream_->take_text();
      parts.push_back(news.text);
      pieces_.push_back(pieces_in_words(news));
      EXPECT_EQ(stream_->take_text().text, "") << "text is taken once";
      if (ended) break;
    }
    return parts;
  }
  [[nodiscard]] const AnswerStream& stream() const { return *stream_; }
  [[nodiscard]] const Finish& finish() const { return stream_->finish().value(); }
  // Of the last tell(): for each token's news, which tokens its text came from: "0:ab 1:c".
  [[nodiscard]] const Strings& pieces() const { return pieces_; }

 private:
  static std::string pieces_in_words(const AnswerText& news) {
    std::string words;
    size_t at = 0;
    for (const TextPiece& piece : news.pieces) {
      EXPECT_GT(piece.bytes, 0);
      if (!words.empty()) words += ' ';
      words += std::to_string(piece.token) + ':' + news.text.substr(at, static_cast<size_t>(piece.bytes));
      at += static_cast<size_t>(piece.bytes);
    }
    EXPECT_EQ(at, news.text.size());
    return words;
  }

  TableTokenizer tokenizer_;
  std::optional<AnswerStream> stream_;
  Strings pieces_;
};

TEST(AnswerStream, TextIsCertainAtOnceWithoutStopStrings) {
  Told told({"Hello", " ", "", "world"});
  EXPECT_EQ(told.tell({.max_new_tokens = 4}), (Strings{"Hello", " ", "", "world"}));
  EXPECT_EQ(told.finish().reason, FinishReason::kLength);
  EXPECT_FALSE(told.finish().matched_token);
  EXPECT_FALSE(told.finish().matched_string);
}

TEST(AnswerStream, APossibleBeginningOfAStopStringIsHeldBack) {
  Told told({"x#", "#", "y#", "##", "#z"});
  EXPECT_EQ(told.tell({.stop_strings = {"###"}}), (Strings{"x", "", "##y", ""}));
  EXPECT_EQ(told.finish().reason, FinishReason::kStop);
  EXPECT_EQ(told.finish().matched_string, "###");
}

TEST(AnswerStream, PiecesTellWhichTokensTheTextCameFrom) {
  Told told({"Hel", "lo", "", " w\xc3", "\xa9", "!"});
  told.tell({.max_new_tokens = 6});
  EXPECT_EQ(told.pieces(), (Strings{"0:Hel", "1:lo", "", "3: w", "4:\u00e9", "5:!"}));
}

TEST(AnswerStream, PiecesOfHeldBackTextComeWithTheTextAndKeepTheirToken) {
  Told told({"x#", "#", "y#", "##", "#z"});
  told.tell({.stop_strings = {"###"}});
  EXPECT_EQ(told.pieces(), (Strings{"0:x", "", "0:# 1:# 2:y", ""})) << "token 0 came in two parts";
  Told cut({"a", "bSTOPc", "d"});
  cut.tell({.stop_strings = {"STOP"}});
  EXPECT_EQ(cut.pieces(), (Strings{"0:a", "1:b"}));
}

TEST(AnswerStream, StopStringsMayLieInsideOneToken) {
  Told told({"a", "bSTOPc", "d"});
  EXPECT_EQ(told.tell({.stop_strings = {"STOP"}}), (Strings{"a", "b"}));
  EXPECT_EQ(told.tell({.stop_strings = {"STOP"}, .include_stop = true}), (Strings{"a", "bSTOP"}));
}

TEST(AnswerStream, AFalseBeginningMayHideTheRealOne) {
  Told told({"a", "a", "a", "b"});
  EXPECT_EQ(told.tell({.stop_strings = {"aab"}}), (Strings{"", "", "a", ""}));
  EXPECT_EQ(told.finish().matched_string, "aab");
  Told other({"ab", "ab", "ac"});
  EXPECT_EQ(other.tell({.stop_strings = {"abac"}}), (Strings{"", "ab", ""}));
}

TEST(AnswerStream, TheEarliestOfSeveralStopStringsWins) {
  Told told({"..", "one two", "three"});
  EXPECT_EQ(told.tell({.stop_strings = {"three", "two", "one"}}), (Strings{"..", ""}));
  EXPECT_EQ(told.finish().matched_string, "one");
  // At one place: the one that the client named first.
  EXPECT_EQ(told.tell({.stop_strings = {"one", "one t"}, .include_stop = true}), (Strings{"..", "one"}));
  EXPECT_EQ(told.tell({.stop_strings = {"one t", "one"}, .include_stop = true}), (Strings{"..", "one t"}));
}

TEST(AnswerStream, TheLongestBeginningIsHeld) {
  Told told({"xab", "q"});
  EXPECT_EQ(told.tell({.max_new_tokens = 2, .stop_strings = {"bz", "abz", "b!"}}), (Strings{"x", "abq"}));
}

TEST(AnswerStream, EmptyStopStringsAreIgnored) {
  Told told({"a", "b"});
  EXPECT_EQ(told.tell({.max_new_tokens = 2, .stop_strings = {"", ""}}), (Strings{"a", "b"}));
  EXPECT_EQ(told.finish().reason, FinishReason::kLength);
}

TEST(AnswerStream, StopTokensAndEosLeaveNoText) {
  Told told({"a", "b", "<end>", "c"});
  EXPECT_EQ(told.tell({}, {2}), (Strings{"a", "b", ""}));
  EXPECT_EQ(told.finish().reason, FinishReason::kStop);
  EXPECT_EQ(told.finish().matched_token, 2);
  EXPECT_EQ(told.tell({.stop_token_ids = {2}}), (Strings{"a", "b", ""}));
  EXPECT_EQ(told.tell({.stop_token_ids = {2}, .include_stop = true}), (Strings{"a", "b", "<end>"}));
  EXPECT_EQ(told.tell({.max_new_tokens = 4, .ignore_eos = true}, {2}), (Strings{"a", "b", "<end>", "c"}));
  EXPECT_EQ(told.tell({.stop_token_ids = {2}, .ignore_eos = true}, {1}), (Strings{"a", "b", ""}))
      << "ignore_eos spares the model's own end tokens only";
}

TEST(AnswerStream, SpecialTokensShowOnlyWhenAsked) {
  Told told({"a", "<sep>", "b", "<end>"}, {1, 3});
  EXPECT_EQ(told.tell({.include_stop = true}, {3}), (Strings{"a", "", "b", ""}));
  EXPECT_EQ(told.tell({.include_stop = true}, {3}, false), (Strings{"a", "<sep>", "b", "<end>"}));
}

TEST(AnswerStream, HeldTextComesOutAtTheEnd) {
  Told told({"a#", "<end>"});
  EXPECT_EQ(told.tell({.stop_strings = {"##"}}, {1}), (Strings{"a", "#"}));
  EXPECT_EQ(told.tell({.max_new_tokens = 1, .stop_strings = {"##"}}), (Strings{"a#"}));
}

TEST(AnswerStream, AStopInTheLastTokenWinsOverTheLength) {
  Told told({"a", "STOP"});
  told.tell({.max_new_tokens = 2, .stop_strings = {"STOP"}});
  EXPECT_EQ(told.finish().reason, FinishReason::kStop);
  told.tell({.max_new_tokens = 2}, {1});
  EXPECT_EQ(told.finish().reason, FinishReason::kStop);
  EXPECT_EQ(told.finish().matched_token, 1);
  told.tell({.max_new_tokens = 1, .stop_strings = {"STOP"}}, {1});
  EXPECT_EQ(told.finish().reason, FinishReason::kLength);
}

TEST(AnswerStream, AStopTokenWinsOverAStopStringThatItWouldComplete) {
  Told told({"a", "b"});
  EXPECT_EQ(told.tell({.stop_strings = {"ab"}, .include_stop = true}, {1}), (Strings{"", "ab"}));
  EXPECT_EQ(told.finish().matched_token, 1);
  EXPECT_FALSE(told.finish().matched_string);
}

TEST(AnswerStream, MinNewTokensForbidsEveryStop) {
  Told told({"X", "<end>", "X", "<end>"});
  const StopRules rules{.min_new_tokens = 2, .stop_strings = {"X"}};
  EXPECT_EQ(told.tell(rules, {1, 3}), (Strings{"X", "<end>", ""}));
  EXPECT_EQ(told.finish().matched_string, "X");
  EXPECT_EQ(told.tell({.min_new_tokens = 2}, {1, 3}), (Strings{"X", "<end>", "X", ""}));
  EXPECT_EQ(told.finish().matched_token, 3);
  EXPECT_EQ(told.tell({.min_new_tokens = 1}, {1}), (Strings{"X", ""}));
  EXPECT_EQ(told.tell({.max_new_tokens = 2, .min_new_tokens = 9}, {1}), (Strings{"X", "<end>"}));
  EXPECT_EQ(told.finish().reason, FinishReason::kLength) << "the length is no stop";
}

TEST(AnswerStream, AStopStringThatWasLetPassDoesNotMatchLater) {
  // "ab" ends with the first token, too early; as a beginning of "abz" it is still held when the ban ends.
  Told told({"ab", "q", "ab"});
  EXPECT_EQ(told.tell({.min_new_tokens = 2, .stop_strings = {"ab", "abz"}}), (Strings{"", "abq", ""}));
  // One that ends where stopping is allowed counts, wherever it began.
  Told other({"a", "b"});
  EXPECT_EQ(other.tell({.min_new_tokens = 2, .stop_strings = {"ab"}}), (Strings{"", ""}));
}

TEST(AnswerStream, TheBanCountsDown) {
  Told told({"a", "b", "c"});
  const TableTokenizer tokenizer({"a"});
  AnswerStream fresh(tokenizer, {.min_new_tokens = 2, .stop_token_ids = {7}}, std::vector<int32_t>{8, 9}, true);
  EXPECT_EQ(fresh.forbidden_tokens(), 2);
  EXPECT_EQ(std::vector<int32_t>(fresh.end_tokens().begin(), fresh.end_tokens().end()),
            (std::vector<int32_t>{7, 8, 9}));
  told.tell({.max_new_tokens = 3, .min_new_tokens = 2});
  EXPECT_EQ(told.stream().forbidden_tokens(), 0);
  AnswerStream spared(tokenizer, {.stop_token_ids = {7}, .ignore_eos = true}, std::vector<int32_t>{8}, true);
  EXPECT_EQ(spared.end_tokens().size(), 1U);
}

TEST(AnswerStream, CharactersAreNeverCut) {
  Told told({"caf\xc3", "\xa9 ", "\xf0\x9f", "\x98", "\x80!"});
  EXPECT_EQ(told.tell({.max_new_tokens = 5}), (Strings{"caf", "\xc3\xa9 ", "", "", "\xf0\x9f\x98\x80!"}));
  EXPECT_EQ(told.tell({.max_new_tokens = 3}), (Strings{"caf", "\xc3\xa9 ", "\xef\xbf\xbd"}))
      << "what can no longer be mended is U+FFFD";
}

TEST(AnswerStream, StopStringsMayBeSplitInsideACharacter) {
  Told told({"x\xe2\x82", "\xac", "y"});
  EXPECT_EQ(told.tell({.stop_strings = {"\xe2\x82\xac"}}), (Strings{"x", ""}));
  EXPECT_EQ(told.tell({.max_new_tokens = 3, .stop_strings = {"\xe2\x82\xaczz"}}), (Strings{"x", "", "\xe2\x82\xacy"}));
}

TEST(AnswerStreamDeathTest, NothingMayFollowTheEnd) {
  const TableTokenizer tokenizer({"a"});
  AnswerStream stream(tokenizer, {.max_new_tokens = 1}, {}, true);
  EXPECT_TRUE(stream.push(0));
  EXPECT_DEATH(stream.push(0), "token 0 after the end");
}

// ---- against the rules, read literally ----

struct Outcome {
  std::string text;
  size_t tokens = 0;
  FinishReason reason = FinishReason::kLength;
  std::optional<int32_t> token;
  std::optional<std::string> string;
};

// After each token looks through the whole text so far. `safe`: how much of it a client may have by then.
Outcome by_the_rules(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens, const StopRules& rules,
                     const std::vector<int32_t>& eos, std::vector<size_t>& safe) {
  Detokenizer detokenizer(tokenizer, true);
  std::string text;
  for (size_t n = 1;; ++n) {
    const int32_t token = tokens[n - 1];
    const auto count = static_cast<int32_t>(n);
    const bool ends = std::count(rules.stop_token_ids.begin(), rules.stop_token_ids.end(), token) > 0 ||
                      (!rules.ignore_eos && std::count(eos.begin(), eos.end(), token) > 0);
    if (ends && count > rules.min_new_tokens) {
      if (rules.include_stop) text += detokenizer.push(token);
      return {text + detokenizer.finish(), n, FinishReason::kStop, token, {}};
    }
    const size_t before = text.size();
    text += detokenizer.push(token);
    size_t cut = std::string::npos;
    const std::string* found = nullptr;
    for (const auto& stop : rules.stop_strings) {
      for (size_t at = 0; at + stop.size() <= text.size() && at < cut; ++at) {
        if (!stop.empty() && text.compare(at, stop.size(), stop) == 0 && at + stop.size() > before) {
          cut = at;
          found = &stop;
        }
      }
    }
    if (found != nullptr && count >= rules.min_new_tokens) {
      return {text.substr(0, cut + (rules.include_stop ? found->size() : 0)), n, FinishReason::kStop, {}, *found};
    }
    if (count >= rules.max_new_tokens) return {text + detokenizer.finish(), n, FinishReason::kLength, {}, {}};
    size_t held = 0;
    for (const auto& stop : rules.stop_strings) {
      for (size_t k = 1; k < stop.size() && k <= text.size(); ++k) {
        if (text.ends_with(stop.substr(0, k))) held = std::max(held, k);
      }
    }
    safe.push_back(text.size() - held);
  }
}

// A token's pieces joined are what the detokeniser said when it came, as far as the answer goes.
void expect_each_tokens_own_text(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens, const StopRules& rules,
                                 const Outcome& expected, const Strings& of_token) {
  Detokenizer detokenizer(tokenizer, true);
  size_t left = expected.text.size();
  for (size_t n = 0; n < expected.tokens; ++n) {
    const bool last = n + 1 == expected.tokens;
    std::string own;
    if (!last || !expected.token || rules.include_stop) own = detokenizer.push(tokens[n]);
    if (last && !expected.string) own += detokenizer.finish();
    own.resize(std::min(own.size(), left));
    left -= own.size();
    ASSERT_EQ(of_token[n], own) << "token " << n;
  }
}

TEST(AnswerStream, AgreesWithTheRulesOnRandomAnswers) {
  std::mt19937 random(11);
  // Few letters, so that stop strings overlap themselves and each other; two halves of a character; a broken byte.
  const Strings alphabet = {"a", "b", "a", "b", "\xc3\xa9", "\xc3", "\xa9", "\xff"};
  const auto some = [&](size_t longest) {
    std::string text;
    for (size_t n = random() % (longest + 1); n > 0; --n) text += alphabet[random() % alphabet.size()];
    return text;
  };
  int stopped_by_string = 0, stopped_by_token = 0, ran_out = 0;
  for (int round = 0; round < 20000; ++round) {
    Strings pieces;
    for (int i = 0; i < 6; ++i) pieces.push_back(some(3));
    const TableTokenizer tokenizer(pieces, {5});
    StopRules rules{.max_new_tokens = 1 + static_cast<int32_t>(random() % 12)};
    rules.min_new_tokens = random() % 2 == 0 ? 0 : static_cast<int32_t>(random() % 8);
    for (size_t n = random() % 4; n > 0; --n) {
      // Of letters alone: a stop string is text, and text has no halves of characters.
      std::string stop;
      for (size_t k = random() % 5; k > 0; --k) stop += alphabet[random() % 5];
      rules.stop_strings.push_back(stop);
    }
    if (random() % 3 == 0) rules.stop_token_ids = {static_cast<int32_t>(random() % 6)};
    rules.ignore_eos = random() % 4 == 0;
    rules.include_stop = random() % 2 == 0;
    const std::vector<int32_t> eos = {4};
    std::vector<int32_t> tokens(12);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 6);

    std::vector<size_t> safe;
    const Outcome expected = by_the_rules(tokenizer, tokens, rules, eos, safe);
    AnswerStream stream(tokenizer, rules, eos, true);
    std::string text;
    Strings of_token(expected.tokens);
    for (size_t n = 0; n < expected.tokens; ++n) {
      ASSERT_FALSE(stream.finish()) << "round " << round;
      ASSERT_EQ(stream.push(tokens[n]), n + 1 == expected.tokens) << "round " << round;
      const AnswerText news = stream.take_text();
      size_t at = 0;
      for (const TextPiece& piece : news.pieces) {
        of_token.at(static_cast<size_t>(piece.token)) += news.text.substr(at, static_cast<size_t>(piece.bytes));
        at += static_cast<size_t>(piece.bytes);
      }
      ASSERT_EQ(at, news.text.size()) << "round " << round;
      text += news.text;
      if (n + 1 < expected.tokens) {
        ASSERT_EQ(text.size(), safe[n]) << "round " << round << ", token " << n;
      }
    }
    ASSERT_EQ(text, expected.text) << "round " << round;
    expect_each_tokens_own_text(tokenizer, tokens, rules, expected, of_token);
    const Finish& finish = stream.finish().value();
    ASSERT_EQ(finish.reason, expected.reason) << "round " << round;
    ASSERT_EQ(finish.matched_token, expected.token) << "round " << round;
    ASSERT_EQ(finish.matched_string, expected.string) << "round " << round;
    ++(expected.string ? stopped_by_string : expected.token ? stopped_by_token : ran_out);
  }
  EXPECT_GT(stopped_by_string, 2000);
  EXPECT_GT(stopped_by_token, 2000);
  EXPECT_GT(ran_out, 2000);
}

}  // namespace
}  // namespace strobe::schedule
