// Storing and reading back are exact: every table must write the same bytes, and say the same numbers.
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

// Loads rows of a store with pages dealt at random, of which those that are free hold NaN, and compares all numbers.
class LoadTest : public TableTest {
 protected:
  struct Case {
    DType dtype = DType::kBf16;
    float scale = 1;
    int64_t store_dim = 0, column = 0, dim = 0;
    int32_t page_size = 8;
    int64_t rows = 0, copies = 1;
    int64_t gap = 0;  // between copies
    DType out = DType::kF32;
  };

  void expect_right(const Case& c, int workers) const {
    SCOPED_TRACE(fmt::format("{} rows of {} x {}, columns [{}, +{}) of {}, pages of {}, {} copies", c.rows,
                             to_string(c.dtype), c.scale, c.column, c.dim, c.store_dim, c.page_size, c.copies));
    Random random(72);
    const int64_t used = (c.rows + c.page_size - 1) / c.page_size;
    const std::vector<int32_t> order = random.permutation(used + 2);
    const std::vector<int32_t> pages(order.begin(), order.begin() + used);
    const int64_t width = size_bytes(c.dtype);
    std::vector<uint8_t> bytes(static_cast<size_t>((used + 2) * c.page_size * c.store_dim * width), 0xff);
    std::vector<float> expected;
    for (int64_t p = 0; p < c.rows; ++p) {
      const int64_t slot = int64_t{pages[static_cast<size_t>(p / c.page_size)]} * c.page_size + p % c.page_size;
      std::vector<float> row;
      for (int64_t i = 0; i < c.dim; ++i) {
        uint8_t* place = bytes.data() + (slot * c.store_dim + c.column + i) * width;
        row.push_back(put(c, place, random.uniform(-4, 4), static_cast<uint8_t>(random.below(256))));
      }
      for (int64_t copy = 0; copy < c.copies; ++copy) {
        expected.insert(expected.end(), row.begin(), row.end());
        if (copy + 1 < c.copies) expected.insert(expected.end(), static_cast<size_t>(c.gap), 77);
      }
    }
    Matrix y(c.out, c.rows, c.copies * (c.dim + c.gap) - c.gap, 3);
    for (int64_t r = 0; r < y.rows(); ++r) y.fill_row(r, 77);
    LoadRows call{.pages = pages.data(), .column = c.column, .y = y.view(), .copy_stride = c.dim + c.gap};
    call.copies = c.copies;
    call.rows = c.rows;
    call.dim = c.dim;
    call.store = {
        .data = bytes.data(), .dtype = c.dtype, .dim = c.store_dim, .page_size = c.page_size, .scale = c.scale};
    table().load_rows(pool_of(workers), call);
    EXPECT_TRUE(y.gaps_intact());
    const std::vector<float> actual = y.values();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_TRUE(actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i])))
          << "number " << i << ": " << actual[i] << ", expected " << expected[i];
    }
  }

 private:
  // Writes a number or a code; what comes back of it.
  static float put(const Case& c, uint8_t* place, float value, uint8_t code) {
    float stored = value;
    if (c.dtype == DType::kE4m3) {
      *place = code;
      stored = (code & 0x7f) == 0x7f ? std::nanf("") : static_cast<float>(e4m3_value(code)) * c.scale;
    } else if (c.dtype == DType::kBf16) {
      stored = round_to_bf16(value);
      const uint16_t half = nearest_bf16(value);
      std::memcpy(place, &half, 2);
    } else {
      std::memcpy(place, &value, 4);
    }
    return c.out == DType::kBf16 ? round_to_bf16(stored) : stored;
  }
};

TEST_P(LoadTest, ShapesColumnsAndPages) {
  for (const DType dtype : store_types(table())) {
    for (const DType out : {DType::kF32, DType::kBf16}) {
      for (const int64_t dim : {1, 15, 16, 17, 64, 512}) {
        for (const int64_t column : {0, 3, 64}) {
          for (const int32_t page_size : {1, 8, 64}) {
            Case c{.dtype = dtype, .store_dim = column + dim + column % 2, .column = column, .dim = dim};
            c.scale = dtype == DType::kE4m3 ? 0.37F : 1.0F;
            c.page_size = page_size;
            c.rows = page_size == 64 ? 130 : 9;
            c.out = out;
            expect_right(c, 2);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(LoadTest, RowCountsAndCopies) {
  for (const DType dtype : store_types(table())) {
    for (const int64_t rows : {0, 1, 7, 8, 9, 16, 300}) {
      for (const int64_t copies : {1, 2, 8}) {
        for (const int64_t gap : {0, 5, 64}) {
          expect_right({.dtype = dtype,
                        .scale = dtype == DType::kE4m3 ? 8.0F : 1.0F,
                        .store_dim = 96,
                        .column = 32,
                        .dim = 64,
                        .rows = rows,
                        .copies = copies,
                        .gap = gap,
                        .out = DType::kBf16},
                       3);
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, LoadTest, ::testing::ValuesIn(tables_here()), table_name);
INSTANTIATE_TEST_SUITE_P(Tables, StoreTest, ::testing::ValuesIn(tables_here()), table_name);

}  // namespace
}  // namespace strobe::kernel
