; An access that has no record is a warning now and a count at run time.
; RUN: %instrument %s 2>%t.err | FileCheck %s
; RUN: FileCheck --check-prefix=WARN %s <%t.err
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; CHECK-LABEL: define float @texture(
; CHECK: call void @__mt_untraced(i32 0)
; CHECK: call void @__mt_untraced(i32 1)
; WARN: warning: {{.*}}global memory access without a record (counted at run time): {{.*}}tex.1d.v4.f32.s32
; WARN: warning: {{.*}}inline asm: multimem.red.relaxed.gpu.global.add.u32
define float @texture(i64 %t, i32 %x, ptr addrspace(1) %p) {
  %v = call { float, float, float, float } asm sideeffect "tex.1d.v4.f32.s32 {$0, $1, $2, $3}, [$4, {$5}];", "=f,=f,=f,=f,l,r"(i64 %t, i32 %x)
  call void asm sideeffect "multimem.red.relaxed.gpu.global.add.u32 [$0], 1;", "l"(ptr addrspace(1) %p)
  %r = extractvalue { float, float, float, float } %v, 0
  ret float %r
}
