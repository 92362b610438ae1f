; verbose=on says what was found and how each kernel will run; without it nothing is said.
; RUN: env MEMTRACE_PASS_OPTIONS="verbose=on;exclude=quiet" %device %s -o /dev/null 2>&1 | FileCheck %s
; RUN: %device %s -o /dev/null 2>&1 | FileCheck --allow-empty --check-prefix=SILENT %s
; CHECK: memtrace: 3 kernels, 2 sites, 0 accesses without a record, 0 places the CPU device cannot run
; CHECK: memtrace: kernel waits: traced, warps are vectors
; CHECK: memtrace: kernel plain: traced, warps are vectors
; CHECK: memtrace: kernel quiet: not traced, warps are vectors
; SILENT-NOT: memtrace:
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
define void @waits(ptr %p) {
  store i32 1, ptr %p
  call void asm sideeffect "bar.sync 0;", "~{memory}"()
  ret void
}
define void @plain(ptr %p) {
  store i32 1, ptr %p
  ret void
}
define void @quiet(ptr %p) {
  store i32 1, ptr %p
  ret void
}
!nvvm.annotations = !{!0, !1, !2}
!0 = !{ptr @waits, !"kernel", i32 1}
!1 = !{ptr @plain, !"kernel", i32 1}
!2 = !{ptr @quiet, !"kernel", i32 1}
