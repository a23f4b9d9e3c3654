# Files that are compiled once per instruction set must not define symbols that the linker merges with those of other files:
# it might keep, say, the AVX512 copy of an inline function for the whole program, which then fails on older processors.
#   cmake -DNM=<nm> -DOBJECTS=<objects> -P isa_symbols.cmake
set(found "")
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND "${NM}" --defined-only "${object}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+ [WVu] _Z[^\n]*" weak "${symbols}")
  foreach(symbol IN LISTS weak)
    string(APPEND found "  ${object}: ${symbol}\n")
  endforeach()
endforeach()
list(LENGTH OBJECTS count)
if(count EQUAL 0)
  message(FATAL_ERROR "no objects to look at")
endif()
if(found)
  message(FATAL_ERROR "symbols that a linker may merge:\n${found}")
endif()
