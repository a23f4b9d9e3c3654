#include "schedule/answer_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace strobe::schedule {

AnswerStream::AnswerStream(const Tokenizer& tokenizer, StopRules rules, std::span<const int32_t> eos_ids,
                           bool skip_special)
    : rules_(std::move(rules)), end_tokens_(rules_.stop_token_ids), detokenizer_(tokenizer, skip_special) {
  if (!rules_.ignore_eos) end_tokens_.insert(end_tokens_.end(), eos_ids.begin(), eos_ids.end());
  std::erase_if(rules_.stop_strings, [](const std::string& stop) { return stop.empty(); });
}

bool AnswerStream::push(int32_t token) {
  STROBE_CHECK(!finish_, "token {} after the end", token);
  ++tokens_;
  if (tokens_ > rules_.min_new_tokens &&
      std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end()) {
    if (rules_.include_stop) hold(detokenizer_.push(token));
    end_with({.reason = FinishReason::kStop, .matched_token = token});
    return true;
  }
  const size_t known = held_.size();
  hold(detokenizer_.push(token));
  if (tokens_ >= rules_.min_new_tokens && match_stop_string(known)) return true;
  if (tokens_ >= rules_.max_new_tokens) {
    end_with({.reason = FinishReason::kLength});
    return true;
  }
  release_certain_text();
  return false;
}

AnswerText AnswerStream::take_text() {
  AnswerText taken{.text = std::exchange(ready_, {})};
  auto left = static_cast<int32_t>(taken.text.size());
  size_t whole = 0;  // pieces that are taken whole
  taken.pieces.reserve(pieces_.size());
  for (; left > 0; ++whole) {
    TextPiece& piece = pieces_[whole];
    const int32_t bytes = std::min(left, piece.bytes);
    taken.pieces.push_back({.token = piece.token, .bytes = bytes});
    left -= bytes;
    piece.bytes -= bytes;
    if (piece.bytes > 0) break;
  }
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(whole));
  return taken;
}

void AnswerStream::hold(const std::string& text) {
  if (text.empty()) return;
  held_ += text;
  const int32_t token = tokens_ - 1;
  const auto bytes = static_cast<int32_t>(text.size());
  if (!pieces_.empty() && pieces_.back().token == token) {
    pieces_.back().bytes += bytes;
  } else {
    pieces_.push_back({.token = token, .bytes = bytes});
  }
}

bool AnswerStream::match_stop_string(size_t known) {
  size_t first = std::string::npos;
  const std::string* matched = nullptr;
  for (const auto& stop : rules_.stop_strings) {
    // One that ended before is one that min_new_tokens let pass.
    const size_t at = held_.find(stop, known < stop.size() ? 0 : known - stop.size() + 1);
    if (at < first) {
      first = at;
      matched = &stop;
    }
  }
  if (matched == nullptr) return false;
  held_.resize(rules_.include_stop ? first + matched->size() : first);
  ready_ += std::exchange(held_, {});
  finish_ = Finish{.reason = FinishReason::kStop, .matched_string = *matched};
  return true;
}

void AnswerStream::release_certain_text() {
  if (held_.empty()) return;
  size_t keep = 0;  // the longest tail of held_ that begins a stop string
  for (const auto& stop : rules_.stop_strings) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (stop[n - 1] != held_.back()) continue;  // most tails are none
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) keep = n;
    }
  }
  ready_.append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
}

void AnswerStream::end_with(Finish finish) {
  hold(detokenizer_.finish());
  ready_ += std::exchange(held_, {});
  finish_ = std::move(finish);
}

}  // namespace strobe::schedule
