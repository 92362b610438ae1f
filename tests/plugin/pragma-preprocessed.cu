// -E keeps the pragma, so that compiling in two steps (and -save-temps) obeys it.
// RUN: clang -fplugin=%plugin -E -x c++ %s | FileCheck %s
// RUN: clang -fplugin=%plugin -E -x c++ %s > %t.ii
// RUN: clang -fplugin=%plugin -fsyntax-only -x c++-cpp-output %t.ii 2>&1 | FileCheck %s --check-prefix=AGAIN
// AGAIN: pragma-preprocessed.cu:[[#@LINE+13]]:{{[0-9]+}}: warning: memtrace: expected
// AGAIN-NOT: warning: memtrace
// CHECK: int before;
// CHECK-NEXT: #pragma memtrace off
// CHECK-NEXT: int inside;
// CHECK: #pragma memtrace on
// CHECK: int after;
// CHECK-NEXT: #pragma memtrace sideways
int before;
#pragma memtrace off
int inside;
_Pragma("memtrace on")
int after;
#pragma memtrace sideways
