; Vector accesses under a mask: one record per lane that takes part, of that lane's size. A lane that a constant mask
; leaves out has no record; one of a run-time mask has a length of 0 then.
; RUN: %instrument %s | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare <4 x float> @llvm.masked.load.v4f32.p1(ptr addrspace(1), i32, <4 x i1>, <4 x float>)
declare void @llvm.masked.store.v4f32.p1(<4 x float>, ptr addrspace(1), i32, <4 x i1>)
declare <2 x i64> @llvm.masked.gather.v2i64.v2p1(<2 x ptr addrspace(1)>, i32, <2 x i1>, <2 x i64>)
declare void @llvm.masked.scatter.v2i16.v2p0(<2 x i16>, <2 x ptr>, i32, <2 x i1>)
declare <3 x i8> @llvm.masked.expandload.v3i8(ptr, <3 x i1>, <3 x i8>)
declare void @llvm.masked.compressstore.v2f32(<2 x float>, ptr, <2 x i1>)
declare <2 x float> @llvm.vp.load.v2f32.p1(ptr addrspace(1), <2 x i1>, i32)
declare void @llvm.experimental.vp.strided.store.v2i32.p1.i64(<2 x i32>, ptr addrspace(1), i64, <2 x i1>, i32)

; Lanes 0 and 2, of 4 bytes each; the mask is known.
; CHECK-LABEL: define <4 x float> @constant(
; CHECK: [[P:%.*]] = addrspacecast ptr addrspace(1) %p to ptr
; CHECK-NEXT: call void @__mt_access_global(ptr [[P]], i32 4, i32 0)
; CHECK: [[Q:%.*]] = getelementptr i8, ptr {{%.*}}, i64 8
; CHECK-NEXT: call void @__mt_access_global(ptr [[Q]], i32 4, i32 1)
; CHECK-NEXT: call <4 x float> @llvm.masked.load
define <4 x float> @constant(ptr addrspace(1) %p) {
  %v = call <4 x float> @llvm.masked.load.v4f32.p1(ptr addrspace(1) %p, i32 4, <4 x i1> <i1 true, i1 false, i1 true, i1 false>, <4 x float> zeroinitializer)
  ret <4 x float> %v
}

; CHECK-LABEL: define void @store(
; CHECK: [[M:%.*]] = extractelement <4 x i1> %m, i32 0
; CHECK: [[C:%.*]] = icmp ne i1 [[M]], false
; CHECK: [[N:%.*]] = select i1 [[C]], i64 4, i64 0
; CHECK: call void @__mt_access_global_n(ptr {{%.*}}, i64 [[N]], i32 1, i32 2)
; CHECK: i64 12
; CHECK: call void @__mt_access_global_n(ptr {{%.*}}, i64 {{%.*}}, i32 1, i32 5)
; CHECK-NEXT: call void @llvm.masked.store
define void @store(ptr addrspace(1) %p, <4 x float> %v, <4 x i1> %m) {
  call void @llvm.masked.store.v4f32.p1(<4 x float> %v, ptr addrspace(1) %p, i32 4, <4 x i1> %m)
  ret void
}

; Each lane has its own address; generic ones are tested at run time.
; CHECK-LABEL: define void @pointers(
; CHECK: [[P0:%.*]] = extractelement <2 x ptr addrspace(1)> %p, i32 0
; CHECK: [[P1:%.*]] = extractelement <2 x ptr addrspace(1)> %p, i32 1
; CHECK: [[G0:%.*]] = addrspacecast ptr addrspace(1) [[P0]] to ptr
; CHECK: call void @__mt_access_global(ptr [[G0]], i32 8, i32 6)
; CHECK: [[G1:%.*]] = addrspacecast ptr addrspace(1) [[P1]] to ptr
; CHECK: call void @__mt_access_global(ptr [[G1]], i32 8, i32 7)
; CHECK-NEXT: call <2 x i64> @llvm.masked.gather
; CHECK: [[Q0:%.*]] = extractelement <2 x ptr> %q, i32 0
; CHECK: [[Q1:%.*]] = extractelement <2 x ptr> %q, i32 1
; CHECK: call void @__mt_access_generic_n(ptr [[Q0]], i64 {{%.*}}, i32 1, i32 8)
; CHECK: call void @__mt_access_generic_n(ptr [[Q1]], i64 {{%.*}}, i32 1, i32 9)
; CHECK-NEXT: call void @llvm.masked.scatter
define void @pointers(<2 x ptr addrspace(1)> %p, <2 x ptr> %q, <2 x i1> %m) {
  %v = call <2 x i64> @llvm.masked.gather.v2i64.v2p1(<2 x ptr addrspace(1)> %p, i32 8, <2 x i1> <i1 true, i1 true>, <2 x i64> zeroinitializer)
  call void @llvm.masked.scatter.v2i16.v2p0(<2 x i16> zeroinitializer, <2 x ptr> %q, i32 2, <2 x i1> %m)
  ret void
}

; Active lanes stand side by side: the address of a lane follows from the lanes before it.
; CHECK-LABEL: define void @packed(
; CHECK: [[M0:%.*]] = extractelement <3 x i1> %m, i32 0
; CHECK: [[A1:%.*]] = zext i1 [[M0]] to i64
; CHECK: [[B1:%.*]] = add i64 0, [[A1]]
; CHECK: [[O1:%.*]] = mul i64 [[B1]], 1
; CHECK: [[L1:%.*]] = getelementptr i8, ptr %p, i64 [[O1]]
; CHECK: __mt_access_generic_n(ptr {{%.*}}, i64 {{%.*}}, i32 0, i32 10)
; CHECK: __mt_access_generic_n(ptr [[L1]], i64 {{%.*}}, i32 0, i32 11)
; CHECK: __mt_access_generic_n(ptr {{%.*}}, i64 {{%.*}}, i32 0, i32 12)
; CHECK-NEXT: llvm.masked.expandload
; CHECK: getelementptr i8, ptr %p, i64 0
; CHECK: call void @__mt_access_generic(ptr {{%.*}}, i32 268435460, i32 13)
; CHECK-NEXT: llvm.masked.compressstore
define void @packed(ptr %p, <3 x i1> %m) {
  %v = call <3 x i8> @llvm.masked.expandload.v3i8(ptr %p, <3 x i1> %m, <3 x i8> zeroinitializer)
  call void @llvm.masked.compressstore.v2f32(<2 x float> zeroinitializer, ptr %p, <2 x i1> <i1 false, i1 true>)
  ret void
}

; Vector-predicated: lanes below the length.
; CHECK-LABEL: define void @predicated(
; CHECK: [[L0:%.*]] = icmp ult i32 0, %n
; CHECK: and i1 {{.*}}[[L0]]
; CHECK: [[L1:%.*]] = icmp ult i32 1, %n
; CHECK: call void @__mt_access_global_n(ptr {{%.*}}, i64 {{%.*}}, i32 0, i32 15)
; CHECK-NEXT: llvm.vp.load
; CHECK: mul i64 %s, 0
; CHECK: mul i64 %s, 1
; CHECK: call void @__mt_access_global_n(ptr {{%.*}}, i64 {{%.*}}, i32 1, i32 17)
; CHECK-NEXT: llvm.experimental.vp.strided.store
define void @predicated(ptr addrspace(1) %p, <2 x i1> %m, i32 %n, i64 %s) {
  %v = call <2 x float> @llvm.vp.load.v2f32.p1(ptr addrspace(1) %p, <2 x i1> %m, i32 %n)
  call void @llvm.experimental.vp.strided.store.v2i32.p1.i64(<2 x i32> zeroinitializer, ptr addrspace(1) %p, i64 %s, <2 x i1> %m, i32 %n)
  ret void
}
