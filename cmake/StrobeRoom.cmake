# strobe_room(<name> SOURCES <files> [ROOMS <lower rooms>] [LIBRARIES <others>])
# A room is a folder under src/ and one static library, strobe_<name>. It may include only rooms on lower floors
# (docs/MAP.md); tests/check_layers.py holds includes to that, and ROOMS holds the link to it.
# -Wmaybe-uninitialized and -Wrestrict are off: g++ 12 sees them in sound uses of std::optional, std::variant and std::string.
add_library(strobe_options INTERFACE)
target_compile_options(strobe_options INTERFACE -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor
  -Wno-missing-field-initializers -Wno-maybe-uninitialized -Wno-restrict $<$<CONFIG:Release>:-O3>)
target_include_directories(strobe_options INTERFACE "${CMAKE_SOURCE_DIR}/src")
if(STROBE_SANITIZE)
  target_compile_options(strobe_options INTERFACE -fsanitize=${STROBE_SANITIZE} -fno-omit-frame-pointer -O1)
  if(STROBE_SANITIZE MATCHES "undefined")
    target_compile_options(strobe_options INTERFACE -fno-sanitize-recover=all)
  endif()
  target_link_options(strobe_options INTERFACE -fsanitize=${STROBE_SANITIZE})
endif()

function(strobe_room name)
  cmake_parse_arguments(P "" "" "SOURCES;ROOMS;LIBRARIES" ${ARGN})
  list(TRANSFORM P_ROOMS PREPEND strobe_)
  add_library(strobe_${name} STATIC ${P_SOURCES})
  target_link_libraries(strobe_${name} PUBLIC strobe_options ${P_ROOMS} ${P_LIBRARIES})
endfunction()
