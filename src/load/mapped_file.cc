#include "load/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/failure.h"

namespace strobe {
namespace {

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* what) {
  const int code = errno;
  fail("{}: {}: {}", path.string(), what, std::strerror(code));
}

// Closes what it holds; a mapping does not need its descriptor.
struct Descriptor {
  int value;
  ~Descriptor() { close(value); }
};

}  // namespace

bool path_exists(const std::filesystem::path& path) {
  std::error_code code;
  const bool found = std::filesystem::exists(path, code);
  if (code) fail("{}: cannot be examined: {}", path.string(), code.message());
  return found;
}

MappedFile MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer. It means nothing for regular files.
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) fail_with_errno(path, "cannot be opened");
  const Descriptor file{opened};
  struct stat status {};
  if (fstat(file.value, &status) != 0) fail_with_errno(path, "cannot be examined");
  if (!S_ISREG(status.st_mode)) fail("{}: is not a regular file", path.string());
  if (status.st_size == 0) return MappedFile(path, nullptr, 0);
  void* data = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file.value, 0);
  if (data == MAP_FAILED) fail_with_errno(path, "cannot be mapped");
  return MappedFile(path, static_cast<const std::byte*>(data), status.st_size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_bytes_));
}

void MappedFile::will_read() const {
  // Only advice: what it answers changes nothing.
  if (data_ != nullptr) madvise(const_cast<std::byte*>(data_), static_cast<size_t>(size_bytes_), MADV_WILLNEED);
}

}  // namespace strobe
