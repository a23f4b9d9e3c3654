// Programs run to their end.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace strobe::measure {

// Runs the words of a command line, the first a program, in `folder`; its output is ours. The exit code, or 128 and the
// signal's number. When `stop` becomes true it is asked to end (SIGTERM) and waited for. Failure when it cannot start.
int run_program(std::vector<std::string> words, const std::string& folder, const std::atomic<bool>& stop);

}  // namespace strobe::measure
