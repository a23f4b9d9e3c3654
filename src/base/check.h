// STROBE_CHECK: an invariant of our own. When it fails the program prints the place, the condition and the values, and
// aborts.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace strobe {

// Prints "file:line: check `condition` failed: message" to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view message);

}  // namespace strobe

#define STROBE_CHECK(condition, ...)                                                         \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::strobe::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
