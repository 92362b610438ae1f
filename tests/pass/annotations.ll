; The AST side's annotations: skip and trace, names of parameters, and none of ours is left behind.
; RUN: %instrument %s | FileCheck %s
; RUN: %lower %s | FileCheck --check-prefix=TABLE %s
; RUN: env MEMTRACE_PASS_OPTIONS="exclude=." %instrument %s | FileCheck --check-prefix=FORCED %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@.skip = private unnamed_addr constant [14 x i8] c"memtrace.skip\00", section "llvm.metadata"
@.trace = private unnamed_addr constant [15 x i8] c"memtrace.trace\00", section "llvm.metadata"
@.k = private unnamed_addr constant [42 x i8] c"memtrace.kernel\09ns::k<int>\09k.cu\0912\091\09in,n\00", section "llvm.metadata"
@.user = private unnamed_addr constant [5 x i8] c"mine\00", section "llvm.metadata"
@.f = private unnamed_addr constant [5 x i8] c"k.cu\00", section "llvm.metadata"
@llvm.global.annotations = appending global [4 x { ptr, ptr, ptr, i32, ptr }] [
  { ptr, ptr, ptr, i32, ptr } { ptr @k, ptr @.k, ptr @.f, i32 12, ptr null },
  { ptr, ptr, ptr, i32, ptr } { ptr @quiet, ptr @.skip, ptr @.f, i32 3, ptr null },
  { ptr, ptr, ptr, i32, ptr } { ptr @forced, ptr @.trace, ptr @.f, i32 3, ptr null },
  { ptr, ptr, ptr, i32, ptr } { ptr @quiet, ptr @.user, ptr @.f, i32 3, ptr null }], section "llvm.metadata"
; CHECK: @llvm.global.annotations = appending global [1 x {{.*}}] [{{.*}} { ptr @quiet, ptr @.user,
; CHECK-LABEL: define void @quiet(
; CHECK-NOT: __mt_access
; CHECK: ret void
; CHECK-LABEL: define void @k(
; CHECK: __mt_access_global
; FORCED-LABEL: define void @k(
; FORCED-NOT: __mt_access
; FORCED-LABEL: define void @forced(
; FORCED: __mt_access_global
; TABLE: c"in\00"
; TABLE: @mt.params = {{.*}} i32 8, i32 8 }, {{.*}} i32 4, i32 4 }
define void @k(ptr %0, i32 %1) {
  %x = load float, ptr %0
  ret void
}
define void @quiet(ptr %p) {
  %x = load float, ptr %p
  ret void
}
define void @forced(ptr %p) {
  %x = load float, ptr %p
  ret void
}
!nvvm.annotations = !{!0, !1}
!0 = !{ptr @k, !"kernel", i32 1}
!1 = !{ptr @forced, !"kernel", i32 1}
