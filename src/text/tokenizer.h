// Tokenizers: text to token ids and back.
//
// Text is UTF-8. Bytes that are not are read as U+FFFD, one for each maximal broken part, which is what a Python client
// of the reference gets from bytes.decode("utf-8", "replace"); encoding never fails and never adds ids of its own (no
// BOS). Ids outside the vocabulary, and holes in it, have no bytes and decode to nothing.
//
// Threads: a Tokenizer does not change once made; all members may be called from many threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strobe {

// What encode() makes of the text of a special token that stands in its input.
enum class SpecialTokens {
  kRecognise,  // its one id: for prompts that a chat template wrote
  kAsText,     // ordinary ids: for text of a user who must not write control tokens
};

// Ids of the named tokens, where the model's files name them.
struct SpecialIds {
  std::optional<int32_t> bos, eos, pad, unk;
};

class Tokenizer {
 public:
  // Reads the tokenizer of a model folder: tiktoken.model with tokenizer_config.json (Kimi). The Error names the file,
  // and the line where there is one; for a folder that has another kind of tokenizer it says what is accepted.
  static Result<std::unique_ptr<Tokenizer>> load(const std::filesystem::path& model_folder);

  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Ids of a text below 4 GiB. Time is O(n log n) in its bytes at worst, whatever it is.
  [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text, SpecialTokens special) const = 0;

  // One more than the largest id. A model's vocab_size may be larger (padding rows) but not smaller.
  [[nodiscard]] virtual int32_t vocab_size() const = 0;

  // The bytes an id stands for, for a special token its text. They need not be whole characters.
  [[nodiscard]] virtual std::string_view token_bytes(int32_t id) const = 0;

  // The id whose bytes, or whose text for a special token, are exactly these.
  [[nodiscard]] virtual std::optional<int32_t> token_id(std::string_view bytes) const = 0;

  // Whether skip_special leaves the id out: the tokens marked "special" in the model's files and the named four. Kimi's
  // <think> and its tool-call marks are control tokens without that mark and stay in the text for the parsers.
  [[nodiscard]] virtual bool is_special(int32_t id) const = 0;

  [[nodiscard]] virtual const SpecialIds& special_ids() const = 0;

  // The bytes of all ids, joined and then repaired to UTF-8 (U+FFFD for broken parts).
  [[nodiscard]] std::string decode(std::span<const int32_t> ids, bool skip_special) const;

 protected:
  Tokenizer() = default;
};

}  // namespace strobe
