#include "engine/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "base/check.h"
#include "kernel/ref/draw.h"

namespace strobe::engine {
namespace {

bool in_vocabulary(int32_t id, size_t vocab) {
  return id >= 0 && static_cast<size_t>(id) < vocab;
}

// The inverse of what uniform() makes of its bits.
uint64_t bits_of(double uniform) {
  return static_cast<uint64_t>(uniform * 0x1p53);
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

uint64_t Distribution::sum() const {
  return std::accumulate(weights.begin(), weights.end(), uint64_t{0});
}

uint64_t Distribution::weight(int32_t id) const {
  const auto found = std::lower_bound(ids.begin(), ids.end(), id);
  return found == ids.end() || *found != id ? 0 : weights[static_cast<size_t>(found - ids.begin())];
}

double Distribution::probability(int32_t id) const {
  return static_cast<double>(weight(id)) / static_cast<double>(sum());
}

kernel::DrawParams draw_params(const SamplingParams& params) {
  if (params.greedy()) return {};
  return {.temperature = params.temperature,
          .top_p = params.top_p,
          .min_p = params.min_p,
          .top_k = std::max(params.top_k, 0),
          .seed = params.seed};
}

Distribution make_distribution(std::span<const float> logits, const SamplingParams& params) {
  STROBE_CHECK(!params.greedy(), "temperature = {}, top_k = {}", params.temperature, params.top_k);
  const int32_t best = argmax(logits);
  const float largest = logits[static_cast<size_t>(best)];
  if (!std::isfinite(largest)) return {{best}, {1}};
  Distribution d;
  for (const auto& [id, weight] :
       kernel::ref::draw_weights(logits.data(), static_cast<int64_t>(logits.size()), largest, draw_params(params))) {
    d.ids.push_back(id);
    d.weights.push_back(weight);
  }
  return d;
}

int32_t sample(const Distribution& distribution, double uniform) {
  const uint64_t point = kernel::draw_point(bits_of(uniform), distribution.sum());
  size_t i = 0;
  for (uint64_t sum = distribution.weights[0]; sum <= point; sum += distribution.weights[i]) ++i;
  return distribution.ids[i];
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

double uniform(uint64_t seed, int64_t position) {
  return static_cast<double>(kernel::random_bits(seed, position)) * 0x1p-53;
}

}  // namespace strobe::engine
