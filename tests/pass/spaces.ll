; Which address spaces are recorded, and which pointers need a test at run time.
; RUN: %instrument %s | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
%pair = type { ptr, i32 }
@g1 = addrspace(1) global [4 x i32] zeroinitializer
@g3 = addrspace(3) global [4 x i32] undef
@g4 = addrspace(4) global [4 x i32] zeroinitializer
@table = private constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]
declare ptr @other()
declare ptr @malloc(i64)

; CHECK-LABEL: define void @explicit_spaces(
; CHECK: call void @__mt_access_global(ptr %{{.*}}, i32 4,
; CHECK-NEXT: load i32, ptr addrspace(1) %a
; CHECK-NOT: __mt_
; CHECK: ret void
define void @explicit_spaces(ptr addrspace(1) %a, ptr addrspace(3) %b, ptr addrspace(4) %c, ptr addrspace(5) %d, ptr addrspace(101) %e) {
  %x1 = load i32, ptr addrspace(1) %a
  %x3 = load i32, ptr addrspace(3) %b
  store i32 1, ptr addrspace(3) %b
  %x4 = load i32, ptr addrspace(4) %c
  %x5 = load i32, ptr addrspace(5) %d
  store i32 1, ptr addrspace(5) %d
  %x6 = load i32, ptr addrspace(101) %e
  ret void
}

; Casts to generic keep what is known.
; CHECK-LABEL: define void @through_casts(
; CHECK: call void @__mt_access_global(ptr addrspacecast (ptr addrspace(1) @g1 to ptr), i32 4,
; CHECK-NEXT: load
; CHECK-NOT: __mt_
; CHECK: ret void
define void @through_casts(i64 %i) {
  %x1 = load i32, ptr addrspacecast (ptr addrspace(1) @g1 to ptr)
  %p3 = getelementptr [4 x i32], ptr addrspacecast (ptr addrspace(3) @g3 to ptr), i64 0, i64 %i
  %x3 = load i32, ptr %p3
  %p4 = getelementptr [4 x i32], ptr addrspacecast (ptr addrspace(4) @g4 to ptr), i64 0, i64 %i
  %x4 = load i32, ptr %p4
  ret void
}

; A generic constant table lives in global memory on the GPU.
; CHECK-LABEL: define i32 @lookup(
; CHECK: call void @__mt_access_global(
define i32 @lookup(i64 %i) {
  %p = getelementptr [4 x i32], ptr @table, i64 0, i64 %i
  %x = load i32, ptr %p
  ret i32 %x
}

; Unknown: arguments of device functions, pointers from memory, from calls, from integers, mixed selects.
; CHECK-LABEL: define void @unknown(
; CHECK: call void @__mt_access_generic(ptr %p, i32 4,
; CHECK: call void @__mt_access_generic(ptr %p, i32 8,
; CHECK: call void @__mt_access_generic(ptr %q,
; CHECK: call void @__mt_access_generic(ptr %r,
; CHECK: call void @__mt_access_generic(ptr %t,
; CHECK: call void @__mt_access_generic(ptr %m,
; CHECK: call void @__mt_access_global(ptr %n,
; CHECK: call void @__mt_access_global(ptr %o,
; CHECK-NOT: __mt_
; CHECK: ret void
define void @unknown(ptr %p, i64 %i, i1 %c) {
  %x1 = load i32, ptr %p
  %q = load ptr, ptr %p
  %x2 = load i32, ptr %q
  %r = call ptr @other()
  %x3 = load i32, ptr %r
  %t = inttoptr i64 %i to ptr
  %x4 = load i32, ptr %t
  %m = select i1 %c, ptr addrspacecast (ptr addrspace(3) @g3 to ptr), ptr addrspacecast (ptr addrspace(1) @g1 to ptr)
  %x5 = load i32, ptr %m
  %n = select i1 %c, ptr @table, ptr addrspacecast (ptr addrspace(1) @g1 to ptr)
  %x6 = load i32, ptr %n
  %o = call ptr @malloc(i64 8)
  %x7 = load i32, ptr %o
  ret void
}

; A pointer that walks through memory in a loop stays what it was.
; CHECK-LABEL: define void @walking(
; CHECK: call void @__mt_access_global(ptr %at,
; CHECK: call void @__mt_access_generic(ptr %both,
define void @walking(i64 %n) {
entry:
  br label %loop
loop:
  %at = phi ptr [ addrspacecast (ptr addrspace(1) @g1 to ptr), %entry ], [ %next, %loop ]
  %both = phi ptr [ addrspacecast (ptr addrspace(3) @g3 to ptr), %entry ], [ %next, %loop ]
  %x = load i32, ptr %at
  %y = load i32, ptr %both
  %next = getelementptr i32, ptr %at, i64 1
  %i = ptrtoint ptr %next to i64
  %c = icmp ult i64 %i, %n
  br i1 %c, label %loop, label %done
done:
  ret void
}

; Stack slots are local memory; by-value parameters are parameter space, the pointers in them global.
; CHECK-LABEL: define void @kernel(
; CHECK-SAME: ptr byval(%pair) align 8 %s, ptr %p, ptr %memtrace.ctx)
; CHECK: store i32 7, ptr %slot
; CHECK: load ptr, ptr %s
; CHECK: call void @__mt_access_global(ptr %q, i32 4,
; CHECK-NEXT: load i32, ptr %q
; CHECK: call void @__mt_access_global(ptr %p, i32 268435460,
; CHECK-NEXT: store i32 1, ptr %p
; CHECK-NOT: __mt_
; CHECK: ret void
define void @kernel(ptr byval(%pair) align 8 %s, ptr %p) {
  %slot = alloca i32
  store i32 7, ptr %slot
  %q = load ptr, ptr %s
  %x = load i32, ptr %q
  store i32 1, ptr %p
  %y = load i32, ptr %slot
  ret void
}

!nvvm.annotations = !{!0}
!0 = !{ptr @kernel, !"kernel", i32 1}
