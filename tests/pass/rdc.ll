; -fgpu-rdc: what other files may know has a name that they can find, what they define stays undefined and may wait.
; RUN: env MEMTRACE_PASS_OPTIONS="rdc=on" %lower %s 2>%t.err | FileCheck %s
; RUN: not grep elsewhere %t.err
; RUN: %lower %s 2>/dev/null | FileCheck --check-prefix=ALONE %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@mine = internal addrspace(3) global [64 x float] undef, align 4
@ours = linkonce_odr addrspace(3) global [8 x float] undef, align 4
@dyn = external addrspace(3) global [0 x float], align 4
@var = addrspace(1) externally_initialized global i32 5, align 4
@hidden = internal addrspace(1) global i32 6, align 4
@other = external addrspace(1) global i32, align 4
declare i32 @elsewhere(i32)
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()

; CHECK-DAG: @mtd.var = addrspace(1) global i32 5
; CHECK-DAG: @hidden = internal addrspace(1) {{.*}}global i32 6
; CHECK-DAG: @mtd.other = external addrspace(1) global i32
; CHECK-DAG: @mts.ours = weak_odr global { i64, ptr } { i64 256, ptr @mt.shared }
; Static shared memory: 64 floats, then 8, then up to the next 128.
; CHECK-DAG: @mt.shared = internal externally_initialized global [2 x i64] [i64 0, i64 384]
; CHECK: declare i32 @mtd.elsewhere(i32)
; CHECK: define i32 @mtd.exported(
; CHECK: define weak i32 @mtd.replaceable(
; CHECK: define internal i32 @local(
; ALONE-NOT: mtd.
; ALONE-NOT: mts.
; ALONE: define internal i32 @exported(
define i32 @exported(i32 %x) {
  %v = load i32, ptr addrspace(1) @other
  %r = add i32 %v, %x
  ret i32 %r
}
define weak i32 @replaceable(i32 %x) {
  %v = load i32, ptr addrspace(1) @hidden
  ret i32 %v
}
define internal i32 @local(i32 %x) noinline {
  %v = load i32, ptr addrspace(1) @var
  ret i32 %v
}
; A call of another file's function may wait: fibers.
define void @kernel(ptr %p) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = call i32 @elsewhere(i32 %t)
  %b = call i32 @exported(i32 %a)
  %c = call i32 @local(i32 %b)
  %d = call i32 @replaceable(i32 %c)
  %q = getelementptr [64 x float], ptr addrspacecast (ptr addrspace(3) @mine to ptr), i64 0, i32 %d
  store float 1.0, ptr %q
  %s = getelementptr [8 x float], ptr addrspacecast (ptr addrspace(3) @ours to ptr), i64 0, i32 %d
  store float 1.0, ptr %s
  %u = getelementptr [8 x float], ptr addrspacecast (ptr addrspace(3) @dyn to ptr), i64 0, i32 %d
  store float 1.0, ptr %u
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{ptr @kernel, !"kernel", i32 1}
