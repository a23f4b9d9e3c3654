// Probe: one token, really generated, to know that the engine answers.
#pragma once

#include <functional>
#include <string>

#include "schedule/generator.h"

namespace strobe::serve {

// Submits a request for one token after token 0. `done` is called once, on the scheduler's thread or this one: an empty
// string when a token came, else why none did. Returns the request's id, empty when it was refused.
std::string start_probe(schedule::Generator& generator, std::string id, std::function<void(std::string)> done);

}  // namespace strobe::serve
