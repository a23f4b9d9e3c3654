# Writes a C++ file that holds other files' bytes:
#   cmake -DOUTPUT=page_files.cc -DFOLDER=src/serve/page "-DFILES=a.html b.js" -P embed_files.cmake
# It defines strobe::serve::page_files() (serve/page_files.h).
separate_arguments(FILES)
set(arrays "")
set(rows "")
set(number 0)
foreach(name IN LISTS FILES)
  file(READ "${FOLDER}/${name}" hex HEX)
  if(hex STREQUAL "")
    message(FATAL_ERROR "${FOLDER}/${name} is empty")
  endif()
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char kFile${number}[] = {\n${bytes}};\n")
  string(APPEND rows "      {\"${name}\", {reinterpret_cast<const char*>(kFile${number}), sizeof(kFile${number})}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUTPUT}" "// Written by cmake/embed_files.cmake from ${FILES}.
#include \"serve/page_files.h\"

namespace strobe::serve {
namespace {

${arrays}
}  // namespace

std::span<const PageFile> page_files() {
  static const PageFile files[] = {
${rows}  };
  return files;
}

}  // namespace strobe::serve
")
