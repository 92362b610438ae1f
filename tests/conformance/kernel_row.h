// Rows whose kernel is one expression.
#ifndef CONF_KERNEL_ROW_H
#define CONF_KERNEL_ROW_H
#include "conf.h"

// KERNEL_ROW("name", "what", threads, T, expression, expected): one CTA of `threads` threads evaluates the
// expression of `i` (the thread) and `lane`, and each thread stores its value: the row's only access.
// `expected` is the same for the host.
#define KERNEL_ROW_(id, name, what, threads, T, expression, want)                                            \
    static __global__ void CONF_JOIN(kernel_, id)(T * out)                                                   \
    {                                                                                                        \
        int i = threadIdx.x, lane = i & 31;                                                                  \
        (void)lane;                                                                                          \
        T value = (expression);                                                                              \
        out[i] = value;                                                                                      \
    }                                                                                                        \
    ROW_(name, what, false, CONF_JOIN(k, id))                                                                \
    {                                                                                                        \
        conf::buffer<T> out(r, threads);                                                                     \
        CONF_JOIN(kernel_, id)<<<1, threads>>>(out);                                                         \
        out.get();                                                                                           \
        for (int i = 0; i < threads; i++) {                                                                  \
            int lane = i & 31;                                                                               \
            (void)lane;                                                                                      \
            T ref = (want);                                                                                  \
            if (!r.check(!memcmp(&out.h[i], &ref, sizeof ref), "thread %d: got %.17g, expected %.17g", i,    \
                         (double)out.h[i], (double)ref))                                                     \
                break;                                                                                       \
        }                                                                                                    \
        r.stores(threads, sizeof(T));                                                                        \
    }
#define KERNEL_ROW_ID(id, ...) KERNEL_ROW_(id, __VA_ARGS__)
#define KERNEL_ROW(...) KERNEL_ROW_ID(__COUNTER__, __VA_ARGS__)
#endif
