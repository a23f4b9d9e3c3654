// What the two kernels of nvfp4_moe.h share: work lists and the workspace's layout.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace strobe::kernel::cuda {

struct MoeShape;

// Tokens that one tile of weights multiplies in one go: `count` pairs of one expert from `begin` in the sorted list.
struct MoeGroup {
  int expert = 0;
  int begin = 0;
  int count = 0;
  int first = 0;   // where the expert's groups begin in the list of groups
  int groups = 0;  // how many it has
};

struct MoeControl {
  int groups = 0;  // length of the list
  int ticket = 0;  // next tile to be taken
};

// Parts of the workspace.
struct MoeWork {
  MoeControl* control = nullptr;
  MoeGroup* groups = nullptr;
  int* pairs = nullptr;         // [pairs] token * top_k + k, by expert, in ascending order within one
  int* gate_up_done = nullptr;  // [groups] tiles of gate_up that are finished
  int* arrivals = nullptr;      // [tokens, tiles of down] experts that are finished
  uint16_t* h = nullptr;        // [pairs in sorted order, inter]
  float* partial = nullptr;     // [pairs as in ids, hidden]
};
// Sets the pointers from `base` on; returns the bytes they take.
int64_t lay_out_moe_work(const MoeShape& shape, int tokens, uint8_t* base, MoeWork* work);

struct MoeGroupParams {
  MoeWork work;
  const int32_t* ids = nullptr;
  int pairs = 0;
  int experts = 0;
  int group_rows = 0;  // largest count
  int arrivals = 0;    // to be set to zero
};
void launch_moe_group(const MoeGroupParams& params, cudaStream_t stream);

// One of the two matrix products.
struct MoePhase {
  const uint8_t* weights = nullptr;
  int64_t expert_bytes = 0;
  int64_t tile_bytes = 0;  // 64 rows
  const uint16_t* x = nullptr;
  int64_t x_stride = 0;
  int k_blocks = 0;  // 64 columns each
  int tiles = 0;     // per expert
};

struct MoeParams {
  MoeWork work;
  const int32_t* ids = nullptr;
  int pairs = 0;
  int tokens = 0;
  int experts = 0;
  MoePhase phase[2];
  const float* gate_scales = nullptr;
  const float* up_scales = nullptr;
  const float* down_scales = nullptr;
  const float* id_weights = nullptr;
  void* y = nullptr;
  int64_t y_stride = 0;
  bool y_f32 = false;
  bool accumulate = false;
  int top_k = 0;
  int hidden = 0;
  int inter = 0;
};

// How the kernel is cut; results do not depend on it, bit for bit.
struct MoeTiling {
  int halves = 4;      // a block's weight rows in units of 32, which divide 2 inter and hidden
  int row_blocks = 1;  // tokens in units of 8 that share one reading of a weight, at most
  friend bool operator==(const MoeTiling&, const MoeTiling&) = default;
};
// All there are.
inline constexpr MoeTiling kMoeTilings[] = {{4, 1}, {4, 2}, {2, 1}, {2, 4}};
void launch_moe(const MoeParams& params, const MoeTiling& tiling, cudaStream_t stream);

}  // namespace strobe::kernel::cuda
