// C functions around our CUDA kernels (bench_mla.py calls them through ctypes). All pointers are of device memory but
// the struct itself; nothing waits for the device. A failure ends the process with its message: it is a benchmark.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "kernel/cuda/sm90/mla_decode.h"

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
  try {
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
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "strobe_mla_decode: %s\n", failure.what());
    std::abort();
  }
}
}
