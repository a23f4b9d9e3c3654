// MappedFile: a regular file, read-only in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace strobe {

// Whether something of this name is there. Throws Failure when that cannot be told (no right to look, a name too long).
[[nodiscard]] bool path_exists(const std::filesystem::path& path);

class MappedFile {
 public:
  // Throws Failure (with the system's reason) when the file cannot be opened or mapped, or is not a regular file. An
  // empty file maps to an empty span.
  //
  // The mapping has the size the file had when it was opened: a file that somebody cuts shorter while it is mapped
  // faults on the lost pages. Replace checkpoint files by renaming, not in place.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_bytes_)}; }
  [[nodiscard]] int64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(data_), static_cast<size_t>(size_bytes_)};
  }

  // Tells the system that the whole file will be read soon, front to back.
  void will_read() const;

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, int64_t size_bytes)
      : path_(std::move(path)), data_(data), size_bytes_(size_bytes) {}

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

}  // namespace strobe
