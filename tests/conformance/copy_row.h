// Rows that move 32 elements.
#ifndef CONF_COPY_ROW_H
#define CONF_COPY_ROW_H
#include "conf.h"
#include <type_traits>

// Each of 32 threads moves one element of 16 bytes or less. The bytes must arrive, and exactly they have
// records. COPY("name", T, statement that moves in[i] to out[i])
#define COPY_(id, name, T, statement)                                                                        \
    static __global__ void CONF_JOIN(kernel_, id)(const T *in, T *out)                                       \
    {                                                                                                        \
        int i = threadIdx.x;                                                                                 \
        statement;                                                                                           \
    }                                                                                                        \
    ROW_(name, "32 elements of " #T, false, CONF_JOIN(k, id))                                                \
    {                                                                                                        \
        run_copy<T>(r, CONF_JOIN(kernel_, id));                                                              \
    }
#define COPY_ID(id, ...) COPY_(id, __VA_ARGS__)
#define COPY(...) COPY_ID(__COUNTER__, __VA_ARGS__)
// Vectors and structs: the compiler decides whether they are one access or one per member.
template <class T> static void run_copy(conf::row &r, void (*kernel)(const T *, T *))
{
    conf::buffer<unsigned char> in(r, 32 * sizeof(T), [](long i) { return i * 37 + 11; }),
        out(r, 32 * sizeof(T));
    kernel<<<1, 32>>>((const T *)in.d, (T *)out.d);
    out.is([](long i) { return i * 37 + 11; });
    r.loads(32, sizeof(T));
    r.stores(32, sizeof(T));
    if (!std::is_arithmetic<T>::value)
        r.only_bytes();
}

#endif
