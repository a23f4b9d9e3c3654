// The command line with which SGLang serves Kimi-K2.6-NVFP4 with its DFlash draft, but for paths and sizes.
#pragma once

#include "tool/options.h"

namespace strobe::tool {

inline void set_kimi_flags(EngineOptions& options) {
  options.trust_remote_code = true;
  options.quantization = "modelopt_fp4";
  options.moe_runner_backend = "flashinfer_trtllm";
  options.fp4_gemm_backend = "flashinfer_cutlass";
  options.attention_backend = "trtllm_mla";
  options.kv_cache_dtype = "fp8_e4m3";
  options.speculative_draft_model_quantization = "unquant";
  options.speculative_num_draft_tokens = 8;
  options.speculative_draft_attention_backend = "fa4";
  options.speculative_draft_window_size = 4096;
}

}  // namespace strobe::tool
