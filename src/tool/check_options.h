// What can be said against options before any file is opened.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tool/options.h"

namespace strobe::tool {

// Errors name the flag, its value and what is accepted. Two names for one thing become one: afterwards
// speculative_num_draft_tokens holds --speculative-dflash-block-size too.
Result<void> check_options(EngineOptions& options);

// --speculative-min-accept-length: tokens, 0 for a draft in every step, nothing for auto.
Result<std::optional<double>> parse_min_accept_length(const std::string& text);

// --cors-origins: origins as browsers write them (scheme://host, scheme://host:port), or *, with commas between them;
// none of nothing.
Result<std::vector<std::string>> parse_origins(std::string_view list);

}  // namespace strobe::tool
