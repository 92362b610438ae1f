# Finds the CUDA toolkit: CUDA_PATH, /usr/local/cuda, /usr/lib/cuda, else build/cuda (NVIDIA's PyPI wheels, see ./setup).
# Sets MEMTRACE_CUDA (root) and MEMTRACE_CUDA_INCLUDE.
set(MEMTRACE_CUDA "" CACHE PATH "CUDA toolkit root; empty: search")
if(NOT MEMTRACE_CUDA)
  foreach(candidate $ENV{CUDA_PATH} /usr/local/cuda /usr/lib/cuda ${CMAKE_BINARY_DIR}/cuda)
    if(EXISTS ${candidate}/include/cuda_runtime_api.h AND EXISTS ${candidate}/bin/ptxas)
      set(MEMTRACE_CUDA ${candidate} CACHE PATH "CUDA toolkit root; empty: search" FORCE)
      break()
    endif()
  endforeach()
endif()
if(NOT MEMTRACE_CUDA)
  message(FATAL_ERROR "No CUDA toolkit: set CUDA_PATH, install it in /usr/local/cuda, or run ./setup, which takes NVIDIA's wheels into build/cuda")
endif()
set(MEMTRACE_CUDA_INCLUDE ${MEMTRACE_CUDA}/include)
# What user code is compiled against: a directory of links that cures clang 19 + CUDA 13 (tools/).
set(MEMTRACE_OVERLAY ${CMAKE_BINARY_DIR}/cuda-overlay)
message(STATUS "memtrace: CUDA toolkit ${MEMTRACE_CUDA}")
