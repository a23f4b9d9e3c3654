// The files of tests/golden/text.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "source_dir.h"

namespace strobe::testing {

inline std::filesystem::path source_path(const std::string& path) {
  return source_dir() / path;
}

inline std::filesystem::path golden_path(const std::string& name) {
  return source_path("tests/golden/text/" + name);
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Keys keep their order: templates print objects in it.
inline nlohmann::ordered_json golden(const std::string& name) {
  return nlohmann::ordered_json::parse(read_file(golden_path(name)));
}

}  // namespace strobe::testing
