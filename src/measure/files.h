// Result files: written whole, or not at all.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace strobe::measure {

// Makes the folder when it is missing. Errors name the flag and the folder.
Result<void> make_folder(std::string_view flag, const std::string& path);
// Through a second file beside it, so that a reader never sees half of it. Failure when it cannot be written.
void write_whole(const std::string& path, std::string_view text);
// Letters, digits, '.', '-' and '_' stay; the rest becomes '-'.
[[nodiscard]] std::string safe_name(std::string_view text);
// UTC, "20261129-234500".
[[nodiscard]] std::string time_stamp();
// For HTML and SVG.
[[nodiscard]] std::string escape_markup(std::string_view text);

}  // namespace strobe::measure
