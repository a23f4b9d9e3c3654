// Chat templates: messages to the prompt text a model was trained on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strobe {

class JinjaTemplate;
struct TokenizerConfig;

// What a template is given. Messages, tools and variables are JSON as text: the order of keys is kept, which templates
// that print objects show, and no JSON library is part of this page.
struct ChatRequest {
  // An array of objects with "role" and whatever the template reads ("content", "name", "tool_calls", "tool_call_id",
  // "reasoning_content", ...). "content" is a string, null, or a list of parts; parts other than {"type": "text"} are
  // refused.
  std::string messages;
  std::string tools;      // an array; empty: none
  std::string variables;  // an object of more variables (chat_template_kwargs); empty: none
  bool add_generation_prompt = true;
  std::optional<int64_t> now_s;  // the time for strftime_now, seconds since 1970; not given: the clock
};

// A model's chat template. As in transformers, it sees messages, tools (none when not given), documents (none),
// add_generation_prompt, the texts of the model's named tokens (bos_token, eos_token, ...), and the request's
// variables.
//
// Threads: it does not change once made; render() may be called from many threads. Copies share one parsed template.
class ChatTemplate {
 public:
  // From the model folder: chat_template.jinja first, then tokenizer_config.json's chat_template, a string or a list of
  // named ones ("default" is used, "tool_use" when there are tools). No template at all is an Error.
  static Result<ChatTemplate> load(const std::filesystem::path& model_folder);

  // One template's source; `name` is what errors call it, `config` gives the texts of the named tokens.
  static Result<ChatTemplate> parse(std::string source, const TokenizerConfig& config, std::string_view name);

  // The prompt. Errors: broken JSON (or broken UTF-8, or nesting above 64) in the request, a variable that would
  // replace one of the above names, what the template raises, and faults of the template.
  //
  // A template that cannot read a list of parts gets the texts of a list joined by a space, as SGLang does.
  [[nodiscard]] Result<std::string> render(const ChatRequest& request) const;

  // Whether the template itself reads content that is a list of parts. Found out at load by rendering both forms of a
  // short message.
  [[nodiscard]] bool takes_content_parts() const { return takes_content_parts_; }

  // The source of the template in use without tools.
  [[nodiscard]] const std::string& source() const;

 private:
  ChatTemplate() = default;
  Result<void> add(std::string source, const std::string& name, std::string_view error_name);
  void find_content_form();

  std::map<std::string, std::shared_ptr<const JinjaTemplate>> templates_;
  std::string special_texts_;  // a JSON object
  bool takes_content_parts_ = false;
};

}  // namespace strobe
