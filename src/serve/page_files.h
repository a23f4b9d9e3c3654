// The files of src/serve/page as they were when the program was built; page_files.cc is written by
// cmake/embed_files.cmake.
#pragma once

#include <span>
#include <string_view>

namespace strobe::serve {

struct PageFile {
  std::string_view name;  // "index.html"
  std::string_view body;
};

[[nodiscard]] std::span<const PageFile> page_files();

}  // namespace strobe::serve
