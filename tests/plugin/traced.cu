// What attributes and pragmas choose is what the pass records, at every level: the calls of record functions in each
// kernel's final code are counted. Bodies are straight, so that the count is the number of accesses written here.
// RUN: %quick -fplugin=%plugin -fplugin-arg-memtrace-cpu-image=off --cuda-device-only -S -emit-llvm -O0 %s -o %t.ll
// RUN: %python %S/Inputs/record_calls.py %t.ll | FileCheck %s
// RUN: %quick -fplugin=%plugin -fplugin-arg-memtrace-cpu-image=off --cuda-device-only -S -emit-llvm -O1 %s -o %t.ll
// RUN: %python %S/Inputs/record_calls.py %t.ll | FileCheck %s
// RUN: %quick -fplugin=%plugin -fplugin-arg-memtrace-cpu-image=off --cuda-device-only -S -emit-llvm -O2 %s -o %t.ll
// RUN: %python %S/Inputs/record_calls.py %t.ll | FileCheck %s
// RUN: %quick -fplugin=%plugin -fplugin-arg-memtrace-cpu-image=off --cuda-device-only -S -emit-llvm -O3 %s -o %t.ll
// RUN: %python %S/Inputs/record_calls.py %t.ll | FileCheck %s
// With debug info of the user's own, and with -save-temps, the choice is the same.
// RUN: %quick -fplugin=%plugin -fplugin-arg-memtrace-cpu-image=off --cuda-device-only -S -emit-llvm -O2 -g %s -o %t.ll
// RUN: %python %S/Inputs/record_calls.py %t.ll | FileCheck %s
// RUN: %quick -fplugin=%plugin -fplugin-arg-memtrace-cpu-image=off --cuda-device-only -S -emit-llvm -O2 -gline-tables-only %s -o %t.ll
// RUN: %python %S/Inputs/record_calls.py %t.ll | FileCheck %s
// RUN: mkdir -p %t.d && %cuda -fplugin=%plugin -fplugin-arg-memtrace-cpu-image=off --cuda-device-only -S -O1 -save-temps=obj %s -o %t.d/out.s
// RUN: llvm-dis %t.d/traced-cuda-nvptx64-nvidia-cuda-sm_75.bc -o %t.ll
// RUN: %python %S/Inputs/record_calls.py %t.ll | FileCheck %s

// CHECK-DAG: _Z5plainPiPKi__memtrace_traced 2
extern "C++" __global__ void plain(int *out, const int *in) { out[0] = in[1]; }

// CHECK-DAG: _Z7skippedPi 0
[[memtrace::skip]] __global__ void skipped(int *p) { p[0] = 1; }

[[memtrace::skip]] static __device__ __forceinline__ void quiet(int *p) { p[5] = 2; }
template <class T> [[memtrace::skip]] __device__ __forceinline__ void quiet_template(T *p) { p[6] = 3; }
// Only its own store, not those of the two helpers, which are inlined into it.
// CHECK-DAG: _Z13quiet_helpersPi__memtrace_traced 1
__global__ void quiet_helpers(int *p)
{
    quiet(p);
    quiet_template(p);
    p[7] = 4;
}

// The lambda's own code is skipped, its caller's is not.
// CHECK-DAG: _Z10has_lambdaPi__memtrace_traced 1
__global__ void has_lambda(int *p)
{
    auto f = [=] __attribute__((memtrace_skip)) () { p[1] = 7; };
    f();
    p[2] = 8;
}

// CHECK-DAG: _Z6partlyPVi__memtrace_traced 2
__global__ void partly(volatile int *p)
{
    p[0] = 1;
#pragma memtrace off
    p[1] = 2;
    p[2] = 3;
#pragma memtrace on
    p[3] = 4;
}

#pragma memtrace off
// CHECK-DAG: _Z11in_a_regionPi 0
__global__ void in_a_region(int *p) { p[0] = 1; }
// CHECK-DAG: _Z20in_spite_of_a_regionPi__memtrace_traced 1
[[memtrace::trace]] __global__ void in_spite_of_a_region(int *p) { p[0] = 1; }
__device__ __forceinline__ void region_helper(int *p) { p[9] = 1; }
#pragma memtrace on

// CHECK-DAG: _Z10calls_bothPi__memtrace_traced 1
__global__ void calls_both(int *p)
{
    region_helper(p);
    p[0] = 1;
}

// Another file's region is another file's.
#include "Inputs/region.h"
// CHECK-DAG: _Z13after_includePi__memtrace_traced 1
__global__ void after_include(int *p)
{
    from_region_header(p);
    p[0] = 1;
}

#pragma memtrace off
// CHECK-DAG: _Z10to_the_endPi 0
__global__ void to_the_end(int *p) { p[0] = 1; }
