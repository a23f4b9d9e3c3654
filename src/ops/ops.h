// The operations models are written in: one verb per function. Each checks shapes by named dimensions, picks the kernel
// of exec's device and launches it. Outputs are given by the caller. Batch invariance: see kernel/args.h.
//
// Types: "f32|A" means f32 or exec.activation().
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "ops/exec.h"
#include "ops/weight_arena.h"
#include "tensor/quant_tensor.h"
#include "tensor/tensor.h"

namespace strobe::ops {

// y = W x.  x: [tokens, in] f32|A;  weight: [out, in];  y: [tokens, out] f32|A
struct Linear {
  Tensor x;
  const QuantTensor& weight;
  Tensor y;
};
void linear(Exec& exec, const Linear& problem);
// Several independent products in one launch (q_a with kv_a, gate with up, all layers' K and V).
void linear(Exec& exec, std::span<const Linear> problems);
// y += W x, y f32: the residual stream.
void linear_add(Exec& exec, const Linear& problem);

// One matrix per head.  x: [tokens, heads, in];  weights: heads of [out, in];  y: [tokens, heads, out]
void linear_heads(Exec& exec, const Tensor& x, std::span<const QuantTensor> weights, const Tensor& y);

// x: [tokens, dim] or [tokens, groups, dim] f32|A;  weight: [dim] f32;  y: as x, may be x
void rms_norm(Exec& exec, const Tensor& x, const Tensor& weight, float epsilon, const Tensor& y);

// cos, sin: [positions, dim / 2] f32, amplitude included
struct RopeTable {
  Tensor cos;
  Tensor sin;
  kernel::RopeStyle style = kernel::RopeStyle::kInterleaved;
};
// In place.  x: [tokens, heads, dim] f32;  positions: [tokens] i32, each below the table's length
void rope(Exec& exec, const RopeTable& table, const Tensor& positions, const Tensor& x);

// y = silu(gate) * up.  gate, up: [tokens, dim] f32;  y: [tokens, dim] f32|A
void silu_mul(Exec& exec, const Tensor& gate, const Tensor& up, const Tensor& y);

// ids: [tokens] i32;  table: [vocab, hidden], row-major;  y: [tokens, hidden] f32
void embed(Exec& exec, const QuantTensor& table, const Tensor& ids, const Tensor& y);

// y = x with y's type.  [tokens, dim] both
void copy(Exec& exec, const Tensor& x, const Tensor& y);

// y[i, :] = x[rows[i], :].  x: [tokens, dim] f32;  rows: [count] i32;  y: [count, dim] f32
void gather_rows(Exec& exec, const Tensor& x, const Tensor& rows, const Tensor& y);

// ids: [tokens] i32 = argmax of logits [tokens, vocab] f32, ties to the lowest id
void argmax(Exec& exec, const Tensor& logits, const Tensor& ids);

// ---- blocks of a decode step ----

// kernel/args.h, FillDrafts.  drafted, ids: [sequences * block_rows] i32
void fill_drafts(Exec& exec, const kernel::Blocks& blocks, const Tensor& drafted, const Tensor& ids);
// kernel/args.h, DrawTokens.
struct DrawTokens {
  kernel::Blocks blocks;
  const kernel::DrawParams* params = nullptr;  // [sequences], on the device
  const int32_t* row_begin = nullptr;          // [sequences], on the device; nullptr: rows lie as blocks do
  Tensor logits;                               // [rows, vocab] f32; vocab at most kernel::kMostDrawColumns
  Tensor positions;                            // [rows] i32
  Tensor tokens;                               // [rows] i32, in: the most likely ones
};
void draw_tokens(Exec& exec, const DrawTokens& call);
// kernel/args.h, AcceptGreedy.  ids, best, slots, committed: [sequences * block_rows] i32;  accepted: [sequences] i32
void accept_greedy(Exec& exec, const kernel::Blocks& blocks, const Tensor& ids, const Tensor& best, const Tensor& slots,
                   const Tensor& accepted, const Tensor& committed);

// ---- between host and device ----

// A contiguous tensor of the host where operations can read it: itself, or a copy in the frame.
Tensor to_device(Exec& exec, WorkspaceFrame& frame, const Tensor& tensor);
// A contiguous tensor of the device where the host can read it: itself, or a copy in `storage`. Waits for the device.
Tensor to_host(Exec& exec, const Tensor& tensor, std::vector<std::byte>& storage);

// ---- experts ----

struct Router {
  Tensor bias;  // [experts] f32, or undefined
  int64_t top_k = 0;
  int64_t groups = 1;
  int64_t top_groups = 1;
  bool normalise = true;
  float scale = 1;
};

// h += sum of each token's top_k experts, weighted (kernel/args.h, Route and Combine).
// x: [tokens, hidden] A;  router_logits: [tokens, experts] f32;  h: [tokens, hidden] f32
// shared: one that all tokens have besides, unweighted, computed in the same launches; only where weights are not
// fused, and of the same inter.  upcoming: kernel/args.h
void routed_experts(Exec& exec, const Router& router, const ExpertWeights& weights, const Tensor& x,
                    const Tensor& router_logits, const Tensor& h, const Expert* shared = nullptr,
                    std::span<const kernel::Upcoming> upcoming = {});

// ---- caches and attention ----

// store[slots[r], column...] = x[r].  x: [tokens, dim] f32;  slots: [tokens] i32, -1 is skipped
void store_rows(Exec& exec, const Tensor& x, const Tensor& slots, const kernel::PagedStore& store, int64_t column = 0);

// y[i, c] = store[position i of the request with these pages, column...], for every c.  pages: on the device, as in an
// AttentionRequest;  y: [positions, copies, dim] f32|A
void load_rows(Exec& exec, const kernel::PagedStore& store, const int32_t* pages, const Tensor& y, int64_t column = 0);

// q: [tokens, heads, latent + rope] f32|A;  out: [tokens, heads, latent] f32|A;  upcoming: kernel/args.h
void mla_attention(Exec& exec, const Tensor& q, const kernel::PagedStore& store,
                   std::span<const kernel::AttentionRequest> requests, float scale, const Tensor& out,
                   std::span<const kernel::Upcoming> upcoming = {});

struct GqaOptions {
  float scale = 1;
  bool causal = true;
  int32_t window = 0;                           // 0 = unlimited
  std::span<const int32_t> first_visible = {};  // per request, or empty
  bool prompt = false;                          // kernel/args.h, GqaAttention
  std::span<const kernel::Upcoming> upcoming = {};
};
// q: [tokens, heads, head_dim] f32|A;  out: [tokens, heads, value_dim] f32|A
void gqa_attention(Exec& exec, const Tensor& q, const kernel::PagedStore& k, const kernel::PagedStore& v,
                   std::span<const kernel::AttentionRequest> requests, const GqaOptions& options, const Tensor& out);

}  // namespace strobe::ops
