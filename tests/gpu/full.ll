; Kernels that fill the 48 KiB of static shared memory, for ptxas after the pass: nothing is left for the context's word.
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@full = internal addrspace(3) global [12288 x float] undef, align 16
@table = addrspace(1) global ptr @pointed, align 8

define void @direct(ptr %p) {
  %x = load float, ptr %p
  store volatile float %x, ptr addrspace(3) @full
  ret void
}
define void @helped(ptr %p, i32 %n) {
  %x = call float @recursive(ptr %p, i32 %n)
  store volatile float %x, ptr addrspace(3) @full
  ret void
}
define internal float @recursive(ptr %p, i32 %n) noinline {
  %x = load float, ptr %p
  %z = icmp eq i32 %n, 0
  br i1 %z, label %done, label %more
more:
  %m = sub i32 %n, 1
  %y = call float @recursive(ptr %p, i32 %m)
  %s = fadd float %x, %y
  ret float %s
done:
  ret float %x
}
define void @indirect(ptr %p) {
  %f = load ptr, ptr addrspace(1) @table
  %x = call float %f(ptr %p)
  store volatile float %x, ptr addrspace(3) @full
  ret void
}
define float @pointed(ptr %p) noinline {
  %x = load float, ptr %p
  ret float %x
}
!nvvm.annotations = !{!0, !1, !2}
!0 = !{ptr @direct, !"kernel", i32 1}
!1 = !{ptr @helped, !"kernel", i32 1}
!2 = !{ptr @indirect, !"kernel", i32 1}
