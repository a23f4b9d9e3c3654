#include "operands.h"

namespace strobe::bench {

Buffer& Operands::buffer(int64_t bytes) {
  buffers_.push_back(Buffer::host(bytes));
  return buffers_.back();
}

QuantTensor Operands::weight(WeightFormat format, int64_t out, int64_t in) {
  const Buffer source = Buffer::host(weight_bytes(format, out, in));
  QuantTensor tensor{.format = format, .out = out, .in = in, .data = source.data()};
  if (format == WeightFormat::kNvfp4) {
    auto* bytes = static_cast<uint8_t*>(source.data());
    for (int64_t i = 0; i < source.bytes(); ++i) {
      seed_ = seed_ * 6364136223846793005U + 1442695040888963407U;
      bytes[i] = i < out * in / 2 ? static_cast<uint8_t>(seed_ >> 56) : static_cast<uint8_t>(0x30 + (seed_ >> 60));
    }
    tensor.scales = bytes + out * in / 2;
  } else {
    auto* values = static_cast<Bf16*>(source.data());
    for (int64_t i = 0; i < out * in; ++i) {
      seed_ = seed_ * 6364136223846793005U + 1442695040888963407U;
      values[i] = to_bf16(static_cast<float>(static_cast<int64_t>(seed_ >> 40)) * 0x1p-24F - 0.5F);
    }
  }
  const WeightFormat packed = kernels_.packed_format(format);
  return kernels_.pack(tensor, buffer(weight_bytes(packed, out, in)).data());
}

kernel::Rows Operands::rows(DType dtype, int64_t rows, int64_t columns) {
  Buffer& b = buffer(rows * columns * size_bytes(dtype));
  for (int64_t i = 0; i < rows * columns; ++i) {
    const float value = static_cast<float>(i % 17 - 8) * 0.125F;
    if (dtype == DType::kF32) {
      static_cast<float*>(b.data())[i] = value;
    } else {
      static_cast<Bf16*>(b.data())[i] = to_bf16(value);
    }
  }
  return {.data = b.data(), .dtype = dtype, .stride = columns};
}

float* Operands::f32(int64_t count) {
  return static_cast<float*>(rows(DType::kF32, 1, count).data);
}

int32_t* Operands::i32(int64_t count) {
  return static_cast<int32_t*>(buffer(count * 4).data());
}

kernel::PagedStore Operands::store(DType dtype, int64_t slots, int64_t dim) {
  Buffer& b = buffer(slots * dim * size_bytes(dtype));
  for (int64_t i = 0; i < slots * dim; ++i) {
    const float value = static_cast<float>(i % 13 - 6) * 0.0625F;
    switch (dtype) {
      case DType::kE4m3:
        static_cast<E4m3*>(b.data())[i] = to_e4m3(value);
        break;
      case DType::kBf16:
        static_cast<Bf16*>(b.data())[i] = to_bf16(value);
        break;
      default:
        static_cast<float*>(b.data())[i] = value;
    }
  }
  return {.data = b.data(), .dtype = dtype, .dim = dim, .page_size = 64};
}

}  // namespace strobe::bench
