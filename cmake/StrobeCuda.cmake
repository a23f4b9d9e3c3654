# CUDA, only with -DSTROBE_CUDA=ON. Nothing here needs a GPU: programs are built anywhere and run where one is.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a)  # of sources outside the folders of an architecture; targets below say their own
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
include(CudaToolkit)
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 does not know that nvcc has it
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13.0)
  message(FATAL_ERROR "STROBE_CUDA: nvcc ${CMAKE_CUDA_COMPILER_VERSION} found, 13.0 or newer is needed")
endif()
find_package(CUDAToolkit REQUIRED)
# Programs of a bundle find the shared libraries that lie beside them (scripts/gpu-bundle).
set(CMAKE_BUILD_RPATH "$ORIGIN/lib")

# Blackwell (sm_100a): what is compiled for it there is, so that it stays compilable; our programs run on Hopper only.
option(STROBE_CUDA_SM100 "also compile for sm_100a the CUDA kernels that are not Hopper's alone" OFF)

option(STROBE_CUDA_LINEINFO "let profilers and compute-sanitizer name lines of CUDA kernels (which nearly doubles them)" OFF)

# strobe_cuda_objects(<name> ARCHITECTURES <90a> SOURCES <files> [SM100])
# One object library per folder of an architecture, strobe_kernel_cuda_<name>, linked into strobe_kernel_cuda. SM100: also for
# sm_100a with -DSTROBE_CUDA_SM100=ON; a file without it uses what only Hopper has (wgmma). The compiler prints registers,
# shared memory and spills of every kernel with -DSTROBE_CUDA_VERBOSE=ON.
option(STROBE_CUDA_VERBOSE "print what each CUDA kernel takes" OFF)
function(strobe_cuda_objects name)
  cmake_parse_arguments(P "SM100" "" "ARCHITECTURES;SOURCES" ${ARGN})
  if(P_SM100 AND STROBE_CUDA_SM100)
    list(APPEND P_ARCHITECTURES 100a)
  endif()
  add_library(strobe_kernel_cuda_${name} OBJECT ${P_SOURCES})
  set_target_properties(strobe_kernel_cuda_${name} PROPERTIES CUDA_ARCHITECTURES "${P_ARCHITECTURES}")
  target_include_directories(strobe_kernel_cuda_${name} PRIVATE "${CMAKE_SOURCE_DIR}/src")
  # {fmt} 9 takes nvcc for a compiler without constexpr, and then does not compile.
  target_compile_definitions(strobe_kernel_cuda_${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>")
  target_compile_options(strobe_kernel_cuda_${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers;--Werror=all-warnings;--compress-mode=size;$<$<BOOL:${STROBE_CUDA_LINEINFO}>:-lineinfo>>"
    "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${STROBE_CUDA_VERBOSE}>>:-Xptxas=-v>")
  target_link_libraries(strobe_kernel_cuda PRIVATE strobe_kernel_cuda_${name})
endfunction()
