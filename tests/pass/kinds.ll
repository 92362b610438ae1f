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
