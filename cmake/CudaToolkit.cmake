# Finds nvcc and sets CMAKE_CUDA_COMPILER: as that variable or the environment's CUDACXX says; else an nvcc of 13.0 or newer on
# the PATH or in /usr/local/cuda; else the pinned packages of cuda-toolkit.txt from PyPI, 270 MB unpacked (offline:
# -DCUDA_PACKAGES_ROOT=<their folder>, which holds nvidia/cu13, and nothing is fetched).
# As a script, `cmake -P cmake/CudaToolkit.cmake` only sees to it that there is an nvcc, and fails where none can be had.
function(strobe_find_nvcc out)
  if(DEFINED CMAKE_CUDA_COMPILER)
    return()
  endif()
  if(DEFINED ENV{CUDACXX})
    set(${out} "$ENV{CUDACXX}" PARENT_SCOPE)
    return()
  endif()
  find_program(nvcc nvcc NO_CACHE PATHS /usr/local/cuda/bin)
  if(nvcc AND NOT DEFINED CUDA_PACKAGES_ROOT)
    execute_process(COMMAND "${nvcc}" --version OUTPUT_VARIABLE text ERROR_QUIET)
    if(text MATCHES "release ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL 13.0)
      set(${out} "${nvcc}" PARENT_SCOPE)
      return()
    endif()
  endif()
  pypi_wheels(CUDA_PACKAGES
    REQUIREMENTS "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/cuda-toolkit.txt" PROBE nvidia/cu13/bin/nvcc OUT packages)
  # What an installed toolkit has and the packages do not: nvcc links from lib64, CMake looks for libcudart.so.
  if(NOT EXISTS "${packages}/nvidia/cu13/lib64/libcudart.so")
    file(CREATE_LINK lib "${packages}/nvidia/cu13/lib64" SYMBOLIC)
    file(CREATE_LINK libcudart.so.13 "${packages}/nvidia/cu13/lib/libcudart.so" SYMBOLIC)
  endif()
  set(${out} "${packages}/nvidia/cu13/bin/nvcc" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  include("${CMAKE_CURRENT_LIST_DIR}/PyPISource.cmake")
  strobe_find_nvcc(nvcc)
else()
  strobe_find_nvcc(CMAKE_CUDA_COMPILER)
endif()
