; Loops that wait for another thread yield; loops that make progress by themselves do not.
; RUN: %lower %s | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; CHECK-LABEL: define internal void @flag(
; CHECK: load volatile i32
; CHECK-NEXT: call void @mt_cpu_yield()
define void @flag(ptr %p) {
entry:
  br label %loop
loop:
  %x = load volatile i32, ptr %p
  %c = icmp eq i32 %x, 0
  br i1 %c, label %loop, label %done
done:
  ret void
}
; CHECK-LABEL: define internal void @lock(
; CHECK: cmpxchg
; CHECK-NEXT: call void @mt_cpu_yield()
define void @lock(ptr %p) {
entry:
  br label %loop
loop:
  %r = cmpxchg ptr %p, i32 0, i32 1 seq_cst seq_cst
  %x = extractvalue { i32, i1 } %r, 0
  %c = icmp ne i32 %x, 0
  br i1 %c, label %loop, label %done
done:
  ret void
}
; CHECK-LABEL: define internal void @retry(
; CHECK-NOT: mt_cpu_yield
; CHECK: ret void
define void @retry(ptr %p) {
entry:
  %first = load i32, ptr %p
  br label %loop
loop:
  %old = phi i32 [ %first, %entry ], [ %x, %loop ]
  %new = add i32 %old, 5
  %r = cmpxchg ptr %p, i32 %old, i32 %new seq_cst seq_cst
  %x = extractvalue { i32, i1 } %r, 0
  %c = icmp ne i32 %x, %old
  br i1 %c, label %loop, label %done
done:
  ret void
}
; A volatile read in a loop that counts: no spinning.
; CHECK-LABEL: define internal void @count(
; CHECK-NOT: mt_cpu_yield
; CHECK: ret void
define void @count(ptr %p, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %j, %loop ]
  %x = load volatile i32, ptr %p
  %y = atomicrmw add ptr %p, i32 1 monotonic
  %j = add i32 %i, 1
  %c = icmp ult i32 %j, %n
  br i1 %c, label %loop, label %done
done:
  ret void
}
; Unoptimised: the value goes through a stack slot, the poll is in a helper.
; CHECK-LABEL: define internal i32 @read(
define i32 @read(ptr %p) {
  %x = load atomic i32, ptr %p acquire, align 4
  ret i32 %x
}
; CHECK-LABEL: define internal void @slot(
; CHECK: call i32 @read(
; CHECK-NEXT: call void @mt_cpu_yield()
define void @slot(ptr %p) {
entry:
  %s = alloca i32
  br label %loop
loop:
  %x = call i32 @read(ptr %p)
  store i32 %x, ptr %s
  %y = load i32, ptr %s
  %c = icmp eq i32 %y, 0
  br i1 %c, label %loop, label %done
done:
  ret void
}

; A loop that waits inside a loop that counts: the inner one is left by what it reads.
; CHECK-LABEL: define {{.*}}@wait_in_loop(
; CHECK: load atomic
; CHECK-NEXT: call void @mt_cpu_yield()
define void @wait_in_loop(ptr %p, i32 %n) {
entry:
  br label %outer
outer:
  %i = phi i32 [ 0, %entry ], [ %more, %latch ]
  br label %wait
wait:
  %v = load atomic i32, ptr %p acquire, align 4
  %go = icmp eq i32 %v, %i
  br i1 %go, label %latch, label %wait
latch:
  %more = add i32 %i, 1
  %end = icmp eq i32 %more, %n
  br i1 %end, label %out, label %outer
out:
  ret void
}

; The same with one header for both loops.
; CHECK-LABEL: define {{.*}}@wait_at_header(
; CHECK: load atomic
; CHECK-NEXT: call void @mt_cpu_yield()
define void @wait_at_header(ptr %p, i32 %n) {
entry:
  br label %wait
wait:
  %i = phi i32 [ 0, %entry ], [ %i, %wait ], [ %more, %latch ]
  %v = load atomic i32, ptr %p acquire, align 4
  %go = icmp eq i32 %v, %i
  br i1 %go, label %latch, label %wait
latch:
  %more = add i32 %i, 1
  %end = icmp eq i32 %more, %n
  br i1 %end, label %out, label %wait
out:
  ret void
}

; What is read decides only how the loop goes on, not when it ends.
; CHECK-LABEL: define {{.*}}@count_positive(
; CHECK-NOT: mt_cpu_yield
; CHECK: ret i32
define i32 @count_positive(ptr %p, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %more, %latch ]
  %sum = phi i32 [ 0, %entry ], [ %next, %latch ]
  %v = load volatile i32, ptr %p, align 4
  %positive = icmp sgt i32 %v, 0
  br i1 %positive, label %add, label %latch
add:
  %plus = add i32 %sum, 1
  br label %latch
latch:
  %next = phi i32 [ %sum, %loop ], [ %plus, %add ]
  %more = add i32 %i, 1
  %end = icmp eq i32 %more, %n
  br i1 %end, label %out, label %loop
out:
  ret i32 %next
}
