// What the command line can say, as one visited list of fields: parsing, help, /server_info and docs all come from it.
// Flags have SGLang's names where SGLang has the flag.
#pragma once

#include <cstdint>
#include <string>

namespace strobe::tool {

// The model, how it runs, and how it speculates: shared by serve, generate, eval, bench and inspect.
struct EngineOptions {
  std::string model_path;
  std::string tokenizer_path;
  int64_t context_length = 0;
  std::string quantization = "auto";
  std::string kv_cache_dtype = "auto";
  std::string device = "auto";
  int32_t base_gpu_id = 0;
  bool disable_cuda_graph = false;
  bool enable_cublaslt_prefill = false;
  bool enable_expanded_mla_prefill = false;
  std::string cpu_isa = "auto";
  int32_t threads = 0;
  int32_t tp = 1;
  bool trust_remote_code = false;

  std::string attention_backend = "auto";
  std::string prefill_attention_backend;
  std::string decode_attention_backend;
  std::string speculative_attention_mode = "prefill";
  std::string moe_runner_backend = "auto";
  std::string fp4_gemm_backend = "auto";
  bool strict_backends = false;

  double mem_fraction_static = 0.85;
  int32_t page_size = 64;
  int64_t max_total_tokens = 0;
  int32_t max_running_requests = 0;
  int32_t max_queued_requests = 1024;
  int32_t chunked_prefill_size = 512;
  bool disable_radix_cache = false;

  std::string speculative_algorithm;
  std::string speculative_draft_model_path;
  std::string speculative_draft_model_quantization = "unquant";
  int32_t speculative_num_draft_tokens = 0;
  int32_t speculative_dflash_block_size = 0;
  int32_t speculative_num_steps = 1;
  int32_t speculative_eagle_topk = 1;
  int32_t speculative_draft_window_size = 0;
  std::string speculative_draft_attention_backend = "auto";
  std::string speculative_draft_kv_cache_dtype = "auto";
  double speculative_draft_rope_amplitude = 0;
  std::string speculative_min_accept_length = "auto";

  std::string log_level = "info";

  // The folder of tokenizer and chat template.
  [[nodiscard]] const std::string& tokenizer_folder() const {
    return tokenizer_path.empty() ? model_path : tokenizer_path;
  }

  // visitor(flag names, field, help)
  template <class Visitor>
  void visit(Visitor&& v) {
    v("--model-path,--model", model_path, "folder of the target: config.json, *.safetensors, tokenizer files");
    v("--tokenizer-path", tokenizer_path, "folder of the tokenizer; default: the model's");
    v("--context-length", context_length, "longest prompt and answer in tokens; 0: what the model's config allows");
    v("--quantization", quantization, "auto | modelopt_fp4 | unquant: what the weights must be");
    v("--kv-cache-dtype", kv_cache_dtype,
      "auto | bf16 | fp8_e4m3; auto: fp8_e4m3 when the checkpoint says so, else bf16");
    v("--device", device, "auto | cpu | cuda; auto: the GPU of --base-gpu-id if there is one we run on, else the CPU");
    v("--base-gpu-id", base_gpu_id, "the GPU that is used, from 0");
    v("--disable-cuda-graph", disable_cuda_graph, "launch a step's kernels one by one instead of as one CUDA graph");
    v("--enable-cublaslt-prefill", enable_cublaslt_prefill,
      "on a GPU: matrix products of 256 rows and more, outside of recorded decode steps, through cuBLASLt; faster "
      "prompts, "
      "but a text may then depend on how prompts are cut and what else runs, and DFlash's may differ from plain "
      "decoding's");
    v("--enable-expanded-mla-prefill", enable_expanded_mla_prefill,
      "latent attention (MLA) of long prompt chunks over keys and values made for each head: fewer operations, so "
      "faster prompts, but a text may then depend on how prompts are cut and what else runs, and DFlash's may differ "
      "from plain decoding's");
    v("--cpu-isa", cpu_isa,
      "auto | ref | portable | avx2 | avx512 | avx512_vnni | avx512_fp16 | amx: a lower one than the machine's best "
      "can be forced");
    v("--threads", threads, "worker threads; 0: one a processor");
    v("--tp-size,--tensor-parallel-size,--tp", tp, "tensor parallel ranks");
    v("--trust-remote-code", trust_remote_code, "accepted for SGLang's sake; no code of a checkpoint is ever run");
    v("--attention-backend", attention_backend, "the target's attention, by SGLang's names; what runs is printed");
    v("--prefill-attention-backend", prefill_attention_backend, "the same for prefill only");
    v("--decode-attention-backend", decode_attention_backend, "the same for decode only");
    v("--speculative-attention-mode", speculative_attention_mode, "prefill | decode: which of the two does verify");
    v("--moe-runner-backend", moe_runner_backend, "experts, by SGLang's names; what runs is printed");
    v("--fp4-gemm-backend", fp4_gemm_backend, "NVFP4 products, by SGLang's names; what runs is printed");
    v("--strict-backends", strict_backends, "refuse a backend name that Strobe would serve with a kernel of its own");
    v("--mem-fraction-static", mem_fraction_static, "share of the memory that weights and caches may take");
    v("--page-size", page_size, "tokens a page of the KV caches");
    v("--max-total-tokens", max_total_tokens, "tokens that the KV caches hold; 0: from --mem-fraction-static");
    v("--max-running-requests", max_running_requests, "requests that decode together; 0: 48 with DFlash, else 64");
    v("--max-queued-requests", max_queued_requests, "requests that may wait");
    v("--chunked-prefill-size", chunked_prefill_size, "prompt tokens read in one step");
    v("--disable-radix-cache", disable_radix_cache, "compute every prompt anew, also where its beginning is known");
    v("--speculative-algorithm", speculative_algorithm, "DFLASH, or nothing for plain decoding");
    v("--speculative-draft-model-path,--speculative-draft-model", speculative_draft_model_path,
      "folder of the DFlash draft");
    v("--speculative-draft-model-quantization", speculative_draft_model_quantization, "unquant: the draft is bf16");
    v("--speculative-num-draft-tokens", speculative_num_draft_tokens,
      "tokens a verify step, the last emitted one included; 0: the draft's block size");
    v("--speculative-dflash-block-size", speculative_dflash_block_size, "the same by another name; both must agree");
    v("--speculative-num-steps", speculative_num_steps, "for SGLang's sake: DFLASH drafts a block in 1 step");
    v("--speculative-eagle-topk", speculative_eagle_topk, "for SGLang's sake: DFLASH drafts 1 chain, no tree");
    v("--speculative-draft-window-size,--speculative-dflash-draft-window-size", speculative_draft_window_size,
      "context tokens that the draft attends to; 0: all");
    v("--speculative-draft-attention-backend", speculative_draft_attention_backend,
      "the draft's attention, by SGLang's names (flashinfer, fa3, fa4, triton)");
    v("--speculative-draft-kv-cache-dtype", speculative_draft_kv_cache_dtype, "auto | bf16 | fp8_e4m3");
    v("--speculative-draft-rope-amplitude", speculative_draft_rope_amplitude,
      "replaces the YaRN amplitude of the draft's cos and sin; 0: by the Hugging Face rule");
    v("--speculative-min-accept-length", speculative_min_accept_length,
      "auto | 1 to 32 | 0: a text whose drafted steps give fewer tokens is decoded without a draft, but for a try now "
      "and then; auto: as many as pay for such a step, measured at start for one request and for several together; 0: "
      "every step has a draft");
    v("--log-level", log_level, "debug | info | warning | error");
  }
};

}  // namespace strobe::tool
