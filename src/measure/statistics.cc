#include "measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <unordered_set>

namespace strobe::measure {
namespace {

double percentile_of_sorted(std::span<const double> sorted, double share) {
  if (sorted.empty()) return 0;
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

std::string_view run_at(std::span<const int32_t> tokens, size_t at, size_t length) {
  return {reinterpret_cast<const char*>(tokens.data() + at), length * sizeof(int32_t)};
}

}  // namespace

double percentile(std::span<const double> values, double share) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return percentile_of_sorted(sorted, share);
}

Summary summarise(std::span<const double> values) {
  if (values.empty()) return {};
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  return {.count = std::ssize(sorted),
          .mean = sum / static_cast<double>(sorted.size()),
          .median = percentile_of_sorted(sorted, 0.5),
          .p90 = percentile_of_sorted(sorted, 0.9),
          .p95 = percentile_of_sorted(sorted, 0.95),
          .p99 = percentile_of_sorted(sorted, 0.99),
          .max = sorted.back()};
}

double repeated_share(std::span<const int32_t> before, std::span<const int32_t> text, size_t length) {
  std::vector<int32_t> all(before.begin(), before.end());
  all.insert(all.end(), text.begin(), text.end());
  if (text.size() < length || all.size() < length) return 0;
  std::unordered_set<std::string_view> seen;
  size_t runs = 0, repeated = 0;
  for (size_t at = 0; at + length <= all.size(); ++at) {
    const bool fresh = seen.insert(run_at(all, at, length)).second;
    if (at + length <= before.size()) continue;  // a run of what came before alone
    ++runs;
    repeated += fresh ? 0 : 1;
  }
  return static_cast<double>(repeated) / static_cast<double>(runs);
}

std::vector<double> accepted_by_position(std::span<const int64_t> histogram) {
  const int64_t steps = std::accumulate(histogram.begin(), histogram.end(), int64_t{0});
  std::vector<double> shares;
  if (steps == 0) return shares;
  int64_t more = steps;
  for (size_t a = 0; a + 1 < histogram.size(); ++a) {
    more -= histogram[a];
    shares.push_back(static_cast<double>(more) / static_cast<double>(steps));
  }
  return shares;
}

uint64_t Random::next() {  // SplitMix64
  state_ += 0x9E3779B97F4A7C15ULL;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::vector<double> arrival_times(int64_t requests, double rate, bool poisson, uint64_t seed) {
  std::vector<double> times;
  Random random(seed);
  double now = 0;
  for (int64_t i = 0; i < requests; ++i) {
    times.push_back(now);
    if (rate > 0) now += poisson ? -std::log1p(-random.uniform()) / rate : 1 / rate;
  }
  return times;
}

}  // namespace strobe::measure
