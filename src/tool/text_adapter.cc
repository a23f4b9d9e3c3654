#include "tool/text_adapter.h"

#include <nlohmann/json.hpp>

namespace strobe::tool {
namespace {

class TokenizerText : public serve::TextService {
 public:
  explicit TokenizerText(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  Result<std::vector<int32_t>> encode(std::string_view text) const override {
    return tokenizer_.encode(text, SpecialTokens::kRecognise);
  }
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    return tokenizer_.decode(ids, skip_special_tokens);
  }
  Result<std::vector<int32_t>> encode_chat(const nlohmann::json& messages,
                                           const nlohmann::json& /*args*/) const override {
    std::string text;
    for (const auto& m : messages) {
      const std::string role = m.at("role");
      text += (role == "user"        ? "<|im_user|>"
               : role == "assistant" ? "<|im_assistant|>"
                                     : "<|im_system|>") +
              role + "<|im_middle|>" + m.value("content", "") + "<|im_end|>";
    }
    return encode(text + "<|im_assistant|>assistant<|im_middle|>");
  }

 private:
  const Tokenizer& tokenizer_;
};

}  // namespace

Result<std::unique_ptr<serve::TextService>> make_text_service(const Tokenizer& tokenizer,
                                                              const std::string& /*folder*/) {
  return std::unique_ptr<serve::TextService>(std::make_unique<TokenizerText>(tokenizer));
}

}  // namespace strobe::tool
