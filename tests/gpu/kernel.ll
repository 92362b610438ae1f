; A kernel as the pass leaves it, with a call of each record function; the pass's own output is checked in tests/pass.
target triple = "nvptx64-nvidia-cuda"
declare void @__mt_gpu_access_global(ptr, i32, i32, ptr)
declare void @__mt_gpu_access_global_n(ptr, i64, i32, i32, ptr)
declare void @__mt_gpu_untraced(i32, ptr)
declare void @__mt_gpu_count_global(ptr, i32, i32, ptr)
declare void @__mt_gpu_count_global_n(ptr, i64, i32, i32, ptr)
declare ptr @__mt_gpu_begin(ptr)
declare i1 @llvm.nvvm.isspacep.global(ptr)
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()

define void @kernel(ptr %p, i64 %n, ptr %parameter) {
  %memtrace.ctx = call ptr @__mt_gpu_begin(ptr %parameter)
  %out = icmp eq ptr %memtrace.ctx, null
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = getelementptr float, ptr %p, i32 %t
  %s1 = select i1 %out, i32 -2147483648, i32 0
  call void @__mt_gpu_access_global(ptr %a, i32 4, i32 %s1, ptr %parameter)
  %v = load float, ptr %a
  %w = fadd float %v, 1.0
  %is = call i1 @llvm.nvvm.isspacep.global(ptr %a)
  %not = xor i1 %is, true
  %or = or i1 %out, %not
  %s2 = select i1 %or, i32 -2147483647, i32 1
  call void @__mt_gpu_access_global(ptr %a, i32 268435460, i32 %s2, ptr %parameter)
  store float %w, ptr %a
  %s3 = select i1 %out, i32 -2147483646, i32 2
  call void @__mt_gpu_access_global_n(ptr %a, i64 %n, i32 0, i32 %s3, ptr %parameter)
  %s5 = select i1 %out, i32 -2147483648, i32 0
  call void @__mt_gpu_untraced(i32 %s5, ptr %parameter)
  %s6 = select i1 %out, i32 -2147483648, i32 0
  call void @__mt_gpu_count_global(ptr %a, i32 4, i32 %s6, ptr %parameter)
  %s8 = select i1 %out, i32 -2147483646, i32 2
  call void @__mt_gpu_count_global_n(ptr %a, i64 %n, i32 0, i32 %s8, ptr %parameter)
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{ptr @kernel, !"kernel", i32 1}
