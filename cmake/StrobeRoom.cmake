# strobe_room(<name> SOURCES <files> [ROOMS <lower rooms>] [LIBRARIES <others>])
# A room is a folder under src/ and one static library, strobe_<name>. It may include only rooms on lower floors
# (docs/MAP.md) and only those it names in ROOMS; tests/check_layers.py holds both to that.
# -Wmaybe-uninitialized and -Wrestrict are off: g++ 12 sees them in sound uses of std::optional, std::variant and std::string.
add_library(strobe_options INTERFACE)
target_compile_options(strobe_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Werror;-Wshadow;-Wnon-virtual-dtor;-Wno-missing-field-initializers>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-restrict>"
  $<$<CONFIG:Release>:$<IF:$<BOOL:$<TARGET_PROPERTY:STROBE_COLD>>,-O2,-O3>>)
target_include_directories(strobe_options INTERFACE "${CMAKE_SOURCE_DIR}/src")
# Sanitized builds compile without optimisation, which halves their time (most of it is JSON templates), but for the rooms whose
# loops would make tests wait.
set(STROBE_HOT_ROOMS tensor text kernel ops model engine spec)
# What parses flags and JSON and prints tables: with -O3 a twelfth larger.
set(STROBE_COLD_ROOMS measure serve tool)
if(STROBE_SANITIZE)
  target_compile_options(strobe_options INTERFACE -fsanitize=${STROBE_SANITIZE} -fno-omit-frame-pointer -g1)
  if(STROBE_SANITIZE MATCHES "undefined")
    target_compile_options(strobe_options INTERFACE -fno-sanitize-recover=all)
  endif()
  if(STROBE_SANITIZE MATCHES "thread")
    # ThreadSanitizer does not see the fences of Boost.Asio; without them, its locks order the same memory.
    target_compile_definitions(strobe_options INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
  target_link_options(strobe_options INTERFACE -fsanitize=${STROBE_SANITIZE})
endif()

function(strobe_room name)
  cmake_parse_arguments(P "" "" "SOURCES;ROOMS;LIBRARIES" ${ARGN})
  list(TRANSFORM P_ROOMS PREPEND strobe_)
  add_library(strobe_${name} STATIC ${P_SOURCES})
  target_link_libraries(strobe_${name} PUBLIC strobe_options ${P_ROOMS} ${P_LIBRARIES})
  if(name IN_LIST STROBE_COLD_ROOMS)
    set_target_properties(strobe_${name} PROPERTIES STROBE_COLD ON)
  endif()
  if(STROBE_SANITIZE AND name IN_LIST STROBE_HOT_ROOMS)
    target_compile_options(strobe_${name} PRIVATE -O1)
  endif()
endfunction()
