; Each kernel of the GPU's code that can record has a second version, which cannot: same parameters, bounds and linkage,
; copies of the functions on the way. What is called by pointer finds no context.
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;level=2' %device %s | FileCheck %s
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;gpu-plain=off;level=2' %device %s | FileCheck --check-prefix=OFF %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
; OFF-NOT: __memtrace_plain

; CHECK: define weak_odr ptx_kernel void @direct(ptr %p, ptr %memtrace.ctx)
define weak_odr void @direct(ptr %p) {
  store float 2.0, ptr %p
  %y = call float @helper(ptr %p)
  ret void
}
define internal float @helper(ptr %p) noinline {
  %x = load float, ptr %p
  ret float %x
}
define float @pointed(ptr %p) {
  %x = load float, ptr %p
  ret float %x
}
@chosen = addrspace(4) externally_initialized global ptr @pointed
define void @indirect(ptr %p) {
  store float 1.0, ptr %p
  %f = load ptr, ptr addrspace(4) @chosen
  %x = call float %f(ptr %p)
  ret void
}
; CHECK: define ptx_kernel void @nothing(
; CHECK-NOT: @nothing__memtrace_plain
define void @nothing(i32 %n) {
  ret void
}
; A weak function stays as it is: it records, without a context.
define weak float @replaced(ptr %p) {
  %x = load float, ptr %p
  ret float %x
}
define void @weakly(ptr %p) {
  store float 1.0, ptr %p
  %x = call float @replaced(ptr %p)
  ret void
}

; CHECK: define internal float @helper__memtrace_plain(ptr %p)
; CHECK-NEXT: load float
; CHECK-NEXT: ret float
; CHECK: define weak_odr ptx_kernel void @direct__memtrace_plain(ptr %p, ptr %memtrace.ctx)
; CHECK-NOT: call
; CHECK: store float 2.0
; CHECK-NEXT: call float @helper__memtrace_plain(ptr %p)
; CHECK-NEXT: ret void
; CHECK-NOT: @pointed__memtrace_plain
; CHECK: define ptx_kernel void @indirect__memtrace_plain(ptr %p, ptr %memtrace.ctx)
; CHECK-NEXT: store volatile i64 {{0|ptrtoint \(ptr null to i64\)}}, ptr addrspace(3) @__mt_launch_ctx
; CHECK-NOT: call
; CHECK: store float 1.0
; CHECK: define ptx_kernel void @weakly__memtrace_plain(ptr %p, ptr %memtrace.ctx)
; CHECK-NOT: call
; CHECK: store float 1.0
; CHECK: call float @replaced.memtrace(ptr %p, ptr null)

; CHECK-DAG: !{ptr @direct, !"kernel", i32 1, !"maxntidx", i32 64}
; CHECK-DAG: !{ptr @direct__memtrace_plain, !"kernel", i32 1, !"maxntidx", i32 64}
!nvvm.annotations = !{!0, !1, !2, !3}
!0 = !{ptr @direct, !"kernel", i32 1, !"maxntidx", i32 64}
!1 = !{ptr @indirect, !"kernel", i32 1}
!2 = !{ptr @nothing, !"kernel", i32 1}
!3 = !{ptr @weakly, !"kernel", i32 1}
