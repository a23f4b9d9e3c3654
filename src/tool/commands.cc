#include "tool/commands.h"

#include <cstdio>

namespace strobe::tool {

int exit_code(const Result<int>& result) {
  if (result.ok()) return result.value();
  fmt::print(stderr, "strobe: {}\n", result.message());
  return 1;
}

}  // namespace strobe::tool
