; Host side: after CUDA's constructor one that asks whether the handle is memtrace's, and says if not.
; RUN: %host %s | FileCheck %s
target triple = "x86_64-pc-linux-gnu"
@__cuda_gpubin_handle = internal global ptr null
@llvm.global_ctors = appending global [2 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @other, ptr null }, { i32, ptr, ptr } { i32 65535, ptr @__cuda_module_ctor, ptr null }]

; CHECK: @__mt_foreign_runtime_said = linkonce_odr global i8 0
; CHECK: @llvm.global_ctors = appending global [3 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @other, ptr null }, { i32, ptr, ptr } { i32 101, ptr @__cuda_module_ctor, ptr null }, { i32, ptr, ptr } { i32 103, ptr @__mt_check_runtime_ctor, ptr null }]
; CHECK: define linkonce_odr hidden void @__mt_foreign_runtime()
; CHECK: declare extern_weak i32 @__mt_is_registered(ptr)
; CHECK: define internal void @__mt_check_runtime_ctor()
; CHECK: icmp eq ptr @__mt_is_registered, null
; CHECK: [[H:%.*]] = load ptr, ptr @__cuda_gpubin_handle
; CHECK: call i32 @__mt_is_registered(ptr [[H]])
; CHECK: call void @__mt_foreign_runtime()
define internal void @other() {
  ret void
}
define internal void @__cuda_module_ctor() {
  ret void
}
