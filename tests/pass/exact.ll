; Functions whose float denormals are zero: the processor's switch where only float is computed with, else each operand and
; result by itself. What only moves numbers flushes nothing.
; RUN: %lower %s | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; CHECK-LABEL: define internal void @floats(
; CHECK: [[A:%.*]] = load float
; CHECK: [[B:%.*]] = load float
; CHECK: fadd float [[A]], [[B]]
; CHECK: fdiv float [[A]], [[B]]
; CHECK: and i32 {{.*}}, 2139095040
; CHECK: and i32 {{.*}}, -2147483648
; CHECK: fneg float
; CHECK: and i32 {{.*}}, 2139095040
; CHECK: fcmp olt float
; CHECK: select i1 {{%.*}}, float [[A]], float [[B]]
; CHECK: ret void
define void @floats(ptr addrspace(1) %p) #0 {
  %a = load float, ptr addrspace(1) %p
  %q = getelementptr float, ptr addrspace(1) %p, i32 1
  %b = load float, ptr addrspace(1) %q
  %s = fadd float %a, %b
  %d = fdiv float %a, %b
  %i = fdiv float 1.0, %b
  %n = fneg float %a
  %c = fcmp olt float %a, %b
  %m = select i1 %c, float %a, float %b
  %t = fadd float %s, %d
  %u = fadd float %t, %n
  %v = fadd float %u, %i
  store float %v, ptr addrspace(1) %p
  store float %m, ptr addrspace(1) %q
  ret void
}

define void @divisions(ptr addrspace(1) %p) {
  %a = load <2 x float>, ptr addrspace(1) %p
  %q = getelementptr <2 x float>, ptr addrspace(1) %p, i32 1
  %b = load <2 x float>, ptr addrspace(1) %q
  %d = fdiv <2 x float> %a, %b
  %i = fdiv <2 x float> <float 1.0, float 2.0>, %b
  store <2 x float> %d, ptr addrspace(1) %p
  store <2 x float> %i, ptr addrspace(1) %q
  ret void
}

; CHECK-LABEL: define internal void @both(
; CHECK: [[A:%.*]] = load float
; CHECK: [[BITS:%.*]] = bitcast float [[A]] to i32
; CHECK: [[E:%.*]] = and i32 [[BITS]], 2139095040
; CHECK: [[Z:%.*]] = icmp eq i32 [[E]], 0
; CHECK: [[S:%.*]] = and i32 [[BITS]], -2147483648
; CHECK: [[R:%.*]] = select i1 [[Z]], i32 [[S]], i32 [[BITS]]
; CHECK: [[F:%.*]] = bitcast i32 [[R]] to float
; CHECK: [[M:%.*]] = fmul float {{.*}}, {{.*}}
; CHECK: and i32 {{.*}}, 2139095040
; CHECK: fpext float
; CHECK-NOT: and i64
; CHECK: ret void
define void @both(ptr addrspace(1) %p, ptr addrspace(1) %o) #0 {
  %a = load float, ptr addrspace(1) %p
  %m = fmul float %a, %a
  %w = fpext float %m to double
  %x = fmul double %w, 0x0010000000000000
  store double %x, ptr addrspace(1) %o
  ret void
}

; CHECK-LABEL: define internal void @exact(
; CHECK-NOT: and i32 {{.*}}, 2139095040
; CHECK: ret void
define void @exact(ptr addrspace(1) %p) {
  %a = load float, ptr addrspace(1) %p
  %m = fneg float %a
  %n = fmul float %m, %m
  store float %n, ptr addrspace(1) %p
  ret void
}
attributes #0 = { "denormal-fp-math-f32"="preserve-sign,preserve-sign" }
!nvvm.annotations = !{!0, !1, !2, !3}
!0 = !{ptr @floats, !"kernel", i32 1}
!1 = !{ptr @both, !"kernel", i32 1}
!2 = !{ptr @exact, !"kernel", i32 1}
!3 = !{ptr @divisions, !"kernel", i32 1}
