// memtrace::skip and memtrace::trace, in both spellings and by the macros of annotate.h, become annotations.
// RUN: %device -O1 -I%source/include %s -o %t.ll
// RUN: %python %S/Inputs/annotations.py %t.ll | FileCheck %s
// Without the plugin the macros vanish: no warning.
// RUN: %cuda -I%source/include -fsyntax-only -DMACROS_ONLY -Wall -Werror %s
#include <memtrace/annotate.h>

#ifndef MACROS_ONLY
// CHECK-DAG: _Z8skip_cxxPi: memtrace.skip
[[memtrace::skip]] __global__ void skip_cxx(int *p) { *p = 1; }
// CHECK-DAG: _Z8skip_gnuPi: memtrace.skip
__attribute__((memtrace_skip)) __global__ void skip_gnu(int *p) { *p = 1; }
// CHECK-DAG: _Z9trace_cxxPi: memtrace.trace
[[memtrace::trace]] __device__ void trace_cxx(int *p) { *p = 1; }
// CHECK-DAG: _Z9trace_gnuPi: memtrace.trace
__attribute__((memtrace_trace)) __global__ void trace_gnu(int *p) { trace_cxx(p); }
// An instance is what its template is.
// CHECK-DAG: _Z13skip_templateIfEvPT_: memtrace.skip
// CHECK-DAG: _Z13skip_templateIfEvPT_: memtrace.kernel|skip_template<float>|
template <class T> [[memtrace::skip]] __global__ void skip_template(T *p) { *p = 1; }
template __global__ void skip_template<float>(float *);
// Said once, on an earlier declaration.
[[memtrace::skip]] __device__ void skip_early(int *p);
// CHECK-DAG: _Z10skip_earlyPi: memtrace.skip
__device__ void skip_early(int *p) { *p = 1; }
struct Members {
    // CHECK-DAG: _ZN7Members11skip_memberEPi: memtrace.skip
    [[memtrace::skip]] __device__ void skip_member(int *p);
};
__device__ void Members::skip_member(int *p) { *p = 1; }
#endif
// CHECK-DAG: _Z10skip_macroPi: memtrace.skip
MEMTRACE_SKIP __global__ void skip_macro(int *p) { *p = 1; }
MEMTRACE_OFF
// CHECK-DAG: _Z11trace_macroPi: memtrace.trace
MEMTRACE_TRACE __global__ void trace_macro(int *p) { *p = 1; }
MEMTRACE_ON

// CHECK-NOT: _Z5plainPi: memtrace.{{skip|trace}}
__global__ void plain(int *p) { *p = 1; }
