; Vector accesses of which the mask leaves out some: what they touch is known only when they happen.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"
declare <8 x i32> @llvm.masked.load.v8i32.p0(ptr, i32, <8 x i1>, <8 x i32>)
declare void @llvm.masked.store.v8i32.p0(<8 x i32>, ptr, i32, <8 x i1>)
declare <8 x i32> @llvm.masked.gather.v8i32.v8p0(<8 x ptr>, i32, <8 x i1>, <8 x i32>)
declare void @llvm.masked.scatter.v8i32.v8p0(<8 x i32>, <8 x ptr>, i32, <8 x i1>)
declare <8 x i32> @llvm.masked.expandload.v8i32(ptr, <8 x i1>, <8 x i32>)
declare void @llvm.masked.compressstore.v8i32(<8 x i32>, ptr, <8 x i1>)

define void @copy_masked(ptr %from, ptr %to, i8 %bits) {
  %mask = bitcast i8 %bits to <8 x i1>
  %v = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %from, i32 4, <8 x i1> %mask, <8 x i32> zeroinitializer)
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v, ptr %to, i32 4, <8 x i1> %mask)
  ret void
}

define void @copy_lanes(ptr %from, ptr %to, <8 x i64> %at, i8 %bits) {
  %mask = bitcast i8 %bits to <8 x i1>
  %p = getelementptr i32, ptr %from, <8 x i64> %at
  %q = getelementptr i32, ptr %to, <8 x i64> %at
  %v = call <8 x i32> @llvm.masked.gather.v8i32.v8p0(<8 x ptr> %p, i32 4, <8 x i1> %mask, <8 x i32> zeroinitializer)
  call void @llvm.masked.scatter.v8i32.v8p0(<8 x i32> %v, <8 x ptr> %q, i32 4, <8 x i1> %mask)
  ret void
}

define void @copy_spread(ptr %from, ptr %to, ptr %at, i8 %bits) {
  %index = load <8 x i64>, ptr %at, align 8
  call void @copy_lanes(ptr %from, ptr %to, <8 x i64> %index, i8 %bits)
  ret void
}

define void @copy_packed(ptr %from, ptr %to, i8 %bits) {
  %mask = bitcast i8 %bits to <8 x i1>
  %v = call <8 x i32> @llvm.masked.expandload.v8i32(ptr %from, <8 x i1> %mask, <8 x i32> zeroinitializer)
  call void @llvm.masked.compressstore.v8i32(<8 x i32> %v, ptr %to, <8 x i1> %mask)
  ret void
}
