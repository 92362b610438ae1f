; Sums of a product that "a && b" compares: instruction selection freezes it there, and what comes before is not fused any more. The
; first line asks the back end alone, the others what is left to it when the sums are fused early.
; RUN: llc -O3 -mcpu=sm_90 -fp-contract=fast %s -o - | FileCheck %s
; RUN: env MEMTRACE_PASS_OPTIONS='level=3' %fuse %s | FileCheck --check-prefix=EARLY %s
; RUN: env MEMTRACE_PASS_OPTIONS='level=3' %fuse %s | llc -O3 -mcpu=sm_90 -fp-contract=fast | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; The sum is before: apart.
; CHECK-LABEL: .func (.param .b32 func_retval0) before(
; CHECK-NOT: fma.rn
; CHECK: mul
; CHECK-NOT: fma.rn
; CHECK: sub
; CHECK-NOT: fma.rn
; CHECK: ret;
; EARLY-LABEL: @before(
; EARLY-NOT: call float @llvm.fma
; EARLY: ret
define float @before(float %x, float %y, float %z, ptr %p) {
  %t = fmul contract float %x, %y
  %s = fsub contract float %t, %z
  store float %s, ptr %p
  %a = fcmp ogt float %z, 3.0
  %b = fcmp olt float %z, %t
  %c = select i1 %a, i1 %b, i1 false
  %r = select i1 %c, float %t, float %z
  ret float %r
}

; It comes after, or what is frozen is another comparison, or one that is used twice: fused.
; CHECK-LABEL: behind(
; CHECK: fma.rn
; CHECK: ret;
; EARLY-LABEL: @behind(
; EARLY: call {{.*}}float @llvm.fma
define float @behind(float %x, float %y, float %z, ptr %p) {
  %t = fmul contract float %x, %y
  %a = fcmp ogt float %z, 3.0
  %b = fcmp olt float %z, %t
  %c = select i1 %a, i1 true, i1 %b
  %r = select i1 %c, float %t, float %z
  %s = fsub contract float %t, %z
  store float %s, ptr %p
  ret float %r
}
; CHECK-LABEL: first(
; CHECK: fma.rn
; CHECK: ret;
; EARLY-LABEL: @first(
; EARLY: call {{.*}}float @llvm.fma
define float @first(float %x, float %y, float %z, ptr %p) {
  %t = fmul contract float %x, %y
  %s = fsub contract float %t, %z
  store float %s, ptr %p
  %a = fcmp ogt float %z, %t
  %b = fcmp olt float %z, 3.0
  %c = select i1 %a, i1 %b, i1 false
  %r = select i1 %c, float %t, float %z
  ret float %r
}
; CHECK-LABEL: twice(
; CHECK: fma.rn
; CHECK: ret;
; EARLY-LABEL: @twice(
; EARLY: call {{.*}}float @llvm.fma
define float @twice(float %x, float %y, float %z, ptr %p) {
  %t = fmul contract float %x, %y
  %s = fsub contract float %t, %z
  store float %s, ptr %p
  %a = fcmp ogt float %z, 3.0
  %b = fcmp olt float %z, %t
  %c = select i1 %a, i1 %b, i1 false
  %r = select i1 %c, float %t, float %z
  %w = select i1 %b, float %r, float 1.0
  ret float %w
}
; CHECK-LABEL: alternative(
; CHECK-NOT: fma.rn
; CHECK: ret;
; EARLY-LABEL: @alternative(
; EARLY-NOT: call float @llvm.fma
; EARLY: ret
define float @alternative(float %x, float %y, float %z, ptr %p) {
  %t = fmul contract float %x, %y
  %s = fadd contract float %t, %z
  store float %s, ptr %p
  %a = fcmp ogt float %z, 3.0
  %b = fcmp olt float %t, 1.0
  %c = select i1 %a, i1 true, i1 %b
  %r = select i1 %c, float %t, float %z
  ret float %r
}
