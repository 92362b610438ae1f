/* One program for all engines: accesses of all kinds to heap buffers, each buffer known by its size, and
 * nothing else touches them. cases_engines.py lists what each engine must see. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef long long two __attribute__((vector_size(16)));
struct pair {
    int64_t a, b, c, d, e, f;
};

static __attribute__((noinline)) void sizes(void *base)
{
    volatile uint8_t *b = base;
    volatile uint16_t *h = base;
    volatile uint32_t *w = base;
    volatile uint64_t *l = base;
    volatile float *f = base;
    volatile double *d = base;
    b[0] = 1;
    h[1] = (uint16_t)(b[0] + 1);
    w[1] = h[1] + 1u;
    l[1] = w[1] + 1u;
    f[4] = (float)l[1];
    d[3] = f[4];
    b[33]++; /* a load and a store; one read-modify-write instruction if the compiler likes */
    (void)d[3];
}

static __attribute__((noinline)) void atomics(int64_t *p)
{
    __atomic_fetch_add(&p[0], 5, __ATOMIC_SEQ_CST);
    __atomic_exchange_n(&p[1], 5, __ATOMIC_SEQ_CST);
    int64_t expected = 0;
    __atomic_compare_exchange_n(&p[2], &expected, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    expected = 0;
    __atomic_compare_exchange_n(&p[2], &expected, 2, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); /* fails */
}

static __attribute__((noinline)) void wide(volatile two *p)
{
    p[0] = (two){1, 2};
    p[2] = p[0];
}

static __attribute__((noinline)) void blocks(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
    memset(to + 500, 1, n / 2);
    memmove(to + 100, to, n);
}

static __attribute__((noinline)) void strides(volatile int32_t *p)
{
    for (int i = 0; i < 400; i += 3)
        p[i] = p[i + 1];
}

int main(void)
{
    void *a = calloc(1, 1111), *c = aligned_alloc(16, 1328), *g = calloc(1, 1999);
    int64_t *b = calloc(1, 1222);
    char *d = calloc(1, 1444), *e = calloc(1, 1555);
    sizes(a);
    atomics(b);
    wide(c);
    blocks(d, e, 200);
    strides(g);
    /* All results count: a buffer that nobody looks at may be optimised away. */
    printf("%d\n", *(unsigned char *)a + d[100] + (int)*(volatile int64_t *)(b + 2));
    free(a);
    return 0;
}
