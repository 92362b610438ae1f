; A function that records is no longer pure, nor are calls of it: two calls must stay two calls.
; RUN: %instrument %s | opt -passes='early-cse,gvn' -S | FileCheck %s
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
; CHECK-LABEL: define float @twice(
; CHECK: call float @read(
; CHECK: call float @read(
define float @twice(ptr %p) {
  %a = call float @read(ptr %p) #0
  %b = call float @read(ptr %p) #0
  %c = fadd float %a, %b
  ret float %c
}
define float @read(ptr readonly %p) noinline #0 {
  %x = load float, ptr %p
  ret float %x
}
attributes #0 = { nosync nounwind willreturn memory(argmem: read) }
