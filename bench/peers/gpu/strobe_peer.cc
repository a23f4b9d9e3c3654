// C functions around our CUDA kernels (the scripts beside it call them through ctypes). All pointers in a call's struct
// are of device memory; packing is on the host; nothing waits for the device. A failure ends the process with its
// message: it is a benchmark.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "kernel/cuda/sm90/mla_decode.h"
#include "kernel/cuda/sm90/nvfp4_moe.h"
#include "kernel/cuda/sm90/nvfp4_pack.h"
#include "kernel/cuda/sm90/prompt_attention.h"

namespace {

template <class Work>
void or_abort(const char* name, const Work& work) {
  try {
    work();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s: %s\n", name, failure.what());
    std::abort();
  }
}

strobe::QuantTensor nvfp4(const void* codes, const void* scales, int64_t out, int64_t in) {
  return {.format = strobe::WeightFormat::kNvfp4, .out = out, .in = in, .data = codes, .scales = scales};
}

}  // namespace

extern "C" {

// MLA over fp8 pages: 512 + 64 numbers a row, 64 rows a page.
struct StrobeMla {
  const void* q;         // [rows, heads, 576] bf16
  void* pages;           // [pages, 64, 576] e4m3
  const void* requests;  // [request_count] kernel::AttentionRequest
  void* out;             // [rows, heads, 512] bf16
  void* workspace;       // strobe_mla_workspace_bytes, zero before the first call
  int64_t rows;
  int64_t request_count;
  int64_t heads;
  float scale;
};

__attribute__((visibility("default"))) int64_t strobe_request_bytes() {
  return sizeof(strobe::kernel::AttentionRequest);
}

__attribute__((visibility("default"))) int64_t strobe_mla_workspace_bytes(int64_t rows, int64_t requests,
                                                                          int64_t heads) {
  return strobe::kernel::cuda::sm90::MlaWorkspace(rows, requests, heads).bytes;
}

__attribute__((visibility("default"))) void strobe_mla_decode(const StrobeMla* call, void* stream) {
  using namespace strobe;
  using namespace strobe::kernel::cuda::sm90;
  constexpr int64_t kDim = kMlaLatent + kMlaRope;
  or_abort("strobe_mla_decode", [&] {
    MlaWorkspace workspace(call->rows, call->request_count, call->heads);
    workspace.data = call->workspace;
    mla_decode({.q = {.data = const_cast<void*>(call->q), .dtype = DType::kBf16, .stride = call->heads * kDim},
                .store = {.data = call->pages, .dtype = DType::kE4m3, .dim = kDim, .page_size = kMlaPage, .scale = 1},
                .requests = static_cast<const kernel::AttentionRequest*>(call->requests),
                .request_count = call->request_count,
                .out = {.data = call->out, .dtype = DType::kBf16, .stride = call->heads * kMlaLatent},
                .rows = call->rows,
                .heads = call->heads,
                .latent = kMlaLatent,
                .rope = kMlaRope,
                .scale = call->scale},
               workspace, static_cast<cudaStream_t>(stream));
  });
}

// The last `rows` rows of a prompt of `context` positions, every head with keys and values of its own.
struct StrobePrompt {
  const void* q;         // [rows, heads, key_dim] bf16
  void* k;               // [context, heads, key_dim] bf16
  void* v;               // [context, heads, value_dim] bf16
  const void* requests;  // one kernel::AttentionRequest
  void* out;             // [rows, heads, value_dim] bf16
  int64_t rows, context, heads, key_dim, value_dim;
  float scale;
};

__attribute__((visibility("default"))) void strobe_prompt_attention(const StrobePrompt* call, void* stream) {
  using namespace strobe;
  or_abort("strobe_prompt_attention", [&] {
    const auto store = [&](void* data, int64_t dim) {
      return kernel::PagedStore{.data = data,
                                .dtype = DType::kBf16,
                                .dim = call->heads * dim,
                                .page_size = static_cast<int32_t>(call->context)};
    };
    kernel::cuda::sm90::prompt_attention(
        {.q = {.data = const_cast<void*>(call->q), .dtype = DType::kBf16, .stride = call->heads * call->key_dim},
         .k = store(call->k, call->key_dim),
         .v = store(call->v, call->value_dim),
         .requests = static_cast<const kernel::AttentionRequest*>(call->requests),
         .request_count = 1,
         .out = {.data = call->out, .dtype = DType::kBf16, .stride = call->heads * call->value_dim},
         .rows = call->rows,
         .heads = call->heads,
         .kv_heads = call->heads,
         .head_dim = call->key_dim,
         .value_dim = call->value_dim,
         .scale = call->scale,
         .prompt = true},
        static_cast<cudaStream_t>(stream));
  });
}

// The routed experts of a layer with NVFP4 weights.
struct StrobeMoe {
  const void* gate_up;       // [experts] of strobe_nvfp4_bytes(2 inter, hidden)
  const void* down;          // [experts] of strobe_nvfp4_bytes(hidden, inter)
  const float* gate_scales;  // [experts], of up as well
  const float* down_scales;  // [experts]
  const void* x;             // [tokens, hidden] bf16
  const int32_t* ids;        // [tokens, top_k]
  const float* id_weights;   // [tokens, top_k]
  void* y;                   // [tokens, hidden] bf16
  void* workspace;           // strobe_moe_workspace_bytes
  int32_t experts, hidden, inter, top_k, tokens;
};

__attribute__((visibility("default"))) int64_t strobe_nvfp4_bytes(int64_t out, int64_t in) {
  return strobe::kernel::cuda::nvfp4_packed_bytes(out, in);
}

__attribute__((visibility("default"))) void strobe_nvfp4_pack(const void* codes, const void* scales, int64_t out,
                                                              int64_t in, void* to) {
  strobe::kernel::cuda::pack_nvfp4(nvfp4(codes, scales, out, in), 0, out / 64, static_cast<uint8_t*>(to));
}

// Of gate and up together: each [inter, hidden], gate's rows first.
__attribute__((visibility("default"))) void strobe_nvfp4_pack_gate_up(const uint8_t* codes, const uint8_t* scales,
                                                                      int64_t inter, int64_t hidden, void* to) {
  const int64_t numbers = inter * hidden;
  strobe::kernel::cuda::pack_nvfp4_gate_up(nvfp4(codes, scales, inter, hidden),
                                           nvfp4(codes + numbers / 2, scales + numbers / 16, inter, hidden), 0,
                                           inter / 32, static_cast<uint8_t*>(to));
}

__attribute__((visibility("default"))) int64_t strobe_moe_workspace_bytes(const StrobeMoe* call) {
  return strobe::kernel::cuda::moe_workspace_bytes(
      {.experts = call->experts, .hidden = call->hidden, .inter = call->inter, .top_k = call->top_k}, call->tokens);
}

__attribute__((visibility("default"))) void strobe_moe(const StrobeMoe* call, void* stream) {
  using namespace strobe;
  using namespace strobe::kernel::cuda;
  or_abort("strobe_moe", [&] {
    const MoeShape shape{.experts = call->experts, .hidden = call->hidden, .inter = call->inter, .top_k = call->top_k};
    nvfp4_moe({.shape = shape,
               .weights = {.gate_up = static_cast<const uint8_t*>(call->gate_up),
                           .down = static_cast<const uint8_t*>(call->down),
                           .gate_scales = call->gate_scales,
                           .up_scales = call->gate_scales,
                           .down_scales = call->down_scales},
               .x = static_cast<const Bf16*>(call->x),
               .x_stride = call->hidden,
               .ids = call->ids,
               .id_weights = call->id_weights,
               .y = call->y,
               .y_stride = call->hidden,
               .tokens = call->tokens,
               .workspace = static_cast<uint8_t*>(call->workspace)},
              choose_moe_tiling(shape, call->tokens), static_cast<cudaStream_t>(stream));
  });
}
}
