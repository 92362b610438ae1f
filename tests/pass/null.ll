; LLVM gives accesses through the null pointer an alignment of 2^32, for which llvm-c has no number: one access each, whole.
; RUN: %hardware %s | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; CHECK-LABEL: define void @k(
; CHECK: call void @__mt_access_generic(ptr null, i32 268435460, i32 0)
; CHECK-NEXT: store volatile i32 1, ptr null
; CHECK: call void @__mt_access_generic(ptr null, i32 8, i32 1)
; CHECK-NEXT: load volatile i64, ptr null
; CHECK-NOT: call void @__mt_access
define void @k() {
  store volatile i32 1, ptr null, align 4294967296
  %v = load volatile i64, ptr null, align 4294967296
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{ptr @k, !"kernel", i32 1}
