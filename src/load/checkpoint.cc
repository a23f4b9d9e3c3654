#include <simdjson.h>

#include <algorithm>
#include <map>

#include "base/failure.h"
#include "load/safetensors.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kSuffix = ".safetensors";
constexpr size_t kMaxNameBytes = 255;  // of a file, by the operating system

// Which shard holds each tensor, as the index says; ordered, so that errors do not depend on hashing.
using WeightMap = std::map<std::string, std::string, std::less<>>;

// A shard must be a plain file name: the index must not lead out of the folder.
bool safe_shard_name(std::string_view name) {
  return name.size() <= kMaxNameBytes && name.ends_with(kSuffix) && name.size() > std::string_view(kSuffix).size() &&
         !name.starts_with('.') && name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

Result<WeightMap> read_index(const fs::path& path) {
  const MappedFile file = MappedFile::open(path);
  const std::string where = path.string();
  simdjson::dom::parser parser;
  simdjson::dom::object root;
  simdjson::dom::object entries;
  const simdjson::padded_string text(file.text());
  if (const auto code = parser.parse(text).get(root); code != simdjson::SUCCESS) {
    return error("{}: not a JSON object: {}", where, simdjson::error_message(code));
  }
  if (root["weight_map"].get(entries) != simdjson::SUCCESS) {
    return error("{}: weight_map is missing or not an object; accepted: {{\"tensor name\": \"file name\"}}", where);
  }
  WeightMap shards;
  for (const auto& entry : entries) {
    std::string_view shard;
    if (entry.value.get(shard) != simdjson::SUCCESS) {
      return error("{}: weight_map['{}'] is not a string; accepted: a file name", where, printable(entry.key));
    }
    if (!safe_shard_name(shard)) {
      return error("{}: weight_map['{}'] is '{}'; accepted: the name of a *{} file in the same folder", where,
                   printable(entry.key), printable(shard), kSuffix);
    }
    if (!shards.emplace(entry.key, shard).second) {
      return error("{}: weight_map names tensor '{}' twice", where, printable(entry.key));
    }
  }
  if (shards.empty()) return error("{}: weight_map is empty", where);
  return shards;
}

// The safetensors files of a folder without an index, by name.
Result<std::vector<fs::path>> list_files(const fs::path& folder) {
  if (path_exists(folder / kSingleName)) return std::vector<fs::path>{folder / kSingleName};
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (safe_shard_name(entry.path().filename().string())) paths.push_back(entry.path());
  }
  if (paths.empty()) {
    return error("{}: holds no {}, {} or other *{} file", folder.string(), kSingleName, kIndexName, kSuffix);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Result<void> Checkpoint::add_file(const fs::path& path) {
  STROBE_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
  const int index = static_cast<int>(files_.size());
  for (StoredTensor& tensor : file.tensors_) {
    tensor.file = index;
    const auto [found, added] = by_name_.emplace(tensor.name, &tensor);
    if (!added) {
      return error("{}: tensor '{}' is in {} too", path.string(), printable(tensor.name), file_name(*found->second));
    }
  }
  files_.push_back(std::move(file));  // the tensors stay where they are: the vector inside moves as a whole
  return {};
}

Result<Checkpoint> Checkpoint::open(const fs::path& folder) try {
  if (!fs::is_directory(folder)) return error("{}: is not a folder", folder.string());
  Checkpoint checkpoint(folder);
  const fs::path index = folder / kIndexName;
  if (!path_exists(index)) {
    STROBE_ASSIGN(const std::vector<fs::path> paths, list_files(folder));
    for (const fs::path& path : paths) STROBE_TRY(checkpoint.add_file(path));
    return checkpoint;
  }
  STROBE_ASSIGN(const WeightMap shards, read_index(index));
  std::map<std::string, std::string, std::less<>> first_tensor;  // of each shard, for messages
  for (const auto& [name, shard] : shards) first_tensor.emplace(shard, name);
  for (const auto& [shard, name] : first_tensor) {
    if (!path_exists(folder / shard)) {
      return error("{}: names {} for tensor '{}' and others, but there is no such file", index.string(), shard,
                   printable(name));
    }
    STROBE_TRY(checkpoint.add_file(folder / shard));
  }
  for (const auto& [name, shard] : shards) {
    const StoredTensor* stored = checkpoint.find(name);
    if (stored == nullptr || checkpoint.file_name(*stored) != shard) {
      return error("{}: names {} for tensor '{}', but that file does not hold it{}", index.string(), shard,
                   printable(name), stored == nullptr ? "" : fmt::format(" ({} does)", checkpoint.file_name(*stored)));
    }
  }
  for (const SafetensorsFile& file : checkpoint.files_) {
    for (const StoredTensor& tensor : file.tensors()) {
      if (!shards.contains(tensor.name)) {
        return error("{}: holds tensor '{}', which {} does not name", file.path().string(), printable(tensor.name),
                     kIndexName);
      }
    }
  }
  return checkpoint;
} catch (const fs::filesystem_error& problem) {
  fail("{}: {}", folder.string(), problem.what());
}

Result<Checkpoint> Checkpoint::open_for_plan(const fs::path& folder) try {
  const fs::path index = folder / kIndexName;
  if (!fs::is_directory(folder) || !path_exists(index)) return open(folder);
  STROBE_ASSIGN(const WeightMap shards, read_index(index));
  const auto present = [&](const auto& entry) { return path_exists(folder / entry.second); };
  if (std::all_of(shards.begin(), shards.end(), present)) return open(folder);
  Checkpoint checkpoint(folder);
  checkpoint.named_.reserve(shards.size());
  for (const auto& [name, shard] : shards) {
    checkpoint.named_.push_back({.name = name, .described = false});
  }
  for (const StoredTensor& tensor : checkpoint.named_) checkpoint.by_name_.emplace(tensor.name, &tensor);
  return checkpoint;
} catch (const fs::filesystem_error& problem) {
  fail("{}: {}", folder.string(), problem.what());
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

std::string Checkpoint::file_name(const StoredTensor& tensor) const {
  if (!tensor.described) return kIndexName;
  return files_[static_cast<size_t>(tensor.file)].path().filename().string();
}

}  // namespace strobe
