/* Shared by the builtins: device intrinsics in C, compiled to bitcode and linked into every CPU image.
 * Names and argument conventions: docs/design/pass.md. Nothing here has state of its own, and everything
 * may be inlined. `_Float16` is LLVM's half, bool is i1. */
#ifndef MT_BUILTIN_H
#define MT_BUILTIN_H
#include <stdbool.h>
#include <stdint.h>
#include "format/image.h"

#define MT_INLINE __attribute__((always_inline)) inline
#define MT_BUILTIN __attribute__((visibility("hidden"), nothrow))
/* A function that keeps all of its caller's registers, vector registers too: code called from many places
 * exists once, and the kernel's values stay in registers. A function with nothing to save may call others
 * only by a tail call: LLVM 19 overwrites rcx to restore the stack pointer. */
#define MT_KEPT __attribute__((noinline, preserve_all))
#define MT_INLINED MT_BUILTIN __attribute__((always_inline)) /* a builtin that must not remain a call */

static MT_INLINE float mt_f32(uint32_t u)
{
    float f;
    __builtin_memcpy(&f, &u, 4);
    return f;
}
static MT_INLINE uint32_t mt_u32(float f)
{
    uint32_t u;
    __builtin_memcpy(&u, &f, 4);
    return u;
}
static MT_INLINE double mt_f64(uint64_t u)
{
    double d;
    __builtin_memcpy(&d, &u, 8);
    return d;
}
static MT_INLINE uint64_t mt_u64(double d)
{
    uint64_t u;
    __builtin_memcpy(&u, &d, 8);
    return u;
}
/* Denormals become zero of the same sign (PTX .ftz). */
static MT_INLINE float mt_ftz(float x)
{
    return (mt_u32(x) & 0x7f800000) ? x : mt_f32(mt_u32(x) & 0x80000000);
}
/* Returns whether an address is global: not on a stack, in shared memory, an argument or a constant. */
static MT_INLINE bool mt_is_global(uint64_t a)
{
    if (a - mt_cpu_tls.local_base < mt_cpu_tls.local_bytes)
        return false;
    return !(__builtin_expect(a - mt_cpu_tls.const_base < mt_cpu_tls.const_bytes, 0) &&
             mt_cpu_is_constant((const void *)a));
}
#endif
