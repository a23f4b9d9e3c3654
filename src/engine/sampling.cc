#include "engine/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/check.h"
#include "base/mix.h"

namespace strobe::engine {
namespace {

bool in_vocabulary(int32_t id, size_t vocab) {
  return id >= 0 && static_cast<size_t>(id) < vocab;
}

// Keeps the leading `keep` entries of a descending distribution.
void truncate(Distribution& d, size_t keep) {
  d.ids.resize(keep);
  d.probabilities.resize(keep);
}

void normalise(Distribution& d) {
  double sum = 0;
  for (const float p : d.probabilities) sum += p;
  for (float& p : d.probabilities) p = static_cast<float>(p / sum);
}

}  // namespace

void adjust_logits(std::span<float> logits, const SamplingParams& params, const TokenHistory& history) {
  for (const auto& [id, bias] : params.logit_bias) {
    if (in_vocabulary(id, logits.size())) logits[static_cast<size_t>(id)] += bias;
  }
  if (params.repetition_penalty == 1 && params.presence_penalty == 0 && params.frequency_penalty == 0) return;
  struct Count {
    int32_t all = 0;
    int32_t answer = 0;
  };
  std::unordered_map<int32_t, Count> counts;
  for (size_t i = 0; i < history.tokens.size(); ++i) {
    Count& count = counts[history.tokens[i]];
    ++count.all;
    if (static_cast<int64_t>(i) >= history.prompt_tokens) ++count.answer;
  }
  for (const int32_t id : history.drafted) {
    Count& count = counts[id];
    ++count.all;
    ++count.answer;
  }
  for (const auto& [id, count] : counts) {
    if (!in_vocabulary(id, logits.size())) continue;
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (count.answer > 0) {
      logit -= params.presence_penalty + params.frequency_penalty * static_cast<float>(count.answer);
    }
  }
}

double Distribution::probability(int32_t id) const {
  const auto found = std::find(ids.begin(), ids.end(), id);
  return found == ids.end() ? 0.0 : probabilities[static_cast<size_t>(found - ids.begin())];
}

Distribution make_distribution(std::span<const float> logits, const SamplingParams& params) {
  STROBE_CHECK(!params.greedy(), "temperature = {}, top_k = {}", params.temperature, params.top_k);
  Distribution d;
  float largest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) {
    if (logit > largest) largest = logit;
  }
  if (!std::isfinite(largest)) return {{argmax(logits)}, {1.0F}};
  for (size_t i = 0; i < logits.size(); ++i) {
    const float p = std::exp((logits[i] - largest) / params.temperature);
    if (!(p > 0)) continue;  // NaN and -inf too
    d.ids.push_back(static_cast<int32_t>(i));
    d.probabilities.push_back(p);
  }
  const bool filtered = params.top_k > 0 || params.top_p < 1 || params.min_p > 0;
  if (!filtered) {
    normalise(d);
    return d;
  }
  std::vector<int32_t> order(d.ids.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float pa = d.probabilities[static_cast<size_t>(a)], pb = d.probabilities[static_cast<size_t>(b)];
    return pa != pb ? pa > pb : a < b;
  });
  Distribution sorted;
  for (const int32_t i : order) {
    sorted.ids.push_back(d.ids[static_cast<size_t>(i)]);
    sorted.probabilities.push_back(d.probabilities[static_cast<size_t>(i)]);
  }
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < sorted.ids.size()) {
    truncate(sorted, static_cast<size_t>(params.top_k));
  }
  normalise(sorted);
  if (params.top_p < 1) {  // the shortest head whose sum reaches top_p
    double sum = 0;
    size_t keep = 0;
    while (keep < sorted.ids.size() && sum < params.top_p) sum += sorted.probabilities[keep++];
    truncate(sorted, std::max<size_t>(keep, 1));
  }
  if (params.min_p > 0) {
    size_t keep = 1;
    while (keep < sorted.ids.size() && sorted.probabilities[keep] >= params.min_p * sorted.probabilities[0]) ++keep;
    truncate(sorted, keep);
  }
  normalise(sorted);
  return sorted;
}

int32_t sample(const Distribution& distribution, double uniform) {
  double sum = 0;
  for (size_t i = 0; i < distribution.ids.size(); ++i) {
    sum += distribution.probabilities[i];
    if (uniform < sum) return distribution.ids[i];
  }
  return distribution.ids.back();  // rounding left the sum a little below 1
}

int32_t sample_without(const Distribution& distribution, int32_t excluded, double uniform) {
  double rest = 0;
  for (size_t i = 0; i < distribution.ids.size(); ++i) {
    if (distribution.ids[i] != excluded) rest += distribution.probabilities[i];
  }
  if (!(rest > 0)) return excluded;
  double sum = 0;
  int32_t last = excluded;
  for (size_t i = 0; i < distribution.ids.size(); ++i) {
    if (distribution.ids[i] == excluded) continue;
    sum += distribution.probabilities[i];
    last = distribution.ids[i];
    if (uniform * rest < sum) return last;
  }
  return last;
}

int32_t argmax(std::span<const float> logits) {
  int32_t best = 0;
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > largest) {
      largest = logits[i];
      best = static_cast<int32_t>(i);
    }
  }
  return best;
}

double uniform(uint64_t seed, int64_t position, RandomUse use) {
  const uint64_t bits = splitmix64(mix(seed, static_cast<uint64_t>(position)) ^ static_cast<uint64_t>(use));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace strobe::engine
