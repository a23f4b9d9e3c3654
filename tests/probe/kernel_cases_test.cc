// The cases of the kernel benchmark run on every table, and their errors tell right kernels from wrong ones.
#include "probe/kernel_cases.h"

#include <gtest/gtest.h>

#include <set>

namespace strobe::probe {
namespace {

// A model small enough to run every case of.
ModelShapes tiny() {
  return {.name = "tiny",
          .about = "",
          .hidden = 32,
          .inter = 48,
          .vocab = 64,
          .rope_heads = 2,
          .rope_dim = 8,
          .experts = 8,
          .top_k = 2,
          .products = {{"bf16", WeightFormat::kBf16, 24, 32, 2}, {"nvfp4", WeightFormat::kNvfp4, 32, 48, 3, false}},
          .mla = {{2, 32, 8}},
          .gqa = {{4, 2, 16}},
          .prompts = {{3, 24, 16}},
          .rows = {1, 3},
          .contexts = {70},
          .prompt_contexts = {70},
          .attention_rows = {1, 3}};
}

constexpr Ceilings kCeilings{.cache_gb_s = 1, .memory_gb_s = 1, .gflop_s = 1};

double largest_error(const kernel::CpuKernels& table) {
  WorkerPool pool(2);
  kernel::HostKernels kernels(pool, table), reference(pool, kernel::ref_kernels());
  ModelShapes model = tiny();
  double largest = 0;
  for (const KernelCase& one : kernel_cases(model)) {
    // Copies of weights fill memory; a test needs one.
    const KernelResult result = measure_case(one, kernels, reference, kCeilings, 0);
    EXPECT_GT(result.call.best_us, 0) << one.name;
    EXPECT_LE(result.call.best_us, result.call.median_us) << one.name;
    EXPECT_EQ(result.rows, one.rows);
    largest = std::max(largest, result.error);
  }
  return largest;
}

TEST(KernelCases, CoverEveryFamilyUnderDifferentNames) {
  std::set<std::string> names, families;
  for (const KernelCase& one : kernel_cases(tiny())) {
    EXPECT_TRUE(names.insert(one.name + " " + std::to_string(one.rows)).second) << one.name;
    families.insert(one.name.substr(0, one.name.find(' ')));
  }
  EXPECT_EQ(families, (std::set<std::string>{"argmax", "combine", "embed", "gemm", "gqa", "load_rows", "mla", "prompt",
                                             "rms_norm", "rope", "route", "silu_mul", "store_rows"}));
}

TEST(KernelCases, TheReferenceIsWithoutError) {
  EXPECT_EQ(largest_error(kernel::ref_kernels()), 0);
}

TEST(KernelCases, FastKernelsAreCloseToTheReference) {
  const double error = largest_error(kernel::cpu_kernels(best_cpu_isa()));
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 1e-2);
}

TEST(KernelCases, AWrongKernelHasALargeError) {
  kernel::CpuKernels wrong = kernel::ref_kernels();
  wrong.silu_mul = [](WorkerPool& pool, const kernel::SiluMul& c) {
    kernel::SiluMul swapped = c;
    std::swap(swapped.gate, swapped.up);
    kernel::ref_kernels().silu_mul(pool, swapped);
  };
  EXPECT_GT(largest_error(wrong), 0.1);
}

TEST(ModelShapes, AllModelsHaveCases) {
  for (const ModelShapes& model : model_shapes()) {
    EXPECT_GE(kernel_cases(model).size(), 20U) << model.name;
    EXPECT_FALSE(model.about.empty());
  }
}

}  // namespace
}  // namespace strobe::probe
