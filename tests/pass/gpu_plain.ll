; Each kernel of the GPU's code that can record has a second version, which can, with one parameter more and a name of its
; own. Under the program's name is the one that cannot: its parameters, bounds and linkage, copies of the functions on
; the way. What is called by pointer finds no context. So it is, too, of kernels that reach record calls by a pointer alone;
; of those that reach none, or shall not be traced, there is the program's own only.
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;level=2' %device %s | FileCheck %s
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;gpu-plain=off;level=2' %device %s | FileCheck --check-prefix=OFF %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
; OFF-NOT: __memtrace_plain
; OFF: @direct__memtrace_traced(ptr %{{.*}}, ptr %{{.*}})
; OFF-NOT: void @direct(
; OFF-DAG: @nothing(i32 %
; OFF-DAG: @skipped(ptr %{{[^,]*}})

; CHECK: define weak_odr ptx_kernel void @direct__memtrace_traced(ptr %{{.*}}, ptr %{{.*}})
define weak_odr void @direct(ptr %p) {
  store float 2.0, ptr %p
  %y = call float @helper(ptr %p)
  ret void
}
define internal float @helper(ptr %p) noinline {
  %x = load float, ptr %p
  ret float %x
}
define float @pointed(ptr %p) {
  %x = load float, ptr %p
  ret float %x
}
@chosen = addrspace(4) externally_initialized global ptr @pointed
define void @indirect(ptr %p) {
  store float 1.0, ptr %p
  %f = load ptr, ptr addrspace(4) @chosen
  %x = call float %f(ptr %p)
  ret void
}
; CHECK: define ptx_kernel void @nothing(i32 %
; CHECK-NOT: @nothing__memtrace
define void @nothing(i32 %n) {
  ret void
}
; CHECK: define ptx_kernel void @jumps__memtrace_traced(ptr %{{.*}}, ptr %{{.*}})
define void @jumps(ptr %p) {
  %f = load ptr, ptr addrspace(4) @chosen
  %x = call float %f(ptr %p)
  ret void
}
; CHECK-NOT: @skipped__memtrace
define void @skipped(ptr %p) {
  %y = call float @helper(ptr %p)
  ret void
}
; A weak function stays as it is: it records, without a context.
define weak float @replaced(ptr %p) {
  %x = load float, ptr %p
  ret float %x
}
define void @weakly(ptr %p) {
  store float 1.0, ptr %p
  %x = call float @replaced(ptr %p)
  ret void
}

; CHECK: define internal i32 @helper__memtrace_plain(i64 %{{[^,]*}})
; CHECK-NOT: call {{.*}}@
; CHECK: "ld.f32 $0, [$1];"
; CHECK-NOT: call {{.*}}@
; CHECK: ret i32
; CHECK: define weak_odr ptx_kernel void @direct(ptr %{{[^,]*}}) #
; CHECK-NOT: call {{.*}}@
; CHECK: "st.global.u32 [$0], $1;", {{.*}} i32 1073741824)
; CHECK-NEXT: call i32 @helper__memtrace_plain(i64
; CHECK-NEXT: ret void
; CHECK-NOT: @pointed__memtrace_plain
; CHECK: define ptx_kernel void @indirect(ptr %{{[^,]*}}) #
; CHECK: store volatile i64 {{0|ptrtoint \(ptr null to i64\)}}, ptr addrspace(3) @__mt_launch_ctx
; CHECK-NOT: call {{.*}}@
; CHECK: "st.global.u32 [$0], $1;", {{.*}} i32 1065353216)
; CHECK: define ptx_kernel void @weakly(ptr %{{[^,]*}}) #
; CHECK-NOT: call {{.*}}@
; CHECK: "st.global.u32 [$0], $1;", {{.*}} i32 1065353216)
; CHECK: call i32 @replaced.memtrace(i64 %{{.*}}, ptr null)

; CHECK-DAG: !{ptr @direct__memtrace_traced, !"maxntidx", i32 64}
; CHECK-DAG: !{ptr @direct, !"maxntidx", i32 64}
!nvvm.annotations = !{!0, !1, !2, !3, !4, !5}
!0 = !{ptr @direct, !"kernel", i32 1, !"maxntidx", i32 64}
!1 = !{ptr @indirect, !"kernel", i32 1}
!2 = !{ptr @nothing, !"kernel", i32 1}
!3 = !{ptr @weakly, !"kernel", i32 1}
!4 = !{ptr @jumps, !"kernel", i32 1}
!5 = !{ptr @skipped, !"kernel", i32 1}
@.skip = private unnamed_addr constant [14 x i8] c"memtrace.skip\00", section "llvm.metadata"
@.file = private unnamed_addr constant [5 x i8] c"k.cu\00", section "llvm.metadata"
@llvm.global.annotations = appending global [1 x { ptr, ptr, ptr, i32, ptr }] [
  { ptr, ptr, ptr, i32, ptr } { ptr @skipped, ptr @.skip, ptr @.file, i32 12, ptr null }], section "llvm.metadata"
