; Vector accesses under a mask become, before the record calls are placed, what the back end makes of them: an access of each
; lane that takes part, after a branch where the mask is not known. So no form of them has a record of its own; the
; strided ones, which the back end cannot compile either, are said.
; RUN: env MEMTRACE_PASS_OPTIONS=level=2 %hardware %s 2>%t.err | FileCheck '--implicit-check-not=_n(ptr' %s
; RUN: FileCheck --check-prefix=WARN %s <%t.err
; RUN: env MEMTRACE_PASS_OPTIONS=level=0 %hardware %s 2>/dev/null | FileCheck --check-prefix=ZERO '--implicit-check-not=call {{.*}}llvm.masked' '--implicit-check-not=call {{.*}}llvm.vp' %s
; Two lanes each of nine vectors, one lane of the tenth.
; ZERO-COUNT-19: call void @__mt_access
; ZERO-NOT: call void @__mt_access
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare <4 x float> @llvm.masked.load.v4f32.p1(ptr addrspace(1), i32, <4 x i1>, <4 x float>)
declare void @llvm.masked.store.v2f32.p1(<2 x float>, ptr addrspace(1), i32, <2 x i1>)
declare <2 x i64> @llvm.masked.gather.v2i64.v2p1(<2 x ptr addrspace(1)>, i32, <2 x i1>, <2 x i64>)
declare void @llvm.masked.scatter.v2i16.v2p0(<2 x i16>, <2 x ptr>, i32, <2 x i1>)
declare <2 x i8> @llvm.masked.expandload.v2i8(ptr, <2 x i1>, <2 x i8>)
declare void @llvm.masked.compressstore.v2i8(<2 x i8>, ptr, <2 x i1>)
declare <2 x float> @llvm.vp.load.v2f32.p1(ptr addrspace(1), <2 x i1>, i32)
declare void @llvm.vp.store.v2f32.p1(<2 x float>, ptr addrspace(1), <2 x i1>, i32)
declare <2 x float> @llvm.vp.gather.v2f32.v2p1(<2 x ptr addrspace(1)>, <2 x i1>, i32)
declare void @llvm.vp.scatter.v2f32.v2p1(<2 x float>, <2 x ptr addrspace(1)>, <2 x i1>, i32)
declare <2 x i32> @llvm.experimental.vp.strided.load.v2i32.p1.i64(ptr addrspace(1), i64, <2 x i1>, i32)
declare void @llvm.experimental.vp.strided.store.v2i32.p1.i64(<2 x i32>, ptr addrspace(1), i64, <2 x i1>, i32)
; (No record has a length that is known at run time alone.)

; Lanes 0 and 2, of 4 bytes each; the mask is known.
; CHECK-LABEL: define <4 x float> @constant(
; CHECK: call void @__mt_access_global(ptr {{%.*}}, i32 4, i32 0)
; CHECK-NEXT: load float, ptr addrspace(1) %p,
; CHECK: [[Q:%.*]] = getelementptr inbounds float, ptr addrspace(1) %p, i32 2
; CHECK: call void @__mt_access_global(ptr {{%.*}}, i32 4, i32 1)
; CHECK-NEXT: load float, ptr addrspace(1) [[Q]]
; CHECK-NOT: __mt_
; CHECK: ret
define <4 x float> @constant(ptr addrspace(1) %p) {
  %v = call <4 x float> @llvm.masked.load.v4f32.p1(ptr addrspace(1) %p, i32 4, <4 x i1> <i1 true, i1 false, i1 true, i1 false>, <4 x float> zeroinitializer)
  ret <4 x float> %v
}

; CHECK-LABEL: define void @store(
; CHECK: br i1
; CHECK: call void @__mt_access_global(ptr {{%.*}}, i32 268435460, i32 2)
; CHECK-NEXT: store float {{%.*}}, ptr addrspace(1) %p, align 4
; CHECK: br i1
; CHECK: [[P1:%.*]] = getelementptr inbounds float, ptr addrspace(1) %p, i32 1
; CHECK: call void @__mt_access_global(ptr {{%.*}}, i32 268435460, i32 3)
; CHECK-NEXT: store float {{%.*}}, ptr addrspace(1) [[P1]], align 4
; CHECK-NOT: __mt_
; CHECK: ret
define void @store(ptr addrspace(1) %p, <2 x float> %v, <2 x i1> %m) {
  call void @llvm.masked.store.v2f32.p1(<2 x float> %v, ptr addrspace(1) %p, i32 4, <2 x i1> %m)
  ret void
}

; Each lane has its own address; generic ones are tested at run time.
; CHECK-LABEL: define <2 x i64> @gather(
; CHECK: [[P0:%.*]] = extractelement <2 x ptr addrspace(1)> %p, i64 0
; CHECK: call void @__mt_access_global(ptr {{%.*}}, i32 8, i32 4)
; CHECK-NEXT: load i64, ptr addrspace(1) [[P0]], align 8
; CHECK: [[P1:%.*]] = extractelement <2 x ptr addrspace(1)> %p, i64 1
; CHECK: call void @__mt_access_global(ptr {{%.*}}, i32 8, i32 5)
; CHECK-NEXT: load i64, ptr addrspace(1) [[P1]], align 8
define <2 x i64> @gather(<2 x ptr addrspace(1)> %p) {
  %v = call <2 x i64> @llvm.masked.gather.v2i64.v2p1(<2 x ptr addrspace(1)> %p, i32 8, <2 x i1> <i1 true, i1 true>, <2 x i64> zeroinitializer)
  ret <2 x i64> %v
}
; CHECK-LABEL: define void @scatter(
; CHECK: br i1
; CHECK: [[Q0:%.*]] = extractelement <2 x ptr> %q, i64 0
; CHECK: call void @__mt_access_generic(ptr [[Q0]], i32 268435458, i32 6)
; CHECK-NEXT: store i16 0, ptr [[Q0]], align 2
; CHECK: br i1
; CHECK: [[Q1:%.*]] = extractelement <2 x ptr> %q, i64 1
; CHECK: call void @__mt_access_generic(ptr [[Q1]], i32 268435458, i32 7)
; CHECK-NEXT: store i16 0, ptr [[Q1]], align 2
define void @scatter(<2 x ptr> %q, <2 x i1> %m) {
  call void @llvm.masked.scatter.v2i16.v2p0(<2 x i16> zeroinitializer, <2 x ptr> %q, i32 2, <2 x i1> %m)
  ret void
}

; Active lanes are side by side: the address of a lane follows from the lanes before it.
; CHECK-LABEL: define <2 x i8> @expand(
; CHECK: br i1
; CHECK: call void @__mt_access_generic(ptr %p, i32 1, i32 8)
; CHECK-NEXT: load i8, ptr %p
; CHECK: [[NEXT:%.*]] = getelementptr inbounds i8, ptr %p, i32 1
; CHECK: [[AT:%.*]] = phi ptr [ [[NEXT]], {{%.*}} ], [ %p, {{%.*}} ]
; CHECK: br i1
; CHECK: call void @__mt_access_generic(ptr [[AT]], i32 1, i32 9)
; CHECK-NEXT: load i8, ptr [[AT]]
define <2 x i8> @expand(ptr %p, <2 x i1> %m) {
  %v = call <2 x i8> @llvm.masked.expandload.v2i8(ptr %p, <2 x i1> %m, <2 x i8> zeroinitializer)
  ret <2 x i8> %v
}
; Lane 1 alone, at the first place.
; CHECK-LABEL: define void @compress(
; CHECK: call void @__mt_access_generic(ptr %p, i32 268435457, i32 10)
; CHECK-NEXT: store i8 {{%.*}}, ptr %p
; CHECK-NOT: __mt_
; CHECK: ret
define void @compress(ptr %p, <2 x i8> %v) {
  call void @llvm.masked.compressstore.v2i8(<2 x i8> %v, ptr %p, <2 x i1> <i1 false, i1 true>)
  ret void
}

; Vector-predicated: lanes below the length.
; CHECK-LABEL: define <2 x float> @predicated(
; CHECK: icmp ult <2 x i32> <i32 0, i32 1>,
; CHECK-COUNT-2: call void @__mt_access_global(ptr {{%.*}}, i32 4, i32
; CHECK-NOT: __mt_
; CHECK: ret
define <2 x float> @predicated(ptr addrspace(1) %p, <2 x i1> %m, i32 %n) {
  %v = call <2 x float> @llvm.vp.load.v2f32.p1(ptr addrspace(1) align 4 %p, <2 x i1> %m, i32 %n)
  ret <2 x float> %v
}
; CHECK-LABEL: define <2 x float> @predicated_others(
; CHECK-COUNT-2: call void @__mt_access_global(ptr {{%.*}}, i32 268435460, i32
; CHECK-COUNT-2: call void @__mt_access_global(ptr {{%.*}}, i32 4, i32
; CHECK-COUNT-2: call void @__mt_access_global(ptr {{%.*}}, i32 268435460, i32
; CHECK-NOT: __mt_
; CHECK: ret
define <2 x float> @predicated_others(ptr addrspace(1) %p, <2 x ptr addrspace(1)> %q, <2 x float> %x, <2 x i1> %m, i32 %n) {
  call void @llvm.vp.store.v2f32.p1(<2 x float> %x, ptr addrspace(1) align 4 %p, <2 x i1> %m, i32 %n)
  %v = call <2 x float> @llvm.vp.gather.v2f32.v2p1(<2 x ptr addrspace(1)> align 4 %q, <2 x i1> %m, i32 %n)
  call void @llvm.vp.scatter.v2f32.v2p1(<2 x float> %x, <2 x ptr addrspace(1)> align 4 %q, <2 x i1> %m, i32 %n)
  ret <2 x float> %v
}

; WARN: warning: {{.*}}global memory access without a record (counted at run time): llvm.experimental.vp.strided.load
; WARN: warning: {{.*}}global memory access without a record (counted at run time): llvm.experimental.vp.strided.store
; CHECK-LABEL: define <2 x i32> @strided(
; CHECK: call void @__mt_untraced(
; CHECK-NEXT: llvm.experimental.vp.strided.load
; CHECK: call void @__mt_untraced(
; CHECK-NEXT: llvm.experimental.vp.strided.store
define <2 x i32> @strided(ptr addrspace(1) %p, <2 x i1> %m, i32 %n, i64 %s) {
  %v = call <2 x i32> @llvm.experimental.vp.strided.load.v2i32.p1.i64(ptr addrspace(1) %p, i64 %s, <2 x i1> %m, i32 %n)
  call void @llvm.experimental.vp.strided.store.v2i32.p1.i64(<2 x i32> zeroinitializer, ptr addrspace(1) %p, i64 %s, <2 x i1> %m, i32 %n)
  ret <2 x i32> %v
}
