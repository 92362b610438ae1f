/* Device library calls: printf, the heap, assertions, and the device runtime that cooperative groups use. */
#include "builtin.h"

uint32_t mtb_nvvm_read_ptx_sreg_tid_x(void); /* sreg.c */
uint32_t mtb_nvvm_read_ptx_sreg_tid_y(void);
uint32_t mtb_nvvm_read_ptx_sreg_tid_z(void);

MT_BUILTIN int32_t mtb_vprintf(const char *format, const void *args)
{
    return mt_cpu_vprintf(format, args);
}
MT_BUILTIN void *mtb_malloc(uint64_t bytes)
{
    return mt_cpu_malloc(bytes);
}
MT_BUILTIN void mtb_free(void *p)
{
    mt_cpu_free(p);
}
MT_BUILTIN void mtb___assertfail(const char *message, const char *file, uint32_t line, const char *function,
                                 uint64_t char_size)
{
    mt_cpu_assertfail(message, file, line, function);
}
MT_BUILTIN void mtb___assert_fail(const char *message, const char *file, uint32_t line, const char *function)
{
    mt_cpu_assertfail(message, file, line, function);
}

/* Questions of libdevice about the compilation that were not answered at compile time: no flushing, exact
 * division and square roots. */
MT_BUILTIN int32_t mtb___nvvm_reflect(const char *what)
{
    return !__builtin_strcmp(what, "__CUDA_PREC_DIV") || !__builtin_strcmp(what, "__CUDA_PREC_SQRT");
}

/* libcudadevrt's barrier of a grid, which Numba calls. The word is the one that cooperative groups' own
 * barrier uses, and counts in the same way: its top bit flips when the last CTA has come. The accesses are
 * the library's: no records. */
#define CG_SCOPE_GRID 1
#define CG_INVALID_VALUE 1

MT_BUILTIN uint64_t mtb_cudaCGGetIntrinsicHandle(uint32_t scope)
{
    return scope == CG_SCOPE_GRID ? (uint64_t)mt_cpu_tls.grid_workspace : 0;
}

/* The handle of a conditional node of a graph is the address of its value (api/graphs/graph.c). */
MT_BUILTIN void mtb_cudaGraphSetConditional(uint64_t handle, uint32_t value)
{
    __atomic_store_n((uint32_t *)handle, value, __ATOMIC_RELEASE);
}

MT_BUILTIN uint32_t mtb_cudaCGSynchronize(uint64_t handle, uint32_t flags)
{
    uint32_t *barrier = (uint32_t *)handle + MT_GRID_BARRIER;
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    if (!handle || flags) /* not a cooperative launch */
        return CG_INVALID_VALUE;
    mt_cpu_barrier(0, 0, 0, 0);
    if (!(mtb_nvvm_read_ptx_sreg_tid_x() | mtb_nvvm_read_ptx_sreg_tid_y() | mtb_nvvm_read_ptx_sreg_tid_z())) {
        uint32_t ctas = t->nctaid[0] * t->nctaid[1] * t->nctaid[2];
        uint32_t first = !(t->ctaid[0] | t->ctaid[1] | t->ctaid[2]);
        uint32_t before = __atomic_fetch_add(barrier, first ? 0x80000000u - (ctas - 1) : 1, __ATOMIC_SEQ_CST);
        while (!((before ^ __atomic_load_n(barrier, __ATOMIC_SEQ_CST)) >> 31))
            mt_cpu_yield();
    }
    mt_cpu_barrier(0, 0, 0, 0);
    return 0;
}
