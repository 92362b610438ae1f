/* For the tests of builtins: random inputs that meet the corner cases, and checks that say what went in. */
#ifndef CHECK_H
#define CHECK_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned failed, checked;
uint32_t __mt_site_base; /* the pass defines it for programs */

static inline uint64_t rnd(void)
{
    static uint64_t s = 0x9e3779b97f4a7c15ull;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return s * 0x2545f4914f6cdd1dull;
}

static inline float as_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint32_t bits32(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline double as_f64(uint64_t u)
{
    double f;
    memcpy(&f, &u, 8);
    return f;
}
static inline uint64_t bits64(double f)
{
    uint64_t u;
    memcpy(&u, &f, 8);
    return u;
}

/* A float of any kind: special values, small integers and halves, denormals, any bits, similar exponents. */
static inline float any_f32(void)
{
    static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x7fffff,
                                       0x800000,   0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff,
                                       0x7f800000, 0xff800000, 0x7fc00000, 0x4f000000, 0xcf000000,
                                       0x4f800000, 0x5f000000, 0x5f800000};
    uint64_t r = rnd();
    switch (r & 7) {
    case 0:
        return as_f32(special[(r >> 3) % (sizeof special / 4)]);
    case 1:
        return (float)((int)(r >> 40) % 2000 - 1000) * 0.5f;
    case 2:
        return as_f32((uint32_t)(r >> 32) & 0x807fffff);
    case 3:
        return as_f32((uint32_t)(r >> 32));
    default:
        return as_f32(((uint32_t)(r >> 32) & 0x807fffff) | (uint32_t)(117 + (r >> 8) % 40) << 23);
    }
}

static inline double any_f64(void)
{
    uint64_t r = rnd(), s = rnd();
    switch (r & 7) {
    case 0:
        return any_f32();
    case 1:
        return (double)((int64_t)s >> (r >> 3) % 60) * 0.5;
    case 2:
        return as_f64(s & 0x800fffffffffffffull);
    case 3:
        return as_f64(s);
    default:
        return as_f64((s & 0x800fffffffffffffull) | (1000 + (r >> 8) % 50) << 52);
    }
}

static inline uint64_t any_u64(void)
{
    uint64_t r = rnd(), s = rnd();
    switch (r & 3) {
    case 0:
        return (uint64_t)((int64_t)(s & 15) - 8);
    case 1:
        return (1ull << (s & 63)) + (uint64_t)((int64_t)(r >> 8 & 3) - 1);
    default:
        return s >> (r >> 8) % 64;
    }
}

/* Equal bits, or both NaN. */
static inline int same_f32(float a, float b)
{
    return bits32(a) == bits32(b) || (a != a && b != b);
}
static inline int same_f64(double a, double b)
{
    return bits64(a) == bits64(b) || (a != a && b != b);
}

#define CHECK(condition, ...)                                                                                \
    do {                                                                                                     \
        checked++;                                                                                           \
        if (!(condition) && failed++ < 40) {                                                                 \
            printf("%s:%d: ", __FILE__, __LINE__);                                                           \
            printf(__VA_ARGS__);                                                                             \
            printf("\n");                                                                                    \
        }                                                                                                    \
    } while (0)

static inline int report(const char *name)
{
    printf("%s: %u checks, %u failed\n", name, checked, failed);
    return failed || !checked ? 1 : 0;
}
#endif
