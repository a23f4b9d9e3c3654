// Streaming detokenisation: ids in, whole characters out.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace strobe {

// Turns the ids of one answer into text as they come. Nothing but the pushed ids counts: a prompt that ends inside a
// character leaks nothing into the answer, and its rest, pushed here, is a broken part.
//
// The pieces from push() and finish(), joined, equal decode() of all the ids. A piece never ends inside a character; a
// broken part becomes U+FFFD as soon as no byte to come can mend it. At most three bytes are held back, and a push
// costs time in proportion to the token's own bytes.
class Detokenizer {
 public:
  // The tokenizer must outlive this.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special) : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // The text that became certain with this id; often empty.
  [[nodiscard]] std::string push(int32_t id);
  // The same, put behind `out`.
  void push(int32_t id, std::string& out);

  // The end: a character still unfinished becomes U+FFFD. Afterwards the Detokenizer is as new.
  [[nodiscard]] std::string finish();

  // Whether the last token ended inside a character.
  [[nodiscard]] bool holds_back() const { return !pending_.empty(); }

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string pending_;
};

}  // namespace strobe
