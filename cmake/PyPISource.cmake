# pypi_source(<name> REQUIREMENTS <file> FOLDER <first folder of the archive> PROBE <path inside it> [KEEP <patterns>] OUT <var>)
# Brings one source distribution from PyPI, pinned by name, version and sha256 in the requirements file, and unpacks it
# (only what matches the KEEP patterns) once into ${PYPI_CACHE}, where all build folders share it. OUT is the unpacked folder.
# pip asks the archive for its metadata before it hands it over: its build backend is fetched and run for that.
# Offline: -D<name>_ROOT=/path/to/an/unpacked/copy and nothing is fetched.
cmake_path(SET PYPI_CACHE NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../build/_pypi")
set(PYPI_CACHE "${PYPI_CACHE}" CACHE PATH "where sources from PyPI are unpacked at configure time")

function(pypi_fetch name requirements cache folder keep)
  file(STRINGS "${requirements}" lines REGEX "^[A-Za-z0-9._-]+==")
  list(LENGTH lines count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "${requirements}: one line \"package==version --hash=...\" is expected")
  endif()
  string(REGEX REPLACE "==.*" "" package "${lines}")
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  message(STATUS "fetching the source of ${package} from PyPI")
  file(REMOVE_RECURSE "${cache}")
  file(MAKE_DIRECTORY "${cache}/download")
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -m pip download --quiet --disable-pip-version-check --no-input --no-deps
      --no-binary "${package}" --require-hashes --dest "${cache}/download" -r "${requirements}"
    RESULT_VARIABLE code ERROR_VARIABLE text)
  if(code)
    message(FATAL_ERROR "pip could not fetch ${package}: ${text}\n"
      "Without a network, unpack the source yourself and give -D${name}_ROOT=<its folder>.")
  endif()
  file(GLOB archive "${cache}/download/*.tar.gz")
  file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${cache}/unpacking" PATTERNS ${keep})
  # Last, so that a folder of this name is whole even when something stops us on the way.
  file(RENAME "${cache}/unpacking/${folder}" "${cache}/${folder}")
  file(REMOVE_RECURSE "${cache}/download" "${cache}/unpacking")
endfunction()

# That the folder is what it should be; another pin configures anew.
function(pypi_check name folder probe requirements)
  if(NOT EXISTS "${folder}/${probe}")
    message(FATAL_ERROR "${name}: ${folder}/${probe} is missing")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${requirements}")
endfunction()

function(pypi_source name)
  cmake_parse_arguments(P "" "REQUIREMENTS;FOLDER;PROBE;OUT" "KEEP" ${ARGN})
  if(DEFINED ${name}_ROOT)
    set(folder "${${name}_ROOT}")
  else()
    file(READ "${P_REQUIREMENTS}" pin)
    string(SHA256 hash "${pin};${P_KEEP}")  # other patterns unpack another folder
    string(SUBSTRING "${hash}" 0 16 hash)
    set(cache "${PYPI_CACHE}/${name}-${hash}")
    set(folder "${cache}/${P_FOLDER}")
    file(MAKE_DIRECTORY "${PYPI_CACHE}")
    file(LOCK "${PYPI_CACHE}/lock" GUARD FUNCTION TIMEOUT 600)  # several build folders may be configured at once
    if(NOT EXISTS "${folder}")
      pypi_fetch(${name} "${P_REQUIREMENTS}" "${cache}" "${P_FOLDER}" "${P_KEEP}")
    endif()
  endif()
  pypi_check(${name} "${folder}" "${P_PROBE}" "${P_REQUIREMENTS}")
  set(${P_OUT} "${folder}" PARENT_SCOPE)
endfunction()

# pypi_wheels(<name> REQUIREMENTS <file> PROBE <path inside it> OUT <var>)
# The same for ready-made packages, as many as the requirements file names: they are unpacked into one folder.
function(pypi_wheels name)
  cmake_parse_arguments(P "" "REQUIREMENTS;PROBE;OUT" "" ${ARGN})
  if(DEFINED ${name}_ROOT)
    set(folder "${${name}_ROOT}")
  else()
    file(SHA256 "${P_REQUIREMENTS}" hash)
    string(SUBSTRING "${hash}" 0 16 hash)
    set(folder "${PYPI_CACHE}/${name}-${hash}")
    file(MAKE_DIRECTORY "${PYPI_CACHE}")
    file(LOCK "${PYPI_CACHE}/lock" GUARD FUNCTION TIMEOUT 600)
    if(NOT EXISTS "${folder}")
      find_package(Python3 REQUIRED COMPONENTS Interpreter)
      message(STATUS "fetching ${name} from PyPI")
      file(REMOVE_RECURSE "${folder}.unpacking")
      execute_process(
        COMMAND "${Python3_EXECUTABLE}" -m pip install --quiet --disable-pip-version-check --no-input --no-deps
          --only-binary=:all: --no-compile --require-hashes --root-user-action=ignore --target "${folder}.unpacking"
          -r "${P_REQUIREMENTS}"
        RESULT_VARIABLE code ERROR_VARIABLE text)
      if(code)
        message(FATAL_ERROR "pip could not fetch ${name}: ${text}\n"
          "Without a network, unpack the packages of ${P_REQUIREMENTS} yourself and give -D${name}_ROOT=<their folder>.")
      endif()
      file(RENAME "${folder}.unpacking" "${folder}")
    endif()
  endif()
  pypi_check(${name} "${folder}" "${P_PROBE}" "${P_REQUIREMENTS}")
  set(${P_OUT} "${folder}" PARENT_SCOPE)
endfunction()
