// Plans of pocket-k2 and of the published Kimi-K2.6 pair, the latter from config files and the names of a safetensors
// index: no weights.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "kimi_flags.h"
#include "source_dir.h"
#include "tool/assembly.h"
#include "tool/plan.h"

namespace strobe::tool {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kGib = int64_t{1} << 30;

class Index {
 public:
  void add(std::string name) { names_[std::move(name)] = "model-00001-of-00119.safetensors"; }
  void remove(const std::string& name) { ASSERT_EQ(names_.erase(name), 1U); }
  void write(const fs::path& folder) const {
    std::ofstream(folder / "model.safetensors.index.json") << nlohmann::json{{"weight_map", names_}};
  }
  [[nodiscard]] size_t size() const { return names_.size(); }

 private:
  nlohmann::json names_ = nlohmann::json::object();
};

void add_matrices(Index& index, const std::string& prefix, std::initializer_list<const char*> modules) {
  for (const char* module : modules) index.add(fmt::format("{}{}.weight", prefix, module));
}

// nvidia/Kimi-K2.6-NVFP4: routed experts of layers 1 to 60 are NVFP4, all else bf16, no KV scales.
Index kimi_target() {
  Index index;
  const std::string model = "language_model.model.";
  for (int layer = 0; layer < 61; ++layer) {
    const std::string at = fmt::format("{}layers.{}.", model, layer);
    add_matrices(
        index, at + "self_attn.",
        {"q_a_proj", "q_a_layernorm", "q_b_proj", "kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj", "o_proj"});
    add_matrices(index, at, {"input_layernorm", "post_attention_layernorm"});
    if (layer == 0) {
      add_matrices(index, at + "mlp.", {"gate_proj", "up_proj", "down_proj"});
      continue;
    }
    add_matrices(index, at + "mlp.",
                 {"gate", "shared_experts.gate_proj", "shared_experts.up_proj", "shared_experts.down_proj"});
    index.add(at + "mlp.gate.e_score_correction_bias");
    for (int expert = 0; expert < 384; ++expert) {
      for (const char* matrix : {"gate_proj", "up_proj", "down_proj"}) {
        for (const char* part : {"weight", "weight_scale", "weight_scale_2", "input_scale"}) {
          index.add(fmt::format("{}mlp.experts.{}.{}.{}", at, expert, matrix, part));
        }
      }
    }
  }
  add_matrices(index, model, {"embed_tokens", "norm"});
  add_matrices(index, "language_model.", {"lm_head"});
  for (int i = 0; i < 27; ++i) index.add(fmt::format("vision_tower.encoder.blocks.{}.wqkv.weight", i));
  index.add("mm_projector.pre_norm.weight");
  return index;
}

Index kimi_draft() {
  Index index;
  add_matrices(index, "", {"fc", "hidden_norm", "norm"});
  for (int layer = 0; layer < 6; ++layer) {
    add_matrices(
        index, fmt::format("layers.{}.", layer),
        {"input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
         "self_attn.o_proj", "self_attn.q_norm", "self_attn.k_norm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"});
  }
  return index;
}

class KimiPlan : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            fmt::format("kimi_plan_{}_{}", ::testing::UnitTest::GetInstance()->current_test_info()->name(), getpid());
    fs::create_directories(root_);
    fs::copy(source_dir() / "tests/load/fixtures/kimi-k2.6-nvfp4", root_ / "target");
    fs::copy(source_dir() / "tests/load/fixtures/kimi-k2.6-dflash", root_ / "draft");
  }
  void TearDown() override { fs::remove_all(root_); }

  Result<Plan> plan(const Index& target, const Index& draft, int64_t memory_bytes) {
    target.write(root_ / "target");
    draft.write(root_ / "draft");
    EngineOptions o;
    o.model_path = root_ / "target";
    o.speculative_draft_model_path = root_ / "draft";
    o.speculative_algorithm = "DFLASH";
    set_kimi_flags(o);
    o.max_running_requests = 16;
    o.log_level = "error";
    if (change_) change_(o);
    return make_plan(o, {.inspection = true, .memory_bytes = memory_bytes});
  }

  fs::path root_;
  std::function<void(EngineOptions&)> change_;
};

TEST_F(KimiPlan, FromConfigsAndIndexAlone) {
  const auto plan = this->plan(kimi_target(), kimi_draft(), 8 * 180 * kGib);
  ASSERT_TRUE(plan.ok()) << plan.message();
  // The tokenizer is all that is missing.
  EXPECT_THAT(plan->faults, ElementsAre(HasSubstr("tokenizer")));
  EXPECT_THAT(plan->warnings, IsEmpty());
  EXPECT_EQ(plan->target_tensors.note_count, 0) << plan->target_tensors.notes[0];
  EXPECT_EQ(plan->decided("KV cache"), "fp8_e4m3");
  EXPECT_EQ(plan->decided("draft KV cache"), "bf16");
  EXPECT_EQ(plan->mask_token, 163838);
  EXPECT_EQ(plan->target_kv.bytes_per_token(), 61 * 576);
  EXPECT_EQ(plan->draft_kv.bytes_per_token(), 6 * 2 * 8 * 128 * 2);
  EXPECT_EQ(plan->context_tokens, 262144);
  ASSERT_EQ(plan->memory.items.size(), 5U);
  // 595.15 GB on disk, of which 0.94 GB are the vision tower's; the rope tables are ours.
  const auto target_gb = static_cast<double>(plan->memory.items[0].bytes) / 1e9;
  EXPECT_NEAR(target_gb, 594.2, 0.5);
  EXPECT_THAT(plan->memory.items[0].detail, HasSubstr("69120 quantised modules"));
  EXPECT_THAT(plan->memory.items[0].detail,
              HasSubstr("277335 tensors, of which only the names are known, 28 skipped by name"));
  const auto draft_gib = static_cast<double>(plan->memory.items[1].bytes) / static_cast<double>(kGib);
  EXPECT_NEAR(draft_gib, 6.48, 0.3);
  EXPECT_GT(plan->memory.tokens, 262144);
}

TEST_F(KimiPlan, ExpandedPromptsAreDecidedAndPlanned) {
  change_ = [](EngineOptions& o) { o.enable_expanded_mla_prefill = true; };
  const auto plan = this->plan(kimi_target(), kimi_draft(), 8 * 180 * kGib);
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_EQ(plan->decided("prefill MLA"), "expanded from 171 rows of a prompt in a step on");
  EXPECT_EQ(plan->recipe.expansion.min_rows, 171);
  ASSERT_EQ(plan->memory.items.size(), 6U);
  EXPECT_THAT(plan->memory.items[0].detail, HasSubstr("488.0 MiB of them to expand prompts"));
  const engine::MemoryItem& expanded = plan->memory.items[3];
  EXPECT_EQ(expanded.what, "expanded prompts");
  // Latents of 262144 positions, keys and values of one head (more than 64 MiB), queries of all rows of a step.
  EXPECT_EQ(expanded.bytes, int64_t{262144} * (512 + 192 + 128) * 2 + plan->max_rows * int64_t{64} * 192 * 2);
  EXPECT_THAT(plan->warnings, IsEmpty());
  change_ = [](EngineOptions& o) {
    o.enable_expanded_mla_prefill = true;
    o.chunked_prefill_size = 170;
  };
  const auto small = this->plan(kimi_target(), kimi_draft(), 8 * 180 * kGib);
  EXPECT_THAT(small->warnings, ElementsAre(AllOf(HasSubstr("--enable-expanded-mla-prefill has no effect"),
                                                 HasSubstr("--chunked-prefill-size 170"), HasSubstr("171"))));
}

TEST_F(KimiPlan, TooLittleMemoryIsAFaultWithFigures) {
  const auto plan = this->plan(kimi_target(), kimi_draft(), 80 * kGib);
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_THAT(plan->faults, Contains(HasSubstr("--mem-fraction-static 0.85: of 80.00 GiB it allows 68.00 GiB")));
  EXPECT_EQ(plan->memory.tokens, 0);
  EXPECT_EQ(plan->memory.items.size(), 3U) << "weights and workspace are told all the same";
}

// One look tells all that is wrong, not the first of it.
TEST_F(KimiPlan, FaultsOfDifferentPartsAreAllTold) {
  Index target = kimi_target(), draft = kimi_draft();
  target.remove("language_model.model.layers.7.mlp.experts.123.up_proj.weight_scale_2");
  draft.remove("layers.2.mlp.up_proj.weight");
  auto plan = this->plan(target, draft, 8 * 180 * kGib);
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_THAT(plan->faults, ElementsAre(HasSubstr("no tokenizer"),
                                        HasSubstr("'model.layers.7.mlp.experts.123.up_proj.weight_scale_2' is missing"),
                                        HasSubstr("'layers.2.mlp.up_proj.weight' is missing")));
  EXPECT_THAT(plan->memory.items, IsEmpty());
}

TEST_F(KimiPlan, ADraftThatCannotBeReadLeavesTheTargetsPlan) {
  fs::remove(root_ / "draft/config.json");
  auto plan = this->plan(kimi_target(), kimi_draft(), 8 * 180 * kGib);
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_THAT(plan->faults, ElementsAre(HasSubstr("no tokenizer"), HasSubstr("draft/config.json")));
  ASSERT_EQ(plan->memory.items.size(), 1U);
  EXPECT_EQ(plan->memory.items[0].what, "target weights");
  EXPECT_EQ(plan->memory.tokens, 0);
}

TEST_F(KimiPlan, WhatRunsButMayNotBeMeantIsAWarning) {
  std::ifstream file(root_ / "draft/config.json");
  auto config = nlohmann::json::parse(file);
  config["max_position_embeddings"] = 4096;
  std::ofstream(root_ / "draft/config.json") << config;
  auto plan = this->plan(kimi_target(), kimi_draft(), 8 * 180 * kGib);
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_THAT(plan->warnings, Contains(HasSubstr("draft: the draft knows 4096 positions")));
  EXPECT_EQ(plan->target_tensors.skipped_tensors, 28);
  EXPECT_EQ(plan->target_tensors.kv_scaled, 0);
}

TEST(PocketPlan, ADraftIsNoTarget) {
  EngineOptions o;
  o.model_path = source_dir() / "models/pocket-k2/draft";
  o.log_level = "error";
  EXPECT_THAT(make_plan(o, {.inspection = true}).message(),
              AllOf(HasSubstr("--model-path"), HasSubstr("--speculative-draft-model-path")));
}

TEST(PocketPlan, IsWhatIsTaken) {
  EngineOptions o;
  o.model_path = source_dir() / "models/pocket-k2/target";
  o.speculative_draft_model_path = source_dir() / "models/pocket-k2/draft";
  o.speculative_algorithm = "DFLASH";
  o.max_total_tokens = 4096;
  o.log_level = "error";
  const auto plan = make_plan(o);
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_THAT(plan->faults, IsEmpty());
  const auto system = assemble(o);
  ASSERT_TRUE(system.ok()) << system.message();
  const auto& items = plan->memory.items;
  ASSERT_EQ(items.size(), 5U);
  EXPECT_EQ(items[0].bytes + items[1].bytes, (*system)->arena->bytes());
  EXPECT_EQ(items[3].bytes, (*system)->target_store->bytes());
  EXPECT_EQ(items[4].bytes, (*system)->draft_store->bytes());
  // A full step: as many rows as it may have, in one prompt.
  engine::SamplingParams greedy;
  greedy.temperature = 0;
  std::vector<int32_t> tokens(static_cast<size_t>(plan->max_rows), 5);
  std::vector<int32_t> pages;
  for (int32_t p = 1; p <= plan->max_rows / 64 + 1; ++p) pages.push_back(p);
  engine::StepPlan step;
  step.sequences.push_back(
      {.tokens = tokens, .pages = pages, .wants_token = true, .sampling = &greedy, .history = tokens});
  (*system)->stepper->run(step);
  EXPECT_LE((*system)->workspace->peak_bytes(), items[2].bytes);
}

// With prompts expanded: what they take is told apart, and enough.
TEST(PocketPlan, IsWhatIsTakenWithExpandedPrompts) {
  EngineOptions o;
  o.model_path = source_dir() / "models/pocket-k2/target";
  o.threads = 2;
  o.max_total_tokens = 4096;
  o.log_level = "error";
  const auto bare = make_plan(o);
  o.enable_expanded_mla_prefill = true;
  const auto system = assemble(o);
  ASSERT_TRUE(system.ok()) << system.message();
  const auto& items = (*system)->memory.items;
  ASSERT_EQ(items.size(), 4U);
  EXPECT_EQ(items[0].bytes, (*system)->arena->bytes());
  EXPECT_GE(items[0].bytes - bare->memory.items[0].bytes, 6 * 8 * 64 * 512 * 2);
  EXPECT_THAT(items[0].detail, HasSubstr("3.0 MiB of them to expand prompts"));
  EXPECT_EQ(items[1].bytes, bare->memory.items[1].bytes);
  EXPECT_EQ(items[2].what, "expanded prompts");
  // Latents of 4096 positions, keys and values in a MiB a thread, queries of 576 rows.
  EXPECT_EQ(items[2].bytes, 4096 * 512 * 2 + (2 << 20) + 576 * 8 * 128 * 2);
  engine::SamplingParams greedy;
  greedy.temperature = 0;
  std::vector<int32_t> tokens(static_cast<size_t>((*system)->max_rows), 5);
  std::vector<int32_t> pages;
  for (int32_t p = 1; p <= 64; ++p) pages.push_back(p);
  engine::StepPlan step;
  step.sequences.push_back({.tokens = tokens,
                            .first_position = 4096 - (*system)->max_rows,
                            .pages = pages,
                            .wants_token = true,
                            .sampling = &greedy,
                            .history = tokens});
  (*system)->stepper->run(step);
  EXPECT_LE((*system)->workspace->peak_bytes(), items[1].bytes + items[2].bytes);
  EXPECT_GT((*system)->workspace->peak_bytes(), items[2].bytes) << "nothing was expanded";
}

}  // namespace
}  // namespace strobe::tool
