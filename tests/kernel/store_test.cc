// Storing is exact: every table must write the same bytes.
#include <cmath>
#include <cstring>
#include <limits>

#include "harness.h"

namespace strobe::kernel {
namespace {

// The nearest code by search over all of them, ties to the even one; beyond 448 it is 448.
uint8_t nearest_e4m3(float value) {
  if (std::isnan(value)) return 0x7f;
  uint8_t best = 0;
  for (uint8_t code = 0; code < 0x7f; ++code) {
    const double distance = std::fabs(e4m3_value(code) - std::fabs(static_cast<double>(value)));
    const double best_distance = std::fabs(e4m3_value(best) - std::fabs(static_cast<double>(value)));
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) best = code;
  }
  if (std::isinf(value)) best = 0x7e;
  return static_cast<uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

// The upper half of an f32, rounded to nearest even by looking at the lower half.
uint16_t nearest_bf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  const auto upper = static_cast<uint16_t>(bits >> 16);
  const uint32_t lower = bits & 0xffff;
  return static_cast<uint16_t>(upper + (lower > 0x8000 || (lower == 0x8000 && upper % 2 == 1) ? 1 : 0));
}

class StoreTest : public TableTest {
 protected:
  // Stores x and compares every byte of the store, also those that must stay.
  void expect_right(const Matrix& x, DType dtype, float scale, int64_t store_dim, int64_t column,
                    const std::vector<int32_t>& slots, int workers) const {
    constexpr int64_t kSlots = 40;
    const int64_t width = size_bytes(dtype);
    std::vector<uint8_t> bytes(static_cast<size_t>(kSlots * store_dim * width));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 37);
    std::vector<uint8_t> expected = bytes;
    for (int64_t r = 0; r < x.rows(); ++r) {
      if (slots[static_cast<size_t>(r)] < 0) continue;
      for (int64_t i = 0; i < x.columns(); ++i) {
        uint8_t* place = expected.data() + (slots[static_cast<size_t>(r)] * store_dim + column + i) * width;
        const float value = x.at(r, i);
        const uint16_t half = nearest_bf16(value);
        if (dtype == DType::kF32) std::memcpy(place, &value, 4);
        if (dtype == DType::kBf16) std::memcpy(place, &half, 2);
        if (dtype == DType::kE4m3) *place = nearest_e4m3(value / scale);
      }
    }
    StoreRows call{.x = x.view(), .column = column, .slots = slots.data(), .rows = x.rows(), .dim = x.columns()};
    call.store = {.data = bytes.data(), .dtype = dtype, .dim = store_dim, .page_size = 8, .scale = scale};
    table().store_rows(pool_of(workers), call);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const bool both_nan = dtype == DType::kE4m3 && (bytes[i] & 0x7f) == 0x7f && (expected[i] & 0x7f) == 0x7f;
      ASSERT_TRUE(bytes[i] == expected[i] || both_nan)
          << "byte " << i << ": " << int{bytes[i]} << ", expected " << int{expected[i]};
    }
  }

  [[nodiscard]] std::vector<DType> dtypes() const { return store_types(table()); }
};

TEST_P(StoreTest, ShapesColumnsAndPadding) {
  Random random(70);
  for (const DType dtype : dtypes()) {
    for (const float scale : {1.0F, 0.37F, 8.0F}) {
      for (const int64_t dim : {1, 2, 15, 16, 17, 31, 33, 64, 512}) {
        for (const int64_t column : {0, 1, 64}) {
          for (const int64_t behind : {0, 3}) {
            Matrix x(DType::kF32, 6, dim, 1);
            for (int64_t r = 0; r < 6; ++r) {
              for (int64_t i = 0; i < dim; ++i) x.put(r, i, random.uniform(-4, 4));
            }
            SCOPED_TRACE(fmt::format("{}, scale {}, dim {} at {}", to_string(dtype), scale, dim, column));
            expect_right(x, dtype, scale, column + dim + behind, column, {39, 0, -1, 17, 5, -1}, 2);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(StoreTest, EmptyAndOnlyPadding) {
  for (const DType dtype : dtypes()) {
    expect_right(Matrix(DType::kF32, 0, 16), dtype, 1, 16, 0, {}, 2);
    expect_right(Matrix(DType::kF32, 3, 16), dtype, 1, 16, 0, {-1, -1, -1}, 2);
  }
}

// Midpoints, saturation, subnormals, NaN: in vectors and in their tails.
TEST_P(StoreTest, RoundingOfE4m3) {
  std::vector<float> numbers = {
      0.0F,    -0.0F,    448.0F,    464.0F,   465.0F, -1e30F,       std::numeric_limits<float>::infinity(),
      0x1p-9F, 0x1p-10F, 0x1.8p-9F, 0x1p-11F, 1e-30F, std::nanf("")};
  for (uint8_t code = 0; code < 0x7e; ++code) {
    const auto middle = static_cast<float>((e4m3_value(code) + e4m3_value(code + 1)) / 2);
    numbers.insert(numbers.end(), {middle, -middle, std::nextafter(middle, 1e9F), std::nextafter(middle, 0.0F)});
    numbers.push_back(static_cast<float>(e4m3_value(code)));
  }
  // The numbers themselves, and times the scale: only a true division brings those back to the midpoints.
  for (const float scale : {1.0F, 0.5F, 0.37F, 0.013F, 3.0F}) {
    for (const float factor : {1.0F, scale}) {
      SCOPED_TRACE(fmt::format("scale {}, numbers times {}", scale, factor));
      Matrix x(DType::kF32, 1, static_cast<int64_t>(numbers.size()));
      for (size_t i = 0; i < numbers.size(); ++i) x.put(0, static_cast<int64_t>(i), numbers[i] * factor);
      expect_right(x, DType::kE4m3, scale, x.columns(), 0, {3}, 1);
    }
  }
}

TEST_P(StoreTest, BatchInvariant) {
  Random random(71);
  for (const DType dtype : dtypes()) {
    for (const int64_t dim : {17, 576}) {
      Matrix x(DType::kF32, 64, dim);
      for (int64_t r = 0; r < 64; ++r) {
        for (int64_t i = 0; i < dim; ++i) x.put(r, i, random.uniform(-4, 4));
      }
      const auto width = static_cast<size_t>(dim * size_bytes(dtype));
      expect_batch_invariant(64, {}, [&](const std::vector<int>& rows, int workers) {
        const Matrix part = x.select(rows);
        const std::vector<int32_t> slots = random.permutation(part.rows());
        std::vector<uint8_t> bytes(rows.size() * width);
        StoreRows call{.x = part.view(), .slots = slots.data(), .rows = part.rows(), .dim = dim};
        call.store = {.data = bytes.data(), .dtype = dtype, .dim = dim, .page_size = 64, .scale = 0.37F};
        table().store_rows(pool_of(workers), call);
        std::vector<std::string> out;
        for (const int32_t slot : slots) {
          out.emplace_back(reinterpret_cast<const char*>(bytes.data()) + static_cast<size_t>(slot) * width, width);
        }
        return out;
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, StoreTest, ::testing::ValuesIn(tables_here()), table_name);

}  // namespace
}  // namespace strobe::kernel
