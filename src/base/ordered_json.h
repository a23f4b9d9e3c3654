// JSON whose objects keep the order of their names: for what a chat template may print.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"

namespace strobe {

// An object that keeps its order is searched name by name, so a long one costs the square of its length to read.
constexpr size_t kOrderedNamesMax = 1024;

// As parse_json (json_fields.h), and refuses objects of more than kOrderedNamesMax names.
Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view where);

}  // namespace strobe
