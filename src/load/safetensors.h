// safetensors files and folders of them, checked before anything is read from them.
//
// The format (github.com/huggingface/safetensors): 8 bytes little-endian header length N, N bytes of JSON
//   {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {...}}
// then the data; offsets count from its first byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "load/mapped_file.h"
#include "tensor/tensor.h"

namespace strobe {

// The dtypes that occur in files; more than we compute with.
enum class FileDType {
  kF64,
  kF32,
  kF16,
  kBf16,
  kE4m3,
  kE5m2,
  kE8m0,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool
};

[[nodiscard]] std::string_view to_string(FileDType dtype);  // as files spell it: "F32", "BF16", "F8_E4M3", "U8", ...
[[nodiscard]] int64_t size_bytes(FileDType dtype);
// The dtype to compute with, or nullopt when we have none.
[[nodiscard]] std::optional<DType> compute_dtype(FileDType dtype);
[[nodiscard]] FileDType file_dtype(DType dtype);

// One tensor of a file; `data` points into the mapping and may be aligned to nothing.
struct StoredTensor {
  std::string name;
  FileDType dtype = FileDType::kF32;
  std::vector<int64_t> shape;  // empty for a scalar; at most 8 dimensions
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  int file = 0;  // index into Checkpoint::files()
  // False for a tensor of which only an index tells: its name is all that is known.
  bool described = true;
};

// A name out of a file as messages show it: control characters escaped, cut after 160 bytes.
[[nodiscard]] std::string printable(std::string_view name);

// "BF16 [2, 3]"
[[nodiscard]] std::string describe(const StoredTensor& tensor);

// One file. Refused, with a message that names file and tensor: a header that does not fit or is above 100 MB, is not a
// JSON object or not UTF-8; an entry without dtype, shape or data_offsets, or with others; an unknown dtype; a negative
// or overflowing shape; offsets outside the data, reversed, or unlike shape times dtype; a name twice; tensors that
// overlap; holes of 64 bytes or more before or after a tensor (less is taken for alignment).
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);  // Failure when it cannot be read
  // `bytes` in place of a file; they must outlive the result and every tensor in it.
  static Result<std::vector<StoredTensor>> parse(std::span<const std::byte> bytes, std::string_view where);

  [[nodiscard]] const std::filesystem::path& path() const { return map_.path(); }
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return tensors_; }  // by offset
  [[nodiscard]] const MappedFile& map() const { return map_; }

 private:
  friend class Checkpoint;
  SafetensorsFile(MappedFile map, std::vector<StoredTensor> tensors)
      : map_(std::move(map)), tensors_(std::move(tensors)) {}

  MappedFile map_;
  std::vector<StoredTensor> tensors_;
};

// A folder: the shards that model.safetensors.index.json names, or without an index every *.safetensors file in it.
//
// Refused: no such file at all; an index that is not an object with a weight_map of strings; a shard name that is a
// path (holds '/' or '\', or is "..") or does not end in .safetensors; a shard that is missing; an index entry whose
// shard lacks the tensor; a tensor in a shard that the index does not give to that shard; a name in two files. Files
// beside the index that it does not name are left alone.
class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::filesystem::path& folder);
  // For plans: the same, but when there is an index and shards that it names are missing, its names alone will do.
  static Result<Checkpoint> open_for_plan(const std::filesystem::path& folder);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const std::vector<SafetensorsFile>& files() const { return files_; }
  // Names that an index alone tells of; empty unless files() is.
  [[nodiscard]] const std::vector<StoredTensor>& named() const { return named_; }
  [[nodiscard]] int64_t tensor_count() const { return static_cast<int64_t>(by_name_.size()); }
  // nullptr when there is none of this name.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  // The file's own name, without the folder.
  [[nodiscard]] std::string file_name(const StoredTensor& tensor) const;

 private:
  explicit Checkpoint(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Result<void> add_file(const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::vector<StoredTensor> named_;
  std::unordered_map<std::string_view, const StoredTensor*> by_name_;  // into files_[i].tensors_, which never change
};

}  // namespace strobe
