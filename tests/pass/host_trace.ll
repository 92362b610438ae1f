; Tracing of host code: groups of accesses with one comparison, single ones, what is known only afterwards, calls of the
; C library, accesses without a record; and the module's tables and constructor.
; RUN: env MEMTRACE_PASS_OPTIONS=host=on %hosttrace %s 2>/dev/null | FileCheck %s
; RUN: env MEMTRACE_PASS_OPTIONS=host=on %hosttrace %s 2>&1 >/dev/null | FileCheck --check-prefix=WARN %s
; RUN: env MEMTRACE_PASS_OPTIONS=host=atomic %hosttrace %s 2>/dev/null | FileCheck --check-prefix=ATOMIC %s
; RUN: env 'MEMTRACE_PASS_OPTIONS=host=on;only=stores' %hosttrace %s 2>/dev/null | FileCheck --check-prefix=ONLY %s
; RUN: %hosttrace %s | FileCheck --check-prefix=OFF %s
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"
declare void @outside()
declare i64 @strlen(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; OFF-NOT: __mt_host
; WARN: memory access without a record (counted at run time): inline asm with operands in memory
; CHECK: @llvm.global_ctors = appending global {{.*}} { i32 0, ptr @memtrace.host.register, ptr null }

; Two accesses: room is looked for once, the position moves once, and whoever has no room drains at the end.
; CHECK-LABEL: define void @two(
; CHECK: %[[T:[0-9]+]] = load ptr, ptr @__mt_host_current
; CHECK-NEXT: %[[CUR:[0-9]+]] = load ptr, ptr %[[T]]
; CHECK: icmp uge ptr %[[CUR]],
; CHECK: %[[C:[0-9]+]] = phi ptr
; CHECK: %[[P:[0-9]+]] = ptrtoint ptr %p to i64
; CHECK-NEXT: store i64 %[[P]], ptr %[[C]], align 8
; CHECK: load i32, ptr @memtrace.host.base, align 4, !invariant.load
; CHECK: %v = load i32, ptr %p
; CHECK: getelementptr i8, ptr %[[C]], i64 16
; CHECK: store i32 %v, ptr %q
; CHECK-NEXT: %[[END:[0-9]+]] = getelementptr i8, ptr %[[C]], i64 32
; CHECK-NEXT: store ptr %[[END]], ptr
; CHECK: call preserve_mostcc void @__mt_host_slow()
; CHECK: call preserve_mostcc void @__mt_host_drain()
; ATOMIC-LABEL: define void @two(
; Each access is marked, and appended or between begin and end.
; ATOMIC: %[[T:[0-9]+]] = load ptr, ptr @__mt_host_current
; ATOMIC-NEXT: fence syncscope("singlethread") seq_cst
; ATOMIC-NEXT: %[[OPEN:[0-9]+]] = getelementptr i8, ptr %[[T]], i64 16
; ATOMIC-NEXT: store i64 1, ptr %[[OPEN]]
; ATOMIC-NEXT: fence syncscope("singlethread") seq_cst
; ATOMIC-NEXT: %[[CUR:[0-9]+]] = load ptr, ptr %[[T]]
; ATOMIC: icmp uge ptr %[[CUR]],
; ATOMIC: %v = load i32, ptr %p
; ATOMIC-NEXT: fence syncscope("singlethread") seq_cst
; ATOMIC-NEXT: getelementptr i8, ptr %[[T]], i64 16
; ATOMIC-NEXT: store i64 0, ptr
; ATOMIC-NEXT: fence syncscope("singlethread") seq_cst
; ATOMIC: icmp eq ptr %{{[0-9]+}}, null
; ATOMIC: store i32 %v, ptr %q
; ATOMIC-NEXT: fence
; ATOMIC: call preserve_mostcc void @__mt_host_begin(i32 {{.*}}, i64 {{.*}}, i64 4)
; ATOMIC: call preserve_mostcc void @__mt_host_end(i32 0)
; ONLY-LABEL: define void @two(
; ONLY-NOT: ptrtoint ptr %p
; ONLY: ptrtoint ptr %q
define void @two(ptr %p, ptr %q) {
  %v = load i32, ptr %p
  store i32 %v, ptr %q
  ret void
}

; A call in between may run traced code: two groups.
; CHECK-LABEL: define void @apart(
; CHECK: store ptr {{.*}}
; CHECK: load i32, ptr %p
; CHECK-NEXT: call void @outside()
; CHECK: load ptr, ptr @__mt_host_current
; CHECK: load i32, ptr %p
; CHECK: call preserve_mostcc void @__mt_host_record(i64
; CHECK: call preserve_mostcc void @__mt_host_record(i64
define void @apart(ptr %p) {
  %v = load i32, ptr %p
  call void @outside()
  %w = load i32, ptr %p
  ret void
}

; A swap is recorded after itself, as what it was.
; CHECK-LABEL: define i1 @swap(
; CHECK: %r = cmpxchg
; CHECK: extractvalue { i32, i1 } %r, 1
; CHECK: select i1
; ATOMIC-LABEL: define i1 @swap(
; ATOMIC: %r = cmpxchg
; ATOMIC: %[[W:[0-9]+]] = extractvalue { i32, i1 } %r, 1
; ATOMIC: xor i1 %[[W]], true
; ATOMIC: call preserve_mostcc void @__mt_host_end(i32 %
define i1 @swap(ptr %p) {
  %r = cmpxchg ptr %p, i32 0, i32 1 seq_cst seq_cst
  %ok = extractvalue { i32, i1 } %r, 1
  ret i1 %ok
}

; CHECK-LABEL: define i64 @library(
; CHECK: call void @__mt_host_copied(i32 {{.*}}, i64 {{.*}}, i64 {{.*}}, i64 %n)
; CHECK: call void @__mt_host_block(i64 {{.*}}, i64 %n, i32
; CHECK: call void @__mt_host_block(i64 {{.*}}, i64 %n, i32
; CHECK: call void @llvm.memcpy
; CHECK: call void @__mt_host_libc(i32
; CHECK-NEXT: call i64 @strlen(
; CHECK: call void @__mt_host_untraced()
; CHECK-NEXT: call void asm
define i64 @library(ptr %p, ptr %q, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %q, i64 %n, i1 false)
  %l = call i64 @strlen(ptr %p)
  call void asm sideeffect "incl $0", "=*m,*m"(ptr elementtype(i32) %p, ptr elementtype(i32) %p)
  ret i64 %l
}
; CHECK: define internal void @memtrace.host.register()
; CHECK: call void @__mt_host_register(ptr @memtrace.host.module)
