#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace strobe::engine {
namespace {

Error too_little(const MemoryNeeds& needs, int64_t usable, int64_t fixed, int64_t token_bytes) {
  return error(
      "--mem-fraction-static {}: of {} it allows {}; {} of weights and workspace leave no room for {} tokens of {} "
      "bytes "
      "in the KV caches",
      needs.fraction, bytes_text(needs.limit_bytes), bytes_text(usable), bytes_text(fixed), needs.page_size,
      token_bytes);
}

Error too_many(const MemoryNeeds& needs, int64_t usable, int64_t fixed, int64_t token_bytes, int64_t fitting_tokens) {
  return error(
      "--max-total-tokens {}: accepted: {} at most: --mem-fraction-static {} of {} is {}, weights and workspace take "
      "{}, "
      "each token {} bytes in the KV caches",
      needs.asked_tokens, fitting_tokens, needs.fraction, bytes_text(needs.limit_bytes), bytes_text(usable),
      bytes_text(fixed), token_bytes);
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  constexpr double kKib = 1024;
  const auto value = static_cast<double>(bytes);
  if (value >= kKib * kKib * kKib) return fmt::format("{:.2f} GiB", value / (kKib * kKib * kKib));
  if (value >= kKib * kKib) return fmt::format("{:.1f} MiB", value / (kKib * kKib));
  if (value >= kKib) return fmt::format("{:.1f} KiB", value / kKib);
  return fmt::format("{} B", bytes);
}

int64_t MemoryPlan::total_bytes() const {
  int64_t sum = 0;
  for (const MemoryItem& item : items) sum += item.bytes;
  return sum;
}

std::vector<std::string> MemoryPlan::table() const {
  const int64_t total = total_bytes();
  std::vector<std::string> lines;
  for (const MemoryItem& item : items) {
    lines.push_back(fmt::format("{:<20} {:>10}  {}", item.what, bytes_text(item.bytes), item.detail));
  }
  lines.push_back(fmt::format("{:<20} {:>10}  {:.1f}% of {}, of which --mem-fraction-static {} may be used", "all",
                              bytes_text(total), 100.0 * static_cast<double>(total) / static_cast<double>(limit_bytes),
                              bytes_text(limit_bytes), fraction));
  lines.push_back(fmt::format("{:<20} {:>10}  in {} pages; {}", "tokens", tokens, pages, reason));
  return lines;
}

Result<MemoryPlan> plan_memory(const MemoryNeeds& needs) {
  STROBE_CHECK(needs.page_size > 0 && !needs.pools.empty() && needs.limit_bytes > 0, "page size {}, {} pools",
               needs.page_size, needs.pools.size());
  MemoryPlan plan{.items = needs.fixed, .limit_bytes = needs.limit_bytes, .fraction = needs.fraction};
  for (const PoolSize& pool : needs.pools) plan.bytes_per_token += pool.bytes_per_token;
  const auto usable = static_cast<int64_t>(static_cast<double>(needs.limit_bytes) * needs.fraction);
  const int64_t fixed = plan.total_bytes();
  const int64_t page_bytes = plan.bytes_per_token * needs.page_size;
  const int64_t fitting_pages = usable > fixed ? (usable - fixed) / page_bytes - 1 : 0;  // one takes padding
  if (needs.asked_tokens > 0) {
    plan.pages = needs.asked_tokens / needs.page_size;
    plan.reason = "as --max-total-tokens says";
  } else {
    const int64_t useful_pages = (needs.useful_tokens + needs.page_size - 1) / needs.page_size;
    plan.pages = std::min(fitting_pages, useful_pages);
    plan.reason = fitting_pages < useful_pages ? "what --mem-fraction-static leaves"
                                               : "enough for every running request's whole context, at most 1 Mi";
  }
  if (fitting_pages < 1) return too_little(needs, usable, fixed, plan.bytes_per_token);
  if (plan.pages < 1 || plan.pages > fitting_pages) {
    return too_many(needs, usable, fixed, plan.bytes_per_token, fitting_pages * needs.page_size);
  }
  plan.tokens = plan.pages * needs.page_size;
  for (const PoolSize& pool : needs.pools) {
    plan.items.push_back({pool.what, (plan.pages + 1) * needs.page_size * pool.bytes_per_token,
                          fmt::format("{} bytes a token, {}", pool.bytes_per_token, pool.detail)});
  }
  return plan;
}

}  // namespace strobe::engine
