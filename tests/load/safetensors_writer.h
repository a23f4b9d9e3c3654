// A small safetensors writer for tests: right files by default, wrong ones on request.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "load/safetensors.h"

namespace strobe::testing {

// Tensors in the order they are added; each tensor's bytes follow the last one's.
class SafetensorsWriter {
 public:
  // `data` must be as long as the shape wants, or empty for zeros.
  SafetensorsWriter& add(const std::string& name, FileDType dtype, const std::vector<int64_t>& shape,
                         std::string data = {}) {
    int64_t bytes = size_bytes(dtype);
    for (const int64_t dim : shape) bytes *= dim;
    data.resize(static_cast<size_t>(bytes));
    entry(name) = {{"dtype", std::string(to_string(dtype))},
                   {"shape", shape},
                   {"data_offsets", {data_.size(), data_.size() + data.size()}}};
    data_ += data;
    return *this;
  }

  // Numbers of a trivially copyable type, as they lie in memory.
  template <class T>
  SafetensorsWriter& add(const std::string& name, FileDType dtype, const std::vector<int64_t>& shape,
                         const std::vector<T>& values) {
    std::string data(values.size() * sizeof(T), '\0');
    std::memcpy(data.data(), values.data(), data.size());
    return add(name, dtype, shape, std::move(data));
  }

  SafetensorsWriter& scalar(const std::string& name, float value) {
    return add(name, FileDType::kF32, {}, std::vector<float>{value});
  }

  // The header's entry of a tensor, to be spoiled.
  nlohmann::ordered_json& entry(const std::string& name) { return header_[name]; }
  nlohmann::ordered_json& header() { return header_; }
  std::string& data() { return data_; }

  // The file: length, header padded with spaces to `align`, data.
  [[nodiscard]] std::string bytes(size_t align = 8) const {
    std::string text = header_.dump();
    while (text.size() % align != 0) text += ' ';
    return frame(text, data_);
  }

  void write(const std::filesystem::path& path, size_t align = 8) const { write_text(path, bytes(align)); }

  // A file of any header text, well-formed or not.
  static std::string frame(const std::string& header, const std::string& data) {
    const uint64_t length = header.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    return file + header + data;
  }

  static void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

 private:
  nlohmann::ordered_json header_ = nlohmann::ordered_json::object();
  std::string data_;
};

// A folder that is removed with its content.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "strobe-load-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace strobe::testing
