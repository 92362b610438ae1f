/* operator new. The C++ library's calls malloc, which reports it; an allocator with its own is reported
 * here. Exceptions pass through. (operator delete calls free, or the memory is handed out again by its
 * owner.) */
#include "entry.h"

static void *new_finish(void *p, size_t bytes, uint64_t ip)
{
    if (mt_self.new) /* malloc was not called */
        mt_told_alloc(MT_CORE_NEW, p, bytes, ip);
    mt_self.new = 0;
    return p;
}

#define OPERATOR(symbol, params, types, ...)                                                                 \
    MT_ENTRY void *symbol params;                                                                            \
    MT_ENTRY void *symbol params                                                                             \
    {                                                                                                        \
        static void *(*real)types;                                                                           \
        uint64_t ip = (uint64_t)(uintptr_t)__builtin_return_address(0);                                      \
        if (!__atomic_load_n(&real, __ATOMIC_ACQUIRE))                                                       \
            __atomic_store_n(&real, (void *(*)types)mt_next(#symbol), __ATOMIC_RELEASE);                     \
        mt_self.new = 1;                                                                                     \
        mt_self.new_ip = ip;                                                                                 \
        return new_finish(real(__VA_ARGS__), bytes, ip);                                                     \
    }

OPERATOR(_Znwm, (size_t bytes), (size_t), bytes)
OPERATOR(_Znam, (size_t bytes), (size_t), bytes)
OPERATOR(_ZnwmRKSt9nothrow_t, (size_t bytes, const void *tag), (size_t, const void *), bytes, tag)
OPERATOR(_ZnamRKSt9nothrow_t, (size_t bytes, const void *tag), (size_t, const void *), bytes, tag)
OPERATOR(_ZnwmSt11align_val_t, (size_t bytes, size_t align), (size_t, size_t), bytes, align)
OPERATOR(_ZnamSt11align_val_t, (size_t bytes, size_t align), (size_t, size_t), bytes, align)
OPERATOR(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t align, const void *tag),
         (size_t, size_t, const void *), bytes, align, tag)
OPERATOR(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t align, const void *tag),
         (size_t, size_t, const void *), bytes, align, tag)
