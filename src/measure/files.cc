#include "measure/files.h"

#include <fmt/chrono.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/failure.h"

namespace strobe::measure {

Result<void> make_folder(std::string_view flag, const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  if (!problem && std::filesystem::is_directory(path)) return {};
  return error("{} {}: cannot be made: {}", flag, path, problem ? problem.message() : "it is no folder");
}

void write_whole(const std::string& path, std::string_view text) {
  const std::string unfinished = path + ".part";
  {
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.flush();
    if (!file) fail("{}: cannot be written: {}", unfinished, std::strerror(errno));
  }
  std::error_code problem;
  std::filesystem::rename(unfinished, path, problem);
  if (problem) fail("{}: cannot be written: {}", path, problem.message());
}

std::string safe_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    name += plain ? c : '-';
  }
  return name;
}

std::string time_stamp() {
  return fmt::format("{:%Y%m%d-%H%M%S}", fmt::gmtime(std::time(nullptr)));
}

std::string escape_markup(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        // Other control characters have no place in a document; a model's answer may hold them.
        escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return escaped;
}

}  // namespace strobe::measure
