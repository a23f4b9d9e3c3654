// The decoder walks a recipe: the one transformer of this program, for targets and drafts alike.
//
// The residual stream h is f32; what matrix products read is the device's activation type.
#pragma once

#include <span>
#include <vector>

#include "cache/kv_store.h"
#include "model/recipe.h"
#include "model/weights.h"
#include "ops/ops.h"
#include "ops/weight_arena.h"

namespace strobe::model {

// A request whose keys attention may expand (MlaExpansion), known to the host.
struct PromptRequest {
  kernel::AttentionRequest request;                 // its pages lie on the device
  const kernel::AttentionRequest* alone = nullptr;  // on the device: its rows and keys alone, in a store of one page
};

// The rows of one pass: tokens of several requests, each request's rows together and in the order of their positions.
// All of it lies in the device's memory, the list of requests and their pages too, but for the list of prompts.
struct Batch {
  Tensor positions;                                    // [tokens] i32
  Tensor slots;                                        // [tokens] i32: where each row's key and value are written
  std::span<const kernel::AttentionRequest> requests;  // key_count counts the rows themselves
  std::span<const int32_t> first_visible = {};         // per request: the first position its rows may see; empty = all
  std::span<const PromptRequest> prompts = {};         // on the host: requests to expand, in the order of their rows
  // The requests that are not, where there are prompts.
  std::span<const kernel::AttentionRequest> others = {};
};

// cos and sin for positions [0, count), f32, placed in the arena.
[[nodiscard]] ops::RopeTable make_rope_table(const RopeRecipe& rope, int64_t count, ops::WeightArena& arena);

// Which layers' outputs a pass captures. Layer ids ascend.
struct Capture {
  std::span<const int64_t> layers;
  Tensor features;  // [tokens, layers * hidden] of the activation type: the residual stream after each listed layer
};

// Runs all layers on h: [tokens, hidden] f32, in place. Writes keys and values of every row to the store, at its slot.
void run_layers(ops::Exec& exec, const Recipe& recipe, std::span<const LayerWeights> weights,
                const ops::RopeTable& rope, const cache::KvStore& store, const Batch& batch, const Tensor& h,
                const Capture* capture = nullptr);

// logits = head * rms_norm(h).  h: [tokens, hidden] f32;  logits: [tokens, vocab] f32
void run_head(ops::Exec& exec, const Tensor& h, const Tensor& norm, float epsilon, const QuantTensor& head,
              const Tensor& logits);

}  // namespace strobe::model
