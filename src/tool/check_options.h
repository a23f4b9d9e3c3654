// What can be said against options before any file is opened.
#pragma once

#include "base/result.h"
#include "tool/options.h"

namespace strobe::tool {

// Errors name the flag, its value and what is accepted. Two names for one thing become one: afterwards
// speculative_num_draft_tokens holds --speculative-dflash-block-size too.
Result<void> check_options(EngineOptions& options);

}  // namespace strobe::tool
