#include "tool/commands.h"

#include <cstdio>
#include <exception>

#include "tool/measured_server.h"

namespace strobe::tool {

int exit_code(const Result<int>& result) {
  return result.ok() ? result.value() : say_error(result.error(), 1);
}

int say_error(const Error& error, int code) {
  fmt::print(stderr, "strobe: {}\n", error.message);
  return code;
}

int measuring(const std::function<int()>& command) {
  try {
    return command();
  } catch (const std::exception& failure) {
    return say_error({failure.what()}, kNotMeasured);
  }
}

}  // namespace strobe::tool
