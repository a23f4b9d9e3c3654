#include "text/text_files.h"

#include <fstream>
#include <system_error>

#include "base/failure.h"

namespace strobe {

Result<std::string> read_text_file(const std::filesystem::path& path, uintmax_t max_bytes) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return error("{}: no such file", path.string());
  const uintmax_t bytes = std::filesystem::file_size(path, code);
  if (code) fail("{}: {}", path.string(), code.message());
  if (bytes > max_bytes) return error("{}: {} bytes, at most {} are accepted", path.string(), bytes, max_bytes);
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes, '\0');
  if (!file || !file.read(text.data(), static_cast<std::streamsize>(bytes))) fail("{}: cannot be read", path.string());
  return text;
}

}  // namespace strobe
