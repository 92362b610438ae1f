; The second count: taken of what the CPU module runs, whatever the records say.
; RUN: env MEMTRACE_PASS_OPTIONS="count=on" %lower %s | FileCheck %s
; RUN: env MEMTRACE_PASS_OPTIONS="count=only" %lower %s | FileCheck --check-prefix=ONLY %s
; RUN: %lower %s | FileCheck --check-prefix=OFF %s
; RUN: env MEMTRACE_PASS_OPTIONS="count=on;only=stores" %lower %s | FileCheck --check-prefix=STORES %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@sh = internal addrspace(3) global [64 x float] undef, align 4
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; OFF-NOT: call void @__mt_count
; ONLY-NOT: call void @__mt_access
; ONLY: call void @__mt_count(
; ONLY-NOT: call void @__mt_access
; STORES-NOT: __mt_count({{.*}}i32 0)
; STORES: call void @__mt_count(ptr %p, i64 1, i64 4, i32 1)
; STORES-NOT: __mt_count({{.*}}i32 0)
; CHECK-LABEL: define internal void @taken(
; CHECK-NOT: @__mt_access
; CHECK: ret void
define void @taken(ptr byval({ float, double }) align 8 %s) noinline {
  %v = load volatile float, ptr %s
  ret void
}
; CHECK-LABEL: define internal void @kinds(
; CHECK: call ptr @__mt_access_
; CHECK-NEXT: call void @__mt_count(ptr %p, i64 1, i64 4, i32 1)
; CHECK-NEXT: store float
; CHECK-NOT: __mt_count
; CHECK: load float, ptr
; CHECK: call void @__mt_count(ptr %p, i64 1, i64 16, i32 0)
; CHECK-NEXT: load <4 x i32>
; CHECK: call void @__mt_count(ptr %p, i64 1, i64 4, i32 2)
; CHECK-NEXT: atomicrmw
; CHECK: call void @__mt_count(ptr %p, i64 1, i64 8, i32 2)
; CHECK-NEXT: cmpxchg
; CHECK: [[PIECES:%.*]] = udiv i64
; CHECK-NEXT: call void @__mt_count(ptr %q, i64 [[PIECES]], i64 %n, i32 0)
; CHECK: call void @__mt_count(ptr %p, i64 {{%.*}}, i64 %n, i32 1)
; CHECK: llvm.memcpy
define void @kinds(ptr %p, ptr %q, i64 %n) {
  %local = alloca float
  store float 1.0, ptr %p
  store float 1.0, ptr %local
  %s = load float, ptr addrspace(3) @sh
  %v = load <4 x i32>, ptr %p
  %a = atomicrmw add ptr %p, i32 1 monotonic
  %b = cmpxchg ptr %p, i64 1, i64 2 monotonic monotonic
  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %q, i64 %n, i1 false)
  ret void
}

; One access of 8 bytes on the GPU, two loads here; one atomic of half precision, a loop here.
; CHECK-LABEL: define internal void @assembly(
; CHECK: call void @__mt_count(ptr {{%.*}}, i64 1, i64 8, i32 0)
; CHECK-NEXT: load i32
; CHECK-NOT: __mt_count
; CHECK: load i32
; CHECK: call void @__mt_count(ptr {{%.*}}, i64 1, i64 2, i32 2)
; CHECK-NEXT: load atomic i16
; CHECK-NOT: __mt_count
; CHECK: cmpxchg
; CHECK-NOT: __mt_count
; CHECK: ret void
define void @assembly(ptr %p, i16 %h) {
  %r = call { i32, i32 } asm sideeffect "ld.global.v2.u32 {$0, $1}, [$2];", "=r,=r,l"(ptr %p)
  call void asm sideeffect "red.global.add.noftz.f16 [$0], $1;", "l,h"(ptr %p, i16 %h)
  ret void
}

; What a call passes as it lies in memory, it reads there, member by member; the callee (above) loads from its parameters.
; CHECK-LABEL: define internal void @passes(
; CHECK: call void @__mt_access_global(ptr %p, i32 4, i32 {{[0-9]+}})
; CHECK: [[SECOND:%.*]] = getelementptr i8, ptr %p, i64 8
; CHECK-NEXT: call void @__mt_access_global(ptr [[SECOND]], i32 8, i32 {{[0-9]+}})
; CHECK: call void @__mt_count(ptr {{%.*}}, i64 1, i64 4, i32 0)
; CHECK: call void @__mt_count(ptr {{%.*}}, i64 1, i64 8, i32 0)
; CHECK-NEXT: call void @taken
define void @passes(ptr %p) {
  call void @taken(ptr byval({ float, double }) align 8 %p)
  ret void
}
!nvvm.annotations = !{!0, !1, !2}
!0 = !{ptr @kinds, !"kernel", i32 1}
!1 = !{ptr @assembly, !"kernel", i32 1}
!2 = !{ptr @passes, !"kernel", i32 1}
