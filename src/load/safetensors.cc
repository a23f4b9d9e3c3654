#include "load/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_set>

namespace strobe {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read in place");

constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr int64_t kLengthBytes = 8;
constexpr size_t kMaxRank = 8;
constexpr int64_t kMaxHoleBytes = 63;  // what a writer that aligns to 64 bytes may leave between tensors
constexpr size_t kShownNameBytes = 160;

struct DTypeRow {
  FileDType dtype;
  std::string_view name;
  int64_t bytes;
  std::optional<DType> compute;
};

constexpr std::array kDTypes = {
    DTypeRow{FileDType::kF64, "F64", 8, std::nullopt},      DTypeRow{FileDType::kF32, "F32", 4, DType::kF32},
    DTypeRow{FileDType::kF16, "F16", 2, std::nullopt},      DTypeRow{FileDType::kBf16, "BF16", 2, DType::kBf16},
    DTypeRow{FileDType::kE4m3, "F8_E4M3", 1, DType::kE4m3}, DTypeRow{FileDType::kE5m2, "F8_E5M2", 1, std::nullopt},
    DTypeRow{FileDType::kE8m0, "F8_E8M0", 1, std::nullopt}, DTypeRow{FileDType::kI64, "I64", 8, DType::kI64},
    DTypeRow{FileDType::kI32, "I32", 4, DType::kI32},       DTypeRow{FileDType::kI16, "I16", 2, std::nullopt},
    DTypeRow{FileDType::kI8, "I8", 1, std::nullopt},        DTypeRow{FileDType::kU64, "U64", 8, std::nullopt},
    DTypeRow{FileDType::kU32, "U32", 4, std::nullopt},      DTypeRow{FileDType::kU16, "U16", 2, std::nullopt},
    DTypeRow{FileDType::kU8, "U8", 1, DType::kU8},          DTypeRow{FileDType::kBool, "BOOL", 1, std::nullopt},
};

const DTypeRow& row(FileDType dtype) {
  for (const DTypeRow& candidate : kDTypes) {
    if (candidate.dtype == dtype) return candidate;
  }
  check_failed(__FILE__, __LINE__, "dtype is listed", "");
}

const DTypeRow* row_by_name(std::string_view name) {
  for (const DTypeRow& candidate : kDTypes) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

std::string known_dtypes() {
  std::vector<std::string_view> names;
  names.reserve(kDTypes.size());
  for (const DTypeRow& candidate : kDTypes) names.push_back(candidate.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

using simdjson::dom::element;
using simdjson::dom::object;

// Elements of a shape, or nullopt when the product does not fit. Zero dimensions are left out of the overflow check's
// product, so that strides of an empty tensor fit too.
std::optional<int64_t> count_elements(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, dim, &product)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : product;
}

// Reads the entries of one header. `where` is the file, for messages.
class HeaderReader {
 public:
  HeaderReader(std::string_view where, std::span<const std::byte> data) : where_(where), data_(data) {}

  Result<StoredTensor> read_entry(std::string_view name, const element& value) const {
    object fields;
    if (value.get(fields) != simdjson::SUCCESS) return refuse(name, "its entry is not an object");
    StoredTensor tensor;
    tensor.name = name;
    int seen_dtype = 0;
    int seen_shape = 0;
    int seen_offsets = 0;
    std::array<int64_t, 2> offsets{};
    for (const auto& field : fields) {
      if (field.key == "dtype") {
        ++seen_dtype;
        STROBE_ASSIGN(tensor.dtype, read_dtype(name, field.value));
      } else if (field.key == "shape") {
        ++seen_shape;
        STROBE_ASSIGN(tensor.shape, read_shape(name, field.value));
      } else if (field.key == "data_offsets") {
        ++seen_offsets;
        STROBE_ASSIGN(offsets, read_offsets(name, field.value));
      } else {
        return refuse(name, "its entry holds '{}'; accepted: dtype, shape, data_offsets", printable(field.key));
      }
    }
    if (seen_dtype != 1 || seen_shape != 1 || seen_offsets != 1) {
      return refuse(name, "its entry must hold dtype, shape and data_offsets once each");
    }
    STROBE_TRY(place(tensor, offsets));
    return tensor;
  }

  template <class... Args>
  [[nodiscard]] Error refuse(std::string_view name, fmt::format_string<Args...> format, Args&&... args) const {
    return error("{}: tensor '{}': {}", where_, printable(name), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  Result<FileDType> read_dtype(std::string_view name, const element& value) const {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) return refuse(name, "dtype is not a string");
    const DTypeRow* found = row_by_name(text);
    if (found == nullptr) return refuse(name, "unknown dtype '{}'; accepted: {}", printable(text), known_dtypes());
    return found->dtype;
  }

  Result<std::vector<int64_t>> read_shape(std::string_view name, const element& value) const {
    simdjson::dom::array dims;
    if (value.get(dims) != simdjson::SUCCESS) return refuse(name, "shape is not an array");
    std::vector<int64_t> shape;
    for (const element& dim : dims) {
      int64_t number = 0;
      if (dim.get(number) != simdjson::SUCCESS || number < 0) {
        return refuse(name, "shape[{}] is not a non-negative integer below 2^63", shape.size());
      }
      if (shape.size() == kMaxRank) return refuse(name, "shape has more than {} dimensions", kMaxRank);
      shape.push_back(number);
    }
    return shape;
  }

  Result<std::array<int64_t, 2>> read_offsets(std::string_view name, const element& value) const {
    simdjson::dom::array pair;
    std::array<int64_t, 2> offsets{};
    size_t count = 0;
    if (value.get(pair) == simdjson::SUCCESS) {
      for (const element& offset : pair) {
        if (count == 2 || offset.get(offsets[count]) != simdjson::SUCCESS || offsets[count] < 0) {
          count = 3;
          break;
        }
        ++count;
      }
    }
    if (count != 2) return refuse(name, "data_offsets is not [begin, end] of non-negative integers");
    return offsets;
  }

  Result<void> place(StoredTensor& tensor, std::array<int64_t, 2> offsets) const {
    const auto [begin, end] = offsets;
    const auto data_bytes = static_cast<int64_t>(data_.size());
    if (begin > end) return refuse(tensor.name, "data_offsets [{}, {}] run backwards", begin, end);
    if (end > data_bytes) {
      return refuse(tensor.name, "data_offsets [{}, {}] lie outside the {} bytes of data; is the file cut short?",
                    begin, end, data_bytes);
    }
    const std::optional<int64_t> elements = count_elements(tensor.shape);
    int64_t bytes = 0;
    if (!elements || __builtin_mul_overflow(*elements, size_bytes(tensor.dtype), &bytes)) {
      return refuse(tensor.name, "shape {} overflows", describe(tensor));
    }
    if (bytes != end - begin) {
      return refuse(tensor.name, "{} needs {} bytes, but data_offsets [{}, {}] hold {}", describe(tensor), bytes, begin,
                    end, end - begin);
    }
    tensor.data = data_.data() + begin;
    tensor.bytes = bytes;
    return {};
  }

  std::string_view where_;
  std::span<const std::byte> data_;
};

Result<void> check_layout(const std::vector<StoredTensor>& tensors, std::span<const std::byte> data,
                          std::string_view where, const HeaderReader& reader) {
  int64_t used_until = 0;
  const StoredTensor* last = nullptr;
  for (const StoredTensor& tensor : tensors) {
    const int64_t begin = tensor.data - data.data();
    if (tensor.bytes == 0) continue;
    if (begin < used_until) {
      return reader.refuse(tensor.name, "its bytes [{}, {}) overlap those of '{}', which end at {}", begin,
                           begin + tensor.bytes, printable(last->name), used_until);
    }
    if (begin - used_until > kMaxHoleBytes) {
      return reader.refuse(tensor.name, "{} bytes before it, from {} on, belong to no tensor", begin - used_until,
                           used_until);
    }
    used_until = begin + tensor.bytes;
    last = &tensor;
  }
  if (static_cast<int64_t>(data.size()) - used_until > kMaxHoleBytes) {
    return error("{}: {} bytes after the last tensor belong to none", where,
                 static_cast<int64_t>(data.size()) - used_until);
  }
  return {};
}

// The JSON of the header, between the length and the data.
Result<std::string_view> header_text(std::span<const std::byte> bytes, std::string_view where) {
  const auto file_bytes = static_cast<int64_t>(bytes.size());
  if (file_bytes < kLengthBytes) return error("{}: {} bytes are too few for a safetensors file", where, file_bytes);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    return error("{}: the header claims {} bytes; accepted: at most {}", where, length, kMaxHeaderBytes);
  }
  if (static_cast<int64_t>(length) > file_bytes - kLengthBytes) {
    return error("{}: the header claims {} bytes, the file has {} after the length; is it cut short?", where, length,
                 file_bytes - kLengthBytes);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (!text.starts_with('{')) return error("{}: the header does not begin with '{{'; is this safetensors?", where);
  return text;
}

}  // namespace

std::string printable(std::string_view name) {
  std::string shown;
  for (const char c : name.substr(0, kShownNameBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  if (name.size() > kShownNameBytes) shown += fmt::format("... ({} bytes)", name.size());
  return shown;
}

std::string_view to_string(FileDType dtype) {
  return row(dtype).name;
}
int64_t size_bytes(FileDType dtype) {
  return row(dtype).bytes;
}
std::optional<DType> compute_dtype(FileDType dtype) {
  return row(dtype).compute;
}

FileDType file_dtype(DType dtype) {
  for (const DTypeRow& candidate : kDTypes) {
    if (candidate.compute == dtype) return candidate.dtype;
  }
  check_failed(__FILE__, __LINE__, "dtype is listed", to_string(dtype));
}

std::string describe(const StoredTensor& tensor) {
  if (!tensor.described) return "known by name only";
  return fmt::format("{} [{}]", to_string(tensor.dtype), fmt::join(tensor.shape, ", "));
}

Result<std::vector<StoredTensor>> SafetensorsFile::parse(std::span<const std::byte> bytes, std::string_view where) {
  STROBE_ASSIGN(const std::string_view text, header_text(bytes, where));
  const auto data = bytes.subspan(static_cast<size_t>(kLengthBytes) + text.size());
  simdjson::dom::parser parser;
  object entries;
  // The copy gives the parser the readable bytes it wants behind its input; the file may end right there.
  const simdjson::padded_string padded(text);
  if (const auto code = parser.parse(padded).get(entries); code != simdjson::SUCCESS) {
    return error("{}: the header is not a JSON object: {}", where, simdjson::error_message(code));
  }
  const HeaderReader reader(where, data);
  std::vector<StoredTensor> tensors;
  std::unordered_set<std::string_view> names;
  for (const auto& entry : entries) {
    if (entry.key == "__metadata__") continue;
    if (!names.insert(entry.key).second) return reader.refuse(entry.key, "the name occurs twice");
    STROBE_ASSIGN(StoredTensor tensor, reader.read_entry(entry.key, entry.value));
    tensors.push_back(std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return a.data != b.data ? a.data < b.data : a.bytes < b.bytes;
  });
  STROBE_TRY(check_layout(tensors, data, where, reader));
  return tensors;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  MappedFile map = MappedFile::open(path);
  STROBE_ASSIGN(std::vector<StoredTensor> tensors, parse(map.bytes(), path.string()));
  return SafetensorsFile(std::move(map), std::move(tensors));
}

}  // namespace strobe
