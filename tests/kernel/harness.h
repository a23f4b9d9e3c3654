// What the kernel tests share: the tables to test, hostile operands, the comparer, batch invariance.
//
// Two oracles, independent of each other:
// - each family's test holds the formula in double, written from kernel/args.h; the reference table must agree with it;
// - every other table must agree with the reference table.
// Operands are bf16 numbers (also where they are stored as f32), so that all tables see the same inputs and only the
// order of sums and the rounding of intermediates differ. Rows are never aligned, gaps between them hold NaN, and
// arrays end where the contract says, so that AddressSanitizer sees a read beyond.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "kernel/cpu_kernels.h"

namespace strobe::kernel {

// The tables that the program tests. Of the CPU: the reference and every one that this machine can run (tables.cc). The
// program of the CUDA kernels has one that carries operands to the device and results back (cuda/device_table.cc).
std::vector<const CpuKernels*> tables_here();

// A pool of 1 to 3 workers, shared by all tests of the program.
WorkerPool& pool_of(int workers);

class TableTest : public ::testing::TestWithParam<const CpuKernels*> {
 protected:
  [[nodiscard]] const CpuKernels& table() const { return *GetParam(); }
  [[nodiscard]] bool is_ref() const { return &table() == &ref_kernels(); }
};

// How GoogleTest shows a table.
void PrintTo(const CpuKernels* table, std::ostream* out);  // NOLINT: GoogleTest's name
std::string table_name(const ::testing::TestParamInfo<const CpuKernels*>& info);

// Repeatable numbers.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  float uniform(float low, float high);
  // Normally distributed, rounded to bf16.
  float normal(float deviation = 1);
  int64_t below(int64_t count);
  std::vector<int32_t> permutation(int64_t count);

 private:
  std::mt19937_64 engine_;
};

float round_to_bf16(float value);

// A matrix of f32 or bf16 whose rows are `columns + gap` elements apart. Starts as NaN everywhere.
class Matrix {
 public:
  Matrix(DType dtype, int64_t rows, int64_t columns, int64_t gap = 0);

  [[nodiscard]] Rows view() const;
  [[nodiscard]] float* f32() const;
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t columns() const { return columns_; }
  [[nodiscard]] int64_t stride() const { return columns_ + gap_; }
  [[nodiscard]] float at(int64_t row, int64_t column) const;
  void put(int64_t row, int64_t column, float value);
  Matrix& fill(Random& random, float deviation = 1);
  void fill_row(int64_t row, float value);
  // What the gaps hold (NaN at first).
  void fill_gaps(float value);

  // A copy of some rows, in this order.
  [[nodiscard]] Matrix select(const std::vector<int>& rows) const;
  [[nodiscard]] std::vector<float> values() const;
  [[nodiscard]] std::string row_bytes(int64_t row) const;
  [[nodiscard]] std::vector<std::string> all_row_bytes() const;
  // Whether nobody wrote between the rows.
  [[nodiscard]] bool gaps_intact() const;

 private:
  [[nodiscard]] std::byte* element(int64_t index) const;

  DType dtype_;
  int64_t rows_;
  int64_t columns_;
  int64_t gap_;
  float gap_value_;
  std::vector<std::byte> bytes_;  // exactly as long as needed
};

// A row-major weight as a checkpoint would hold it.
class Weight {
 public:
  Weight(WeightFormat format, int64_t out, int64_t in, Random& random);

  [[nodiscard]] QuantTensor tensor() const;
  // The value by the format's definition, decoded here.
  [[nodiscard]] double at(int64_t row, int64_t column) const;

  std::vector<uint8_t> data;
  std::vector<uint8_t> scales;  // NVFP4
  float global_scale = 1;

 private:
  WeightFormat format_;
  int64_t out_;
  int64_t in_;
};

// A weight in a table's own format, in memory of exactly weight_bytes.
class Packed {
 public:
  Packed(const CpuKernels& table, const QuantTensor& weight);
  [[nodiscard]] const QuantTensor& tensor() const { return tensor_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte, Free> bytes_;
  QuantTensor tensor_;
};

// The value of an e4m3 code, from the format's definition.
double e4m3_value(uint8_t code);

// What an oracle says of each number: its value and how large the terms of its sum are together. Rounding errors are
// measured against `magnitude`; it is never below |value|.
struct Oracle {
  std::vector<double> value;
  std::vector<double> magnitude;
  void add(double v, double m) {
    value.push_back(v);
    magnitude.push_back(m);
  }
};

// Every number within `relative` * magnitude of the oracle, and half a unit of the output's type. NaN matches only NaN,
// an infinity only itself.
::testing::AssertionResult close(const std::vector<float>& actual, const Oracle& oracle, double relative,
                                 DType output = DType::kF32);

// The oracle of the other tables: what the reference computed (as f32), with the magnitudes of the formula.
Oracle with_values(Oracle oracle, const std::vector<float>& reference);

// How far from the oracle a table may be, by family, in `relative` of close().
struct Tolerance {
  // Sums of exact products. ref: in double, rounded once, an NVFP4 weight once more. Others: f32 in any order; the
  // worst case grows with the number of terms (2^-24 each), rounding errors do not conspire.
  double sum = 0;
  // The same with NVFP4 weights: where integers are multiplied, x has 15 bits, of which the largest number of its group
  // uses all.
  double nvfp4_sum = 0;
  // Attention. ref: f32 scores and exponentials. Others: probabilities may be rounded to bf16 (2^-8 at worst).
  double attention = 0;
  // Functions of one number, norms.
  double function = 0;
};
Tolerance tolerance_of(const CpuKernels& table);

// The types of paged stores that a table takes.
std::vector<DType> store_types(const CpuKernels& table);

// Batch invariance of a family whose rows are independent. `run` computes the given rows of some fixed inputs in one
// call, in this order, and returns each one's bytes. Rows alone must equal the same rows among any others. Rows in
// `poisoned` (NaN, infinities) take part as neighbours and are not compared.
using RunRows = std::function<std::vector<std::string>(const std::vector<int>& rows, int workers)>;
void expect_batch_invariant(int row_count, const std::vector<int>& poisoned, const RunRows& run);

}  // namespace strobe::kernel
