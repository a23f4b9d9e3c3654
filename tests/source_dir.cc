#include "source_dir.h"

namespace strobe {

std::filesystem::path source_dir() {
  return STROBE_SOURCE_DIR;
}

}  // namespace strobe
