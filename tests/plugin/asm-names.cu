// RUN: %device %s | FileCheck %s
// RUN: %host %s -o /dev/null
// RUN: not %cuda -fplugin=%plugin -DBRACES -c %s -o /dev/null 2>&1 | FileCheck --check-prefix=BRACES %s
#include "Inputs/asm-names.h"

// CHECK-LABEL: define {{.*}} @_Z5namesPj
__global__ void names(unsigned *o)
{
    unsigned r, c;
    // CHECK: asm sideeffect "mov.u32 $0, %clusterid.x;"
    asm volatile("mov.u32 %0, %clusterid.x;" : "=r"(r));
    // CHECK: asm sideeffect "{ .reg .u32 %a; mov.u32 %a, %tid.x; add.u32 $0, %a, $1; }"
    asm volatile("{ .reg .u32 %%a; mov.u32 %%a, "
                 "%tid.x; add.u32 %0, %%a, %1; }"
                 : "=r"(c)
                 : "r"(r));
    // CHECK: asm sideeffect "mov.u32 $0, %laneid;"
    __asm__ __volatile__("mov.u32 %[to], %laneid;" : [to] "=r"(c)); // %[to] is an operand
    // CHECK: asm sideeffect "mov.u32 %unused, %tid.y;", ""()
    asm volatile("mov.u32 %unused, %tid.y;"); // no operands: as it is
    // CHECK: asm sideeffect "mov.u32 $0, %cluster_ctarank;\0A"
    *o = header_rank() + r + c;
}

// nvcc takes this, too; where that is said, clang's own words stay.
// BRACES: error: expected expression
// BRACES: memtrace: nvcc takes some things that clang 19 refuses{{.*}}memtrace run ./app
int main()
{
#ifdef BRACES
    names<<<1, {1, 2, 3}>>>(nullptr);
#endif
}
