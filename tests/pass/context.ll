; How record calls of the GPU's code get their launch's context: the kernel's parameter is handed on by plain calls;
; functions that are reached otherwise read it from a word that just the kernels store which need it.
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;level=2' %device %s | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
%big = type { [16 x i32] }

; CHECK-DAG: @__mt_launch_ctx = weak addrspace(3) global i64 undef, align 8
@full = internal addrspace(3) global [12288 x float] undef, align 4
; CHECK-DAG: @table = addrspace(1) {{.*}} @pointed
@table = global ptr @pointed

; The program's name forwards.
; CHECK: define i32 @pointed(i64 %[[P:[^,]*]])
; CHECK-NEXT: %[[W:[0-9]+]] = load volatile i64, ptr addrspace(3) @__mt_launch_ctx, align 8
; CHECK-NEXT: %[[C:[0-9]+]] = inttoptr i64 %[[W]] to ptr
; CHECK-NEXT: %[[R:[0-9]+]] = call i32 @pointed.memtrace(i64 %[[P]], ptr %[[C]])
; CHECK-NEXT: ret i32 %[[R]]
define float @pointed(ptr %p) {
  %x = load float, ptr %p
  ret float %x
}

; A plain kernel and its plain helper: no word, whatever its shared memory. Its own record calls have its parameter, and in
; bit 31 of the site that the CTA is left out; its helper has the context.
; CHECK: define ptx_kernel void @direct__memtrace_traced(ptr %{{.*}}, ptr %[[X:.*]])
; CHECK: %[[D:[0-9]+]] = call ptr @__mt_gpu_begin(ptr %[[X]])
; CHECK-NEXT: %[[O:[0-9]+]] = icmp eq ptr %[[D]], null
; CHECK-NOT: store volatile
; CHECK: %[[S:[0-9]+]] = select i1 %[[O]], i32 -{{[0-9]+}}, i32 {{[0-9]+}}
; CHECK: call void @__mt_gpu_access_global(ptr %{{.*}}, i32 4, i32 %[[S]], ptr %[[X]])
; CHECK: call i32 @helper.memtrace(i64 %{{.*}}, ptr byval([8 x i64]) align 16 %{{.*}}, ptr %[[D]]) #
; CHECK: ret void
@copy = global %big zeroinitializer
define void @direct(ptr %p) {
  %x = load float, ptr %p
  store float %x, ptr addrspace(3) @full
  %y = call float @helper(ptr %p, ptr noundef byval(%big) align 4 @copy) #0
  ret void
}

; CHECK: define ptx_kernel void @indirect__memtrace_traced(ptr %{{.*}}, ptr %[[Y:.*]])
; CHECK: %[[B:[0-9]+]] = call ptr @__mt_gpu_begin(ptr %[[Y]])
; CHECK-NEXT: %[[I:[0-9]+]] = ptrtoint ptr %[[B]] to i64
; CHECK-NEXT: store volatile i64 %[[I]], ptr addrspace(3) @__mt_launch_ctx, align 8
; CHECK: call i32 %{{.*}}(i64
; CHECK: call i32 @pointed.memtrace(i64 %{{.*}}, ptr %[[B]])
define void @indirect(ptr %p) {
  %f = load ptr, ptr addrspace(4) @chosen
  %x = call float %f(ptr %p)
  %y = call float @pointed(ptr %p)
  ret void
}
@chosen = addrspace(4) externally_initialized global ptr @pointed

; Nothing else than plain calls can name this one: only the wider one is left. It calls itself with its context.
; CHECK-NOT: define {{.*}} @helper(
define internal float @helper(ptr %p, ptr noundef byval(%big) align 4 %b) {
  %x = load float, ptr %p
  %z = fcmp oeq float %x, 0.0
  br i1 %z, label %more, label %done
more:
  %y = call float @helper(ptr %p, ptr noundef byval(%big) align 4 %b)
  ret float %y
done:
  ret float %x
}
; CHECK-DAG: define internal i32 @pointed.memtrace(i64 %{{.*}}, ptr %{{.*}})
; CHECK-DAG: define internal i32 @helper.memtrace(i64 %{{.*}}, ptr byval([8 x i64]) align 16 %{{.*}}, ptr %[[Z:.*]])
; CHECK-DAG: call i32 @helper.memtrace(i64 %{{.*}}, ptr byval([8 x i64]) align 16 %{{.*}}, ptr %[[Z]])

attributes #0 = { convergent }
!nvvm.annotations = !{!0, !1}
!0 = !{ptr @direct, !"kernel", i32 1}
!1 = !{ptr @indirect, !"kernel", i32 1}
