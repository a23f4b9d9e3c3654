// What a mistyped name was probably meant to be.
#pragma once

#include <span>
#include <string_view>

namespace strobe {

// The first of the names that is fewest edits (insert, delete, replace a character) from `word`; "" when it takes more
// than two, or more than half the word's characters.
[[nodiscard]] std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names);

}  // namespace strobe
