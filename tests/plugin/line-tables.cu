// Every instruction has line, column and the linkage name of its function without the user's -g, on both sides and at
// every level; what the user asked for is kept.
// RUN: %device -O0 %s | FileCheck %s --check-prefixes=OWN,DEVICE
// RUN: %device -O1 %s | FileCheck %s --check-prefixes=OWN,DEVICE
// RUN: %device -O2 %s | FileCheck %s --check-prefixes=OWN,DEVICE
// RUN: %device -O3 %s | FileCheck %s --check-prefixes=OWN,DEVICE
// RUN: %device -O2 -gno-column-info %s | FileCheck %s --check-prefixes=OWN,DEVICE
// RUN: %host -O0 %s | FileCheck %s --check-prefixes=OWN,HOST
// RUN: %host -O1 %s | FileCheck %s --check-prefixes=OWN,HOST
// RUN: %host -O2 %s | FileCheck %s --check-prefixes=OWN,HOST
// RUN: %host -O3 %s | FileCheck %s --check-prefixes=OWN,HOST
// OWN: distinct !DICompileUnit({{.*}}emissionKind: NoDebug
// HOST-DAG: DISubprogram(name: "launcher", linkageName: "_Z8launcherPi", {{.*}}line: 49
// HOST-DAG: DILocation(line: 51, column: 5,
// DEVICE-DAG: DISubprogram(name: "work", linkageName: "_Z4workPii", {{.*}}line: 44
// DEVICE-DAG: DISubprogram(name: "helper<int>", linkageName: "_Z6helperIiET_PS0_", {{.*}}line: 40
// DEVICE-DAG: DILocation(line: 46, column: 12,
// DEVICE-DAG: DILocation(line: 40, column: 69,

// RUN: %device -O2 -g %s | FileCheck %s --check-prefix=G-DEVICE
// G-DEVICE: distinct !DICompileUnit({{.*}}emissionKind: DebugDirectivesOnly
// G-DEVICE: DISubprogram(name: "work", linkageName: "_Z4workPii"
// RUN: %device -O0 -g --cuda-noopt-device-debug %s | FileCheck %s --check-prefix=FULL
// RUN: %host -O2 -g %s | FileCheck %s --check-prefix=FULL
// FULL: distinct !DICompileUnit({{.*}}emissionKind: FullDebug
// RUN: %host -O2 -gline-tables-only %s | FileCheck %s --check-prefix=LINES
// RUN: %quick --cuda-host-only -S -emit-llvm -Xclang -disable-llvm-passes -o - -O2 -gline-tables-only %s | FileCheck %s --check-prefix=LINES
// LINES: distinct !DICompileUnit(
// LINES-NOT: debugInfoForProfiling: true
// LINES-SAME: emissionKind: LineTablesOnly

// In what comes out at the end there is none of it.
// RUN: %quick -fplugin=%plugin -O2 --cuda-device-only -S %s -o - | FileCheck %s --check-prefix=GONE
// RUN: %quick -fplugin=%plugin -O2 --cuda-host-only -S %s -o - | FileCheck %s --check-prefix=GONE
// GONE-NOT: {{\.loc[[:space:]]|\.debug_|DISubprogram|DILocation|memtrace\.(kernel|device)}}
#line 40
template <class T> __device__ T helper(T *p) { return p[0] + (T)1 + p[1]; }



__global__ void work(int *p, int n)
{
    p[n] = helper(p) + p[threadIdx.x];
}

void launcher(int *p)
{
    work<<<1, 1>>>(p, 1);
}
