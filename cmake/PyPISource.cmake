# pypi_source(<name> REQUIREMENTS <file> FOLDER <first folder of the archive> PROBE <path inside it> [KEEP <patterns>] OUT <var>)
# Brings one source distribution from PyPI, pinned by the sha256 in the requirements file, and unpacks (only the KEEP
# patterns of) it once into ${PYPI_CACHE}; OUT is the unpacked folder.
# Offline: -D<name>_ROOT=/path/to/an/unpacked/copy and nothing is fetched.
set(PYPI_CACHE "${CMAKE_SOURCE_DIR}/build/_pypi" CACHE PATH "where sources from PyPI are unpacked at configure time")

function(pypi_source name)
  cmake_parse_arguments(P "" "REQUIREMENTS;FOLDER;PROBE;OUT" "KEEP" ${ARGN})
  if(DEFINED ${name}_ROOT)
    set(folder "${${name}_ROOT}")
  else()
    file(SHA256 "${P_REQUIREMENTS}" hash)
    string(SUBSTRING "${hash}" 0 16 hash)
    set(cache "${PYPI_CACHE}/${name}-${hash}")
    set(folder "${cache}/${P_FOLDER}")
    if(NOT EXISTS "${folder}/${P_PROBE}")
      find_package(Python3 REQUIRED COMPONENTS Interpreter)
      message(STATUS "fetching the source of ${name} from PyPI")
      file(REMOVE_RECURSE "${cache}")
      file(MAKE_DIRECTORY "${cache}/download")
      execute_process(
        COMMAND "${Python3_EXECUTABLE}" -m pip download --quiet --disable-pip-version-check --no-input --no-deps
          --no-binary :all: --require-hashes --dest "${cache}/download" -r "${P_REQUIREMENTS}"
        RESULT_VARIABLE code ERROR_VARIABLE text)
      if(code)
        message(FATAL_ERROR "pip could not fetch ${name}: ${text}\n"
          "Without a network, unpack the source yourself and give -D${name}_ROOT=<its folder>.")
      endif()
      file(GLOB archive "${cache}/download/*.tar.gz")
      file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${cache}" PATTERNS ${P_KEEP})
      file(REMOVE_RECURSE "${cache}/download")
    endif()
  endif()
  if(NOT EXISTS "${folder}/${P_PROBE}")
    message(FATAL_ERROR "${name}: ${folder}/${P_PROBE} is missing")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${P_REQUIREMENTS}")
  set(${P_OUT} "${folder}" PARENT_SCOPE)
endfunction()
