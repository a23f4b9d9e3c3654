// Prompts to measure with.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace strobe::measure {

enum class Dataset { kRandomIds, kShareGptFile, kJsonl };

// "random-ids", "sharegpt-file", "jsonl"; errors name --dataset.
Result<Dataset> parse_dataset(const std::string& name);

// The first human turns of a ShareGPT file (an array of {"conversations": [{"from", "value"}, ...]}).
Result<std::vector<std::string>> read_sharegpt(const std::string& path);
// JSON lines with `prompt`, or `question` (asked as "Question: ...\nAnswer:").
Result<std::vector<std::string>> read_prompt_lines(const std::string& path);

// Exactly `length` tokens: `ids` again and again, then cut. `length` 0: as they are.
[[nodiscard]] std::vector<int32_t> fit(std::span<const int32_t> ids, int64_t length);
// `length` consecutive ids from `first` on, modulo `vocab`.
[[nodiscard]] std::vector<int32_t> consecutive_ids(int64_t first, int64_t length, int64_t vocab);

}  // namespace strobe::measure
