; A constant of a kernel that is loaded again after a call is loaded again on the GPU, too, with and without record calls: marks
; for ld.global.nc must not let the back end merge what has two records.
; RUN: llc -O1 -mcpu=sm_90 %s -o - | FileCheck %s
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;level=1' %device %s | llc -O1 -mcpu=sm_90 | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
; CHECK-LABEL: entry scalar(
; CHECK-COUNT-3: ld.global.nc.f32
; CHECK-NOT: ld.global
; CHECK-LABEL: entry wide(
; CHECK-COUNT-2: ld.global.nc.v4.u32
; CHECK-NOT: ld.global
; CHECK-LABEL: entry narrow(
; CHECK-COUNT-2: ld.global.nc.u8
; CHECK-NOT: ld.global
; CHECK: ret;
define void @scalar(ptr noalias readonly %c, ptr %y) {
  %y1 = getelementptr float, ptr %y, i64 1
  %y2 = getelementptr float, ptr %y, i64 2
  %a = load float, ptr %c
  store float %a, ptr %y
  %b = load float, ptr %c
  store float %b, ptr %y1
  %d = load float, ptr %c
  store float %d, ptr %y2
  ret void
}
define void @wide(ptr noalias readonly %c, ptr %y) {
  %y1 = getelementptr <4 x i32>, ptr %y, i64 1
  %a = load <4 x i32>, ptr %c
  store <4 x i32> %a, ptr %y
  %b = load <4 x i32>, ptr %c
  store <4 x i32> %b, ptr %y1
  ret void
}
define void @narrow(ptr noalias readonly %c, ptr %y) {
  %y1 = getelementptr i32, ptr %y, i64 1
  %a = load i8, ptr %c
  %aw = zext i8 %a to i32
  store i32 %aw, ptr %y
  %b = load i8, ptr %c
  %bw = sext i8 %b to i32
  store i32 %bw, ptr %y1
  ret void
}
!nvvm.annotations = !{!0, !1, !2}
!0 = !{ptr @scalar, !"kernel", i32 1}
!1 = !{ptr @wide, !"kernel", i32 1}
!2 = !{ptr @narrow, !"kernel", i32 1}
