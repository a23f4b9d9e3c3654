// The CUDA device as Kernels: which kernel takes which call.
#include <algorithm>

#include "base/check.h"
#include "base/failure.h"
#include "kernel/cuda/blocks.h"
#include "kernel/cuda/cublas_lt.h"
#include "kernel/cuda/cuda_memory.h"
#include "kernel/cuda/generic.h"
#include "kernel/cuda/graphs.h"
#include "kernel/cuda/launch.h"
#include "kernel/cuda/marks.h"
#include "kernel/cuda/sm90/dense_gemm.h"
#include "kernel/cuda/sm90/mla_decode.h"
#include "kernel/cuda/sm90/nvfp4_moe.h"
#include "kernel/cuda/sm90/nvfp4_pack.h"
#include "kernel/cuda/sm90/prompt_attention.h"
#include "kernel/cuda_device.h"

namespace strobe::kernel {
namespace cuda {
namespace {

constexpr int64_t kCublasRows = 256;  // from so many on: chunks of prompts
constexpr int kRequiredMajor = 9;     // sm_90a code runs on 9.0 alone

bool fuses_experts(int64_t hidden, int64_t inter) {
  return hidden % 64 == 0 && inter % 64 == 0;
}

void pack_gate_up(const QuantTensor& gate, const QuantTensor& up, void* packed) {
  pack_nvfp4_gate_up(gate, up, 0, 2 * gate.out / 64, static_cast<uint8_t*>(packed));
}

void pack_down(const QuantTensor& down, void* packed) {
  pack_nvfp4(down, 0, down.out / 64, static_cast<uint8_t*>(packed));
}

bool aligned(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

bool aligned_rows(const Rows& rows, size_t bytes) {
  return aligned(rows.data, bytes) && rows.stride * size_bytes(rows.dtype) % static_cast<int64_t>(bytes) == 0;
}

// Whether sm90::mla_decode takes it (mla_decode.h).
bool fits_mla_decode(const MlaAttention& call) {
  return call.latent == sm90::kMlaLatent && call.rope == sm90::kMlaRope && call.store.page_size == sm90::kMlaPage &&
         call.store.dtype == DType::kE4m3 && aligned(call.store.data, 16) && aligned_rows(call.q, 16) &&
         aligned_rows(call.out, 8);
}

// Whether a product goes to sm90::dense_gemm: below this size of its weight the generic kernels are as fast. Never a
// matter of rows: those of one weight must all go the same way.
constexpr int64_t kDenseWeight = int64_t{2} << 20;  // numbers
bool fits_dense(const GemmProblem& problem) {
  return problem.weight.out * problem.weight.in >= kDenseWeight && sm90::takes_dense(problem);
}

class CudaKernels final : public Kernels {
 public:
  CudaKernels(int index, const CudaOptions& options)
      : memory_(index),
        marks_(memory_.stream()),
        graphs_(memory_.stream()),
        options_(options),
        forms_(cuda_weight_forms()) {
    if (!options.cublaslt) return;
    auto library = CublasLt::open();
    if (!library.ok()) fail("cuBLASLt: {}", library.message());
    cublas_ = std::move(*library);
    cublas_buffer_ = memory_.allocate(CublasLt::kWorkspaceBytes);
  }

  [[nodiscard]] Memory& memory() override { return memory_; }
  [[nodiscard]] const WeightForms& forms() const override { return forms_; }

  void reserve(const StepLimits& limits) override {
    limits_ = {.rows = std::max(limits.rows, limits_.rows),
               .requests = std::max(limits.requests, limits_.requests),
               .heads = std::max(limits.heads, limits_.heads)};
    mla_ = sm90::MlaWorkspace(limits_.rows, limits_.requests, limits_.heads);
    memory_.wait();
    mla_buffer_ = {};
    mla_buffer_ = memory_.allocate(mla_.bytes);
    mla_.data = mla_buffer_.data();
  }
  void wait() override { memory_.wait(); }
  [[nodiscard]] bool records() const override { return options_.graphs; }
  void run_recorded(uint64_t key, const std::function<void()>& work) override {
    if (!options_.graphs) return work();
    use_device(memory_.device().index);
    recorded_ = true;
    try {
      graphs_.run(key, work);
    } catch (...) {
      recorded_ = false;
      throw;
    }
    recorded_ = false;
  }
  void mark(int index) override { marks_.note(index); }
  [[nodiscard]] double ms_between(int first, int second) override { return marks_.ms_between(first, second); }

  void forget_recorded() override { graphs_.drop(); }

  void gemm(const Gemm& args) override {
    const auto large = [&](const GemmProblem& problem) {
      return cublas_ != nullptr && !recorded_ && problem.rows >= kCublasRows && CublasLt::takes(problem);
    };
    const auto route_of = [&](const GemmProblem& problem) {
      return large(problem) ? Product::kCublas : fits_dense(problem) ? Product::kDense : Product::kGeneric;
    };
    // Neighbours that go the same way go together.
    for (int64_t first = 0, next = 0; first < args.count; first = next) {
      const Product way = route_of(args.problems[first]);
      while (next < args.count && route_of(args.problems[next]) == way) ++next;
      gemm_by(way, {.problems = args.problems + first, .count = next - first});
    }
  }
  void rms_norm(const RmsNorm& args) override { cuda::rms_norm(args, stream()); }
  void rope(const Rope& args) override { cuda::rope(args, stream()); }
  void silu_mul(const SiluMul& args) override { cuda::silu_mul(args, stream()); }
  void embed(const Embed& args) override { cuda::embed(args, stream()); }
  void copy(const Copy& args) override { cuda::copy(args, stream()); }
  void route(const Route& args) override { cuda::route(args, stream()); }
  void group_by_expert(const GroupByExpert& args) override { cuda::group_by_expert(args, stream()); }
  void combine(const Combine& args) override { cuda::combine(args, stream()); }
  void store_rows(const StoreRows& args) override { cuda::store_rows(args, stream()); }
  void load_rows(const LoadRows& args) override { cuda::load_rows(args, stream()); }
  void argmax(const Argmax& args) override { cuda::argmax(args, stream()); }
  void fill_drafts(const FillDrafts& args) override { cuda::fill_drafts(args, stream()); }
  void accept_greedy(const AcceptGreedy& args) override { cuda::accept_greedy(args, stream()); }
  void draw_tokens(const DrawTokens& args) override { cuda::draw_tokens(args, stream()); }

  void gqa_attention(const GqaAttention& args) override {
    if (sm90::takes_prompt(args)) return sm90::prompt_attention(args, stream());
    cuda::gqa_attention(args, stream());
  }
  void mla_attention(const MlaAttention& args) override {
    if (!fits_mla_decode(args)) return cuda::mla_attention(args, stream());
    STROBE_CHECK(args.rows <= limits_.rows && args.request_count <= limits_.requests && args.heads <= limits_.heads,
                 "{} rows, {} requests, {} heads; reserved for {}, {}, {}", args.rows, args.request_count, args.heads,
                 limits_.rows, limits_.requests, limits_.heads);
    sm90::mla_decode(args, mla_, stream());
  }

  [[nodiscard]] int64_t fused_experts_scratch_bytes(const FusedExperts& args) const override {
    return moe_workspace_bytes(shape_of(args), static_cast<int>(args.rows));
  }
  void fused_experts(const FusedExperts& args) override {
    STROBE_CHECK(args.x.dtype == DType::kBf16, "x is {}", to_string(args.x.dtype));
    const MoeCall call{.shape = shape_of(args),
                       .weights = {.gate_up = static_cast<const uint8_t*>(args.gate_up),
                                   .down = static_cast<const uint8_t*>(args.down),
                                   .gate_scales = args.gate_scales,
                                   .up_scales = args.up_scales,
                                   .down_scales = args.down_scales},
                       .x = static_cast<const Bf16*>(args.x.data),
                       .x_stride = args.x.stride,
                       .ids = args.ids,
                       .id_weights = args.weights,
                       .y = args.y.data,
                       .y_dtype = args.y.dtype,
                       .y_stride = args.y.stride,
                       .accumulate = true,
                       .tokens = static_cast<int>(args.rows),
                       .workspace = static_cast<uint8_t*>(args.scratch)};
    nvfp4_moe(call, choose_moe_tiling(call.shape, call.tokens), stream());
  }

 private:
  enum class Product { kGeneric, kDense, kCublas };
  void gemm_by(Product way, const Gemm& call) {
    if (way == Product::kGeneric) return cuda::gemm(call, stream());
    if (way == Product::kDense) return sm90::dense_gemm(call, stream());
    for (int64_t i = 0; i < call.count; ++i) cublas_->gemm(call.problems[i], cublas_buffer_.data(), stream());
  }
  [[nodiscard]] cudaStream_t stream() const { return memory_.stream(); }
  static MoeShape shape_of(const FusedExperts& args) {
    return {.experts = static_cast<int>(args.experts),
            .hidden = static_cast<int>(args.hidden),
            .inter = static_cast<int>(args.inter),
            .top_k = static_cast<int>(args.top_k)};
  }

  CudaMemory memory_;
  Marks marks_;  // graphs refer to them
  Graphs graphs_;
  CudaOptions options_;
  bool recorded_ = false;  // inside run_recorded
  std::unique_ptr<CublasLt> cublas_;
  Buffer cublas_buffer_;
  WeightForms forms_;
  StepLimits limits_;
  sm90::MlaWorkspace mla_{0, 0, 1};
  Buffer mla_buffer_;
};

}  // namespace
}  // namespace cuda

bool built_with_cuda() {
  return true;
}

Result<CudaDeviceInfo> find_cuda_device(int index) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    cudaGetLastError();
    return error("no CUDA device can be used: {}", cudaGetErrorString(status));
  }
  if (index < 0 || index >= count) return error("CUDA device {}: this machine has {}", index, count);
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  if (properties.major != cuda::kRequiredMajor || properties.minor != 0) {
    return error("CUDA device {} ({}) is of compute capability {}.{}; our kernels run on 9.0 (H100, H200)", index,
                 properties.name, properties.major, properties.minor);
  }
  CudaDeviceInfo info{.name = properties.name, .kernels = "sm90"};
  size_t free = 0, total = 0;
  cuda::use_device(index);
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  info.total_bytes = static_cast<int64_t>(total);
  info.free_bytes = static_cast<int64_t>(free);
  return info;
}

WeightForms cuda_weight_forms() {
  // As checkpoints hold them, but for the experts.
  return {.activation = DType::kBf16,
          .packed_format = ref_kernels().packed_format,
          .pack = ref_kernels().pack,
          .fuses_experts = cuda::fuses_experts,
          .fused_bytes = cuda::nvfp4_packed_bytes,
          .pack_gate_up = cuda::pack_gate_up,
          .pack_down = cuda::pack_down};
}

int64_t cuda_cublaslt_bytes() {
  return cuda::CublasLt::kWorkspaceBytes;
}

Result<void> find_cublaslt() {
  const auto library = cuda::CublasLt::open();
  if (!library.ok()) return library.error();
  return {};
}

int64_t cuda_recorded_bytes(int64_t kernels) {
  return cuda::Graphs::bytes(kernels);
}

int64_t cuda_reserved_bytes(const StepLimits& limits) {
  return cuda::sm90::MlaWorkspace(limits.rows, limits.requests, limits.heads).bytes;
}

std::unique_ptr<Kernels> open_cuda_device(int index, const CudaOptions& options) {
  return std::make_unique<cuda::CudaKernels>(index, options);
}

}  // namespace strobe::kernel
