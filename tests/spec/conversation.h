// What a scheduler does, as small as can be: texts that steppers continue together, and the caches they use.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "../model/tables.h"
#include "engine/plain_stepper.h"
#include "engine/step.h"
#include "spec/dflash_stepper.h"

namespace strobe::spec {

using Ids = std::vector<int32_t>;
using model::Pocket;

// One text on its way.
struct Speaker {
  Speaker(Ids prompt, Ids its_pages)
      : tokens(std::move(prompt)), prompt_tokens(static_cast<int32_t>(tokens.size())), pages(std::move(its_pages)) {}

  Ids tokens;  // prompt, then answer
  int32_t prompt_tokens;
  Ids pages;
  engine::SamplingParams sampling{.temperature = 0};
  Ids end_tokens;              // not to be said among the first min_new_tokens
  int32_t min_new_tokens = 0;  //
  int32_t committed = 0;
  std::vector<int32_t> accepted;                // drafts that stood, for each verify step
  std::vector<engine::TokenLogprobs> logprobs;  // of the answer's tokens, when the sampling asks

  [[nodiscard]] int32_t said() const { return static_cast<int32_t>(tokens.size()) - prompt_tokens; }
  // The first `count` tokens of the answer.
  [[nodiscard]] Ids answer(int32_t count) const;
};

struct StepOptions {
  int32_t block_tokens = 1;     // of decoding texts
  int32_t chunk_tokens = 4096;  // prompt tokens a step
  bool timed = false;
};

// One step with all of these.
engine::StepTimes step(engine::Stepper& stepper, std::span<Speaker* const> speakers, const StepOptions& options);
// Steps until each has said at least `count` tokens; one that has is left out of further steps.
void speak(engine::Stepper& stepper, std::vector<Speaker*> speakers, int32_t count, const StepOptions& options);

// Caches for a pocket model, every page full of NaN, and steppers on them.
class Stage {
 public:
  // `recipe`: another than the pocket's own.
  Stage(Pocket& pocket, DType target_kv, DType draft_kv, int32_t page_size = Pocket::kPageSize,
        const model::Recipe* recipe = nullptr);

  [[nodiscard]] engine::PlainStepper plain() const;
  // window 0: the whole context.
  [[nodiscard]] DflashStepper dflash(int32_t block_tokens, int32_t window_tokens = 0) const;
  [[nodiscard]] int32_t page_size() const { return page_size_; }
  [[nodiscard]] cache::KvStore& target_store() { return target_store_; }
  [[nodiscard]] cache::KvStore& draft_store() { return draft_store_; }
  // What the draft says for the block that begins with the last token of `speaker`.
  [[nodiscard]] Ids drafts(const Speaker& speaker, int32_t block_tokens) const;

 private:
  [[nodiscard]] engine::TargetModel target() const;

  Pocket& pocket_;
  const model::Recipe* recipe_;
  int32_t page_size_;
  cache::KvStore target_store_;
  cache::KvStore draft_store_;
};

// The stored bytes of positions [0, count), layer by layer.
[[nodiscard]] std::vector<std::byte> stored_bytes(const cache::KvStore& store, std::span<const int32_t> pages,
                                                  int32_t count);

// The pocket model with one thread: programs of this machine's other cores do not hold it up, and no result depends on
// the number of threads (Dflash.ThreadsChangeNothing).
[[nodiscard]] Pocket& lone_pocket(const model::Platform& platform);

// tests/golden/model/traces.json.
[[nodiscard]] const nlohmann::json& traces();
[[nodiscard]] Ids trace_prompt(const std::string& name);

// Bf16, or f32 where the kernels' own unquantised cache is f32.
[[nodiscard]] inline DType plain_kv(const model::Platform& platform) {
  return platform.activation == DType::kF32 ? DType::kF32 : DType::kBf16;
}

}  // namespace strobe::spec
