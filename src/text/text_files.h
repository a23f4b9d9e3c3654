// Reading the text files of a model folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace strobe {

// The whole file. A missing file, a folder, or one larger than `max_bytes` is an Error that names it; a file that
// exists but cannot be read is a Failure.
Result<std::string> read_text_file(const std::filesystem::path& path, uintmax_t max_bytes);

}  // namespace strobe
