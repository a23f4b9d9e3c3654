#include "kernel/cuda/sm90/nvfp4_moe.h"

#include "base/check.h"
#include "kernel/args.h"
#include "kernel/cuda/sm90/nvfp4_layout.h"
#include "kernel/cuda/sm90/nvfp4_moe_params.h"
#include "kernel/cuda/sm90/nvfp4_pack.h"

namespace strobe::kernel::cuda {
namespace {

// Above, on average, most groups of 8 would be cut in two.
constexpr int kManyTokensPerExpert = 5;

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

void check_call(const MoeCall& call) {
  const MoeShape& s = call.shape;
  STROBE_CHECK(s.experts > 0 && s.experts <= kMaxExperts, "{} experts", s.experts);
  STROBE_CHECK(s.hidden % 64 == 0 && s.inter % 64 == 0, "hidden {}, inter {}, expected multiples of 64", s.hidden,
               s.inter);
  STROBE_CHECK(s.top_k > 0 && int64_t{call.tokens} * s.top_k <= kMaxMoePairs, "{} tokens, top {}", call.tokens,
               s.top_k);
  STROBE_CHECK(call.x_stride % 8 == 0, "x_stride {}", call.x_stride);
  STROBE_CHECK(!call.accumulate || call.y_dtype == DType::kF32, "accumulate into {}", to_string(call.y_dtype));
}

MoeParams make_params(const MoeCall& call, const MoeWork& work) {
  const MoeShape& s = call.shape;
  MoeParams p;
  p.work = work;
  p.ids = call.ids;
  p.pairs = call.tokens * s.top_k;
  p.tokens = call.tokens;
  p.experts = s.experts;
  p.phase[0] = {.weights = call.weights.gate_up,
                .expert_bytes = nvfp4_packed_bytes(2 * s.inter, s.hidden),
                .tile_bytes = nvfp4_packed_bytes(kNvfp4TileRows, s.hidden),
                .x = reinterpret_cast<const uint16_t*>(call.x),
                .x_stride = call.x_stride,
                .k_blocks = s.hidden / kNvfp4BlockColumns};
  p.phase[1] = {.weights = call.weights.down,
                .expert_bytes = nvfp4_packed_bytes(s.hidden, s.inter),
                .tile_bytes = nvfp4_packed_bytes(kNvfp4TileRows, s.inter),
                .x = work.h,
                .x_stride = s.inter,
                .k_blocks = s.inter / kNvfp4BlockColumns};
  p.gate_scales = call.weights.gate_scales;
  p.up_scales = call.weights.up_scales;
  p.down_scales = call.weights.down_scales;
  p.id_weights = call.id_weights;
  p.y = call.y;
  p.y_stride = call.y_stride;
  p.y_f32 = call.y_dtype == DType::kF32;
  p.accumulate = call.accumulate;
  p.top_k = s.top_k;
  p.hidden = s.hidden;
  p.inter = s.inter;
  return p;
}

}  // namespace

int64_t lay_out_moe_work(const MoeShape& shape, int tokens, uint8_t* base, MoeWork* work) {
  const int64_t pairs = int64_t{tokens} * shape.top_k;
  const int64_t arrivals = int64_t{tokens} * (shape.hidden / kNvfp4TileRows);
  int64_t offset = 0;
  const auto take = [&](int64_t bytes) {
    uint8_t* part = base + offset;
    offset += round_up(bytes, 256);
    return part;
  };
  work->control = reinterpret_cast<MoeControl*>(take(sizeof(MoeControl)));
  work->groups = reinterpret_cast<MoeGroup*>(take(pairs * int64_t{sizeof(MoeGroup)}));
  work->pairs = reinterpret_cast<int*>(take(pairs * 4));
  work->gate_up_done = reinterpret_cast<int*>(take(pairs * 4));
  work->arrivals = reinterpret_cast<int*>(take(arrivals * 4));
  work->h = reinterpret_cast<uint16_t*>(take(pairs * shape.inter * 2));
  work->partial = reinterpret_cast<float*>(take(pairs * shape.hidden * 4));
  return offset;
}

int64_t moe_workspace_bytes(const MoeShape& shape, int tokens) {
  MoeWork work;
  return lay_out_moe_work(shape, tokens, nullptr, &work);
}

bool fits(const MoeTiling& tiling, const MoeShape& shape) {
  const int rows = 32 * tiling.halves;
  return 2 * shape.inter % rows == 0 && shape.hidden % rows == 0;
}

MoeTiling choose_moe_tiling(const MoeShape& shape, int tokens) {
  const bool many = int64_t{tokens} * shape.top_k > int64_t{kManyTokensPerExpert} * shape.experts;
  for (const int halves : {4, 2}) {
    for (const MoeTiling& tiling : kMoeTilings) {
      if (tiling.halves == halves && (tiling.row_blocks > 1) == many && fits(tiling, shape)) return tiling;
    }
  }
  check_failed(__FILE__, __LINE__, "a tiling fits", fmt::format("hidden {}, inter {}", shape.hidden, shape.inter));
}

void nvfp4_moe(const MoeCall& call, const MoeTiling& tiling, cudaStream_t stream) {
  check_call(call);
  STROBE_CHECK(fits(tiling, call.shape), "tiles of {} rows, hidden {}, inter {}", 32 * tiling.halves, call.shape.hidden,
               call.shape.inter);
  if (call.tokens == 0) return;
  MoeWork work;
  lay_out_moe_work(call.shape, call.tokens, call.workspace, &work);
  const MoeParams params = make_params(call, work);
  launch_moe(params, tiling, stream);
}

}  // namespace strobe::kernel::cuda
