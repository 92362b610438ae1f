; Where lanes of a warp exchange data with no barrier between, they wait for one another; nowhere else.
; RUN: %lower %s | FileCheck %s
; RUN: env MEMTRACE_PASS_OPTIONS="lockstep=cta" %lower %s | FileCheck --check-prefix=CTA %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@s = internal addrspace(3) global [1024 x i32] undef, align 4
@other = internal addrspace(3) global [64 x i32] undef, align 4
@square = internal addrspace(3) global [32 x [33 x i32]] undef, align 4
@small = internal addrspace(3) global [16 x [16 x i32]] undef, align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()

; CHECK-LABEL: define internal void @set(
; CHECK-NOT: mt_cpu_step
; CHECK: ret void

; The neighbour's element, after one's own store: the load waits. What it overwrites later waits, too.
; CHECK-LABEL: define internal void @neighbour(
; CHECK-NOT: mt_cpu_step
; CHECK: store i32 1,
; CHECK: call void @mt_cpu_step(
; CHECK-NEXT: %x = load i32,
; CHECK-NOT: mt_cpu_step
; CHECK: %own = load i32,
; CHECK: call void @mt_cpu_step(
; CHECK-NEXT: store i32 %x,
; CHECK-NOT: mt_cpu_step
; CHECK: ret void
; CTA-LABEL: define internal void @neighbour(
; CTA: call void @mt_cpu_yield()
; CTA: store i32 1,
; CTA: call void @mt_cpu_step(
define void @neighbour(ptr %out) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t
  %t1 = add i32 %t, 1
  %q = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t1
  store i32 1, ptr addrspace(3) %p
  %x = load i32, ptr addrspace(3) %q
  %own = load i32, ptr addrspace(3) %p
  store i32 %x, ptr addrspace(3) %p
  ret void
}

; A store and a load that depends on it, in a loop that goes on until a lane has had enough; what comes after
; the loop comes later in order, wherever its block lies.
; CHECK-LABEL: define internal void @halving(
; CHECK: behind:
; CHECK: call void @mt_cpu_step(i32 [[#LAST:]])
; CHECK-NEXT: load volatile i32
; CHECK: loop:
; CHECK: call void @mt_cpu_step(i32 [[#LAST-2]])
; CHECK-NEXT: %a = load volatile i32
; CHECK: call void @mt_cpu_step(i32 [[#LAST-1]])
; CHECK-NEXT: store volatile i32
define void @halving(ptr %out) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t
  br label %loop
behind:
  %sum = load volatile i32, ptr addrspace(3) @s
  store i32 %sum, ptr %out
  ret void
loop:
  %step = phi i32 [ 16, %entry ], [ %half, %loop ]
  %there = add i32 %t, %step
  %q = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %there
  %a = load volatile i32, ptr addrspace(3) %q
  store volatile i32 %a, ptr addrspace(3) %p
  %half = lshr i32 %step, 1
  %go = icmp ne i32 %half, 0
  br i1 %go, label %loop, label %behind
}

; Barriers between, of the CTA or the warp: as it was.
; CHECK-LABEL: define internal void @barriers(
; CHECK-NOT: mt_cpu_step
; CHECK: ret void
define void @barriers(ptr %out) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t
  %t1 = add i32 %t, 1
  %q = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t1
  store i32 1, ptr addrspace(3) %p
  call void asm sideeffect "bar.sync 0;", "~{memory}"()
  %x = load volatile i32, ptr addrspace(3) %q
  call void asm sideeffect "bar.warp.sync -1;", "~{memory}"()
  store volatile i32 %x, ptr addrspace(3) %p
  call void asm sideeffect "bar.warp.sync -1;", "~{memory}"()
  %y = load volatile i32, ptr addrspace(3) %q
  store i32 %y, ptr %out
  ret void
}

; Each thread its own: the same element, another warp's (32 on), a part of 17, a column (blockDim apart).
; CHECK-LABEL: define internal void @own(
; CHECK-NOT: mt_cpu_step
; CHECK: ret void
define void @own(ptr %out, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %nt = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t
  %t32 = add i32 %t, 32
  %q = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t32
  store volatile i32 1, ptr addrspace(3) %p
  %x = load volatile i32, ptr addrspace(3) %p
  %y = load volatile i32, ptr addrspace(3) %q
  call void asm sideeffect "bar.sync 0;", "~{memory}"()
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i1, %loop ]
  %t17 = mul i32 %t, 17
  %at = add i32 %t17, %i
  %mine = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %at
  store i32 %x, ptr addrspace(3) %mine
  %before = add i32 %t17, %n
  %mine2 = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %before
  %z = load i32, ptr addrspace(3) %mine2
  %row = mul i32 %i, %nt
  %at2 = add i32 %row, %t
  %column = getelementptr [64 x i32], ptr addrspace(3) @other, i32 0, i32 %at2
  store i32 %z, ptr addrspace(3) %column
  %head = getelementptr [64 x i32], ptr addrspace(3) @other, i32 0, i32 %t
  %w = load i32, ptr addrspace(3) %head
  store i32 %w, ptr %out
  %i1 = add i32 %i, 1
  %go = icmp slt i32 %i1, %n
  br i1 %go, label %loop, label %done
done:
  ret void
}

; Threads that go on by a stride, in two loops, and volatile: each has its own elements. By 8, they have not.
; CHECK-LABEL: define internal void @strides(
; CHECK-NOT: mt_cpu_step
; CHECK: ret void
; CHECK-LABEL: define internal void @short_strides(
; CHECK: call void @mt_cpu_step(
; CHECK: ret void
define void @strides(ptr %out, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %nt = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  br label %one
one:
  %i = phi i32 [ %t, %entry ], [ %i1, %one ]
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %i
  store volatile i32 1, ptr addrspace(3) %p
  %i1 = add i32 %i, %nt
  %go = icmp slt i32 %i1, %n
  br i1 %go, label %one, label %two
two:
  %k = phi i32 [ %t, %one ], [ %k1, %two ]
  %q = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %k
  %x = load i32, ptr addrspace(3) %q
  store i32 %x, ptr %out
  %k1 = add i32 %k, %nt
  %go2 = icmp slt i32 %k1, %n
  br i1 %go2, label %two, label %done
done:
  ret void
}
define void @short_strides(ptr %out, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  br label %one
one:
  %i = phi i32 [ %t, %entry ], [ %i1, %one ]
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %i
  store volatile i32 1, ptr addrspace(3) %p
  %i1 = add i32 %i, 8
  %go = icmp slt i32 %i1, %n
  br i1 %go, label %one, label %two
two:
  %k = phi i32 [ %t, %one ], [ %k1, %two ]
  %q = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %k
  %x = load volatile i32, ptr addrspace(3) %q
  store i32 %x, ptr %out
  %k1 = add i32 %k, 8
  %go2 = icmp slt i32 %k1, %n
  br i1 %go2, label %two, label %done
done:
  ret void
}

; Lanes part, and some of them wait on the way: the others wait where they meet again, also after a loop that each
; leaves when it has had enough.
; CHECK-LABEL: define internal void @parting(
; CHECK: some:
; CHECK: call void @mt_cpu_step(i32 [[#AT:]])
; CHECK: meet:
; CHECK-NEXT: call void @mt_cpu_step(i32 [[#AT+1]])
; CHECK: loop:
; CHECK: call void @mt_cpu_step(i32 [[#AT+2]])
; CHECK: done:
; CHECK-NEXT: call void @mt_cpu_step(i32 [[#AT+4]])
; CHECK: ret void
define void @parting(ptr %out, ptr %in) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t
  %t1 = add i32 %t, 1
  %q = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t1
  store volatile i32 1, ptr addrspace(3) %p
  %few = icmp ult i32 %t, 7
  br i1 %few, label %some, label %meet
some:
  %x = load volatile i32, ptr addrspace(3) %q
  store i32 %x, ptr %out
  br label %meet
meet:
  br label %loop
loop:
  %y = load volatile i32, ptr addrspace(3) %q
  store volatile i32 %y, ptr addrspace(3) %p
  %z = load i32, ptr %in
  %more = icmp ugt i32 %z, %t
  br i1 %more, label %loop, label %done
done:
  %last = load volatile i32, ptr addrspace(3) @s
  store i32 %last, ptr %out
  ret void
}

; One thread alone, both times; and its own element of what all stored.
; CHECK-LABEL: define internal void @alone(
; CHECK-NOT: mt_cpu_step
; CHECK: ret void
define void @alone(ptr %out, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr [64 x i32], ptr addrspace(3) @other, i32 0, i32 %t
  store i32 1, ptr addrspace(3) %p
  %first = icmp eq i32 %t, 0
  br i1 %first, label %one, label %join
one:
  store i32 5, ptr addrspace(3) @s
  br label %join
join:
  %again = icmp ult i32 %t, 1
  br i1 %again, label %two, label %done
two:
  %x = load i32, ptr addrspace(3) @s
  %y = load i32, ptr addrspace(3) @other
  store i32 %y, ptr addrspace(3) getelementptr inbounds ([1024 x i32], ptr addrspace(3) @s, i32 0, i32 7)
  %z = load i32, ptr addrspace(3) getelementptr inbounds ([1024 x i32], ptr addrspace(3) @s, i32 0, i32 7)
  store i32 %z, ptr %out
  br label %done
done:
  ret void
}

; One thread's store, read by all; all threads' stores, one of them read by another thread.
; CHECK-LABEL: define internal void @broadcast(
; CHECK: store i32 5,
; CHECK: call void @mt_cpu_step(
; CHECK: %x = load i32
; CHECK: ret void
; CHECK-LABEL: define internal void @collect(
; CHECK: one:
; CHECK-NEXT: call void @mt_cpu_step(
; CHECK: %x = load i32
; CHECK: ret void
define void @broadcast(ptr %out) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %first = icmp eq i32 %t, 0
  br i1 %first, label %one, label %join
one:
  store i32 5, ptr addrspacecast (ptr addrspace(3) @s to ptr)
  br label %join
join:
  %x = load i32, ptr addrspacecast (ptr addrspace(3) @s to ptr)
  store i32 %x, ptr %out
  ret void
}
define void @collect(ptr %out) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr [64 x i32], ptr addrspace(3) @other, i32 0, i32 %t
  store i32 1, ptr addrspace(3) %p
  %first = icmp eq i32 %t, 0
  br i1 %first, label %one, label %done
one:
  %x = load i32, ptr addrspace(3) getelementptr inbounds ([64 x i32], ptr addrspace(3) @other, i32 0, i32 3)
  store i32 %x, ptr %out
  br label %done
done:
  ret void
}

; The row below: another warp's where rows are as long as a warp, the same warp's where they are shorter.
; CHECK-LABEL: define internal void @long_rows(
; CHECK-NOT: mt_cpu_step
; CHECK: ret void
; CHECK-LABEL: define internal void @short_rows(
; CHECK: call void @mt_cpu_step(
; CHECK-NEXT: load i32
; CHECK: ret void
define void @long_rows(ptr %out) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %y1 = add i32 %y, 1
  %p = getelementptr [32 x [33 x i32]], ptr addrspace(3) @square, i32 0, i32 %y, i32 %t
  %q = getelementptr [32 x [33 x i32]], ptr addrspace(3) @square, i32 0, i32 %y1, i32 %t
  store i32 1, ptr addrspace(3) %p
  %x = load i32, ptr addrspace(3) %q
  store i32 %x, ptr %out
  ret void
}
define void @short_rows(ptr %out) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %y1 = add i32 %y, 1
  %p = getelementptr [16 x [16 x i32]], ptr addrspace(3) @small, i32 0, i32 %y, i32 %t
  %q = getelementptr [16 x [16 x i32]], ptr addrspace(3) @small, i32 0, i32 %y1, i32 %t
  store i32 1, ptr addrspace(3) %p
  %x = load i32, ptr addrspace(3) %q
  store i32 %x, ptr %out
  ret void
}

; Global memory counts when it is volatile, and one array is meant; a transposition in shared memory.
; CHECK-LABEL: define internal void @global(
; CHECK-NOT: mt_cpu_step
; CHECK: store volatile i32 %own,
; CHECK: call void @mt_cpu_step(
; CHECK: load volatile i32
; CHECK-NOT: mt_cpu_step
; CHECK: ret void
; CHECK-LABEL: define internal void @transposed(
; CHECK: call void @mt_cpu_step(
; CHECK-NEXT: load i32
; CHECK: ret void
define void @global(ptr %g, ptr %h) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t1 = add i32 %t, 1
  %p = getelementptr i32, ptr %g, i32 %t
  %q = getelementptr i32, ptr %g, i32 %t1
  %r = getelementptr i32, ptr %h, i32 %t1
  store i32 1, ptr %p
  %plain = load i32, ptr %q
  store volatile i32 2, ptr %p
  %elsewhere = load volatile i32, ptr %r
  %own = load volatile i32, ptr %p
  store volatile i32 %own, ptr %p
  %x = load volatile i32, ptr %q
  store i32 %x, ptr %h
  store i32 %plain, ptr %h
  store i32 %elsewhere, ptr %h
  ret void
}
define void @transposed(ptr %out) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %p = getelementptr [32 x [33 x i32]], ptr addrspace(3) @square, i32 0, i32 %y, i32 %t
  %q = getelementptr [32 x [33 x i32]], ptr addrspace(3) @square, i32 0, i32 %t, i32 %y
  store i32 1, ptr addrspace(3) %p
  %x = load i32, ptr addrspace(3) %q
  store i32 %x, ptr %out
  ret void
}

; Who won? Elements chosen by data, volatile: each lane stores, and looks whether another one was later. Without
; volatile such elements are taken for the thread's own.
; CHECK-LABEL: define internal void @tag(
; CHECK: store volatile i32
; CHECK-NEXT: call void @mt_cpu_step(
; CHECK-NEXT: load volatile i32
; CHECK: ret void
; CHECK-LABEL: define internal void @chosen(
; CHECK-NOT: mt_cpu_step
; CHECK: ret void
define void @tag(ptr %in) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = getelementptr i32, ptr %in, i32 %t
  %d = load i32, ptr %a
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %d
  store volatile i32 %t, ptr addrspace(3) %p
  %x = load volatile i32, ptr addrspace(3) %p
  store i32 %x, ptr %a
  ret void
}
define void @chosen(ptr %in) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = getelementptr i32, ptr %in, i32 %t
  %d = load i32, ptr %a
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %d
  store i32 %t, ptr addrspace(3) %p
  %x = load i32, ptr addrspace(3) %p
  store i32 %x, ptr %a
  ret void
}

; A counter that lanes add to, read without a barrier; a lock orders what it guards.
; CHECK-LABEL: define internal void @counter(
; CHECK: atomicrmw
; CHECK-NEXT: call void @mt_cpu_step(
; CHECK-NEXT: load i32
; CHECK: ret void
; CHECK-LABEL: define internal void @locked(
; CHECK-NOT: mt_cpu_step
; CHECK: ret void
define void @counter(ptr %out) {
  %a = atomicrmw add ptr addrspace(3) @s, i32 1 monotonic
  %x = load i32, ptr addrspace(3) @s
  store i32 %x, ptr %out
  ret void
}
define void @locked(ptr %lock, i32 %k) {
  %r = cmpxchg ptr %lock, i32 0, i32 1 seq_cst seq_cst
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t
  store i32 1, ptr addrspace(3) %p
  %u = atomicrmw xchg ptr %lock, i32 0 seq_cst
  %r2 = cmpxchg ptr %lock, i32 0, i32 1 seq_cst seq_cst
  %q = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %k
  %x = load i32, ptr addrspace(3) %q
  store i32 %x, ptr %lock
  ret void
}

; A function that is not inlined stores to what may be shared and is volatile: its callers wait for it.
; CHECK-LABEL: define internal void @calls(
; CHECK-NOT: mt_cpu_step
; CHECK: call void @set(
; CHECK: call void @mt_cpu_step(
; CHECK-NEXT: load volatile i32
; CHECK: ret void
define void @set(ptr %p, i32 %i) noinline {
  %q = getelementptr i32, ptr %p, i32 %i
  store volatile i32 1, ptr %q
  ret void
}
define void @calls(ptr %out) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  call void @set(ptr addrspacecast (ptr addrspace(3) @s to ptr), i32 %t)
  %t1 = add i32 %t, 1
  %q = getelementptr [1024 x i32], ptr addrspace(3) @s, i32 0, i32 %t1
  %x = load volatile i32, ptr addrspace(3) %q
  store i32 %x, ptr %out
  ret void
}
!nvvm.annotations = !{!0, !1, !3, !4, !17, !18, !19, !5, !6, !7, !8, !9, !10, !11, !12, !13, !14, !15, !16}
!0 = !{ptr @neighbour, !"kernel", i32 1}
!1 = !{ptr @halving, !"kernel", i32 1}
!3 = !{ptr @barriers, !"kernel", i32 1}
!4 = !{ptr @own, !"kernel", i32 1}
!5 = !{ptr @alone, !"kernel", i32 1}
!6 = !{ptr @broadcast, !"kernel", i32 1}
!7 = !{ptr @collect, !"kernel", i32 1}
!8 = !{ptr @long_rows, !"kernel", i32 1}
!9 = !{ptr @short_rows, !"kernel", i32 1}
!10 = !{ptr @global, !"kernel", i32 1}
!11 = !{ptr @transposed, !"kernel", i32 1}
!12 = !{ptr @tag, !"kernel", i32 1}
!13 = !{ptr @chosen, !"kernel", i32 1}
!14 = !{ptr @counter, !"kernel", i32 1}
!15 = !{ptr @locked, !"kernel", i32 1}
!16 = !{ptr @calls, !"kernel", i32 1}
!17 = !{ptr @strides, !"kernel", i32 1}
!18 = !{ptr @short_strides, !"kernel", i32 1}
!19 = !{ptr @parting, !"kernel", i32 1}
