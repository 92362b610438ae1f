// C code has the attributes too; the file is no CUDA code and nothing else changes.
// RUN: clang -fplugin=%plugin -std=c2x -S -emit-llvm -Xclang -disable-llvm-passes -o - %s | FileCheck %s
// RUN: clang -fplugin=%plugin -std=c2x -O2 -c -o %t.with.o %s
// RUN: clang -std=c2x -O2 -Wno-unknown-attributes -c -o %t.without.o %s
// RUN: llvm-objdump -dr --no-leading-addr %t.with.o | tail -n +3 > %t.with
// RUN: llvm-objdump -dr --no-leading-addr %t.without.o | tail -n +3 > %t.without
// RUN: diff %t.with %t.without
// CHECK: memtrace.skip
// CHECK-NOT: memtrace.kernel
// CHECK-NOT: memtrace.device
[[memtrace::skip]] int skipped(int *p) { return *p; }
__attribute__((memtrace_skip)) int as_well(int *p) { return skipped(p) + 1; }
