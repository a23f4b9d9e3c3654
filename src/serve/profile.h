// POST /start_profile and POST /stop_profile: profiles of the engine's steps.
#pragma once

#include <string>

#include "base/trace.h"
#include "serve/router.h"

namespace strobe::serve {

// Profiles are written into `folder` and folders below it, nowhere else: what a client names is checked. Empty: both
// answer 400 and name the flag. The recorder must outlive the router.
void add_profile_routes(Router& router, TraceRecorder& recorder, const std::string& folder);

}  // namespace strobe::serve
