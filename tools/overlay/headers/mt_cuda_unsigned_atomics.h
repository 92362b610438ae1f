/* Unsigned atomicMin and atomicMax of block and system scope, which replace clang 19's: its builtins compare
 * as signed. clang's headers are read after this one. */
#ifndef MT_CUDA_UNSIGNED_ATOMICS_H
#define MT_CUDA_UNSIGNED_ATOMICS_H
#define MT_ATOMIC(op, scope, suffix, type, ptx, constraint)                                                  \
    static __attribute__((device)) inline type mt_atomic_##op##_##scope##_##suffix(volatile type *mt_p,      \
                                                                                   type mt_v)                \
    {                                                                                                        \
        type mt_old;                                                                                         \
        __asm__ volatile("atom." #scope "." #op "." #ptx " %0, [%1], %2;"                                    \
                         : "=" constraint(mt_old)                                                            \
                         : "l"(mt_p), constraint(mt_v)                                                       \
                         : "memory");                                                                        \
        return mt_old;                                                                                       \
    }
#define MT_ATOMICS(op, scope)                                                                                \
    MT_ATOMIC(op, scope, ui, unsigned, u32, "r")                                                             \
    MT_ATOMIC(op, scope, ull, unsigned long long, u64, "l")
MT_ATOMICS(min, cta)
MT_ATOMICS(max, cta)
MT_ATOMICS(min, sys)
MT_ATOMICS(max, sys)
#undef MT_ATOMICS
#undef MT_ATOMIC
#define __nvvm_atom_cta_min_gen_ui mt_atomic_min_cta_ui
#define __nvvm_atom_cta_max_gen_ui mt_atomic_max_cta_ui
#define __nvvm_atom_sys_min_gen_ui mt_atomic_min_sys_ui
#define __nvvm_atom_sys_max_gen_ui mt_atomic_max_sys_ui
#define __nvvm_atom_cta_min_gen_ull mt_atomic_min_cta_ull
#define __nvvm_atom_cta_max_gen_ull mt_atomic_max_cta_ull
#define __nvvm_atom_sys_min_gen_ull mt_atomic_min_sys_ull
#define __nvvm_atom_sys_max_gen_ull mt_atomic_max_sys_ull
#endif
