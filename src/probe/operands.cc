#include "probe/operands.h"

#include <algorithm>

namespace strobe::probe {

int64_t Operands::copies(int64_t bytes) const {
  return std::clamp<int64_t>(set_bytes_ / std::max<int64_t>(bytes, 1), 1, 1024);
}

int64_t Operands::packed_bytes(WeightFormat format, int64_t out, int64_t in) const {
  return weight_bytes(kernels_.forms().packed_format(format), out, in);
}

float Operands::next() {
  seed_ = seed_ * 6364136223846793005U + 1442695040888963407U;
  return to_float(to_bf16(static_cast<float>(static_cast<int64_t>(seed_ >> 40)) * 0x1p-24F - 0.5F));
}

void* Operands::put(const void* bytes, int64_t count) {
  buffers_.push_back(kernels_.memory().allocate(std::max<int64_t>(count, 1)));
  void* to = buffers_.back().data();
  if (count > 0) kernels_.memory().upload(to, bytes, count);
  return to;
}

const Operands::Source& Operands::source(WeightFormat format, int64_t out, int64_t in) {
  for (const Source& s : sources_) {
    if (s.format == format && s.out == out && s.in == in) return s;
  }
  const Buffer raw = Buffer::host(weight_bytes(format, out, in));
  QuantTensor tensor{.format = format, .out = out, .in = in, .data = raw.data()};
  if (format == WeightFormat::kNvfp4) {
    auto* bytes = static_cast<uint8_t*>(raw.data());
    for (int64_t i = 0; i < raw.bytes(); ++i) {
      seed_ = seed_ * 6364136223846793005U + 1442695040888963407U;
      // Any codes; scales from 0.5 to 1.875.
      bytes[i] = i < out * in / 2 ? static_cast<uint8_t>(seed_ >> 56) : static_cast<uint8_t>(0x30 + (seed_ >> 60));
    }
    tensor.scales = bytes + out * in / 2;
  } else {
    std::generate_n(static_cast<Bf16*>(raw.data()), out * in, [&] { return to_bf16(next()); });
  }
  Buffer memory = Buffer::host(packed_bytes(format, out, in));
  const QuantTensor packed = kernels_.forms().pack(tensor, memory.data());
  sources_.push_back({format, out, in, packed, std::move(memory)});
  return sources_.back();
}

QuantTensor Operands::weight(WeightFormat format, int64_t out, int64_t in) {
  const Source& from = source(format, out, in);
  const auto* begin = static_cast<const std::byte*>(from.memory.data());
  const auto* to = static_cast<const std::byte*>(put(begin, from.memory.bytes()));
  QuantTensor copy = from.packed;
  copy.device = kernels_.device();
  copy.data = to;
  if (copy.scales != nullptr) copy.scales = to + (static_cast<const std::byte*>(from.packed.scales) - begin);
  return copy;
}

QuantTensor Operands::table(int64_t rows, int64_t columns) {
  std::vector<Bf16> values(static_cast<size_t>(rows * columns));
  std::generate(values.begin(), values.end(), [&] { return to_bf16(next()); });
  return {.format = WeightFormat::kBf16,
          .out = rows,
          .in = columns,
          .data = put(values.data(), rows * columns * size_bytes(DType::kBf16)),
          .device = kernels_.device()};
}

kernel::Rows Operands::rows(DType dtype, int64_t rows, int64_t columns) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  std::generate(values.begin(), values.end(), [&] { return next(); });
  if (dtype == DType::kF32) return {put(values.data(), rows * columns * 4), dtype, columns};
  std::vector<Bf16> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), [](float x) { return to_bf16(x); });
  return {put(halves.data(), rows * columns * 2), dtype, columns};
}

float* Operands::f32(int64_t count) {
  return static_cast<float*>(rows(DType::kF32, 1, count).data);
}

int32_t* Operands::i32(std::span<const int32_t> values) {
  return static_cast<int32_t*>(put(values.data(), static_cast<int64_t>(values.size_bytes())));
}

kernel::PagedStore Operands::store(DType dtype, int64_t slots, int64_t dim) {
  const auto count = static_cast<size_t>(slots * dim);
  kernel::PagedStore store{.dtype = dtype, .dim = dim, .page_size = 64};
  if (dtype == DType::kE4m3) {
    std::vector<E4m3> codes(count);
    std::generate(codes.begin(), codes.end(), [&] { return to_e4m3(next()); });
    store.data = put(codes.data(), slots * dim);
  } else {
    store.data = rows(dtype, slots, dim).data;
  }
  return store;
}

const kernel::AttentionRequest* Operands::requests(std::span<const kernel::AttentionRequest> list) {
  return static_cast<const kernel::AttentionRequest*>(put(list.data(), static_cast<int64_t>(list.size_bytes())));
}

std::vector<float> Operands::read(const kernel::Rows& rows, int64_t count, int64_t columns) const {
  std::vector<std::byte> bytes(static_cast<size_t>(count * rows.stride * size_bytes(rows.dtype)));
  kernels_.memory().download(bytes.data(), rows.data, static_cast<int64_t>(bytes.size()));
  const auto* wide = reinterpret_cast<const float*>(bytes.data());
  const auto* half = reinterpret_cast<const Bf16*>(bytes.data());
  std::vector<float> values;
  values.reserve(static_cast<size_t>(count * columns));
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t at = r * rows.stride + c;
      values.push_back(rows.dtype == DType::kF32 ? wide[at] : to_float(half[at]));
    }
  }
  return values;
}

std::vector<float> Operands::read(const int32_t* ids, int64_t count) const {
  std::vector<int32_t> values(static_cast<size_t>(count));
  kernels_.memory().download(values.data(), ids, count * 4);
  return {values.begin(), values.end()};
}

}  // namespace strobe::probe
