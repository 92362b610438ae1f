/* See memtrace/atomic_trace.h. C++ names are given as symbols, so that the library needs no C++ runtime.
 * An engine recognises a call by the function's symbol and entry address, so the functions are never
 * inlined, cloned or dropped (noipa/optnone), and no two bodies are alike: a linker that folds identical
 * code would merge start_roi and end_roi. */
#include "memtrace/atomic_trace.h"
#include <stdlib.h>

#ifdef __clang__
#define MT_ENTRY __attribute__((visibility("default"), used, noinline, optnone))
#else
#define MT_ENTRY __attribute__((visibility("default"), used, noipa))
#endif
/* An instruction without effect that carries a number. */
#define MT_MARK(n) __asm__ volatile("nopl " #n "(%%rax)" ::: "memory")

void mt_cxx_register_thread(int64_t number) __asm__("_ZN12atomic_trace15register_threadEl");
void mt_cxx_start_roi(void) __asm__("_ZN12atomic_trace9start_roiEv");
void mt_cxx_end_roi(void) __asm__("_ZN12atomic_trace7end_roiEv");
void *mt_cxx_special_malloc(size_t size) __asm__("_ZN12atomic_trace14special_mallocEm");
void mt_cxx_special_free(void *address) __asm__("_ZN12atomic_trace12special_freeEPv");

MT_ENTRY void mt_register_thread(unsigned long number)
{
    (void)number;
    MT_MARK(1);
}

MT_ENTRY void mt_start_roi(void)
{
    MT_MARK(2);
}

MT_ENTRY void mt_end_roi(void)
{
    MT_MARK(3);
}

MT_ENTRY void mt_cxx_register_thread(int64_t number)
{
    (void)number;
    MT_MARK(4);
}

MT_ENTRY void mt_cxx_start_roi(void)
{
    MT_MARK(5);
}

MT_ENTRY void mt_cxx_end_roi(void)
{
    MT_MARK(6);
}

/* The result passes through a register unknown to the compiler: no tail call, so the return is here. */
MT_ENTRY void *mt_cxx_special_malloc(size_t size)
{
    void *p = malloc(size);
    __asm__ volatile("" : "+r"(p)::"memory");
    return p;
}

MT_ENTRY void mt_cxx_special_free(void *address)
{
    free(address);
    MT_MARK(7);
}
