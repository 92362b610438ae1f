; Host side: the place of each CUDA call and launch goes to the runtime; header wrappers are left alone. Stubs mention a
; variable each, so that nothing folds two of them.
; RUN: %host %s | FileCheck %s
target triple = "x86_64-pc-linux-gnu"
$_Z16__device_stub__tIfEvPT_ = comdat any
declare i32 @cudaMalloc(ptr, i64)
declare i32 @_ZL10cudaMallocIfE9cudaErrorPPT_m(ptr, i64)
declare void @_Z16__device_stub__kPf(ptr)
declare i32 @cudaLaunchKernel(ptr)
declare void @cudalike()
declare void @other()

; CHECK: [[FILE:@[0-9]+]] = private unnamed_addr constant [{{[0-9]+}} x i8] c"/home/u/k.cu\00"
; CHECK: c"main\00"
; CHECK: c"cudaMalloc\00"
; CHECK: [[S1:@[0-9]+]] = private constant { ptr, ptr, ptr, i32, i32 } { ptr [[FILE]], ptr {{.*}}, ptr {{.*}}, i32 19, i32 3 }
; CHECK: [[J:@__mt_stub[.0-9]*]] = internal global i8 0{{$}}
; CHECK: [[T:@__mt_stub[.0-9]*]] = internal global i8 0{{$}}
; CHECK-LABEL: define i32 @main(
; CHECK: call void @__mt_host_site_if_linked(ptr [[S1]])
; CHECK-NEXT: call i32 @cudaMalloc(
; CHECK: call void @__mt_host_site_if_linked(
; CHECK-NEXT: call i32 @_ZL10cudaMallocIfE
; CHECK: call void @__mt_host_site_if_linked(
; CHECK-NEXT: invoke void @_Z16__device_stub__kPf
; CHECK-NOT: __mt_host_site
; CHECK: ret i32
define i32 @main() personality ptr null !dbg !5 {
  %a = call i32 @cudaMalloc(ptr null, i64 4), !dbg !10
  %b = call i32 @_ZL10cudaMallocIfE9cudaErrorPPT_m(ptr null, i64 4), !dbg !10
  invoke void @_Z16__device_stub__kPf(ptr null) to label %ok unwind label %bad, !dbg !10
bad:
  %l = landingpad { ptr, i32 } cleanup
  unreachable
ok:
  call void @cudalike()
  call void @other()
  ret i32 0
}
; CHECK-LABEL: define void @_Z16__device_stub__jPf(
; CHECK-NEXT: call void asm sideeffect "", "r"(ptr [[J]])
; CHECK-NOT: __mt_host_site
; CHECK: ret void
define void @_Z16__device_stub__jPf(ptr %p) {
  %a = call i32 @cudaLaunchKernel(ptr %p)
  ret void
}
; CHECK-LABEL: define linkonce_odr void @_Z16__device_stub__tIfEvPT_(
; CHECK-NEXT: call void asm sideeffect "", "r"(ptr [[T]])
define linkonce_odr void @_Z16__device_stub__tIfEvPT_(ptr %p) comdat {
  %a = call i32 @cudaLaunchKernel(ptr %p)
  ret void
}
; CHECK: declare extern_weak void @__mt_host_site(ptr)
; CHECK: define linkonce_odr hidden void @__mt_host_site_if_linked(
!llvm.dbg.cu = !{!2}
!llvm.module.flags = !{!4}
!2 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !3, emissionKind: LineTablesOnly)
!3 = !DIFile(filename: "k.cu", directory: "/home/u")
!4 = !{i32 2, !"Debug Info Version", i32 3}
!5 = distinct !DISubprogram(name: "main", scope: !3, file: !3, line: 9, type: !6, unit: !2, spFlags: DISPFlagDefinition)
!6 = !DISubroutineType(types: !{})
!10 = !DILocation(line: 19, column: 3, scope: !5)
