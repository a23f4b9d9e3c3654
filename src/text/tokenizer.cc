#include "text/tokenizer.h"

#include "text/text_files.h"
#include "text/tiktoken.h"
#include "text/unicode.h"

namespace strobe {
namespace {

constexpr uintmax_t kMaxFileBytes = uintmax_t{256} << 20;  // Kimi-K2's tiktoken.model has 2.8 MB

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::filesystem::path& model_folder) {
  if (!std::filesystem::is_directory(model_folder)) return error("{}: no such folder", model_folder.string());
  const auto model_path = model_folder / "tiktoken.model";
  const auto config_path = model_folder / "tokenizer_config.json";
  if (std::filesystem::exists(model_path)) {
    STROBE_ASSIGN(const std::string model, read_text_file(model_path, kMaxFileBytes));
    STROBE_ASSIGN(const std::string config, read_text_file(config_path, kMaxFileBytes));
    return make_tiktoken_tokenizer(
        {.model = model, .model_name = model_path.string(), .config = config, .config_name = config_path.string()});
  }
  for (const char* other : {"tokenizer.json", "tokenizer.model", "vocab.json"}) {
    if (!std::filesystem::exists(model_folder / other)) continue;
    return error("{}: {} is not a tokenizer that Strobe reads; tiktoken.model with tokenizer_config.json is accepted",
                 model_folder.string(), other);
  }
  return error("{}: no tokenizer; tiktoken.model with tokenizer_config.json is accepted", model_folder.string());
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!skip_special || !is_special(id)) bytes += token_bytes(id);
  }
  return repaired_utf8(bytes);
}

}  // namespace strobe
