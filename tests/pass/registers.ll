; Kernels with record calls keep to the registers that let them be launched with 1,024 threads, or with what their launch
; bounds allow (65,536 are in an SM); their versions without do not.
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;level=2' %device %s | FileCheck %s
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;level=2;rdc=on' %device %s | FileCheck --check-prefix=RDC %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
; RDC-NOT: maxnreg

define void @free(ptr %p) {
  store float 1.0, ptr %p
  ret void
}
define void @of_512(ptr %p) {
  store float 1.0, ptr %p
  ret void
}
; 672 threads are 21 warps: 97 registers, given out by eights.
define void @of_650(ptr %p) {
  store float 1.0, ptr %p
  ret void
}
; 255 is all that there can be.
define void @of_256(ptr %p) {
  store float 1.0, ptr %p
  ret void
}
; What a kernel asks for itself stays: two blocks on an SM.
define void @two_blocks(ptr %p) {
  store float 1.0, ptr %p
  ret void
}
define void @silent(ptr %p) {
  ret void
}
; CHECK-DAG: !{ptr @free__memtrace_traced, !"maxnreg", i32 64}
; CHECK-DAG: !{ptr @of_512__memtrace_traced, !"maxnreg", i32 128}
; CHECK-DAG: !{ptr @of_650__memtrace_traced, !"maxnreg", i32 96}
; CHECK-NOT: @of_256__memtrace_traced, !"maxnreg"
; CHECK-NOT: @two_blocks__memtrace_traced, !"maxnreg"
; CHECK-NOT: {{free|of_[0-9]+|two_blocks|silent}}, !"maxnreg"

!nvvm.annotations = !{!0, !1, !2, !3, !4, !5, !6, !7, !8, !9, !10}
!0 = !{ptr @free, !"kernel", i32 1}
!1 = !{ptr @of_512, !"kernel", i32 1}
!2 = !{ptr @of_512, !"maxntidx", i32 512}
!3 = !{ptr @of_650, !"kernel", i32 1}
!4 = !{ptr @of_650, !"maxntidx", i32 650}
!5 = !{ptr @of_256, !"kernel", i32 1}
!6 = !{ptr @of_256, !"maxntidx", i32 256}
!7 = !{ptr @two_blocks, !"kernel", i32 1}
!8 = !{ptr @two_blocks, !"maxntidx", i32 512}
!9 = !{ptr @two_blocks, !"minctasm", i32 2}
!10 = !{ptr @silent, !"kernel", i32 1}
