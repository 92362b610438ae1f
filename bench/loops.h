/* Sizes, inputs and output shared by bench/loops.cu (kernels) and bench/loops.c (the same loops in C). */
#ifndef MT_BENCH_LOOPS_H
#define MT_BENCH_LOOPS_H
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum {
    N = 1 << 20, /* elements of a vector, cells of the stencil (SIDE x SIDE) */
    SIDE = 1024,
    MATRIX = 256, /* rows and columns */
    BODIES = 2048,
    BINS = 256,
    SUM_PER_CTA = 16384 /* elements that one CTA of the reduction sums up */
};

static double mt_clock(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Fills equal inputs on both sides: small multiples of 1/256, so that sums are nearly exact. */
static void mt_fill(float *x, uint32_t n, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 24) / 256.0f;
    }
}

/* Prints a line: elapsed seconds, processor seconds, a sum over the result for comparison. */
static void mt_print(double elapsed, double processor, const float *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i];
    printf("%.9f %.9f %.9g\n", elapsed, processor, sum);
}
#endif
