#include "schedule/answer_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace strobe::schedule {

AnswerStream::AnswerStream(const Tokenizer& tokenizer, StopRules rules, std::span<const int32_t> eos_ids,
                           bool skip_special)
    : rules_(std::move(rules)),
      end_tokens_(rules_.stop_token_ids),
      stop_strings_(std::exchange(rules_.stop_strings, {})),
      detokenizer_(tokenizer, skip_special) {
  if (!rules_.ignore_eos) end_tokens_.insert(end_tokens_.end(), eos_ids.begin(), eos_ids.end());
}

bool AnswerStream::push(int32_t token) {
  STROBE_CHECK(!finish_, "token {} after the end", token);
  ++tokens_;
  if (tokens_ > rules_.min_new_tokens &&
      std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end()) {
    if (rules_.include_stop) add_text(token);
    end_with({.reason = FinishReason::kStop, .matched_token = token});
    return true;
  }
  const auto match = stop_strings_.feed(add_text(token));
  if (match && tokens_ >= rules_.min_new_tokens) {
    text_.resize(text_.size() - match->from_end + (rules_.include_stop ? match->string->size() : 0));
    finish_ = Finish{.reason = FinishReason::kStop, .matched_string = *match->string};
    return true;
  }
  if (tokens_ >= rules_.max_new_tokens) {
    end_with({.reason = FinishReason::kLength});
    return true;
  }
  return false;
}

// Copied, not moved: the string and the vector keep their memory for the tokens to come.
AnswerText AnswerStream::take_text() {
  const size_t certain = finish_ ? text_.size() : text_.size() - stop_strings_.open_bytes();
  AnswerText taken{.text = text_.substr(0, certain)};
  text_.erase(0, certain);
  auto left = static_cast<int32_t>(certain);
  size_t whole = 0;  // pieces that are taken whole
  while (left > 0 && pieces_[whole].bytes <= left) left -= pieces_[whole++].bytes;
  taken.pieces.reserve(whole + (left > 0 ? 1 : 0));
  taken.pieces.assign(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(whole));
  if (left > 0) {
    taken.pieces.push_back({.token = pieces_[whole].token, .bytes = left});
    pieces_[whole].bytes -= left;
  }
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(whole));
  return taken;
}

std::string_view AnswerStream::add_text(int32_t token) {
  const size_t before = text_.size();
  detokenizer_.push(token, text_);
  add_piece(text_.size() - before);
  return std::string_view(text_).substr(before);
}

void AnswerStream::add_piece(size_t bytes) {
  if (bytes == 0) return;
  const int32_t token = tokens_ - 1;
  if (pieces_.empty() || pieces_.back().token != token) pieces_.push_back({.token = token});
  pieces_.back().bytes += static_cast<int32_t>(bytes);
}

void AnswerStream::end_with(Finish finish) {
  const std::string rest = detokenizer_.finish();
  text_ += rest;
  add_piece(rest.size());
  finish_ = std::move(finish);
}

}  // namespace strobe::schedule
