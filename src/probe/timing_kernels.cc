#include "probe/timing_kernels.h"

#include <fmt/format.h>

#include <chrono>

#include <utility>

namespace strobe::probe {
namespace {

// A call of several products goes by the shape of the first.
std::string gemm_name(const kernel::Gemm& args) {
  if (args.count == 0) return "gemm, nothing";
  const QuantTensor& first = args.problems[0].weight;
  return fmt::format("gemm {} {}x{}", to_string(first.format), first.out, first.in);
}

}  // namespace

template <class Name, class Call>
void TimingKernels::timed(const Name& name, const Call& call, bool ends_pass) {
  if (!on_) return call();
  const auto begin = std::chrono::steady_clock::now();
  call();
  inner_->wait();
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  calls_.push_back({name(), taken.count(), ends_pass});
}

void TimingKernels::start() {
  calls_.clear();
  on_ = true;
}

std::vector<KernelCall> TimingKernels::stop() {
  on_ = false;
  return std::exchange(calls_, {});
}

void TimingKernels::run_recorded(uint64_t key, const std::function<void()>& work) {
  on_ ? work() : inner_->run_recorded(key, work);
}

void TimingKernels::gemm(const kernel::Gemm& args) {
  timed([&] { return gemm_name(args); }, [&] { inner_->gemm(args); });
}
void TimingKernels::rms_norm(const kernel::RmsNorm& args) {
  timed([&] { return fmt::format("rms_norm {}x{}", args.groups, args.dim); }, [&] { inner_->rms_norm(args); });
}
void TimingKernels::rope(const kernel::Rope& args) {
  timed([&] { return fmt::format("rope {}x{}", args.heads, args.dim); }, [&] { inner_->rope(args); });
}
void TimingKernels::silu_mul(const kernel::SiluMul& args) {
  timed([&] { return fmt::format("silu_mul {}", args.dim); }, [&] { inner_->silu_mul(args); });
}
void TimingKernels::embed(const kernel::Embed& args) {
  timed([] { return std::string("embed"); }, [&] { inner_->embed(args); });
}
void TimingKernels::copy(const kernel::Copy& args) {
  timed([&] { return fmt::format("copy {}", args.dim); }, [&] { inner_->copy(args); });
}
void TimingKernels::route(const kernel::Route& args) {
  timed([] { return std::string("route"); }, [&] { inner_->route(args); });
}
void TimingKernels::combine(const kernel::Combine& args) {
  timed([] { return std::string("combine"); }, [&] { inner_->combine(args); });
}
void TimingKernels::store_rows(const kernel::StoreRows& args) {
  timed([&] { return fmt::format("store_rows {} {}", to_string(args.store.dtype), args.dim); },
        [&] { inner_->store_rows(args); });
}
void TimingKernels::load_rows(const kernel::LoadRows& args) {
  timed([&] { return fmt::format("load_rows {} {}", to_string(args.store.dtype), args.dim); },
        [&] { inner_->load_rows(args); });
}
void TimingKernels::mla_attention(const kernel::MlaAttention& args) {
  timed([] { return std::string("mla_attention"); }, [&] { inner_->mla_attention(args); });
}
void TimingKernels::gqa_attention(const kernel::GqaAttention& args) {
  timed([] { return std::string("gqa_attention"); }, [&] { inner_->gqa_attention(args); });
}
void TimingKernels::argmax(const kernel::Argmax& args) {
  timed([] { return std::string("argmax"); }, [&] { inner_->argmax(args); }, true);
}
void TimingKernels::fill_drafts(const kernel::FillDrafts& args) {
  timed([] { return std::string("fill_drafts"); }, [&] { inner_->fill_drafts(args); });
}
void TimingKernels::accept_greedy(const kernel::AcceptGreedy& args) {
  timed([] { return std::string("accept_greedy"); }, [&] { inner_->accept_greedy(args); });
}
void TimingKernels::draw_tokens(const kernel::DrawTokens& args) {
  timed([&] { return fmt::format("draw_tokens {}", args.columns); }, [&] { inner_->draw_tokens(args); });
}
void TimingKernels::group_by_expert(const kernel::GroupByExpert& args) {
  timed([&] { return fmt::format("group_by_expert {}", args.experts); }, [&] { inner_->group_by_expert(args); });
}
int64_t TimingKernels::fused_experts_scratch_bytes(const kernel::FusedExperts& args) const {
  return inner_->fused_experts_scratch_bytes(args);
}
void TimingKernels::fused_experts(const kernel::FusedExperts& args) {
  timed([] { return std::string("fused_experts"); }, [&] { inner_->fused_experts(args); });
}

}  // namespace strobe::probe
