; Kernels get one more parameter; everything that names them, and their attributes, follows. Device functions do not.
; RUN: %instrument %s | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
%big = type { [16 x i32] }
$inl = comdat any

@table = global [1 x ptr] [ptr @k]
; CHECK: @table = global [1 x ptr] [ptr @k]
; CHECK: define internal float @helper(ptr %p)
; CHECK: define weak_odr protected void @k(ptr nocapture readonly %a, ptr byval(%big) align 4 %b, i32 noundef %n, ptr %memtrace.ctx) #[[A:[0-9]+]] comdat($inl) {
; CHECK: attributes #[[A]] = { convergent {{.*}}"uniform-work-group-size"="true"
; CHECK: !nvvm.annotations = !{![[K:[0-9]+]], ![[B:[0-9]+]]}
; CHECK: ![[K]] = !{ptr @k, !"kernel", i32 1}
; CHECK: ![[B]] = !{ptr @k, !"maxntid", i32 128}
define weak_odr protected void @k(ptr nocapture readonly %a, ptr byval(%big) align 4 %b, i32 noundef %n) #0 comdat($inl) {
  %x = call float @helper(ptr %a)
  ret void
}
define internal float @helper(ptr %p) {
  %x = load float, ptr %p
  ret float %x
}
attributes #0 = { convergent nounwind "uniform-work-group-size"="true" }
!nvvm.annotations = !{!0, !1}
!0 = !{ptr @k, !"kernel", i32 1}
!1 = !{ptr @k, !"maxntid", i32 128}
