// Kernels: the kernels of one device behind one interface, and the memory they work in. Arguments: args.h; all their
// pointers are to that memory, but for lists that args.h keeps on the host.
//
// On a device, calls queue work and return; results come with Memory::download, and an error of a kernel with a later
// call, as a Failure.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>

#include "kernel/args.h"
#include "kernel/cpu_kernels.h"
#include "kernel/ref/families.h"
#include "tensor/memory.h"

namespace strobe::kernel {

// In which form a device wants weights. Packing runs on the host.
struct WeightForms {
  DType activation = DType::kBf16;
  WeightFormat (*packed_format)(WeightFormat format) = nullptr;
  QuantTensor (*pack)(const QuantTensor& weight, void* packed) = nullptr;

  // The routed experts of a layer, when they are NVFP4 and [inter, hidden] fits, as two pieces (args.h, FusedExperts)
  // instead of three matrices each; nullptr: never.
  bool (*fuses_experts)(int64_t hidden, int64_t inter) = nullptr;
  int64_t (*fused_bytes)(int64_t out, int64_t in) = nullptr;
  void (*pack_gate_up)(const QuantTensor& gate, const QuantTensor& up, void* packed) = nullptr;
  void (*pack_down)(const QuantTensor& down, void* packed) = nullptr;
};

[[nodiscard]] WeightForms weight_forms(const CpuKernels& table);

// The largest step that will be asked for: kernels with memory of their own take it once.
struct StepLimits {
  int64_t rows = 0;
  int64_t requests = 0;
  int64_t heads = 0;
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  [[nodiscard]] virtual Memory& memory() = 0;
  [[nodiscard]] virtual const WeightForms& forms() const = 0;
  [[nodiscard]] DType activation() const { return forms().activation; }
  [[nodiscard]] Device device() { return memory().device(); }

  virtual void reserve(const StepLimits&) {}
  // Waits until all that was queued is done.
  virtual void wait() {}
  // A number that no one else gets: whoever records mixes it into its keys.
  [[nodiscard]] uint64_t new_recorder() { return ++recorders_; }
  // Whether run_recorded records.
  [[nodiscard]] virtual bool records() const { return false; }
  // Runs `work`, which only calls kernels: always the same ones with the same arguments for the same key. A device that
  // records does so at the second call of a key (the first lets kernels and workspaces settle) and replays from then
  // on.
  virtual void run_recorded(uint64_t /*key*/, const std::function<void()>& work) { work(); }
  // Drops all recordings. For whoever moves memory that his recordings use: none of them comes again.
  virtual void forget_recorded() {}

  // Moments by the device's own clock, numbered from 0: mark notes when all that was queued before it is done; in
  // recorded work each replay notes it anew. Marks in recorded work keep kernels of it from overlapping.
  static constexpr int kMarks = 8;
  virtual void mark(int index) = 0;
  // From one noted moment to a later one; waits for it.
  [[nodiscard]] virtual double ms_between(int first, int second) = 0;

  virtual void gemm(const Gemm&) = 0;
  virtual void rms_norm(const RmsNorm&) = 0;
  virtual void rope(const Rope&) = 0;
  virtual void silu_mul(const SiluMul&) = 0;
  virtual void embed(const Embed&) = 0;
  virtual void copy(const Copy&) = 0;
  virtual void route(const Route&) = 0;
  virtual void group_by_expert(const GroupByExpert&) = 0;
  virtual void combine(const Combine&) = 0;
  virtual void store_rows(const StoreRows&) = 0;
  virtual void load_rows(const LoadRows&) = 0;
  virtual void mla_attention(const MlaAttention&) = 0;
  virtual void gqa_attention(const GqaAttention&) = 0;
  virtual void argmax(const Argmax&) = 0;
  virtual void fill_drafts(const FillDrafts&) = 0;
  virtual void accept_greedy(const AcceptGreedy&) = 0;
  virtual void draw_tokens(const DrawTokens&) = 0;
  // Only where forms().fuses_experts.
  [[nodiscard]] virtual int64_t fused_experts_scratch_bytes(const FusedExperts&) const { return 0; }
  virtual void fused_experts(const FusedExperts&) {}

 private:
  uint64_t recorders_ = 0;
};

// A CPU table over a worker pool; borrows both.
class HostKernels final : public Kernels {
 public:
  HostKernels(WorkerPool& pool, const CpuKernels& table) : pool_(pool), table_(table), forms_(weight_forms(table)) {}

  [[nodiscard]] Memory& memory() override { return host_memory(); }
  [[nodiscard]] const WeightForms& forms() const override { return forms_; }

  void mark(int index) override { marks_.at(static_cast<size_t>(index)) = Clock::now(); }
  [[nodiscard]] double ms_between(int first, int second) override {
    const auto at = [&](int index) { return marks_.at(static_cast<size_t>(index)); };
    return std::chrono::duration<double, std::milli>(at(second) - at(first)).count();
  }

  void gemm(const Gemm& args) override { table_.gemm(pool_, args); }
  void rms_norm(const RmsNorm& args) override { table_.rms_norm(pool_, args); }
  void rope(const Rope& args) override { table_.rope(pool_, args); }
  void silu_mul(const SiluMul& args) override { table_.silu_mul(pool_, args); }
  void embed(const Embed& args) override { table_.embed(pool_, args); }
  void copy(const Copy& args) override { table_.copy(pool_, args); }
  void route(const Route& args) override { table_.route(pool_, args); }
  void group_by_expert(const GroupByExpert& args) override { ref::group_by_expert(args); }
  void combine(const Combine& args) override { table_.combine(pool_, args); }
  void store_rows(const StoreRows& args) override { table_.store_rows(pool_, args); }
  void load_rows(const LoadRows& args) override { table_.load_rows(pool_, args); }
  void mla_attention(const MlaAttention& args) override { table_.mla_attention(pool_, args); }
  void gqa_attention(const GqaAttention& args) override { table_.gqa_attention(pool_, args); }
  void argmax(const Argmax& args) override { table_.argmax(pool_, args); }
  void fill_drafts(const FillDrafts& args) override { ref::fill_drafts(args); }
  void accept_greedy(const AcceptGreedy& args) override { ref::accept_greedy(args); }
  void draw_tokens(const DrawTokens& args) override { ref::draw_tokens(pool_, args); }

 private:
  WorkerPool& pool_;
  const CpuKernels& table_;
  WeightForms forms_;
  using Clock = std::chrono::steady_clock;
  std::array<Clock::time_point, kMarks> marks_;
};

}  // namespace strobe::kernel
