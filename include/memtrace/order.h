/* Sorting and binary search. Macros that define comparison functions for qsort and bsearch: structs are
 * ordered by members, ascending, the first member first: MT_ORDER_2(by_seq, struct mt_copy_event, seq, dst)
 * defines by_seq. MT_FIRST searches. Not installed. */
#ifndef MT_ORDER_H
#define MT_ORDER_H
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

static inline int mt_order_text(const char *a, const char *b)
{
    return a == b ? 0 : strcmp(a, b);
}

#define MT_ORDER_TEXT(p, q)                                                                                  \
    {                                                                                                        \
        const int d = mt_order_text(p, q);                                                                   \
        if (d)                                                                                               \
            return d;                                                                                        \
    }

/* Variants for arrays of pointers to structs. */
#define MT_ORDER_POINTED(name, type, body)                                                                   \
    static int name(const void *a, const void *b)                                                            \
    {                                                                                                        \
        const type *x = *(const type *const *)a, *y = *(const type *const *)b;                               \
        body return 0;                                                                                       \
    }
#define MT_ORDER_POINTED_1(name, type, m) MT_ORDER_POINTED(name, type, MT_ORDER_DIFFER(x, y, m))
#define MT_ORDER_POINTED_2(name, type, m, n)                                                                 \
    MT_ORDER_POINTED(name, type, MT_ORDER_DIFFER(x, y, m) MT_ORDER_DIFFER(x, y, n))

/* Yields the first i below n for which `from`, an expression in i, is true, or n. `from` must be true for all
 * later i as well. MT_FIRST(i, n, list[i].address > address) is the index after an address. */
#define MT_FIRST(i, n, from)                                                                                 \
    ({                                                                                                       \
        size_t first_ = 0, end_ = (n);                                                                       \
        while (first_ < end_) {                                                                              \
            const size_t i = first_ + (end_ - first_) / 2;                                                   \
            if (from)                                                                                        \
                end_ = i;                                                                                    \
            else                                                                                             \
                first_ = i + 1;                                                                              \
        }                                                                                                    \
        first_;                                                                                              \
    })

/* Compares two uint64_t. */
static inline int mt_order_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts a list and keeps one of equal elements, after `add` has added the others to it (NULL: they are
 * dropped). Returns the number of elements kept. */
static inline size_t mt_order_join(void *list, size_t n, size_t size,
                                   int (*order)(const void *, const void *),
                                   void (*add)(void *to, const void *from))
{
    size_t kept = 0;
    char *at = list;
    if (n)
        qsort(list, n, size, order);
    for (size_t i = 0; i < n; i++) {
        char *last = kept ? at + (kept - 1) * size : NULL;
        if (!last || order(last, at + i * size) != 0)
            memmove(at + kept++ * size, at + i * size, size);
        else if (add)
            add(last, at + i * size);
    }
    return kept;
}
static inline size_t mt_order_once(void *list, size_t n, size_t size,
                                   int (*order)(const void *, const void *))
{
    return mt_order_join(list, n, size, order, NULL);
}
#endif
