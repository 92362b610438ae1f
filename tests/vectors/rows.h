/* Kernels made by chance in which rows of lanes stay rows, or must not: what rows.c makes and test_rows.c
 * runs. */
#ifndef MT_TEST_ROWS_H
#define MT_TEST_ROWS_H
#include "vector/vector.h"
#include "cpu/cpu.h"
#include "lower.h"

#define THREADS 64u /* of a CTA: two warps */
#define STORES 32u  /* of a thread */
#define VALUES 40u
#define LEAVES 6u
#define LANE 3u /* that leaf */
#define TABLE 4096u

/* A value and what it is in each thread, in its low `width` bits. */
struct rows_value {
    LLVMValueRef ir;
    unsigned width;
    uint64_t of[THREADS];
};

struct rows_kernel {
    uint64_t seed;
    int tiles; /* CTAs of 16 x 4 threads, not of 64 */
    uint32_t cta, u;
    unsigned n, nstores;
    struct rows_value value[VALUES];
    int here[THREADS];
    uint64_t want[STORES][THREADS];
    int stored[STORES][THREADS]; /* 8, 16: the one before, made wider from so many bits with its sign */
    char *text;
};

struct rows_make {
    struct mt_lowering *l;
    LLVMBuilderRef b;
    LLVMValueRef f, thread;
    struct rows_value leaf[LEAVES];
    struct rows_kernel *k;
};

/* Makes kernel `number` of a module, as m->k->seed says, and what it stores in each thread. */
void mt_rows_kernel(struct rows_make *m, unsigned number);
#endif
