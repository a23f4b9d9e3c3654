// Tokens drawn from logits.
#include <algorithm>
#include <cmath>

#include "kernel/draw_law.h"
#include "kernel/ref/draw.h"
#include "kernel/ref/families.h"

namespace strobe::kernel::ref {
namespace {

uint64_t sum_of(const std::vector<TokenWeight>& list) {
  uint64_t sum = 0;
  for (const TokenWeight& token : list) sum += token.weight;
  return sum;
}

// Leaves what the filters keep, in descending order of weights.
void filter(std::vector<TokenWeight>& list, const DrawParams& params) {
  std::sort(list.begin(), list.end(), [](const TokenWeight& a, const TokenWeight& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  });
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < list.size())
    list.resize(static_cast<size_t>(params.top_k));
  if (params.top_p < 1) {
    const uint64_t enough = top_p_sum(params.top_p, sum_of(list));
    uint64_t sum = 0;
    size_t keep = 0;
    while (sum < enough) sum += list[keep++].weight;
    list.resize(keep);
  }
  const uint64_t least = min_p_weight(params.min_p);
  while (list.size() > 1 && list.back().weight < least) list.pop_back();
}

int32_t drawn(const std::vector<TokenWeight>& kept, uint64_t seed, int64_t position) {
  const uint64_t point = draw_point(random_bits(seed, position), sum_of(kept));
  size_t i = 0;
  for (uint64_t sum = kept[0].weight; sum <= point; sum += kept[i].weight) ++i;
  return kept[i].id;
}

}  // namespace

std::vector<TokenWeight> draw_weights(const float* logits, int64_t columns, float largest, const DrawParams& params) {
  std::vector<TokenWeight> list;
  for (int64_t i = 0; i < columns; ++i) {
    const uint64_t weight = draw_weight(logits[i], largest, params.temperature);
    if (weight > 0) list.push_back({static_cast<int32_t>(i), weight});
  }
  if (params.top_k > 0 || params.top_p < 1 || params.min_p > 0) {
    filter(list, params);
    std::sort(list.begin(), list.end(), [](const TokenWeight& a, const TokenWeight& b) { return a.id < b.id; });
  }
  return list;
}

void draw_tokens(WorkerPool& pool, const DrawTokens& call) {
  const int64_t block = call.blocks.block_rows;
  pool.for_each(call.blocks.sequences * block, [&](int64_t i) {
    const int64_t sequence = i / block, place = i % block, tokens = call.blocks.block_tokens[sequence];
    const int64_t r = call.row_begin == nullptr ? i : call.row_begin[sequence] + place;
    const DrawParams& params = call.params[sequence];
    if (place >= tokens || params.temperature == 0) return;
    const float* logits = call.logits + r * call.stride;
    const float largest = logits[call.tokens[r]];
    if (!std::isfinite(largest)) return;
    const auto kept = draw_weights(logits, call.columns, largest, params);
    call.tokens[r] = drawn(kept, params.seed, call.positions[r] + 1);
  });
}

}  // namespace strobe::kernel::ref
