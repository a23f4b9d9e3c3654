// What each kernel is asked: one plain struct per kernel family, raw pointers in and out.
//
// Contract of all kernels
// - No allocation (the reference excepted), no policy, no checks: `ops` has checked shapes before. Zero rows is a valid
//   call that does nothing.
// - Batch invariance: what is computed for one row depends only on that row's inputs, never on how many other rows are
//   in the call, on what these hold (NaN included), on where in the call the row stands, nor on how work is split among
//   threads. Sums run in an order fixed by the shapes of one row. This is what makes DFlash byte-equal to plain
//   decoding.
// - Memory that no row refers to is never read into a result, and never written: pages behind a request's length, the
//   rest of its last page and the gaps between rows may hold NaN.
// - Arrays are aligned to their element type only, packed weights to 64 bytes. Dimensions need not be multiples of
//   anything (`in` of NVFP4 is one of 16).
// - "A" below is the activation type: f32 for the reference kernels, bf16 for the fast ones (CpuKernels::activation).
//   It is what callers use there; every `Rows` says its own type, and kernels accept f32 and bf16 for inputs and
//   outputs alike unless a field says otherwise.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/quant_tensor.h"

namespace strobe::kernel {

// A matrix of numbers, f32 or bf16, rows `stride` elements apart.
struct Rows {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t stride = 0;
};

// y[r, :] = W x[x_row(r), :], for r in [0, rows). W [out, in] in any format that the table's `pack` yields (row-major
// ones for the reference). An NVFP4 weight is code * block scale (exact) * global scale, rounded to f32 once, wherever
// the global scale is applied. bf16 products are exact in f32; sums are f32 over columns in ascending order or in a
// fixed tree (double in the reference). Tables whose activation is bf16 may round an f32 x to bf16 first.
struct GemmProblem {
  Rows x;                           // [*, in]
  const int32_t* x_rows = nullptr;  // [rows]: which row of x feeds row r; nullptr = r itself
  QuantTensor weight;               // [out, in]
  Rows y;                           // [rows, out]
  int64_t rows = 0;
  // nullptr, or two numbers [begin, end) that an earlier kernel writes: r runs over these alone, at most `rows` of
  // them. Devices only.
  const int32_t* range = nullptr;
  bool accumulate = false;  // y += (y must be f32), for residual adds
};

// Memory that calls behind this one will read: weights of products. `call` ascends: parts with the same number belong
// to one call, in the order of its problems. data nullptr: a part of which only the size is known, or expected.
struct Upcoming {
  const void* data = nullptr;
  int64_t bytes = 0;
  int32_t call = 0;
};

// Problems are independent (none reads what another writes): heads of one projection, experts of one layer.
struct Gemm {
  const GemmProblem* problems = nullptr;
  int64_t count = 0;
  // What a kernel may ask the memory for while it computes. It changes nothing but time.
  const Upcoming* upcoming = nullptr;
  int64_t upcoming_count = 0;
};

// y[r, g, :] = x[r, g, :] / sqrt(mean(x[r, g, :]^2) + epsilon) * weight. Groups: 1 for a hidden state, heads for
// per-head norms.
struct RmsNorm {
  Rows x;               // [rows, groups * dim], x.stride between rows
  const float* weight;  // [dim]
  Rows y;               // [rows, groups * dim]; may be x itself (same memory, type and stride)
  int64_t rows = 0;
  int64_t groups = 1;
  int64_t dim = 0;
  float epsilon = 0;
};

enum class RopeStyle {
  kInterleaved,  // pairs (2i, 2i + 1), as DeepSeek-V3 and Kimi
  kHalfSplit,    // pairs (i, i + dim / 2), as Qwen3, Llama and the DFlash draft
};

// Rotates x[r, h, :] in place by the angles of position positions[r]:
//   (a, b) -> (a cos - b sin, b cos + a sin)
// f32 only. The table holds cos and sin with any amplitude already multiplied in.
struct Rope {
  float* x = nullptr;                  // [rows, heads, dim]
  int64_t row_stride = 0;              // elements
  int64_t head_stride = 0;             // elements
  const int32_t* positions = nullptr;  // [rows], each in [0, table rows)
  const float* cos = nullptr;          // [table rows, dim / 2]
  const float* sin = nullptr;          // [table rows, dim / 2]
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t dim = 0;
  RopeStyle style = RopeStyle::kInterleaved;
};

// y[r, :] = silu(gate[r, :]) * up[r, :], silu(x) = x / (1 + exp(-x)).
struct SiluMul {
  Rows gate;  // [rows, dim], f32
  Rows up;    // [rows, dim], f32
  Rows y;     // [rows, dim], A
  int64_t rows = 0;
  int64_t dim = 0;
};

// y[r, :] = table[ids[r], :]. The table is row-major f32 or bf16.
struct Embed {
  QuantTensor table;             // [vocab, hidden]
  const int32_t* ids = nullptr;  // [rows], each in [0, vocab)
  Rows y;                        // [rows, hidden], f32
  int64_t rows = 0;
};

// y[r, :] = x[r, :] with a change of type: captures features, casts.
struct Copy {
  Rows x;
  Rows y;
  int64_t rows = 0;
  int64_t dim = 0;
};

// Expert choice of DeepSeek-V3 and Kimi-K2 (facts: sigmoid scores; the bias chooses, the plain score weighs):
//   s = sigmoid(logits[r, :]);  choice = s + bias;  if groups > 1, only the experts of the `top_groups` groups with the
//   largest sum of their two best choices stay (ties to the lower group; a group of one expert counts that one); the
//   `top_k` best by choice, ties to the lower id, in descending order;
//   weights = s[chosen] / (normalise ? sum + 1e-20 : 1) * scale.
// A NaN choice ranks as -infinity, so ids are always top_k different experts. top_k <= experts of the groups that stay.
struct Route {
  const float* logits = nullptr;  // [rows, experts]
  const float* bias = nullptr;    // [experts], or nullptr for none
  int32_t* ids = nullptr;         // [rows, top_k]
  float* weights = nullptr;       // [rows, top_k]
  int64_t rows = 0;
  int64_t experts = 0;
  int64_t top_k = 0;
  int64_t groups = 1;
  int64_t top_groups = 1;
  bool normalise = true;
  float scale = 1;
};

// (token, choice) pairs sorted by expert: expert e owns the places [begin[e], begin[e + 1]) of a list of all pairs. In
// which order an expert's pairs lie there is nobody's business.
struct GroupByExpert {
  const int32_t* ids = nullptr;  // [rows, top_k]: the expert of each pair
  int64_t rows = 0;
  int64_t top_k = 0;
  int64_t experts = 0;
  int32_t* begin = nullptr;   // [experts + 1]
  int32_t* tokens = nullptr;  // [rows * top_k]: the token at each place
  int32_t* slots = nullptr;   // [rows, top_k]: the place of each pair
};

// y[r, :] += sum over k ascending of weights[r, k] * x[slots[r, k], :]: the experts' outputs back to their tokens. The
// order is the order of k, so a row's sum does not depend on which experts other rows chose.
struct Combine {
  const float* x = nullptr;        // [rows * top_k, dim], stride dim
  const int32_t* slots = nullptr;  // [rows, top_k]: row of x for (r, k)
  const float* weights = nullptr;  // [rows, top_k]
  Rows y;                          // [rows, dim], f32
  int64_t rows = 0;
  int64_t top_k = 0;
  int64_t dim = 0;
};

// The routed experts of a layer in one call, for devices that want them so:
//   y[r, :] += sum over k ascending of weights[r, k] * down_e(silu(gate_e(x[r])) * up_e(x[r])), e = ids[r, k]
// The matrices are packed by WeightForms, an expert after the other, without their global scales.
struct FusedExperts {
  Rows x;                              // [rows, hidden], A
  const int32_t* ids = nullptr;        // [rows, top_k]
  const float* weights = nullptr;      // [rows, top_k]
  const void* gate_up = nullptr;       // [experts] of gate and up
  const void* down = nullptr;          // [experts]
  const float* gate_scales = nullptr;  // [experts]
  const float* up_scales = nullptr;    // [experts]
  const float* down_scales = nullptr;  // [experts]
  Rows y;                              // [rows, hidden], f32
  int64_t rows = 0;
  int64_t top_k = 0;
  int64_t experts = 0;
  int64_t hidden = 0;
  int64_t inter = 0;
  void* scratch = nullptr;  // Kernels::fused_experts_scratch_bytes
};

// A paged store of rows: slot s is row s % page_size of page s / page_size, and slots are consecutive rows of one
// buffer, so the page only matters for finding slots from positions.
//   MLA: one row per slot, [latent | rope], `dim` = latent + rope numbers
//   GQA: two stores, K and V, each [kv_heads * head_dim] per slot (values may have a size of their own)
struct PagedStore {
  void* data = nullptr;
  DType dtype = DType::kBf16;  // f32 (reference), bf16, e4m3
  int64_t dim = 0;             // numbers per slot
  int32_t page_size = 0;       // slots per page
  float scale = 1;             // stored = value / scale, value = stored * scale; only for e4m3
};

// store[slots[r], column ... column + dim) = x[r, :] / scale, rounded to the store's type (e4m3: an f32 division, then
// to nearest, saturating). A slot of -1 is skipped (padding). Slots of one call are different.
struct StoreRows {
  Rows x;  // [rows, dim], f32
  PagedStore store;
  int64_t column = 0;
  const int32_t* slots = nullptr;  // [rows]
  int64_t rows = 0;
  int64_t dim = 0;
};

// y[i, c, :] = what the store holds of position i of one request, columns [column, column + dim), as value: for i in
// [0, rows) and c in [0, copies).
struct LoadRows {
  PagedStore store;
  const int32_t* pages = nullptr;  // page id of positions [i * page_size, (i + 1) * page_size)
  int64_t column = 0;
  Rows y;                   // [rows, copies, dim]
  int64_t copy_stride = 0;  // of y, elements
  int64_t copies = 1;
  int64_t rows = 0;
  int64_t dim = 0;
};

// The rows of one request in an attention call: rows [row_begin, row_begin + row_count) of q.
struct AttentionRequest {
  int32_t row_begin = 0;
  int32_t row_count = 0;
  int32_t first_position = 0;      // position of row row_begin; the others follow
  int32_t key_count = 0;           // positions [0, key_count) are stored (the rows' own included)
  const int32_t* pages = nullptr;  // page id of positions [i * page_size, (i + 1) * page_size)
};

// The largest numbers per head that attention kernels have room for: of a key (MLA: latent + rope) and of a value (MLA:
// latent).
inline constexpr int64_t kMaxAttentionKeyDim = 640;
inline constexpr int64_t kMaxAttentionValueDim = 512;
// The most experts that Route takes.
inline constexpr int64_t kMaxExperts = 1024;

// Absorbed multi-head latent attention over a paged store of [latent | rope] rows, shared by all heads:
//   score(r, h, p) = scale * dot(q[r, h, :], row_p)      over latent + rope numbers
//   out[r, h, :]   = sum over p of softmax_p(score) * row_p[0:latent]
// for the positions p <= position(r) (causal), which must be stored: position(r) < key_count. Softmax in f32 with the
// running maximum.
struct MlaAttention {
  Rows q;  // [rows, heads * (latent + rope)]; per head [latent | rope]
  PagedStore store;
  const AttentionRequest* requests = nullptr;
  int64_t request_count = 0;
  Rows out;          // [rows, heads * latent]
  int64_t rows = 0;  // of q and out; kernels on devices size their grids by it. Rows of no request are left alone
  int64_t heads = 0;
  int64_t latent = 0;
  int64_t rope = 0;
  float scale = 1;
  const Upcoming* upcoming = nullptr;  // as in Gemm
  int64_t upcoming_count = 0;
};

// Grouped-query attention over paged K and V:
//   score(r, h, p) = scale * dot(q[r, h, :], k_p[h / (heads / kv_heads), :])
//   out[r, h, :]   = sum over p of softmax_p(score) * v_p[...]
// Visible positions of row r at position t, out of [0, key_count):
//   causal:      p <= t
//   not causal:  all (every row of a DFlash block sees the whole block)
//   window > 0:  and p > t - window (sliding layers); only when causal
//   first_visible (per request, may be nullptr): and p >= first_visible[i] (the draft window)
// A row that sees nothing gives zeros.
struct GqaAttention {
  Rows q;        // [rows, heads * head_dim]
  PagedStore k;  // kv_heads * head_dim numbers per slot
  PagedStore v;  // kv_heads * value_dim
  const AttentionRequest* requests = nullptr;
  const int32_t* first_visible = nullptr;  // [request_count] or nullptr
  int64_t request_count = 0;
  Rows out;          // [rows, heads * value_dim]
  int64_t rows = 0;  // as in MlaAttention
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;   // numbers of a query head and of a key
  int64_t value_dim = 0;  // of a value and of an output head; 0: head_dim
  float scale = 1;
  bool causal = true;
  int32_t window = 0;
  // Keys and values were made for this call alone, lie in one page, and belong to one request: a kernel may sum in an
  // order of its own, which the number of rows and keys may change.
  bool prompt = false;
  const Upcoming* upcoming = nullptr;  // as in Gemm
  int64_t upcoming_count = 0;
};

static inline int64_t value_dim_of(const GqaAttention& call) {
  return call.value_dim > 0 ? call.value_dim : call.head_dim;
}

// ids[r] = the column of the largest logit, ties to the lowest column; NaN never wins (a row of NaN gives 0).
struct Argmax {
  const float* logits = nullptr;  // [rows, columns]
  int64_t stride = 0;
  int32_t* ids = nullptr;  // [rows]
  int64_t rows = 0;
  int64_t columns = 0;
};

// The rows of blocks: sequence s has rows [s * block_rows, (s + 1) * block_rows), of which the first block_tokens[s]
// count.
struct Blocks {
  const int32_t* block_tokens = nullptr;  // [sequences], each at most block_rows
  int64_t sequences = 0;
  int64_t block_rows = 0;
};

// ids[r] = drafted[r] for all rows but the first of each block, which holds the token that was fed.
struct FillDrafts {
  Blocks blocks;
  const int32_t* drafted = nullptr;  // [rows]
  int32_t* ids = nullptr;            // [rows]
};

// How the tokens of a sequence are drawn.
struct DrawParams {
  float temperature = 0;  // 0: not at all, the most likely ones are taken
  float top_p = 1;
  float min_p = 0;
  int32_t top_k = 0;  // 0: all
  uint64_t seed = 0;
};

// tokens[r] holds the most likely token of row r (Argmax). Where the row's sequence draws, it becomes the token that is
// drawn at position positions[r] + 1, by the law of kernel/draw_law.h among the tokens that pass the filters: in
// descending order of weights, ties to the lower id, the top_k first ones; of these the shortest head with top_p of
// their weight; of these the ones with min_p of the largest weight. Of the kept ones, in the order of their ids, the
// one at draw_point of the random bits is drawn. Whether the row's block goes on with a draft does not matter:
// AcceptGreedy accepts the drafts that were drawn (spec/acceptance.h).
// Rows behind a block's tokens, and rows whose largest logit is infinite or NaN, keep what they hold.
struct DrawTokens {
  Blocks blocks;
  const int32_t* row_begin = nullptr;  // [sequences]: where a sequence's rows begin, packed; nullptr: as Blocks says
  const DrawParams* params = nullptr;  // [sequences]
  const float* logits = nullptr;       // [rows, columns]
  int64_t stride = 0;
  int64_t columns = 0;                 // the vocabulary, at most kMostDrawColumns
  const int32_t* positions = nullptr;  // [rows], of the tokens that were fed
  int32_t* tokens = nullptr;           // [rows]
};

// Acceptance of drafts (spec/acceptance.h); best: the most likely tokens, or what DrawTokens made of them:
//   accepted[s] = how many of ids[1 .. block_tokens) in a row equal best of the row before
//   committed[r] = slots[r] for the rows 0 .. accepted[s] of a block with rows, -1 for all others
struct AcceptGreedy {
  Blocks blocks;
  const int32_t* ids = nullptr;    // [rows]
  const int32_t* best = nullptr;   // [rows]
  const int32_t* slots = nullptr;  // [rows]
  int32_t* accepted = nullptr;     // [sequences]
  int32_t* committed = nullptr;    // [rows]
};

}  // namespace strobe::kernel
