// Whole assemblies of pocket-k2: what is decided, why, and that the parts are as decided.
#include "tool/assembly.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "kimi_flags.h"
#include "source_dir.h"
#include "tool/command_line.h"
#include "tool/draft_cost.h"

namespace strobe::tool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string pocket(const char* part) {
  return source_dir() / "models/pocket-k2" / part;
}

EngineOptions dflash_options() {
  EngineOptions o;
  o.model_path = pocket("target");
  o.speculative_algorithm = "DFLASH";
  o.speculative_draft_model_path = pocket("draft");
  o.threads = 2;
  o.log_level = "error";
  o.max_total_tokens = 1000;
  return o;
}

std::unique_ptr<System> assembled(const EngineOptions& options) {
  auto system = assemble(options);
  if (!system.ok()) throw std::runtime_error(system.message());
  return std::move(system).value();
}

std::string reason(const System& system, const std::string& what) {
  for (const Decision& decision : system.decisions) {
    if (decision.what == what) return decision.reason;
  }
  return "no decision about " + what;
}

TEST(Assembly, TheDraftsCacheFollowsItsBackend) {
  struct Case {
    const char* backend;
    const char* flag;
    DType dtype;
    const char* reason;
  };
  const Case cases[] = {
      {"fa4", "auto", DType::kBf16, "'fa4' needs keys of the type of its queries, so bf16 instead of fp8_e4m3"},
      {"flashinfer", "auto", DType::kE4m3, "as the target's KV cache; draft attention backend 'flashinfer'"},
      {"auto", "bf16", DType::kBf16, "as --speculative-draft-kv-cache-dtype"},
      {"trtllm_mha", "auto", DType::kE4m3, "'flashinfer' can read it"},
  };
  for (const Case& c : cases) {
    EngineOptions options = dflash_options();
    options.kv_cache_dtype = "fp8_e4m3";
    options.speculative_draft_attention_backend = c.backend;
    options.speculative_draft_kv_cache_dtype = c.flag;
    const auto system = assembled(options);
    EXPECT_EQ(system->decided("KV cache"), "fp8_e4m3");
    EXPECT_EQ(system->decided("draft KV cache"), to_string(c.dtype)) << c.backend;
    EXPECT_THAT(reason(*system, "draft KV cache"), HasSubstr(c.reason));
    EXPECT_EQ(system->target_store->geometry().dtype, DType::kE4m3);
    EXPECT_EQ(system->draft_store->geometry().dtype, c.dtype) << c.backend;
  }
}

TEST(Assembly, TheKimiCommandLine) {
  EngineOptions options = dflash_options();
  set_kimi_flags(options);
  const auto system = assembled(options);
  EXPECT_EQ(system->decided("draft KV cache"), "bf16");
  EXPECT_EQ(system->decided("draft tokens"), "8");
  EXPECT_THAT(reason(*system, "draft tokens"), HasSubstr("--speculative-num-draft-tokens"));
  for (const char* role : {"prefill attention", "decode attention", "verify attention"}) {
    EXPECT_THAT(reason(*system, role), HasSubstr("'trtllm_mla'")) << role;
  }
  EXPECT_THAT(reason(*system, "draft attention"), HasSubstr("'fa4'"));
  EXPECT_THAT(reason(*system, "experts"), HasSubstr("'flashinfer_trtllm'"));
  EXPECT_THAT(reason(*system, "NVFP4 products"), HasSubstr("'flashinfer_cutlass'"));
  EXPECT_EQ(system->stepper->max_block_tokens(), 8);
  EXPECT_EQ(system->options.max_running_requests, 48);
  EXPECT_EQ(system->options.max_total_tokens, 960) << "whole pages of 64";
  EXPECT_EQ(system->pages->capacity_pages(), 15);
  EXPECT_EQ(system->stepper->max_rows(), 512 + 48 * 8);
  EXPECT_EQ(system->options.device, "cpu");
  EXPECT_NE(system->options.cpu_isa, "auto");
}

TEST(Assembly, VerifyTakesTheBackendOfItsMode) {
  EngineOptions options = dflash_options();
  options.prefill_attention_backend = "trtllm_mla";
  options.decode_attention_backend = "cutedsl_mla";
  options.speculative_attention_mode = "decode";
  const auto system = assembled(options);
  EXPECT_THAT(reason(*system, "prefill attention"), HasSubstr("trtllm_mla"));
  EXPECT_THAT(reason(*system, "decode attention"), HasSubstr("cutedsl_mla"));
  EXPECT_THAT(reason(*system, "verify attention"), HasSubstr("cutedsl_mla"));
}

TEST(Assembly, PlainDecodingHasNoDraft) {
  EngineOptions options = dflash_options();
  options.speculative_algorithm.clear();
  options.speculative_draft_model_path.clear();
  options.cpu_isa = "ref";
  options.kv_cache_dtype = "bf16";
  options.context_length = 300;
  const auto system = assembled(options);
  EXPECT_EQ(system->stepper->max_block_tokens(), 1);
  EXPECT_EQ(system->options.max_running_requests, 64);
  EXPECT_EQ(system->draft_store, nullptr);
  EXPECT_EQ(system->decided("draft KV cache"), "");
  EXPECT_EQ(system->decided("verify attention"), "");
  EXPECT_EQ(system->decided("KV cache"), "bf16");
  EXPECT_EQ(system->target_store->geometry().dtype, DType::kF32) << "the reference rounds nothing";
  EXPECT_EQ(system->context_tokens, 300);
  start_scheduler(*system);
  EXPECT_EQ(system->scheduler->stats().max_context_tokens, 300);
}

TEST(Assembly, ABlockSizeOfOnesOwn) {
  EngineOptions options = dflash_options();
  options.speculative_dflash_block_size = 4;
  options.max_running_requests = 200;
  const auto system = assembled(options);
  EXPECT_EQ(system->stepper->max_block_tokens(), 4);
  EXPECT_EQ(system->options.speculative_num_draft_tokens, 4);
  EXPECT_EQ(system->stepper->max_rows(), 512 + 800)
      << "every running request's block fits into a step, beside a chunk of prompts";
}

TEST(Assembly, ABlockCostsAtMostItsTokens) {
  EXPECT_EQ(believed_cost({.drafted_ms = 7.5, .plain_ms = 1.5}, 8), 5);
  EXPECT_EQ(believed_cost({.drafted_ms = 20, .plain_ms = 1.25}, 8), 8) << "measured while others took the processors";
  EXPECT_EQ(believed_cost({.drafted_ms = 20, .plain_ms = 1.25}, 32), 16);
  EXPECT_EQ(believed_cost({}, 8), 0) << "the context holds no block";
}

TEST(Assembly, TheLeastAcceptLengthIsMeasuredOrGiven) {
  EngineOptions options = dflash_options();
  const auto measured = assembled(options);
  EXPECT_GT(measured->draft_cost.value(), 0);
  EXPECT_EQ(measured->decided("least accept length"), fmt::format("{:.2f}", *measured->draft_cost));
  EXPECT_THAT(reason(*measured, "least accept length"), AllOf(HasSubstr("a step with a draft took"), HasSubstr("ms")));
  EXPECT_GE(measured->crowded_draft_cost.value(), *measured->draft_cost);
  EXPECT_EQ(measured->crowd, 8);
  EXPECT_THAT(reason(*measured, "least accept length"), HasSubstr("with 8 requests"));
  options.max_running_requests = 3;
  EXPECT_EQ(assembled(options)->crowd, 3);
  options.max_running_requests = 1;
  EXPECT_FALSE(assembled(options)->crowded_draft_cost);
  options.max_running_requests = 8;
  options.max_total_tokens = 256;  // less than eight blocks of their own take
  EXPECT_FALSE(assembled(options)->crowded_draft_cost);
  options.max_total_tokens = 0;
  options.speculative_min_accept_length = "2.5";
  const auto given = assembled(options);
  EXPECT_EQ(given->draft_cost, 2.5);
  EXPECT_FALSE(given->crowded_draft_cost);
  EXPECT_EQ(given->decided("least accept length"), "2.5");
  EXPECT_EQ(reason(*given, "least accept length"), "as --speculative-min-accept-length says");
  options.speculative_min_accept_length = "0";
  const auto none = assembled(options);
  EXPECT_EQ(none->draft_cost, 0);
  EXPECT_EQ(none->decided("least accept length"), "none");
}

// Pages of one token and of more than are read, steps of few rows, caches and contexts that hold next to nothing.
TEST(Assembly, StepsAreMeasuredInAnyGeometry) {
  struct Case {
    int32_t page_size;
    int32_t max_total_tokens;
    int64_t context_length;
    bool measured;
  };
  const Case cases[] = {{1, 300, 0, true},   {1, 30, 0, true},      {16, 64, 0, true},
                        {512, 512, 0, true}, {1024, 2048, 0, true}, {64, 1000, 12, true},
                        {4, 12, 9, true},    {4, 12, 8, false},     {64, 64, 2, false}};
  for (const Case& c : cases) {
    EngineOptions options = dflash_options();
    options.page_size = c.page_size;
    options.max_total_tokens = c.max_total_tokens;
    options.context_length = c.context_length;
    options.chunked_prefill_size = 3;
    options.max_running_requests = 1;
    const auto system = assembled(options);
    EXPECT_EQ(*system->draft_cost > 0, c.measured) << c.page_size << " " << c.max_total_tokens;
    EXPECT_EQ(system->decided("least accept length") != "none", c.measured);
    EXPECT_EQ(system->pages->free_pages(), system->pages->capacity_pages());
  }
}

TEST(DefaultToPocket, FillsInWhatIsMissing) {
  EngineOptions nothing;
  default_to_pocket(nothing);
  EXPECT_THAT(nothing.model_path, HasSubstr("pocket-k2/target"));
  EXPECT_THAT(nothing.speculative_draft_model_path, HasSubstr("pocket-k2/draft"));
  EXPECT_EQ(nothing.speculative_algorithm, "DFLASH");
  EngineOptions named;
  named.model_path = "mine";
  default_to_pocket(named);
  EXPECT_EQ(named.model_path, "mine");
  EXPECT_EQ(named.speculative_algorithm, "");
}

}  // namespace
}  // namespace strobe::tool
