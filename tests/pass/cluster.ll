; __cluster_dims__: the image's table has the sizes, and the GPU's PTX a line for each version of the kernel, which the
; overlay's tools turn into directives.
; RUN: %device %s -o %t.ll
; RUN: FileCheck %s < %t.ll
; RUN: %lower %s | FileCheck --check-prefix=TABLE %s
; RUN: sed s/sm_90/sm_80/ %s > %t.old.ll
; RUN: %device %t.old.ll -o %t.80.ll 2>&1 | FileCheck --check-prefix=OLD %s
; RUN: FileCheck --check-prefix=NONE %s < %t.80.ll
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@.c = private unnamed_addr constant [23 x i8] c"memtrace.cluster\092\094\091\00", section "llvm.metadata"
@.f = private unnamed_addr constant [5 x i8] c"k.cu\00", section "llvm.metadata"
@llvm.global.annotations = appending global [1 x { ptr, ptr, ptr, i32, ptr }] [
  { ptr, ptr, ptr, i32, ptr } { ptr @k, ptr @.c, ptr @.f, i32 12, ptr null }], section "llvm.metadata"
; CHECK-DAG: module asm "// @memtrace-cluster k 2 4 1"
; CHECK-DAG: module asm "// @memtrace-cluster k__memtrace_traced 2 4 1"
; CHECK-NOT: memtrace-cluster other
; TABLE: @mt.kernels = {{.*}} i32 2, i32 4, i32 1, i32 0, {{.*}} i32 0, i32 0, i32 0, i32 0,
; OLD: warning: memtrace: k: sm_80 has no clusters
; NONE-NOT: memtrace-cluster
define void @k(ptr %p) #0 {
  %x = load float, ptr %p
  %y = fadd float %x, 1.0
  store float %y, ptr %p
  ret void
}
define void @other(ptr %p) #0 {
  store float 1.0, ptr %p
  ret void
}
attributes #0 = { "target-cpu"="sm_90" }
!nvvm.annotations = !{!0, !1}
!0 = !{ptr @k, !"kernel", i32 1}
!1 = !{ptr @other, !"kernel", i32 1}
