; Grid-stride loops: the threads go on together; a copy does the work where something might wrap around. Loops that a
; thread may leave early, or that keep something in private memory, stay as they are.
; RUN: %lower %s 2>/dev/null | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()

; CHECK-LABEL: define internal void @mt.loop.strides(
; CHECK: call void @mt.loop.strides.threads(
; CHECK: define internal void @mt.loop.strides.threads(
; CHECK: define internal void @mt.loop.strides.plain.threads(
define void @strides(ptr %p, i32 %n) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %in = icmp slt i32 %t, %n
  br i1 %in, label %before, label %out
before:
  %d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  br label %loop
loop:
  %i = phi i32 [ %t, %before ], [ %next, %loop ]
  %w = sext i32 %i to i64
  %a = getelementptr float, ptr %p, i64 %w
  store float 1.0, ptr %a
  %next = add i32 %i, %d
  %again = icmp slt i32 %next, %n
  br i1 %again, label %loop, label %out
out:
  ret void
}

; CHECK-NOT: .threads(
define void @leaves(ptr %p, i32 %n) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %in = icmp slt i32 %t, %n
  br i1 %in, label %before, label %out
before:
  %d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  br label %loop
loop:
  %i = phi i32 [ %t, %before ], [ %next, %more ]
  %w = sext i32 %i to i64
  %a = getelementptr i32, ptr %p, i64 %w
  %v = load i32, ptr %a
  %stop = icmp eq i32 %v, 7
  br i1 %stop, label %out, label %more
more:
  %next = add i32 %i, %d
  %again = icmp slt i32 %next, %n
  br i1 %again, label %loop, label %out
out:
  ret void
}

; A load in front of the loop would be done again in each round.
define void @loads(ptr %p, i32 %n) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %in = icmp slt i32 %t, %n
  br i1 %in, label %before, label %out
before:
  %d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %v = load float, ptr %p
  br label %loop
loop:
  %i = phi i32 [ %t, %before ], [ %next, %loop ]
  %w = sext i32 %i to i64
  %a = getelementptr float, ptr %p, i64 %w
  store float %v, ptr %a
  %next = add i32 %i, %d
  %again = icmp slt i32 %next, %n
  br i1 %again, label %loop, label %out
out:
  ret void
}

define void @private(ptr %p, i32 %n) {
  %m = alloca i32
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %in = icmp slt i32 %t, %n
  br i1 %in, label %before, label %out
before:
  %d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  br label %loop
loop:
  %i = phi i32 [ %t, %before ], [ %next, %loop ]
  %old = load i32, ptr %m
  %w = sext i32 %i to i64
  %a = getelementptr i32, ptr %p, i64 %w
  store i32 %old, ptr %a
  store i32 %i, ptr %m
  %next = add i32 %i, %d
  %again = icmp slt i32 %next, %n
  br i1 %again, label %loop, label %out
out:
  ret void
}
!nvvm.annotations = !{!0, !1, !2, !3}
!0 = !{ptr @strides, !"kernel", i32 1}
!1 = !{ptr @leaves, !"kernel", i32 1}
!2 = !{ptr @loads, !"kernel", i32 1}
!3 = !{ptr @private, !"kernel", i32 1}
