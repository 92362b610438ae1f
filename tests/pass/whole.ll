; Vector accesses that other threads are meant to see are one access: CUB publishes a value beside its flag.
; RUN: %lower %s 2>%t.err | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
; CHECK-LABEL: define {{.*}}@pairs(
; CHECK: load atomic i64, ptr {{%.*}} monotonic, align 8
; CHECK-NOT: load atomic
; CHECK: store atomic i64 {{%.*}}, ptr {{%.*}} monotonic, align 8
; CHECK-NOT: store atomic
; CHECK: load atomic i128, ptr {{%.*}} acquire, align 16
; CHECK: store atomic i128 {{%.*}}, ptr {{%.*}} release, align 16
; CHECK: load atomic i64, ptr {{%.*}} monotonic, align 8
; CHECK: ret void
define void @pairs(ptr %p) {
  %a = call { i32, i32 } asm sideeffect "ld.relaxed.gpu.v2.u32 {$0, $1}, [$2];", "=r,=r,l,~{memory}"(ptr %p)
  %x = extractvalue { i32, i32 } %a, 0
  %y = extractvalue { i32, i32 } %a, 1
  call void asm sideeffect "st.relaxed.gpu.v2.u32 [$0], {$1, $2};", "l,r,r,~{memory}"(ptr %p, i32 %y, i32 %x)
  %b = call { i64, i64 } asm sideeffect "ld.acquire.gpu.v2.u64 {$0, $1}, [$2];", "=l,=l,l,~{memory}"(ptr %p)
  %u = extractvalue { i64, i64 } %b, 0
  %v = extractvalue { i64, i64 } %b, 1
  call void asm sideeffect "st.release.gpu.v2.u64 [$0], {$1, $2};", "l,l,l,~{memory}"(ptr %p, i64 %v, i64 %u)
  %c = call { i16, i16, i16, i16 } asm sideeffect "ld.cg.v4.u16 {$0, $1, $2, $3}, [$4];", "=h,=h,=h,=h,l,~{memory}"(ptr %p)
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{ptr @pairs, !"kernel", i32 1}
