#include "text/detokenizer.h"

#include "text/unicode.h"

namespace strobe {

std::string Detokenizer::push(int32_t id) {
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  pending_ += tokenizer_->token_bytes(id);
  std::string out;
  const size_t taken = append_repaired_utf8(out, pending_, true);
  pending_.erase(0, taken);
  return out;
}

std::string Detokenizer::finish() {
  std::string out = repaired_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace strobe
