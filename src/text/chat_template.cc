#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "text/jinja_engine.h"
#include "text/text_files.h"
#include "text/tokenizer_config.h"

namespace strobe {
namespace {

using json = nlohmann::ordered_json;

constexpr uintmax_t kMaxTemplateBytes = uintmax_t{1} << 20;
constexpr uintmax_t kMaxConfigBytes = uintmax_t{256} << 20;
constexpr int kMaxJsonDepth = 64;
constexpr std::array<std::string_view, 4> kOwnVariables = {"messages", "tools", "documents", "add_generation_prompt"};

struct TooDeep {};

// JSON of the type named, or an Error that calls it `field`.
Result<json> parse_field(const std::string& text, std::string_view field, json::value_t type) {
  json value;
  try {
    value = json::parse(text, [](int depth, json::parse_event_t, json&) {
      if (depth > kMaxJsonDepth) throw TooDeep();
      return true;
    });
  } catch (const json::exception& e) {
    return error("{}: {}", field, e.what());
  } catch (const TooDeep&) {
    return error("{}: nested more than {} deep", field, kMaxJsonDepth);
  }
  if (value.type() != type) {
    return error("{}: {} is expected, not {}", field, type == json::value_t::array ? "an array" : "an object",
                 value.type_name());
  }
  return value;
}

// A list of parts as one string.
Result<std::string> joined_text(const json& parts, size_t message) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += ' ';
    const auto part = parts[i].find("text");
    STROBE_CHECK(part != parts[i].end(), "messages[{}] part {}", message, i);
    text += part->get_ref<const std::string&>();
  }
  return text;
}

Result<void> check_parts(const json& parts, size_t message) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto type = parts[i].is_object() ? parts[i].find("type") : parts[i].end();
    if (!parts[i].is_object() || type == parts[i].end() || !type->is_string()) {
      return error("messages[{}].content[{}] is not an object with a \"type\"", message, i);
    }
    if (*type != "text") {
      return error("messages[{}].content[{}]: type '{}' is not supported; only text parts are accepted", message, i,
                   type->get<std::string>());
    }
    const auto text = parts[i].find("text");
    if (text == parts[i].end() || !text->is_string()) {
      return error("messages[{}].content[{}].text is not a string", message, i);
    }
  }
  return {};
}

Result<void> prepare_messages(json& messages, bool keep_parts) {
  for (size_t i = 0; i < messages.size(); ++i) {
    json& message = messages[i];
    const auto role = message.is_object() ? message.find("role") : message.end();
    if (!message.is_object() || role == message.end() || !role->is_string()) {
      return error("messages[{}] is not an object with a string \"role\"", i);
    }
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    STROBE_TRY(check_parts(*content, i));
    if (keep_parts) continue;
    STROBE_ASSIGN(std::string text, joined_text(*content, i));
    *content = std::move(text);
  }
  return {};
}

std::string special_texts(const TokenizerConfig& config) {
  json texts = json::object();
  const auto add = [&](const char* name, const std::optional<std::string>& text) {
    if (text) texts[name] = *text;
  };
  add("bos_token", config.bos);
  add("eos_token", config.eos);
  add("pad_token", config.pad);
  add("unk_token", config.unk);
  for (const auto& [name, text] : config.other_special_texts) texts[name] = text;
  return texts.dump();
}

}  // namespace

Result<ChatTemplate> ChatTemplate::load(const std::filesystem::path& model_folder) {
  const auto jinja_path = model_folder / "chat_template.jinja";
  const auto config_path = model_folder / "tokenizer_config.json";
  TokenizerConfig config;
  if (std::filesystem::exists(config_path)) {
    STROBE_ASSIGN(const std::string text, read_text_file(config_path, kMaxConfigBytes));
    STROBE_ASSIGN(config, parse_tokenizer_config(text, config_path.string()));
  }
  if (std::filesystem::exists(jinja_path)) {
    STROBE_ASSIGN(std::string source, read_text_file(jinja_path, kMaxTemplateBytes));
    return parse(std::move(source), config, jinja_path.string());
  }
  if (config.chat_templates.empty()) {
    return error("{}: no chat template; chat_template.jinja or chat_template in tokenizer_config.json is accepted",
                 model_folder.string());
  }
  ChatTemplate made;
  made.special_texts_ = special_texts(config);
  for (NamedTemplate& item : config.chat_templates) {
    const std::string name = fmt::format("{}: chat_template '{}'", config_path.string(), item.name);
    STROBE_TRY(made.add(std::move(item.text), item.name, name));
  }
  if (!made.templates_.contains("default")) {
    return error("{}: none of the chat templates is named 'default'", config_path.string());
  }
  made.find_content_form();
  return made;
}

Result<ChatTemplate> ChatTemplate::parse(std::string source, const TokenizerConfig& config, std::string_view name) {
  ChatTemplate made;
  made.special_texts_ = special_texts(config);
  STROBE_TRY(made.add(std::move(source), "default", name));
  made.find_content_form();
  return made;
}

Result<void> ChatTemplate::add(std::string source, const std::string& name, std::string_view error_name) {
  if (source.size() > kMaxTemplateBytes) {
    return error("{}: {} bytes, at most {} are accepted", error_name, source.size(), kMaxTemplateBytes);
  }
  STROBE_ASSIGN(auto parsed, JinjaTemplate::parse(std::move(source), error_name));
  templates_[name] = std::move(parsed);
  return {};
}

void ChatTemplate::find_content_form() {
  const auto rendered = [this](const char* content) {
    takes_content_parts_ = true;  // so that the list reaches the template as it is
    return render({.messages = fmt::format(R"([{{"role":"user","content":{}}}])", content)});
  };
  const auto text = rendered(R"("a b")");
  const auto parts = rendered(R"([{"type":"text","text":"a b"}])");
  takes_content_parts_ = parts.ok() && (!text.ok() || *parts == *text);
}

Result<std::string> ChatTemplate::render(const ChatRequest& request) const {
  STROBE_ASSIGN(json messages, parse_field(request.messages, "messages", json::value_t::array));
  STROBE_TRY(prepare_messages(messages, takes_content_parts_));
  json variables = json::parse(special_texts_);
  if (!request.variables.empty()) {
    STROBE_ASSIGN(json more, parse_field(request.variables, "chat_template_kwargs", json::value_t::object));
    for (const auto& [name, value] : more.items()) {
      if (std::find(kOwnVariables.begin(), kOwnVariables.end(), name) != kOwnVariables.end()) {
        return error("chat_template_kwargs: '{}' is set by the request itself", name);
      }
      variables[name] = value;
    }
  }
  variables["messages"] = std::move(messages);
  variables["documents"] = nullptr;
  variables["tools"] = nullptr;
  bool has_tools = false;
  if (!request.tools.empty()) {
    STROBE_ASSIGN(json tools, parse_field(request.tools, "tools", json::value_t::array));
    has_tools = !tools.empty();
    variables["tools"] = std::move(tools);
  }
  variables["add_generation_prompt"] = request.add_generation_prompt;
  const auto with_tools = has_tools ? templates_.find("tool_use") : templates_.end();
  const auto& chosen = with_tools != templates_.end() ? with_tools->second : templates_.at("default");
  return chosen->render(variables.dump(), request.now_s);
}

const std::string& ChatTemplate::source() const {
  return templates_.at("default")->source();
}

}  // namespace strobe
