; count=only on the GPU: the record calls count, and nothing records.
; RUN: env MEMTRACE_PASS_OPTIONS="count=only;cpu-image=off" %device %s | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
; CHECK-LABEL: define ptx_kernel void @kernel(
; CHECK: %[[C:[0-9]+]] = call ptr @__mt_gpu_begin(ptr %memtrace.ctx)
; CHECK: %[[O:[0-9]+]] = icmp eq ptr %[[C]], null
; CHECK: %[[S0:[0-9]+]] = select i1 %[[O]], i32 -2147483648, i32 0
; CHECK: call void @__mt_gpu_count_global(ptr %p, i32 4, i32 %[[S0]], ptr %memtrace.ctx)
; CHECK: %[[S1:[0-9]+]] = select i1 %[[O]], i32 -2147483647, i32 1
; CHECK: call void @__mt_gpu_count_global_n(ptr %p, i64 %n, i32 1, i32 %[[S1]], ptr %memtrace.ctx)
; CHECK-NOT: __mt_gpu_access
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @kernel(ptr %p, i64 %n) {
  %v = load i32, ptr %p
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %n, i1 false)
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{ptr @kernel, !"kernel", i32 1}
