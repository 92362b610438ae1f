; A variable whose name is made of the file's sites says whose they are: the host looks for it by the CPU image's table. With
; -fgpu-rdc the GPU's record functions add to their sites what the host has written there, else nothing.
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;rdc=on' %device %s | FileCheck %s
; RUN: sed 's/c"k.cu/c"j.cu/;s/"k.cu"/"j.cu"/' %s > %t.ll
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;rdc=on' %device %t.ll | grep -o '@__mt_site_base_[0-9a-f]* = ' > %t.other
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;rdc=on' %device %s | grep -o '@__mt_site_base_[0-9a-f]* = ' > %t.this
; RUN: not cmp -s %t.other %t.this
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off' %device %s | FileCheck --check-prefix=ALONE %s
; RUN: env MEMTRACE_PASS_OPTIONS='cpu-image=off;rdc=on;gpu-plain=off' %device %s | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
; MT_SITE_UNKNOWN, until the host writes it.
; CHECK: @[[BASE:__mt_site_base_[0-9a-f]+]] = weak {{.*}}addrspace(1) externally_initialized global i32 1073741824
; CHECK: load i32, ptr addrspace(1) @[[BASE]]
; ALONE: @__mt_site_base_{{[0-9a-f]+}} = weak
; ALONE-NOT: site_base
define void @kernel(ptr %p) !dbg !4 {
  store float 1.0, ptr %p, !dbg !7
  ret void
}
!nvvm.annotations = !{!0}
!llvm.dbg.cu = !{!1}
!llvm.module.flags = !{!3}
!0 = !{ptr @kernel, !"kernel", i32 1}
!1 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !2, emissionKind: LineTablesOnly)
!2 = !DIFile(filename: "k.cu", directory: "/")
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = distinct !DISubprogram(name: "kernel", file: !2, line: 3, type: !5, unit: !1, spFlags: DISPFlagDefinition)
!5 = !DISubroutineType(types: !6)
!6 = !{}
!7 = !DILocation(line: 4, column: 5, scope: !4)
