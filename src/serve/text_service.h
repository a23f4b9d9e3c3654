// TextService: the little that the server needs of the text room. Safe to call from several threads at once.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strobe::serve {

class TextService {
 public:
  virtual ~TextService() = default;
  // Special tokens written in the text are recognised; nothing is added in front.
  virtual Result<std::vector<int32_t>> encode(std::string_view text) const = 0;
  // Ids below the vocabulary size. Always valid UTF-8.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;
  // Messages to prompt tokens through the chat template, ending where the assistant begins to speak. `messages` is an
  // array of objects with a string `role` and a `content` that is a string, an array of {"type": "text", "text": ...},
  // or null in assistant messages with tool calls; `template_args` an object of further variables for the template. An
  // Error when the template refuses them or there is none. Templates that print objects print them in their order.
  virtual Result<std::vector<int32_t>> encode_chat(const nlohmann::ordered_json& messages,
                                                   const nlohmann::ordered_json& template_args) const = 0;
  // What the id stands for, not necessarily whole characters; for a special token its text.
  virtual std::string token_bytes(int32_t id) const = 0;
};

}  // namespace strobe::serve
