; Option lockstep. auto: elements chosen by data, not volatile, are taken for the thread's own, and generic pointers for
; those to global memory. on: both may be another lane's. off: lanes wait nowhere.
; RUN: %lower %s | FileCheck %s
; RUN: env MEMTRACE_PASS_OPTIONS="lockstep=on" %steps %s | FileCheck --check-prefix=ON %s
; RUN: env MEMTRACE_PASS_OPTIONS="lockstep=off" %lower %s | FileCheck --check-prefix=OFF %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@s = internal addrspace(3) global [1024 x i32] undef, align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()

; CHECK-LABEL: define internal void @exchange(
; CHECK: mt_cpu_step
; CHECK-LABEL: define internal void @chosen(
; CHECK-NOT: mt_cpu_step
; CHECK: ret void
; CHECK-LABEL: define internal void @unknown(
; CHECK-NOT: mt_cpu_step
; CHECK: ret void
; ON-LABEL: define internal void @exchange(
; ON: mt_cpu_step
; ON-LABEL: define internal void @chosen(
; ON: store volatile i32
; ON-NEXT: call void @mt_cpu_step(
; ON-NEXT: load volatile i32
; ON: ret void
; ON-LABEL: define internal void @unknown(
; ON: store volatile i32
; ON: call void @mt_cpu_step(
; ON: load volatile i32
; ON: ret void
; OFF-LABEL: define internal void @exchange(
; OFF-NOT: mt_cpu_step
; OFF: define internal void @mt.loop.exchange
define void @exchange(ptr %out) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t
  %t1 = add i32 %t, 1
  %q = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t1
  store volatile i32 1, ptr addrspace(3) %p
  %x = load volatile i32, ptr addrspace(3) %q
  store i32 %x, ptr %out
  ret void
}
define void @chosen(ptr %in) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = getelementptr i32, ptr %in, i32 %t
  %d = load i32, ptr %a
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %d
  store i32 %t, ptr addrspace(3) %p
  %x = load i32, ptr addrspace(3) %p
  store i32 %x, ptr %in
  ret void
}
define void @unknown(ptr %in) {
  %g = load ptr, ptr %in
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr i32, ptr %g, i32 %t
  store i32 1, ptr %p
  %t1 = add i32 %t, 1
  %q = getelementptr i32, ptr %g, i32 %t1
  %x = load i32, ptr %q
  store i32 %x, ptr %in
  ret void
}
!nvvm.annotations = !{!0, !1, !2}
!0 = !{ptr @exchange, !"kernel", i32 1}
!1 = !{ptr @chosen, !"kernel", i32 1}
!2 = !{ptr @unknown, !"kernel", i32 1}
