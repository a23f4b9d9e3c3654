// Where the repository lies: tests read the model, goldens and fixtures from it.
#pragma once

#include <filesystem>

namespace strobe {

std::filesystem::path source_dir();

}  // namespace strobe
