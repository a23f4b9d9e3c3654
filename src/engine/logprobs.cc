#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace strobe::engine {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Ids of the largest logits, largest first, ties by id.
std::vector<int32_t> largest_ids(std::span<const float> logits, size_t count) {
  const auto before = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<int32_t> kept;  // a heap, the first to be dropped in front
  if (count == 0) return kept;
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (std::isnan(logits[i]) || (kept.size() == count && !before(id, kept.front()))) continue;
    if (kept.size() == count) {
      std::pop_heap(kept.begin(), kept.end(), before);
      kept.pop_back();
    }
    kept.push_back(id);
    std::push_heap(kept.begin(), kept.end(), before);
  }
  std::sort_heap(kept.begin(), kept.end(), before);
  return kept;
}

}  // namespace

TokenLogprobs token_logprobs(std::span<const float> logits, int32_t token, int32_t top) {
  STROBE_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size() && top >= 0, "token {} of {}, top {}", token,
               logits.size(), top);
  float largest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) {
    if (logit > largest) largest = logit;
  }
  // Differences to the largest; it may be infinite itself.
  const auto below = [&](float logit) {
    return std::isnan(logit) ? kNever : logit == largest ? 0.0 : static_cast<double>(logit) - largest;
  };
  double sum = 0;
  for (const float logit : logits) sum += std::exp(below(logit));
  const auto logprob = [&, log_sum = std::log(sum)](int32_t id) {
    const double difference = below(logits[static_cast<size_t>(id)]);
    return static_cast<float>(difference == kNever ? kNever : difference - log_sum);
  };
  TokenLogprobs result{.logprob = logprob(token)};
  for (const int32_t id : largest_ids(logits, static_cast<size_t>(top))) result.top.emplace_back(id, logprob(id));
  return result;
}

}  // namespace strobe::engine
