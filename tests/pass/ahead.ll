; Inline asm that computes addresses, lengths, predicates and jumps itself: the arithmetic is done once more in front of
; it, with a record where each access would be. What depends on a value that the asm loads is counted as untraced.
; RUN: %instrument %s 2>%t.err | FileCheck %s
; RUN: FileCheck --check-prefix=WARN %s <%t.err
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; base + 4 * index, under a comparison.
; CHECK-LABEL: define i32 @computed(
; CHECK: mul i64
; CHECK: [[C:%.*]] = icmp slt i32
; CHECK: br i1
; CHECK: call void @__mt_access_global(ptr {{%.*}}, i32 4, i32 0)
; CHECK: br label
; CHECK: call i32 asm sideeffect
define i32 @computed(ptr %p, i32 %i, i32 %n) {
  %r = call i32 asm sideeffect "{ .reg .u64 a; .reg .pred q; mul.wide.u32 a, $2, 4; add.u64 a, a, $1; setp.lt.s32 q, $2, $3; mov.u32 $0, 0; @q ld.global.u32 $0, [a]; }", "=r,l,r,r"(ptr %p, i32 %i, i32 %n)
  ret i32 %r
}

; A loop inside the asm: a record in each round.
; CHECK-LABEL: define void @loop(
; CHECK: call void @__mt_access_global(ptr {{%.*}}, i32 268435464, i32 1)
; CHECK: br i1
; CHECK: call void asm sideeffect
; CHECK-NOT: __mt_untraced
; CHECK: ret void
define void @loop(ptr %p, i32 %n) {
  call void asm sideeffect "{ .reg .u64 a; .reg .u32 i; .reg .pred q; mov.u64 a, $0; mov.u32 i, 0; again: st.global.v2.u32 [a], {i, i}; add.u64 a, a, 8; add.u32 i, i, 1; setp.lt.u32 q, i, $1; @q bra again; }", "l,r"(ptr %p, i32 %n)
  ret void
}

; The first load can be known, the second's address is what the first one gave; so is the third's predicate.
; CHECK-LABEL: define i32 @hidden(
; CHECK: call void @__mt_access_global(ptr {{%.*}}, i32 8, i32 2)
; CHECK-NEXT: call void @__mt_untraced(i32 0)
; CHECK-NEXT: call void @__mt_untraced(i32 1)
; CHECK-NEXT: call i32 asm sideeffect
; WARN: warning: {{.*}}inline asm: ld.global.u32
; WARN: warning: {{.*}}inline asm: st.global.u32
define i32 @hidden(ptr %p) {
  %r = call i32 asm sideeffect "{ .reg .u64 a; .reg .pred q; ld.global.u64 a, [$1]; ld.global.u32 $0, [a]; setp.ne.u32 q, $0, 0; @q st.global.u32 [$1], $0; }", "=r,l"(ptr %p)
  ret i32 %r
}

; A loop that ends when the loaded value says so cannot be followed: the whole is one untraced access.
; CHECK-LABEL: define void @waits(
; CHECK-NOT: __mt_access
; CHECK: call void @__mt_untraced(i32 2)
; CHECK-NEXT: call void asm sideeffect
; WARN: warning: {{.*}}inline asm: { .reg .pred q; .reg .u32 v; again:
define void @waits(ptr %p) {
  call void asm sideeffect "{ .reg .pred q; .reg .u32 v; again: ld.global.u32 v, [$0]; setp.eq.u32 q, v, 0; @q bra again; }", "l"(ptr %p)
  ret void
}

; cp.async with ignore-src: no bytes when the predicate is set. Special registers that stay the same are read again.
; CHECK-LABEL: define void @copy(
; CHECK: [[B:%.*]] = select i1 {{%.*}}, i64 0, i64 16
; CHECK: call void @__mt_access_global_n(ptr {{%.*}}, i64 [[B]], i32 0, i32 3)
; CHECK: call i32 asm "mov.u32 $0, %laneid;", "=r"()
; CHECK: call void @__mt_access_generic(ptr {{%.*}}, i32 268435460, i32 4)
define void @copy(ptr addrspace(3) %s, ptr %p, i32 %i) {
  call void asm sideeffect "{ .reg .pred q; setp.gt.s32 q, $2, 3; cp.async.cg.shared.global [$0], [$1], 16, q; }", "r,l,r"(ptr addrspace(3) %s, ptr %p, i32 %i)
  call void asm sideeffect "{ .reg .u32 l; .reg .u64 a; mov.u32 l, %laneid; mad.wide.u32 a, l, 4, $0; st.u32 [a], l; }", "l"(ptr %p)
  ret void
}
