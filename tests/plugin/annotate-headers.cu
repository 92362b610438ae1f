// Functions of the program's own headers are annotated with the header's place, those of system headers are not.
// #line and prefix maps are obeyed, as in line tables.
// RUN: %device -O1 -I%S/Inputs -isystem %S/Inputs/system %s -o %t.ll
// RUN: %python %S/Inputs/annotations.py %t.ll | FileCheck %s
// RUN: %device -O1 -I%S/Inputs -isystem %S/Inputs/system -ffile-prefix-map=%S=/there %s -o %t.ll
// RUN: %python %S/Inputs/annotations.py %t.ll | FileCheck %s --check-prefix=MAP
// RUN: cd %S && %device -O1 -IInputs -isystem Inputs/system annotate-headers.cu -o %t.ll
// RUN: %python %S/Inputs/annotations.py %t.ll | FileCheck %s
#include "own.h"
#include <foreign.h>

// CHECK-NOT: foreign
// CHECK: _Z6callerPi: memtrace.kernel|caller|{{/.*}}tests/plugin/annotate-headers.cu|[[@LINE+2]]|17|p
// CHECK-NOT: foreign
__global__ void caller(int *p) { *p = own(*p) + foreign(*p) + foreign_template(*p); }
// CHECK: _Z3owni: memtrace.device|own|{{/.*}}tests/plugin/Inputs/own.h|3|23|a
// CHECK-NOT: foreign

// MAP: |caller|/there/annotate-headers.cu|
// MAP: |own|/there/Inputs/own.h|

// CHECK: |elsewhere|{{/.*}}generated.cu|100|17|
#line 100 "generated.cu"
__global__ void elsewhere() {}
