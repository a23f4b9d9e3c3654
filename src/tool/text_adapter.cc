#include "tool/text_adapter.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/log.h"
#include "text/chat_template.h"

namespace strobe::tool {
namespace {

class TextRoom : public serve::TextService {
 public:
  TextRoom(const Tokenizer& tokenizer, std::optional<ChatTemplate> chat_template)
      : tokenizer_(tokenizer), template_(std::move(chat_template)) {}

  Result<std::vector<int32_t>> encode(std::string_view text) const override {
    return tokenizer_.encode(text, SpecialTokens::kRecognise);
  }

  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    return tokenizer_.decode(ids, skip_special_tokens);
  }

  Result<std::vector<int32_t>> encode_chat(const nlohmann::ordered_json& messages,
                                           const nlohmann::ordered_json& template_args) const override {
    if (!template_) return error("this model has no chat template; use /v1/completions with a plain `prompt`");
    STROBE_ASSIGN(const std::string text,
                  template_->render(
                      {.messages = messages.dump(), .variables = template_args.empty() ? "" : template_args.dump()}));
    return tokenizer_.encode(text, SpecialTokens::kRecognise);
  }

  std::string token_bytes(int32_t id) const override { return std::string(tokenizer_.token_bytes(id)); }

 private:
  const Tokenizer& tokenizer_;
  std::optional<ChatTemplate> template_;
};

// Whether a model folder has anything that could be a chat template.
bool has_template(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "chat_template.jinja", ignored) ||
         std::filesystem::exists(folder / "tokenizer_config.json", ignored);
}

}  // namespace

std::unique_ptr<serve::TextService> make_text_service(const Tokenizer& tokenizer, const std::string& folder) {
  std::optional<ChatTemplate> chat_template;
  if (has_template(folder)) {
    auto loaded = ChatTemplate::load(folder);
    if (loaded.ok()) {
      chat_template = std::move(loaded).value();
    } else {
      log_warning("chats will be refused: {}", loaded.message());
    }
  }
  return std::make_unique<TextRoom>(tokenizer, std::move(chat_template));
}

}  // namespace strobe::tool
