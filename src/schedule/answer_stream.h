// AnswerStream: a request's answer as its client sees it: tokens in, text out, and where it ends.
//
// Everything that ends a text is judged here, on emitted tokens, one after another; so a stop early in an accepted
// block wins over a length limit later in the same block, and drafts that were never emitted count for nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/generator.h"
#include "schedule/stop_matcher.h"
#include "text/detokenizer.h"

namespace strobe::schedule {

// Text, and which tokens it came from (Chunk::text and pieces).
struct AnswerText {
  std::string text;
  std::vector<TextPiece> pieces;
};

class AnswerStream {
 public:
  // eos_ids: the model's own end tokens, unless rules.ignore_eos. The tokenizer must outlive this.
  AnswerStream(const Tokenizer& tokenizer, StopRules rules, std::span<const int32_t> eos_ids, bool skip_special);

  // Takes the next token; true when the answer ends with it (finish() is set then, and nothing more may be pushed).
  bool push(int32_t token);

  [[nodiscard]] const std::optional<Finish>& finish() const { return finish_; }
  [[nodiscard]] int32_t tokens() const { return tokens_; }
  // The text that has become certain since the last call: never half a character, never a possible beginning of a stop
  // string.
  [[nodiscard]] AnswerText take_text();

  // Tokens that end an answer; while fewer than min_new_tokens are emitted they must not be sampled.
  [[nodiscard]] std::span<const int32_t> end_tokens() const { return end_tokens_; }
  // How many of the tokens to come are under that ban.
  [[nodiscard]] int32_t forbidden_tokens() const { return std::max(0, rules_.min_new_tokens - tokens_); }

 private:
  // Adds the newest token's text, and returns it; what of it is a possible beginning of a stop string is not certain.
  std::string_view add_text(int32_t token);
  void add_piece(size_t bytes);
  void end_with(Finish finish);

  StopRules rules_;  // but for the stop strings
  std::vector<int32_t> end_tokens_;
  StopMatcher stop_strings_;
  Detokenizer detokenizer_;
  int32_t tokens_ = 0;
  std::string text_;               // not yet taken
  std::vector<TextPiece> pieces_;  // of text_; after a stop string was cut off they may say more
  std::optional<Finish> finish_;
};

}  // namespace strobe::schedule
