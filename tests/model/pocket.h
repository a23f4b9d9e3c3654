// The pocket-k2 pair, loaded with a given kernel table, and caches for one sequence: what model tests run.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <vector>

#include "cache/kv_store.h"
#include "engine/target_pass.h"
#include "kernel/cuda_device.h"
#include "load/tensor_source.h"
#include "model/dflash_draft.h"
#include "model/families.h"
#include "ops/exec.h"
#include "source_dir.h"

namespace strobe::model {

// Something to run kernels on.
struct Platform {
  std::string name;
  DType activation = DType::kBf16;
  const kernel::CpuKernels* cpu = nullptr;  // nullptr: the first GPU
  bool recorded = false;                    // steppers take steps that only decode as recordings

  explicit Platform(const kernel::CpuKernels& table) : name(table.name), activation(table.activation), cpu(&table) {}
  static Platform cuda() {
    Platform platform(kernel::ref_kernels());
    platform.name = "cuda";
    platform.activation = DType::kBf16;
    platform.cpu = nullptr;
    return platform;
  }
  [[nodiscard]] Platform with_recording() const {
    Platform platform = *this;
    platform.name += "_recorded";
    platform.recorded = true;
    return platform;
  }
  [[nodiscard]] std::unique_ptr<kernel::Kernels> open(WorkerPool& pool) const {
    if (cpu == nullptr) return kernel::open_cuda_device(0);
    return std::make_unique<kernel::HostKernels>(pool, *cpu);
  }
};

class Pocket {
 public:
  static constexpr int32_t kPageSize = 64;
  static constexpr int32_t kPages = 24;

  Pocket(const Platform& platform, int threads)
      : recorded_(platform.recorded),
        pool_(threads),
        kernels_(platform.open(pool_)),
        workspace_(kernels_->memory()),
        exec_(*kernels_, workspace_),
        arena_(kernels_->forms(), kernels_->memory()) {
    kernels_->reserve({.rows = 4096, .requests = 64, .heads = 8});
    const std::filesystem::path root = source_dir() / "models/pocket-k2";
    load_target(root / "target");
    load_draft(root / "draft");
  }

  [[nodiscard]] ops::Exec& exec() { return exec_; }
  [[nodiscard]] bool recorded() const { return recorded_; }
  [[nodiscard]] const DraftConfig& draft_config() const { return *draft_config_; }
  [[nodiscard]] const DflashDraft& draft() const { return *draft_; }
  [[nodiscard]] const TargetWeights& weights() const { return weights_; }
  [[nodiscard]] const Recipe& recipe() const { return recipe_; }
  // The same, but prompts of so many rows are expanded.
  [[nodiscard]] Recipe expanding_recipe(int64_t min_rows, int64_t kv_bytes = int64_t{64} << 20) const {
    Recipe recipe = recipe_;
    recipe.expansion = {.min_rows = min_rows, .kv_bytes = kv_bytes};
    return recipe;
  }
  [[nodiscard]] const ops::RopeTable& rope() const { return rope_; }

  [[nodiscard]] cache::KvStore target_store(DType dtype) const {
    return cache::KvStore(kv_geometry(recipe_, dtype), kPages, kPageSize, {}, kernels_->memory());
  }
  [[nodiscard]] cache::KvStore draft_store(DType dtype) const {
    return cache::KvStore(kv_geometry(draft_->recipe(), dtype), kPages, kPageSize, {}, kernels_->memory());
  }
  [[nodiscard]] engine::TargetModel target(const cache::KvStore& store) const {
    return {.recipe = &recipe_,
            .weights = &weights_,
            .rope = rope_,
            .store = &store,
            .capture_layers = draft_config_->target_layer_ids};
  }

 private:
  template <class T>
  static T must(Result<T> result) {
    if (!result.ok()) throw std::runtime_error(result.message());
    return std::move(result).value();
  }
  static void must(const Result<void>& result) {
    if (!result.ok()) throw std::runtime_error(result.message());
  }

  void load_target(const std::filesystem::path& folder) {
    config_ = must(load_model_config(folder));
    recipe_ = must(target_recipe(config_));
    recipe_.expansion.min_rows = 1;  // loads what expanding prompts takes
    auto source = must(TensorSource::open(std::make_shared<const Checkpoint>(must(Checkpoint::open(folder))),
                                          target_name_rules(config_), config_.quant));
    weights_ = must(load_target_weights(recipe_, source, arena_));
    must(source.finish());
    recipe_.expansion = {};
    rope_ = make_rope_table(recipe_.rope, kPages * kPageSize, arena_);
  }

  void load_draft(const std::filesystem::path& folder) {
    draft_config_ = must(load_draft_config(folder, config_.layers));
    Recipe recipe = must(draft_recipe(*draft_config_, config_));
    auto source = must(
        TensorSource::open(std::make_shared<const Checkpoint>(must(Checkpoint::open(folder))), draft_name_rules(), {}));
    DraftWeights weights = must(load_draft_weights(recipe, draft_config_->features(), source, arena_));
    must(source.finish());
    const ops::RopeTable rope = make_rope_table(recipe.rope, kPages * kPageSize, arena_);
    draft_ = std::make_unique<DflashDraft>(std::move(recipe), std::move(weights), rope, weights_.embedding,
                                           weights_.head, static_cast<int32_t>(*draft_config_->mask_token_id));
  }

  bool recorded_;
  WorkerPool pool_;
  std::unique_ptr<kernel::Kernels> kernels_;
  ops::Workspace workspace_;
  ops::Exec exec_;
  ops::WeightArena arena_;
  ModelConfig config_;
  Recipe recipe_;
  TargetWeights weights_;
  ops::RopeTable rope_;
  std::optional<DraftConfig> draft_config_;
  std::unique_ptr<DflashDraft> draft_;
};

// Pages out of order, so that nothing can rely on a sequence lying in one piece. Page 0 is never used.
inline std::vector<int32_t> scattered_pages(int32_t count) {
  std::vector<int32_t> pages(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) pages[static_cast<size_t>(i)] = (i * 7 + 5) % (Pocket::kPages - 1) + 1;
  return pages;
}

}  // namespace strobe::model
