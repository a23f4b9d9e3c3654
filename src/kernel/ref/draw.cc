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

// The token at `point` of the sums in the order of the list, `excluded` left out; -1 when the sums end before it.
int32_t token_at(const std::vector<TokenWeight>& list, int32_t excluded, uint64_t point) {
  uint64_t sum = 0;
  for (const TokenWeight& token : list) {
    if (token.id == excluded) continue;
    sum += token.weight;
    if (point < sum) return token.id;
  }
  return -1;
}

int32_t drawn(const std::vector<TokenWeight>& kept, uint64_t seed, int64_t position, const int32_t* draft) {
  const uint64_t sum = sum_of(kept);
  const auto point = [&](RandomUse use, uint64_t of) { return draw_point(random_bits(seed, position, use), of); };
  if (draft == nullptr) return token_at(kept, -1, point(RandomUse::kSample, sum));
  const auto found = std::find_if(kept.begin(), kept.end(), [&](const TokenWeight& t) { return t.id == *draft; });
  const uint64_t weight = found == kept.end() ? 0 : found->weight;
  if (point(RandomUse::kAccept, sum) < weight) return *draft;
  return token_at(kept, *draft, point(RandomUse::kResample, sum - weight));
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
    call.tokens[r] = drawn(kept, params.seed, call.positions[r] + 1, place + 1 < tokens ? &call.ids[r + 1] : nullptr);
  });
}

}  // namespace strobe::kernel::ref
