#include "tool/check_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/cpu_features.h"

namespace strobe::tool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

EngineOptions dflash_options() {
  EngineOptions o;
  o.model_path = "target";
  o.speculative_algorithm = "DFLASH";
  o.speculative_draft_model_path = "draft";
  return o;
}

struct Fault {
  const char* flag;
  std::function<void(EngineOptions&)> commit;
  const char* value;  // as the message shows it
};

TEST(CheckOptions, TakesEveryInstructionSetOfTheMachine) {
  EngineOptions options = dflash_options();
  for (const char* name : {"auto", "ref"}) {
    options.cpu_isa = name;
    EXPECT_TRUE(check_options(options).ok()) << name;
  }
  for (const CpuIsa isa : kCpuIsas) {
    options.cpu_isa = to_string(isa);
    const auto checked = check_options(options);
    EXPECT_EQ(checked.ok(), isa <= best_cpu_isa()) << to_string(isa);
    if (checked.ok()) continue;
    EXPECT_THAT(checked.error().message, HasSubstr(std::string(to_string(best_cpu_isa()))));
  }
}

TEST(CheckOptions, AnUnknownInstructionSetListsThoseThatAreAccepted) {
  EngineOptions options = dflash_options();
  options.cpu_isa = "avx9";
  EXPECT_EQ(check_options(options).error().message,
            "--cpu-isa avx9: accepted: auto, ref, portable, avx2, avx512, avx512_vnni, avx512_fp16, amx");
}

TEST(CheckOptions, EachWrongFlagIsNamedWithItsValue) {
  using O = EngineOptions;
  const Fault faults[] = {
      {"--log-level", [](O& o) { o.log_level = "loud"; }, "loud"},
      {"--device", [](O& o) { o.device = "tpu"; }, "tpu"},
      {"--cpu-isa", [](O& o) { o.cpu_isa = "avx9"; }, "avx9"},
      {"--quantization", [](O& o) { o.quantization = "gptq"; }, "gptq"},
      {"--kv-cache-dtype", [](O& o) { o.kv_cache_dtype = "fp8_e5m2"; }, "fp8_e5m2"},
      {"--moe-runner-backend", [](O& o) { o.moe_runner_backend = "cublas"; }, "cublas"},
      {"--fp4-gemm-backend", [](O& o) { o.fp4_gemm_backend = "cublas"; }, "cublas"},
      {"--speculative-draft-kv-cache-dtype", [](O& o) { o.speculative_draft_kv_cache_dtype = "f16"; }, "f16"},
      {"--speculative-attention-mode", [](O& o) { o.speculative_attention_mode = "verify"; }, "verify"},
      {"--speculative-draft-model-quantization", [](O& o) { o.speculative_draft_model_quantization = "modelopt_fp4"; },
       "modelopt_fp4"},
      {"--speculative-algorithm", [](O& o) { o.speculative_algorithm = "EAGLE"; }, "EAGLE"},
      {"--speculative-algorithm", [](O& o) { o.speculative_algorithm = "dflash"; }, "dflash"},
      {"--tp-size", [](O& o) { o.tp = 0; }, "0"},
      {"--tp-size", [](O& o) { o.tp = 2; }, "2"},
      {"--page-size", [](O& o) { o.page_size = 0; }, "0"},
      {"--page-size", [](O& o) { o.page_size = 1025; }, "1025"},
      {"--threads", [](O& o) { o.threads = -1; }, "-1"},
      {"--threads", [](O& o) { o.threads = 1025; }, "1025"},
      {"--mem-fraction-static", [](O& o) { o.mem_fraction_static = 0; }, "0"},
      {"--mem-fraction-static", [](O& o) { o.mem_fraction_static = 1; }, "1"},
      {"--mem-fraction-static", [](O& o) { o.mem_fraction_static = std::nan(""); }, "nan"},
      {"--chunked-prefill-size", [](O& o) { o.chunked_prefill_size = 0; }, "0"},
      {"--chunked-prefill-size", [](O& o) { o.chunked_prefill_size = -1; }, "-1"},
      {"--chunked-prefill-size", [](O& o) { o.chunked_prefill_size = (1 << 20) + 1; }, "1048577"},
      {"--max-running-requests", [](O& o) { o.max_running_requests = -1; }, "-1"},
      {"--max-running-requests", [](O& o) { o.max_running_requests = 4097; }, "4097"},
      {"--max-queued-requests", [](O& o) { o.max_queued_requests = -1; }, "-1"},
      {"--max-total-tokens", [](O& o) { o.max_total_tokens = -1; }, "-1"},
      {"--max-total-tokens", [](O& o) { o.max_total_tokens = int64_t{1} << 40; }, "1099511627776"},
      {"--max-total-tokens", [](O& o) { o.max_total_tokens = 63; }, "63"},
      {"--context-length", [](O& o) { o.context_length = -5; }, "-5"},
      {"--context-length", [](O& o) { o.context_length = 1; }, "1"},
      {"--speculative-num-draft-tokens", [](O& o) { o.speculative_num_draft_tokens = 1; }, "1"},
      {"--speculative-num-draft-tokens", [](O& o) { o.speculative_num_draft_tokens = -8; }, "-8"},
      {"--speculative-num-draft-tokens", [](O& o) { o.speculative_num_draft_tokens = 33; }, "33"},
      {"--speculative-dflash-block-size", [](O& o) { o.speculative_dflash_block_size = 33; }, "33"},
      {"--speculative-draft-window-size", [](O& o) { o.speculative_draft_window_size = -1; }, "-1"},
      {"--speculative-draft-rope-amplitude", [](O& o) { o.speculative_draft_rope_amplitude = -1; }, "-1"},
      {"--speculative-draft-rope-amplitude", [](O& o) { o.speculative_draft_rope_amplitude = 1001; }, "1001"},
      {"--speculative-min-accept-length", [](O& o) { o.speculative_min_accept_length = "often"; }, "often"},
      {"--speculative-min-accept-length", [](O& o) { o.speculative_min_accept_length = "0.5"; }, "0.5"},
      {"--speculative-min-accept-length", [](O& o) { o.speculative_min_accept_length = "-1"; }, "-1"},
      {"--speculative-min-accept-length", [](O& o) { o.speculative_min_accept_length = "32.5"; }, "32.5"},
      {"--speculative-min-accept-length", [](O& o) { o.speculative_min_accept_length = "nan"; }, "nan"},
      {"--speculative-min-accept-length", [](O& o) { o.speculative_min_accept_length = "2x"; }, "2x"},
      {"--speculative-min-accept-length", [](O& o) { o.speculative_min_accept_length = ""; }, ""},
  };
  for (const Fault& fault : faults) {
    EngineOptions options = dflash_options();
    fault.commit(options);
    const auto checked = check_options(options);
    ASSERT_FALSE(checked.ok()) << fault.flag << " " << fault.value;
    EXPECT_THAT(checked.message(), StartsWith(fmt::format("{} {}: ", fault.flag, fault.value)));
  }
}

TEST(CheckOptions, MessagesListWhatIsAccepted) {
  EngineOptions options = dflash_options();
  options.kv_cache_dtype = "int4";
  EXPECT_EQ(check_options(options).message(), "--kv-cache-dtype int4: accepted: auto, bf16, bfloat16, fp8_e4m3");
}

TEST(CheckOptions, BordersAreAccepted) {
  using O = EngineOptions;
  const std::function<void(O&)> settings[] = {
      [](O&) {},
      [](O& o) { o.page_size = 1; },
      [](O& o) { o.page_size = 1024; },
      [](O& o) { o.mem_fraction_static = 1e-9; },
      [](O& o) { o.chunked_prefill_size = 1 << 20; },
      [](O& o) { o.max_running_requests = 4096; },
      [](O& o) { o.max_queued_requests = 0; },
      [](O& o) { o.max_total_tokens = 64; },
      [](O& o) { o.max_total_tokens = int64_t{1} << 30; },
      [](O& o) { o.context_length = 2; },
      [](O& o) { o.speculative_num_draft_tokens = 2; },
      [](O& o) { o.speculative_num_draft_tokens = 32; },
      [](O& o) { o.speculative_draft_window_size = 4096; },
      [](O& o) { o.speculative_draft_rope_amplitude = 0.001; },
      [](O& o) { o.speculative_min_accept_length = "0"; },
      [](O& o) { o.speculative_min_accept_length = "1"; },
      [](O& o) { o.speculative_min_accept_length = "2.75"; },
      [](O& o) { o.speculative_min_accept_length = "32"; },
      [](O& o) { o.moe_runner_backend = "flashinfer_trtllm"; },
      [](O& o) { o.fp4_gemm_backend = "flashinfer_cutlass"; },
  };
  for (const auto& set : settings) {
    EngineOptions options = dflash_options();
    set(options);
    const auto checked = check_options(options);
    EXPECT_TRUE(checked.ok()) << checked.message();
  }
}

TEST(CheckOptions, PathsThatAreNeeded) {
  EngineOptions options;
  EXPECT_THAT(check_options(options).message(), StartsWith("--model-path is needed"));
  options = dflash_options();
  options.speculative_draft_model_path.clear();
  EXPECT_THAT(check_options(options).message(), HasSubstr("needs --speculative-draft-model-path"));
  options = dflash_options();
  options.speculative_algorithm.clear();
  EXPECT_THAT(
      check_options(options).message(),
      AllOf(HasSubstr("--speculative-draft-model-path is given without --speculative-algorithm"), HasSubstr("DFLASH")));
}

TEST(CheckOptions, TwoNamesOfTheBlockSize) {
  EngineOptions options = dflash_options();
  options.speculative_dflash_block_size = 4;
  ASSERT_TRUE(check_options(options).ok());
  EXPECT_EQ(options.speculative_num_draft_tokens, 4);
  options.speculative_num_draft_tokens = 8;
  EXPECT_THAT(check_options(options).message(),
              AllOf(HasSubstr("--speculative-num-draft-tokens 8"), HasSubstr("--speculative-dflash-block-size 4"),
                    HasSubstr("must match")));
  options.speculative_dflash_block_size = 8;
  EXPECT_TRUE(check_options(options).ok());
}

TEST(CheckOptions, StepsAndTreesOfOtherAlgorithmsAreSetToOne) {
  EngineOptions o;
  o.model_path = "model";
  o.speculative_algorithm = "DFLASH";
  o.speculative_draft_model_path = "draft";
  o.speculative_num_steps = 3;
  o.speculative_eagle_topk = 4;
  ASSERT_TRUE(check_options(o).ok());
  EXPECT_EQ(o.speculative_num_steps, 1);
  EXPECT_EQ(o.speculative_eagle_topk, 1);
}

TEST(ParseOrigins, NoneOneAndSeveral) {
  using Origins = std::vector<std::string>;
  EXPECT_EQ(parse_origins("").value(), Origins{});
  EXPECT_EQ(parse_origins("*").value(), Origins{"*"});
  EXPECT_EQ(parse_origins("https://a.example,http://127.0.0.1:8080").value(),
            (Origins{"https://a.example", "http://127.0.0.1:8080"}));
}

TEST(ParseOrigins, WhatNoBrowserSendsIsRefused) {
  for (const char* wrong : {"a.example", "https://", "https://a.example/", "https://*.example", "ftp://a.example",
                            "https://a.example,,", "https://a.example, https://b.example"}) {
    const auto origins = parse_origins(wrong);
    ASSERT_FALSE(origins.ok()) << wrong;
    EXPECT_THAT(origins.message(), AllOf(HasSubstr("--cors-origins"), HasSubstr("https://a.example")));
  }
}

}  // namespace
}  // namespace strobe::tool
