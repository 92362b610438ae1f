; The CPU module without vectors: a fiber for each thread; shared variables as offsets; nothing dropped in silence.
; RUN: %lower %s 2>%t.err | FileCheck %s
; RUN: FileCheck --check-prefix=WARN %s <%t.err
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@sh = internal addrspace(3) global [64 x float] undef, align 4
@sh2 = internal addrspace(3) global [3 x double] undef, align 8
@dyn = external addrspace(3) global [0 x float], align 4
@var = addrspace(1) externally_initialized global i32 5, align 4
@con = addrspace(4) externally_initialized global i32 6, align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.mystery(i32)
declare void @elsewhere()

; CHECK: target triple = "x86_64-pc-linux-gnu"
; CHECK: @var = internal addrspace(1) {{.*}}global i32 5
; CHECK: @con = internal addrspace(4) {{.*}}global i32 6
; CHECK-NOT: addrspace(3) global
; CHECK: @mt_image = constant

; A barrier, through a helper.
; CHECK-LABEL: define internal void @waits(
; CHECK: call ptr @mtb_shared_base()
; CHECK-NOT: addrspace(3) @
define void @waits(ptr %p) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %q = getelementptr [64 x float], ptr addrspacecast (ptr addrspace(3) @sh to ptr), i64 0, i32 %t
  store float 1.0, ptr %q
  %r = getelementptr [0 x float], ptr addrspacecast (ptr addrspace(3) @dyn to ptr), i64 0, i32 %t
  store float 1.0, ptr %r
  store double 2.0, ptr addrspace(3) @sh2
  call void @helper()
  ret void
}
define internal void @helper() noinline {
  call void asm sideeffect "bar.sync 0;", "~{memory}"()
  ret void
}

define void @plain(ptr %p) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %q = getelementptr float, ptr %p, i32 %t
  store float 1.0, ptr %q
  ret void
}

; WARN: warning: {{.*}}the CPU device cannot run this: llvm.nvvm.mystery
; WARN: warning: {{.*}}the CPU device cannot run this: call of elsewhere, which this file does not define
; CHECK-LABEL: define internal void @broken(
; CHECK: call void @mt_cpu_unsupported(
; CHECK: call void @mt_cpu_unsupported(
define void @broken(ptr %p) {
  %x = call i32 @llvm.nvvm.mystery(i32 1)
  store i32 %x, ptr %p
  call void @elsewhere()
  ret void
}
; Runners come last.
; CHECK: define internal void @mt.entry.waits(
; CHECK: define internal void @mt.entry.plain(
!nvvm.annotations = !{!0, !1, !2}
!0 = !{ptr @waits, !"kernel", i32 1}
!1 = !{ptr @plain, !"kernel", i32 1}
!2 = !{ptr @broken, !"kernel", i32 1}
