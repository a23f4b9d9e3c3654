// Failure: the environment's fault (a file that cannot be read, memory that cannot be had, a device that answers with
// an error). Thrown; caught once at program start and once per engine step.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace strobe {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace strobe
