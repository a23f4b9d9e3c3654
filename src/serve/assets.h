// What a browser gets: files built into the program, by path. The page at / is plain text for now.
#pragma once

#include <span>
#include <string_view>

namespace strobe::serve {

struct Asset {
  std::string_view path;
  std::string_view content_type;
  std::string_view body;
};

[[nodiscard]] std::span<const Asset> assets();

}  // namespace strobe::serve
