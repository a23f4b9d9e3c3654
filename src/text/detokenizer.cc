#include "text/detokenizer.h"

#include <string_view>

#include "text/unicode.h"

namespace strobe {

std::string Detokenizer::push(int32_t id) {
  std::string out;
  push(id, out);
  return out;
}

void Detokenizer::push(int32_t id, std::string& out) {
  if (skip_special_ && tokenizer_->is_special(id)) return;
  const std::string_view bytes = tokenizer_->token_bytes(id);
  if (pending_.empty()) {  // nearly always
    pending_ = bytes.substr(append_repaired_utf8(out, bytes, true));
    return;
  }
  pending_ += bytes;
  pending_.erase(0, append_repaired_utf8(out, pending_, true));
}

std::string Detokenizer::finish() {
  std::string out = repaired_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace strobe
