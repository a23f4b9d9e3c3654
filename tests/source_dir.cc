#include "source_dir.h"

#include <cstdlib>

namespace strobe {

std::filesystem::path source_dir() {
  const char* moved = std::getenv("STROBE_SOURCE_DIR");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return moved != nullptr ? moved : STROBE_SOURCE_DIR;
}

}  // namespace strobe
