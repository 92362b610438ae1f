; Options: which kernels, which kinds, which lines.
; RUN: env MEMTRACE_PASS_OPTIONS="only=stores" %instrument %s | FileCheck --check-prefix=STORES %s
; RUN: env MEMTRACE_PASS_OPTIONS="kernels=^ns::" %instrument %s | FileCheck --check-prefix=KERNELS %s
; RUN: env MEMTRACE_PASS_OPTIONS="exclude=^ns::" %instrument %s | FileCheck --check-prefix=EXCLUDE %s
; RUN: env MEMTRACE_PASS_OPTIONS="off=k.cu:10-19" %instrument %s | FileCheck --check-prefix=OFF %s
; RUN: env MEMTRACE_PASS_OPTIONS="off=/home/u/k.cu:10-19" %instrument %s | FileCheck --check-prefix=OFF %s
; RUN: env MEMTRACE_PASS_OPTIONS="off=/else/k.cu:10-19" %instrument %s | FileCheck --check-prefix=ELSE %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; STORES-LABEL: define void @_ZN2ns1aEPf(
; STORES-NOT: i32 4,
; STORES: call void @__mt_access_global(ptr %p, i32 268435460,
; STORES-NOT: __mt_access
; STORES: ret void
; KERNELS-LABEL: define void @_ZN2ns1aEPf(
; KERNELS: call void @__mt_access_global
; KERNELS-LABEL: define void @_Z1bPf(
; KERNELS-NOT: __mt_access
; KERNELS: ret void
; EXCLUDE-LABEL: define void @_ZN2ns1aEPf(
; EXCLUDE-NOT: __mt_access
; EXCLUDE: ret void
; EXCLUDE-LABEL: define void @_Z1bPf(
; EXCLUDE: call void @__mt_access_global
; OFF-LABEL: define void @_ZN2ns1aEPf(
; OFF-NOT: __mt_access
; OFF: load float
; OFF: call void @__mt_access_global(ptr %p, i32 268435460,
; OFF-NEXT: store float
; OFF: call void @__mt_access_global(ptr %p, i32 536870916,
; ELSE-LABEL: define void @_ZN2ns1aEPf(
; ELSE: call void @__mt_access_global(ptr %p, i32 4,
define void @_ZN2ns1aEPf(ptr %p) !dbg !5 {
  %x = load float, ptr %p, !dbg !10
  store float 1.0, ptr %p, !dbg !11
  %y = atomicrmw add ptr %p, i32 1 seq_cst, !dbg !12
  ret void
}
define void @_Z1bPf(ptr %p) {
  %x = load float, ptr %p
  ret void
}
!nvvm.annotations = !{!0, !1}
!llvm.dbg.cu = !{!2}
!llvm.module.flags = !{!4}
!0 = !{ptr @_ZN2ns1aEPf, !"kernel", i32 1}
!1 = !{ptr @_Z1bPf, !"kernel", i32 1}
!2 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !3, emissionKind: LineTablesOnly)
!3 = !DIFile(filename: "k.cu", directory: "/home/u")
!4 = !{i32 2, !"Debug Info Version", i32 3}
!5 = distinct !DISubprogram(name: "a", linkageName: "_ZN2ns1aEPf", scope: !3, file: !3, line: 9, type: !6, unit: !2, spFlags: DISPFlagDefinition)
!6 = !DISubroutineType(types: !{})
!10 = !DILocation(line: 19, column: 3, scope: !5)
!11 = !DILocation(line: 20, column: 4, scope: !5)
!12 = !DILocation(line: 9, column: 4, scope: !5)
