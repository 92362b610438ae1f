; count=only on the GPU: the record calls count, and nothing records.
; RUN: env MEMTRACE_PASS_OPTIONS="count=only;cpu-image=off;level=2" %device %s | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
; CHECK-LABEL: define ptx_kernel void @kernel__memtrace_traced(
; CHECK: %[[C:[0-9]+]] = call ptr @__mt_gpu_begin(ptr %[[X:.*]])
; CHECK: %[[O:[0-9]+]] = icmp eq ptr %[[C]], null
; CHECK: %[[S0:[0-9]+]] = select i1 %[[O]], i32 -2147483648, i32 0
; CHECK: call void @__mt_gpu_count_global(ptr %{{.*}}, i32 268435460, i32 %[[S0]], ptr %[[X]])
; CHECK: %[[S1:[0-9]+]] = select i1 %[[O]], i32 -2147483647, i32 1
; CHECK: call void @__mt_gpu_count_global_n(ptr %{{.*}}, i64 %{{.*}}, i32 0, i32 %[[S1]], ptr %[[X]])
; CHECK: "cp.async
; CHECK-NOT: __mt_gpu_access
declare void @llvm.nvvm.cp.async.ca.shared.global.4.s(ptr addrspace(3), ptr addrspace(1), i32)
@s = internal addrspace(3) global i32 undef
define void @kernel(ptr %p, i32 %n) #0 {
  store i32 1, ptr %p
  %g = addrspacecast ptr %p to ptr addrspace(1)
  call void @llvm.nvvm.cp.async.ca.shared.global.4.s(ptr addrspace(3) @s, ptr addrspace(1) %g, i32 %n)
  ret void
}
attributes #0 = { "target-cpu"="sm_90" "target-features"="+ptx83" }
!nvvm.annotations = !{!0}
!0 = !{ptr @kernel, !"kernel", i32 1}
