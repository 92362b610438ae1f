; Kernels that would not compile with record calls on a GPU: one sets the number of its registers, in a function that it
; calls; one has so many bytes of parameters that one more has no room. They keep name and parameters and have no
; record call, also where no second version is wanted (gpu-plain=off); the compiler says so.
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;level=2' %device %s 2>%t.err | FileCheck %s
; RUN: FileCheck --check-prefix=SAID %s < %t.err
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;level=2;gpu-plain=off' %device %s 2>/dev/null | FileCheck --check-prefix=OFF %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; SAID-DAG: warning: {{.*}}kernel sets runs on a GPU without a trace: it sets the number of its registers
; SAID-DAG: warning: {{.*}}kernel full runs on a GPU without a trace: its parameters leave no room
; SAID-NOT: kernel fits
; CHECK: define ptx_kernel void @fits__memtrace_traced(ptr byval([32744 x i8]) align 1 %{{[^,]*}}, ptr %{{[^,]*}}, ptr %
; CHECK: call void @__mt_gpu_access_global
; CHECK-DAG: define ptx_kernel void @sets(ptr %{{[^,]*}})
; CHECK-DAG: define ptx_kernel void @full(ptr byval([32752 x i8]) align 1 %{{[^,]*}}, ptr %{{[^,]*}})
; CHECK-NOT: call void @__mt_gpu_access
; OFF-DAG: define ptx_kernel void @sets(ptr %{{[^,]*}})
; OFF-DAG: define ptx_kernel void @full(ptr byval([32752 x i8]) align 1 %{{[^,]*}}, ptr %{{[^,]*}})
%struct.full = type { [32752 x i8] }
%struct.fits = type { [32744 x i8] }

define internal void @dec() noinline {
  call void asm sideeffect "setmaxnreg.dec.sync.aligned.u32 40;", ""()
  ret void
}

define void @sets(ptr %p) {
  call void @dec()
  store float 1.0, ptr %p
  ret void
}

define void @full(ptr byval(%struct.full) align 1 %s, ptr %p) {
  store float 1.0, ptr %p
  ret void
}

define void @fits(ptr byval(%struct.fits) align 1 %s, ptr %p) {
  store float 1.0, ptr %p
  ret void
}

!nvvm.annotations = !{!0, !1, !2}
!0 = !{ptr @sets, !"kernel", i32 1}
!1 = !{ptr @full, !"kernel", i32 1}
!2 = !{ptr @fits, !"kernel", i32 1}
