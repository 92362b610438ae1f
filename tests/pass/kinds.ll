; Every kind of access: its type and the bytes that one thread touches.
; meta = type << 28 | size; 268435456 = 1 << 28 (store), 536870912 = 2 << 28 (atomic)
; RUN: %instrument %s | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
%s = type { float, double, i8 }

; CHECK-LABEL: define void @plain(
; CHECK: i32 1, i32 0)
; CHECK-NEXT: load i8
; CHECK: i32 2, i32 1)
; CHECK: i32 4, i32 2)
; CHECK: i32 8, i32 3)
; CHECK: i32 16, i32 4)
; CHECK: i32 16, i32 5)
; CHECK: i32 8, i32 6)
; CHECK: i32 1, i32 7)
; CHECK: i32 268435472, i32 8)
; CHECK-NEXT: store volatile <4 x float>
; CHECK: i32 24, i32 9)
define void @plain(ptr addrspace(1) %p) {
  %a = load i8, ptr addrspace(1) %p
  %b = load half, ptr addrspace(1) %p
  %c = load volatile float, ptr addrspace(1) %p
  %d = load atomic i64, ptr addrspace(1) %p acquire, align 8
  %e = load i128, ptr addrspace(1) %p
  %f = load <4 x i32>, ptr addrspace(1) %p
  %g = load <2 x float>, ptr addrspace(1) %p
  %h = load i1, ptr addrspace(1) %p
  store volatile <4 x float> zeroinitializer, ptr addrspace(1) %p
  %i = load %s, ptr addrspace(1) %p
  ret void
}

; CHECK-LABEL: define void @atomics(
; CHECK: i32 536870916, i32 10)
; CHECK-NEXT: atomicrmw add
; CHECK: i32 536870920, i32 11)
; CHECK-NEXT: atomicrmw fadd
; CHECK: i32 536870916, i32 12)
; CHECK-NEXT: cmpxchg
; CHECK: i32 536870914, i32 13)
; CHECK-NEXT: cmpxchg
define void @atomics(ptr addrspace(1) %p) {
  %a = atomicrmw add ptr addrspace(1) %p, i32 1 monotonic
  %b = atomicrmw fadd ptr addrspace(1) %p, double 1.0 seq_cst
  %c = cmpxchg ptr addrspace(1) %p, i32 0, i32 1 seq_cst seq_cst
  %d = cmpxchg ptr addrspace(1) %p, i16 0, i16 1 monotonic monotonic
  ret void
}

declare float @llvm.nvvm.ldg.global.f.f32.p0(ptr, i32)
declare <4 x i32> @llvm.nvvm.ldu.global.i.v4i32.p1(ptr addrspace(1), i32)
declare i32 @llvm.nvvm.atomic.load.inc.32.p0(ptr, i32)
declare float @llvm.nvvm.atomic.add.gen.f.sys.f32.p0(ptr, float)
declare i64 @llvm.nvvm.atomic.cas.gen.i.cta.i64.p0(ptr, i64, i64)
declare void @llvm.nvvm.cp.async.ca.shared.global.8(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.ca.shared.global.4.s(ptr addrspace(3), ptr addrspace(1), i32)

; CHECK-LABEL: define void @intrinsics(
; CHECK: call void @__mt_access_global(ptr %p, i32 4,
; CHECK-NEXT: llvm.nvvm.ldg
; CHECK: call void @__mt_access_global(ptr %{{.*}}, i32 16,
; CHECK-NEXT: llvm.nvvm.ldu
; CHECK: call void @__mt_access_generic(ptr %p, i32 536870916,
; CHECK: call void @__mt_access_generic(ptr %p, i32 536870916,
; CHECK: call void @__mt_access_generic(ptr %p, i32 536870920,
; CHECK: call void @__mt_access_global(ptr %{{.*}}, i32 8,
; CHECK-NEXT: cp.async.ca.shared.global.8(
; CHECK: call void @__mt_access_global(ptr %{{.*}}, i32 16,
; CHECK-NEXT: cp.async.cg.shared.global.16(
; CHECK: [[N:%.*]] = zext i32 %n to i64
; CHECK: call void @__mt_access_global_n(ptr %{{.*}}, i64 [[N]], i32 0,
; CHECK-NEXT: cp.async.ca.shared.global.4.s(
define void @intrinsics(ptr %p, ptr addrspace(1) %q, ptr addrspace(3) %sh, i32 %n) {
  %a = call float @llvm.nvvm.ldg.global.f.f32.p0(ptr %p, i32 4)
  %b = call <4 x i32> @llvm.nvvm.ldu.global.i.v4i32.p1(ptr addrspace(1) %q, i32 16)
  %c = call i32 @llvm.nvvm.atomic.load.inc.32.p0(ptr %p, i32 7)
  %d = call float @llvm.nvvm.atomic.add.gen.f.sys.f32.p0(ptr %p, float 1.0)
  %e = call i64 @llvm.nvvm.atomic.cas.gen.i.cta.i64.p0(ptr %p, i64 1, i64 2)
  call void @llvm.nvvm.cp.async.ca.shared.global.8(ptr addrspace(3) %sh, ptr addrspace(1) %q)
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %sh, ptr addrspace(1) %q)
  call void @llvm.nvvm.cp.async.ca.shared.global.4.s(ptr addrspace(3) %sh, ptr addrspace(1) %q, i32 %n)
  ret void
}

declare void @llvm.memcpy.p1.p1.i64(ptr addrspace(1), ptr addrspace(1), i64, i1)
declare void @llvm.memmove.p1.p5.i64(ptr addrspace(1), ptr addrspace(5), i64, i1)
declare void @llvm.memset.p1.i64(ptr addrspace(1), i8, i64, i1)

; A copy reads, then writes; of no bytes, of known and of unknown length; from local memory it only writes.
; CHECK-LABEL: define void @blocks(
; CHECK: call void @__mt_access_global(ptr %{{.*}}, i32 24,
; CHECK: call void @__mt_access_global(ptr %{{.*}}, i32 268435480,
; CHECK-NEXT: call void @llvm.memcpy
; CHECK-NEXT: call void @llvm.memcpy.p1.p1.i64(ptr addrspace(1) %p, ptr addrspace(1) %q, i64 0
; CHECK: call void @__mt_access_global_n(ptr %{{.*}}, i64 %n, i32 0,
; CHECK: call void @__mt_access_global_n(ptr %{{.*}}, i64 %n, i32 1,
; CHECK-NEXT: call void @llvm.memcpy
; CHECK: call void @__mt_access_global(ptr %{{.*}}, i32 268435464,
; CHECK-NEXT: call void @llvm.memmove
; CHECK: call void @__mt_access_global_n(ptr %{{.*}}, i64 300000000, i32 1,
; CHECK-NEXT: call void @llvm.memset
define void @blocks(ptr addrspace(1) %p, ptr addrspace(1) %q, ptr addrspace(5) %l, i64 %n) {
  call void @llvm.memcpy.p1.p1.i64(ptr addrspace(1) %p, ptr addrspace(1) %q, i64 24, i1 false)
  call void @llvm.memcpy.p1.p1.i64(ptr addrspace(1) %p, ptr addrspace(1) %q, i64 0, i1 false)
  call void @llvm.memcpy.p1.p1.i64(ptr addrspace(1) %p, ptr addrspace(1) %q, i64 %n, i1 false)
  call void @llvm.memmove.p1.p5.i64(ptr addrspace(1) %p, ptr addrspace(5) %l, i64 8, i1 false)
  call void @llvm.memset.p1.i64(ptr addrspace(1) %p, i8 0, i64 300000000, i1 false)
  ret void
}
