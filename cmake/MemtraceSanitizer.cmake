# Finds the headers of NVIDIA's Compute Sanitizer API, by which programs are traced on a GPU as they are: in the toolkit, or what
# ./setup took from PyPI (build/sanitizer). Sets MEMTRACE_SANITIZER_INCLUDE; empty: that engine is not built.
set(MEMTRACE_SANITIZER_INCLUDE "" CACHE PATH "folder of NVIDIA's sanitizer.h; empty: search")
foreach(candidate ${MEMTRACE_CUDA}/compute-sanitizer/include ${MEMTRACE_CUDA}/include ${MEMTRACE_CUDA}/extras/Sanitizer/include
                  ${CMAKE_BINARY_DIR}/sanitizer/headers/include ${CMAKE_BINARY_DIR}/sanitizer/compute-sanitizer/include
                  ${CMAKE_BINARY_DIR}/sanitizer/include)
  if(NOT EXISTS "${MEMTRACE_SANITIZER_INCLUDE}/sanitizer.h" AND EXISTS ${candidate}/sanitizer.h)
    set(MEMTRACE_SANITIZER_INCLUDE ${candidate} CACHE PATH "folder of NVIDIA's sanitizer.h; empty: search" FORCE)
  endif()
endforeach()
if(EXISTS "${MEMTRACE_SANITIZER_INCLUDE}/sanitizer.h")
  message(STATUS "memtrace: Compute Sanitizer API ${MEMTRACE_SANITIZER_INCLUDE}")
else()
  set(MEMTRACE_SANITIZER_INCLUDE "" CACHE PATH "folder of NVIDIA's sanitizer.h; empty: search" FORCE)
  message(STATUS "memtrace: no headers of NVIDIA's Compute Sanitizer API: what traces any program on a GPU (libmemtrace-inject.so) is not "
                 "built; ./setup gets them")
endif()
