# Finds the CUDA toolkit: CUDA_PATH, /usr/local/cuda, /usr/lib/cuda, else build/cuda (NVIDIA's PyPI wheels, see ./setup).
# Sets MEMTRACE_CUDA (root, kept in the cache while it is one) and MEMTRACE_CUDA_INCLUDE.
set(MEMTRACE_CUDA "" CACHE PATH "CUDA toolkit root; empty: search")

# ./setup asks the same question in shell (tools/setup/cuda.sh): keep the two alike.
function(memtrace_is_cuda root result)
  set(${result} FALSE PARENT_SCOPE)
  if(EXISTS ${root}/include/cuda_runtime_api.h AND EXISTS ${root}/bin/ptxas AND EXISTS ${root}/bin/fatbinary)
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

set(found FALSE)
if(MEMTRACE_CUDA)
  memtrace_is_cuda(${MEMTRACE_CUDA} found)
  if(NOT found)
    message(STATUS "memtrace: ${MEMTRACE_CUDA} is no CUDA toolkit (any more): searching")
  endif()
endif()
foreach(candidate $ENV{CUDA_PATH} /usr/local/cuda /usr/lib/cuda ${CMAKE_BINARY_DIR}/cuda)
  if(NOT found)
    memtrace_is_cuda(${candidate} found)
    if(found)
      set(MEMTRACE_CUDA ${candidate} CACHE PATH "CUDA toolkit root; empty: search" FORCE)
    endif()
  endif()
endforeach()
if(NOT found)
  message(FATAL_ERROR "No CUDA toolkit: set CUDA_PATH, install it in /usr/local/cuda, or run ./setup, which takes "
                      "NVIDIA's wheels into build/cuda")
endif()
set(MEMTRACE_CUDA_INCLUDE ${MEMTRACE_CUDA}/include)
# What user code is compiled against: a directory of links that cures clang 19 + CUDA 13 (tools/overlay).
set(MEMTRACE_OVERLAY ${CMAKE_BINARY_DIR}/cuda-overlay)
message(STATUS "memtrace: CUDA toolkit ${MEMTRACE_CUDA}")
