; Kernels that record have a second version that does not, with copies of the functions on the way; functions whose
; address is taken keep their name there, so that pointers compare as before.
; RUN: %lower %s 2>/dev/null | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()

; CHECK-LABEL: define internal void @k(
; CHECK: call ptr @__mt_access_global_to(
; CHECK: call void @stores(
define void @k(ptr %p, ptr %q) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = getelementptr float, ptr %p, i32 %t
  %v = load float, ptr %a
  call void @stores(ptr %a, float %v)
  store ptr @stores, ptr %q
  ret void
}
define internal void @stores(ptr %p, float %v) noinline {
  store float %v, ptr %p
  ret void
}

; Nothing to record: one version.
; CHECK: define internal void @silent(
define void @silent() {
  ret void
}

define void @guarded(ptr %p, i32 %n) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %row = mul i32 %b, %d
  %i = add i32 %row, %t
  %in = icmp slt i32 %i, %n
  br i1 %in, label %body, label %out
body:
  %w = sext i32 %i to i64
  %a = getelementptr float, ptr %p, i64 %w
  %v = load float, ptr %a
  %x = fadd float %v, 1.0
  store float %x, ptr %a
  br label %out
out:
  ret void
}

; CHECK-LABEL: define internal void @stores.plain(
; CHECK-NOT: __mt_access
; CHECK: ret void
; CHECK-LABEL: define internal void @k.plain(
; CHECK-NOT: __mt_access
; CHECK: call void @stores.plain(
; CHECK: store ptr @stores,
; CHECK: ret void
; CHECK-LABEL: define internal void @guarded.plain(
; CHECK-NOT: __mt_access
; CHECK: ret void
; CHECK: define internal void @mt.entry.k(
; CHECK: define internal void @mt.entry.k.plain(
; CHECK-NOT: silent.plain
; CHECK: define internal void @mt.entry.silent(
; CHECK-NOT: silent.plain
!nvvm.annotations = !{!0, !1, !2}
!0 = !{ptr @k, !"kernel", i32 1}
!1 = !{ptr @silent, !"kernel", i32 1}
!2 = !{ptr @guarded, !"kernel", i32 1}
