/* The kernels of life.def: launches, inputs, and expected results, computed in plain C. Both drivers
 * (loops.cu, opencl/loops.c) include it. Inputs are n floats in a and b; the result is c. */
#ifndef MT_BENCH_LIFE_H
#define MT_BENCH_LIFE_H
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "loops.h"

enum {
    GEMM = 512, /* rows and columns */
    ROW = 1024, /* elements of a row of softmax, layernorm and warp_sum */
    DX = 128,
    DY = 64,
    DZ = 128,      /* cells of the stencil */
    SPARSE = 4096, /* rows and columns of the sparse matrix */
    MANY_BODIES = 4096
};

typedef void mt_life_reference(const float *a, const float *b, float *c);

struct mt_life {
    const char *name;
    unsigned grid[2], block[2];
    int n;
    uint32_t results;
    double tolerance;
    mt_life_reference *expected;
};

static inline void gemm_expected(const float *a, const float *b, float *c)
{
    memset(c, 0, sizeof(float) * GEMM * GEMM);
    for (int y = 0; y < GEMM; y++)
        for (int k = 0; k < GEMM; k++)
            for (int x = 0; x < GEMM; x++)
                c[y * GEMM + x] += a[y * GEMM + k] * b[k * GEMM + x];
}

static inline void transpose_expected(const float *a, const float *b, float *c)
{
    (void)b;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            c[x * SIDE + y] = a[y * SIDE + x];
}

static inline void scan_expected(const float *a, const float *b, float *c)
{
    (void)b;
    for (int i = 0; i < N; i++)
        c[i] = a[i] + (i % 256 ? c[i - 1] : 0);
}

static inline void mt_life_sums(const float *a, float *c, int each)
{
    for (int i = 0; i < N; i++)
        c[i / each] = a[i] + (i % each ? c[i / each] : 0);
}

static inline void block_sum_expected(const float *a, const float *b, float *c)
{
    (void)b;
    mt_life_sums(a, c, 4096);
}

static inline void warp_sum_expected(const float *a, const float *b, float *c)
{
    (void)b;
    mt_life_sums(a, c, ROW);
}

static inline void softmax_expected(const float *a, const float *b, float *c)
{
    (void)b;
    for (int from = 0; from < N; from += ROW) {
        double sum = 0, most = a[from];
        for (int i = from; i < from + ROW; i++)
            most = a[i] > most ? a[i] : most;
        for (int i = from; i < from + ROW; i++)
            sum += exp(a[i] - most);
        for (int i = from; i < from + ROW; i++)
            c[i] = (float)(exp(a[i] - most) / sum);
    }
}

static inline void layernorm_expected(const float *a, const float *b, float *c)
{
    for (int from = 0; from < N; from += ROW) {
        double mean = 0, variance = 0;
        for (int i = 0; i < ROW; i++)
            mean += a[from + i] / (double)ROW;
        for (int i = 0; i < ROW; i++)
            variance += (a[from + i] - mean) * (a[from + i] - mean) / ROW;
        for (int i = 0; i < ROW; i++)
            c[from + i] = (float)((a[from + i] - mean) / sqrt(variance + 1e-5) * b[i] + b[ROW + i]);
    }
}

static inline int mt_life_order(const void *x, const void *y)
{
    float p = *(const float *)x, q = *(const float *)y;
    return (p > q) - (p < q);
}

static inline void bitonic_expected(const float *a, const float *b, float *c)
{
    (void)b;
    memcpy(c, a, N * sizeof *c);
    for (int from = 0; from < N; from += 512)
        qsort(c + from, 512, sizeof *c, mt_life_order);
}

static inline void stencil3d_expected(const float *a, const float *b, float *c)
{
    const int down = DX, back = DX * DY;
    (void)b;
    memset(c, 0, N * sizeof *c);
    for (int z = 1; z < DZ - 1; z++)
        for (int y = 1; y < DY - 1; y++)
            for (int x = 1; x < DX - 1; x++) {
                const float *p = a + z * back + y * down + x;
                c[p - a] = 0.4f * p[0] + 0.1f * (p[-1] + p[1] + p[-down] + p[down] + p[-back] + p[back]);
            }
}

/* Fills the sparse matrix: b has SPARSE + 1 starts of rows and then the columns, as integers; a has the
 * values, and x at its end. */
static inline void mt_life_sparse(float *b)
{
    int *row = (int *)b, *column = row + SPARSE + 1, at = 0;
    uint32_t seed = 17;
    for (int i = 0; i < SPARSE; i++) {
        row[i] = at;
        for (int left = 8 + (int)((seed = seed * 1664525u + 1013904223u) >> 25); left; left--)
            column[at++] = (int)((seed = seed * 1664525u + 1013904223u) >> 20);
    }
    row[SPARSE] = at;
}

static inline void spmv_expected(const float *a, const float *b, float *c)
{
    const int *row = (const int *)b, *column = row + SPARSE + 1;
    for (int i = 0; i < SPARSE; i++) {
        c[i] = 0;
        for (int k = row[i]; k < row[i + 1]; k++)
            c[i] += a[k] * a[N - SPARSE + column[k]];
    }
}

static inline void bodies_tiled_expected(const float *a, const float *b, float *c)
{
    (void)b;
    for (int i = 0; i < MANY_BODIES; i++) {
        double f[4] = {0, 0, 0, 0};
        for (int j = 0; j < MANY_BODIES; j++) {
            double d[3], r = 0.01;
            for (int k = 0; k < 3; k++) {
                d[k] = (double)a[4 * j + k] - a[4 * i + k];
                r += d[k] * d[k];
            }
            for (int k = 0; k < 3; k++)
                f[k] += d[k] * a[4 * j + 3] / (r * sqrt(r));
        }
        for (int k = 0; k < 4; k++)
            c[4 * i + k] = (float)f[k];
    }
}

#define MT_LIFE_PAIR(x, y) {x, y}
static const struct mt_life mt_lives[] = {
#define LIFE(name, grid, block, n, results, tolerance)                                                       \
    {#name, MT_LIFE_PAIR grid, MT_LIFE_PAIR block, n, results, tolerance, name##_expected},
#include "life.def"
#undef LIFE
};

/* Returns the kernel of this name, or NULL. */
static inline const struct mt_life *mt_life_find(const char *name)
{
    for (size_t i = 0; i < sizeof mt_lives / sizeof *mt_lives; i++)
        if (!strcmp(name, mt_lives[i].name))
            return &mt_lives[i];
    return NULL;
}

/* Fills input 0 or 1 of the kernel of this name, of either program. */
static inline void mt_life_fill(const char *kernel, float *x, int input)
{
    mt_fill(x, N, (uint32_t)input + 1);
    if (input == 1 && !strcmp(kernel, "spmv"))
        mt_life_sparse(x);
}

/* Compares c with the reference for the inputs of both drivers. Returns 0 if they agree, else reports the
 * difference on stderr. */
static inline int mt_life_check(const struct mt_life *k, const float *c)
{
    float *x = (float *)malloc(3 * N * sizeof *x), *wanted = x + 2 * N;
    double most = 0;
    int wrong = !x;
    if (!x)
        return 1;
    mt_life_fill(k->name, x, 0);
    mt_life_fill(k->name, x + N, 1);
    k->expected(x, x + N, wanted);
    for (uint32_t i = 0; i < k->results; i++)
        most = fabs(wanted[i]) > most ? fabs(wanted[i]) : most;
    for (uint32_t i = 0; i < k->results && !wrong; i++)
        if ((wrong = !(fabs((double)c[i] - wanted[i]) <= k->tolerance * most)))
            fprintf(stderr, "%s: element %u is %.9g, not %.9g\n", k->name, i, c[i], wanted[i]);
    free(x);
    return wrong;
}
#endif
