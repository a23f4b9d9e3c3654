// A table that times another: every call is passed on, waited for and noted. So a whole system, built on it, tells
// where its steps spend their time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernel/kernels.h"

namespace strobe::probe {

struct KernelCall {
  std::string name;  // family and shape: "gemm bf16 256x512"
  double us = 0;
  bool ends_pass = false;  // a choice of tokens: the last call of a pass of draft or target
};

class TimingKernels final : public kernel::Kernels {
 public:
  explicit TimingKernels(std::unique_ptr<kernel::Kernels> inner) : inner_(std::move(inner)) {}

  // Off (as it begins), calls are only passed on.
  void start();
  // The calls since start(), in order.
  std::vector<KernelCall> stop();

  [[nodiscard]] Memory& memory() override { return inner_->memory(); }
  [[nodiscard]] const kernel::WeightForms& forms() const override { return inner_->forms(); }
  void reserve(const kernel::StepLimits& limits) override { inner_->reserve(limits); }
  void wait() override { inner_->wait(); }
  // What is recorded as one launch cannot be timed call by call: while it is on, nothing is.
  [[nodiscard]] bool records() const override { return inner_->records(); }
  void run_recorded(uint64_t key, const std::function<void()>& work) override;
  void forget_recorded() override { inner_->forget_recorded(); }
  void mark(int index) override { inner_->mark(index); }
  [[nodiscard]] double ms_between(int first, int second) override { return inner_->ms_between(first, second); }

  void gemm(const kernel::Gemm& args) override;
  void rms_norm(const kernel::RmsNorm& args) override;
  void rope(const kernel::Rope& args) override;
  void silu_mul(const kernel::SiluMul& args) override;
  void embed(const kernel::Embed& args) override;
  void copy(const kernel::Copy& args) override;
  void route(const kernel::Route& args) override;
  void combine(const kernel::Combine& args) override;
  void store_rows(const kernel::StoreRows& args) override;
  void load_rows(const kernel::LoadRows& args) override;
  void mla_attention(const kernel::MlaAttention& args) override;
  void gqa_attention(const kernel::GqaAttention& args) override;
  void argmax(const kernel::Argmax& args) override;
  void fill_drafts(const kernel::FillDrafts& args) override;
  void accept_greedy(const kernel::AcceptGreedy& args) override;
  void draw_tokens(const kernel::DrawTokens& args) override;
  void group_by_expert(const kernel::GroupByExpert& args) override;
  [[nodiscard]] int64_t fused_experts_scratch_bytes(const kernel::FusedExperts& args) const override;
  void fused_experts(const kernel::FusedExperts& args) override;

 private:
  template <class Name, class Call>
  void timed(const Name& name, const Call& call, bool ends_pass = false);

  std::unique_ptr<kernel::Kernels> inner_;
  bool on_ = false;
  std::vector<KernelCall> calls_;
};

}  // namespace strobe::probe
