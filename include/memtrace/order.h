/* Functions for qsort and bsearch that order structs by members, ascending, the first member first:
 * MT_ORDER_2(by_seq, struct mt_copy_event, seq, dst) defines by_seq. Not installed. */
#ifndef MT_ORDER_H
#define MT_ORDER_H
#include <stdint.h>

#define MT_ORDER_DIFFER(x, y, m)                                                                             \
    if ((x)->m != (y)->m)                                                                                    \
        return (x)->m < (y)->m ? -1 : 1;
#define MT_ORDER_FUNCTION(name, type, body)                                                                  \
    static int name(const void *a, const void *b)                                                            \
    {                                                                                                        \
        const type *x = (const type *)a, *y = (const type *)b;                                               \
        body return 0;                                                                                       \
    }
#define MT_ORDER_1(name, type, m) MT_ORDER_FUNCTION(name, type, MT_ORDER_DIFFER(x, y, m))
#define MT_ORDER_2(name, type, m, n)                                                                         \
    MT_ORDER_FUNCTION(name, type, MT_ORDER_DIFFER(x, y, m) MT_ORDER_DIFFER(x, y, n))
#define MT_ORDER_3(name, type, m, n, o)                                                                      \
    MT_ORDER_FUNCTION(name, type, MT_ORDER_DIFFER(x, y, m) MT_ORDER_DIFFER(x, y, n) MT_ORDER_DIFFER(x, y, o))
#define MT_ORDER_4(name, type, m, n, o, p)                                                                   \
    MT_ORDER_FUNCTION(name, type,                                                                            \
                      MT_ORDER_DIFFER(x, y, m) MT_ORDER_DIFFER(x, y, n) MT_ORDER_DIFFER(x, y, o)             \
                          MT_ORDER_DIFFER(x, y, p))

/* The same of arrays of pointers to such structs. */
#define MT_ORDER_POINTED(name, type, body)                                                                   \
    static int name(const void *a, const void *b)                                                            \
    {                                                                                                        \
        const type *x = *(const type *const *)a, *y = *(const type *const *)b;                               \
        body return 0;                                                                                       \
    }
#define MT_ORDER_POINTED_1(name, type, m) MT_ORDER_POINTED(name, type, MT_ORDER_DIFFER(x, y, m))
#define MT_ORDER_POINTED_2(name, type, m, n)                                                                 \
    MT_ORDER_POINTED(name, type, MT_ORDER_DIFFER(x, y, m) MT_ORDER_DIFFER(x, y, n))

/* Of numbers. */
static inline int mt_order_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}
#endif
