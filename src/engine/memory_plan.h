// The memory plan: what will be taken, before anything is. A pure function of sizes; it is printed at start, shown in
// /server_info and by `strobe inspect`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace strobe::engine {

struct MemoryItem {
  std::string what;  // "target weights", "draft KV cache", ...
  int64_t bytes = 0;
  std::string detail;
};

// A KV cache: each by its own geometry and type.
struct PoolSize {
  std::string what;
  int64_t bytes_per_token = 0;
  std::string detail;
};

struct MemoryNeeds {
  int64_t limit_bytes = 0;        // of the device
  double fraction = 0.85;         // of it, for everything planned here (--mem-fraction-static)
  std::vector<MemoryItem> fixed;  // weights, tables, workspace
  std::vector<PoolSize> pools;    // at least one
  int32_t page_size = 64;
  int64_t asked_tokens = 0;   // --max-total-tokens; 0: as many as fit, at most `useful_tokens`
  int64_t useful_tokens = 0;  // more would never be used
};

struct MemoryPlan {
  std::vector<MemoryItem> items;
  int64_t limit_bytes = 0;
  double fraction = 0;
  int64_t bytes_per_token = 0;  // of all pools
  int64_t pages = 0;            // handed to requests; the pools hold one more, for padding
  int64_t tokens = 0;           // pages * page_size
  std::string reason;           // why so many

  [[nodiscard]] int64_t total_bytes() const;
  [[nodiscard]] std::vector<std::string> table() const;  // lines
};

// Error, with the figures: not a single page fits, or the tokens asked for do not fit.
Result<MemoryPlan> plan_memory(const MemoryNeeds& needs);

// "1.50 GiB", "26.4 MiB", "576 B"
[[nodiscard]] std::string bytes_text(int64_t bytes);

}  // namespace strobe::engine
