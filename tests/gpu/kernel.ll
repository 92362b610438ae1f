; A kernel as the pass leaves it, with a call of each record function; the pass's own output is checked in tests/pass.
target triple = "nvptx64-nvidia-cuda"
@__mt_launch_ctx = external addrspace(3) global i64
declare void @__mt_access_global(ptr, i32, i32)
declare void @__mt_access_generic(ptr, i32, i32)
declare void @__mt_access_global_n(ptr, i64, i32, i32)
declare void @__mt_access_generic_n(ptr, i64, i32, i32)
declare void @__mt_untraced(i32)
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()

define void @kernel(ptr %p, i64 %n, ptr %memtrace.ctx) {
  %c = ptrtoint ptr %memtrace.ctx to i64
  store volatile i64 %c, ptr addrspace(3) @__mt_launch_ctx, align 8
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = getelementptr float, ptr %p, i32 %t
  call void @__mt_access_global(ptr %a, i32 4, i32 0)
  %v = load float, ptr %a
  %w = fadd float %v, 1.0
  call void @__mt_access_generic(ptr %a, i32 268435460, i32 1)
  store float %w, ptr %a
  call void @__mt_access_global_n(ptr %a, i64 %n, i32 0, i32 2)
  call void @__mt_access_generic_n(ptr %a, i64 %n, i32 0, i32 3)
  call void @__mt_untraced(i32 0)
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{ptr @kernel, !"kernel", i32 1}
