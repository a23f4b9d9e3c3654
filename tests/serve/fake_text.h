// A TextService and a ServerInfo for tests.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/server_info.h"
#include "serve/text_service.h"

namespace strobe::serve {

// A token is a byte; the ids 256.. of the vocabulary of 2048 decode to "<id>". Chat: "[role]content" for each message.
class FakeText final : public TextService {
 public:
  // Called by encode(), on the handler's thread. To be set before the first request.
  std::function<void()> on_encode;

  Result<std::vector<int32_t>> encode(std::string_view text) const override {
    if (on_encode) on_encode();
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const int32_t> ids, bool /*skip_special_tokens*/) const override {
    std::string text;
    for (const int32_t id : ids) text += token_bytes(id);
    return text;
  }
  Result<std::vector<int32_t>> encode_chat(const nlohmann::ordered_json& messages,
                                           const nlohmann::ordered_json& template_args) const override {
    if (template_args.contains("refuse")) return error("the template refuses: {}", template_args["refuse"].dump());
    std::string text;
    for (const auto& message : messages) {
      const auto& content = message["content"];
      text += fmt::format("[{}]{}", message["role"].get<std::string>(),
                          content.is_string() ? content.get<std::string>() : content.dump());
    }
    return encode(text);
  }
  std::string token_bytes(int32_t id) const override {
    return id < 256 ? std::string(1, static_cast<char>(id)) : fmt::format("<{}>", id);
  }
};

inline ServerInfo test_info() {
  ServerInfo info;
  info.model_name = "pocket";
  info.model_path = "/models/pocket";
  info.tokenizer_path = "/models/pocket";
  info.model_type = "kimi_k2";
  info.architectures = {"DeepseekV3ForCausalLM"};
  info.version = "1.2.3";
  info.vocab_tokens = 2048;
  info.created_unix_s = 1700000000;
  return info;
}

}  // namespace strobe::serve
