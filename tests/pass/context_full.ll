; A kernel that fills its shared memory and calls through a pointer would not compile with the context's word: it goes
; untraced on the GPU, with the kernels that share its pointed-to functions, and the compiler says so.
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;level=2' %device %s 2>%t.err | FileCheck %s
; RUN: FileCheck --check-prefix=SAID %s < %t.err
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; SAID-DAG: warning: {{.*}}kernel fills runs on a GPU without a trace: {{.*}} it leaves less of the 49152
; SAID-DAG: warning: {{.*}}kernel small runs on a GPU without a trace: {{.*}} kernel fills
; SAID-NOT: kernel plain
@s = internal addrspace(3) global [12287 x float] undef, align 4
@table = global ptr @pointed

; CHECK: define i32 @pointed(i64 %[[P:[^,]*]])
; CHECK-NEXT: call i32 @pointed.memtrace(i64 %[[P]], ptr null)
define float @pointed(ptr %p) {
  %x = load float, ptr %p
  ret float %x
}

; CHECK: define ptx_kernel void @fills(ptr %{{[^,]*}}, ptr %{{[^,]*}})
; CHECK-NOT: store volatile
; CHECK: call i32 %{{.*}}(i64
define void @fills(ptr %p, ptr %f) {
  %x = call float %f(ptr %p)
  %q = addrspacecast ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @s, i64 4) to ptr
  store float %x, ptr %q
  ret void
}
define void @small(ptr %p, ptr %f) {
  %x = call float %f(ptr %p)
  ret void
}
; CHECK: define ptx_kernel void @plain__memtrace_traced(
; CHECK: %[[C:[0-9]+]] = call ptr @__mt_gpu_begin(ptr %[[X:.*]])
; CHECK-NEXT: %[[O:[0-9]+]] = icmp eq ptr %[[C]], null
; CHECK: %[[S:[0-9]+]] = select i1 %[[O]],
; CHECK-NEXT: call void @__mt_gpu_access_global(ptr %{{.*}}, i32 268435460, i32 %[[S]], ptr %[[X]])
define void @plain(ptr %p) {
  store float 1.0, ptr %p
  ret void
}
!nvvm.annotations = !{!0, !1, !2}
!0 = !{ptr @fills, !"kernel", i32 1}
!1 = !{ptr @small, !"kernel", i32 1}
!2 = !{ptr @plain, !"kernel", i32 1}
