; Warp-synchronous code: lanes wait around volatile stores to shared memory; with lockstep=on before each access to it.
; RUN: %lower %s | FileCheck %s
; RUN: env MEMTRACE_PASS_OPTIONS="lockstep=on" %lower %s | FileCheck --check-prefix=ALL %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@sh = internal addrspace(3) global [64 x float] undef, align 4

; CHECK-LABEL: define internal void @warp(
; CHECK-NOT: mt_cpu_lockstep
; CHECK: store float 2.0
; CHECK: call void @mt_cpu_lockstep()
; CHECK-NEXT: store volatile float 1.0
; CHECK-NEXT: call void @mt_cpu_lockstep()
; CHECK-NOT: mt_cpu_lockstep
; CHECK: ret void
; CHECK: define internal void @mt.entry.warp
; CHECK-NOT: mt.loop.warp
; ALL-LABEL: define internal void @warp(
; ALL: call void @mt_cpu_step(i32 0)
; ALL-NEXT: store float 2.0
; ALL: call void @mt_cpu_step(i32 1)
; ALL-NEXT: load float
; ALL: call void @mt_cpu_step(i32 2)
; ALL-NEXT: store volatile float 1.0
; ALL: call void @mt_cpu_step(i32 3)
; ALL-NEXT: atomicrmw
; ALL: call void @mt_cpu_step(i32 4)
; ALL-NEXT: call void @llvm.memset
; ALL-NOT: mt_cpu_step
; ALL: store volatile float 3.0
; ALL: ret void
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @warp(ptr %global, i32 %t) {
  %local = alloca float
  %p = getelementptr [64 x float], ptr addrspacecast (ptr addrspace(3) @sh to ptr), i64 0, i32 %t
  store float 2.0, ptr %p
  %x = load float, ptr %p
  store volatile float 1.0, ptr %p
  %a = atomicrmw fadd ptr %p, float 1.0 monotonic
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 4, i1 false)
  store volatile float 3.0, ptr %global
  store volatile float 4.0, ptr %local
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{ptr @warp, !"kernel", i32 1}
