; Matrix loads and stores of a warp: a record of each lane's share, in runs of equal length in memory order.
; RUN: %instrument %s 2>%t.err | FileCheck %s
; RUN: test ! -s %t.err
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare { <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half> } @llvm.nvvm.wmma.m16n16k16.load.a.row.stride.f16.p1(ptr addrspace(1), i32)
declare void @llvm.nvvm.wmma.m16n16k16.store.d.col.f32.p1(ptr addrspace(1), float, float, float, float, float, float, float, float)
declare { <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half> } @llvm.nvvm.wmma.m16n16k16.load.b.col.stride.f16.p3(ptr addrspace(3), i32)

; 256 elements of 2 bytes, 8 for each lane: half a row of 16; row and column of lane i are i * 8 / 16 and i * 8 % 16.
; CHECK-LABEL: define void @load(
; CHECK: [[BASE:%.*]] = ptrtoint ptr {{%.*}} to i64
; CHECK: [[LANE:%.*]] = call i32 @llvm.nvvm.read.ptx.sreg.laneid()
; CHECK: [[STRIDE:%.*]] = zext i32 %s to i64
; CHECK: [[WIDE:%.*]] = zext i32 [[LANE]] to i64
; CHECK: [[FIRST:%.*]] = mul i64 [[WIDE]], 8
; CHECK: [[ROW:%.*]] = udiv i64 [[FIRST]], 16
; CHECK: [[COLUMN:%.*]] = urem i64 [[FIRST]], 16
; CHECK: [[DOWN:%.*]] = mul i64 [[ROW]], [[STRIDE]]
; CHECK: [[AT:%.*]] = add i64 [[DOWN]], [[COLUMN]]
; CHECK: [[BITS:%.*]] = mul i64 [[AT]], 16
; CHECK: [[BYTES:%.*]] = udiv i64 [[BITS]], 8
; CHECK: add i64 [[BASE]], [[BYTES]]
; CHECK: call void @__mt_access_global(ptr {{%.*}}, i32 16, i32 0)
; CHECK-NEXT: llvm.nvvm.wmma.m16n16k16.load.a
define void @load(ptr addrspace(1) %p, i32 %s) {
  %r = call { <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half> } @llvm.nvvm.wmma.m16n16k16.load.a.row.stride.f16.p1(ptr addrspace(1) %p, i32 %s)
  ret void
}

; Dense: columns of 16 floats, 8 for each lane; 268435488 = 1 << 28 | 32. Shared memory has no record.
; CHECK-LABEL: define void @store(
; CHECK: mul i64 {{%.*}}, 16
; CHECK: call void @__mt_access_global(ptr {{%.*}}, i32 268435488, i32 1)
; CHECK-NEXT: llvm.nvvm.wmma.m16n16k16.store.d
; CHECK-NOT: __mt_
; CHECK: ret void
define void @store(ptr addrspace(1) %p, float %f, ptr addrspace(3) %q) {
  call void @llvm.nvvm.wmma.m16n16k16.store.d.col.f32.p1(ptr addrspace(1) %p, float %f, float %f, float %f, float %f, float %f, float %f, float %f, float %f)
  %r = call { <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half> } @llvm.nvvm.wmma.m16n16k16.load.b.col.stride.f16.p3(ptr addrspace(3) %q, i32 16)
  ret void
}

; As inline asm: m8n32k16, 8 rows of 16 bytes, 4 for each lane.
; CHECK-LABEL: define i32 @assembly(
; CHECK: mul i64 {{%.*}}, 4
; CHECK: udiv i64 {{%.*}}, 16
; CHECK: call void @__mt_access_generic(ptr {{%.*}}, i32 4, i32 2)
; CHECK: call i32 asm sideeffect "wmma
define i32 @assembly(ptr %p) {
  %r = call i32 asm sideeffect "wmma.load.a.sync.aligned.row.m8n32k16.s8 {$0}, [$1], 16;", "=r,l"(ptr %p)
  ret i32 %r
}
