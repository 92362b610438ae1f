/* The kernels of loops.cu as plain loops on two threads: the floor of the CPU device. Usage: loops-c KERNEL
 * REPEATS; prints elapsed and processor seconds, and a sum over the result. Each thread computes half of the
 * outermost index, and the threads wait for each other after each repeat, as after a launch. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "loops.h"

enum { THREADS = 2 };

/* [from, to): range of the outermost index: elements, rows, bodies or sums */
typedef void body(const float *a, const float *b, float *c, uint32_t from, uint32_t to);

static void vector_add(const float *a, const float *b, float *c, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        c[i] = a[i] + b[i];
}

static void loops_saxpy(const float *a, const float *b, float *c, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        c[i] = 2.5f * a[i] + b[i];
}

static void loops_stencil(const float *a, const float *b, float *c, uint32_t from, uint32_t to)
{
    const int w = SIDE;
    (void)b;
    for (int y = (int)from; y < (int)to; y++)
        for (int x = 0; x < w; x++)
            if (x > 0 && y > 0 && x < w - 1 && y < SIDE - 1)
                c[y * w + x] = 0.5f * a[y * w + x] + 0.125f * (a[y * w + x - 1] + a[y * w + x + 1] +
                                                               a[(y - 1) * w + x] + a[(y + 1) * w + x]);
}

static void matrix_multiply(const float *a, const float *b, float *c, uint32_t from, uint32_t to)
{
    const int n = MATRIX;
    for (int y = (int)from; y < (int)to; y++)
        for (int x = 0; x < n; x++) {
            float sum = 0;
            for (int k = 0; k < n; k++)
                sum += a[y * n + k] * b[k * n + x];
            c[y * n + x] = sum;
        }
}

static void exp_sqrt(const float *a, const float *b, float *c, uint32_t from, uint32_t to)
{
    (void)b;
    for (uint32_t i = from; i < to; i++)
        c[i] = expf(-a[i]) * sqrtf(a[i]);
}

static void loops_histogram(const float *a, const float *b, float *c, uint32_t from, uint32_t to)
{
    uint32_t *bins = (uint32_t *)c;
    (void)b;
    for (uint32_t i = from; i < to; i++)
        __atomic_fetch_add(&bins[(int)(a[i] * 256.0f)], 1, __ATOMIC_RELAXED);
}

static void loops_bodies(const float *a, const float *b, float *c, uint32_t from, uint32_t to)
{
    (void)b;
    for (uint32_t i = from; i < to; i++) {
        float x = 0, y = 0, z = 0;
        const float *me = a + 4 * i;
        for (uint32_t j = 0; j < BODIES; j++) {
            const float *you = a + 4 * j;
            float dx = you[0] - me[0], dy = you[1] - me[1], dz = you[2] - me[2];
            float r = 1 / sqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = you[3] * r * r * r;
            x += dx * s;
            y += dy * s;
            z += dz * s;
        }
        c[4 * i] = x;
        c[4 * i + 1] = y;
        c[4 * i + 2] = z;
        c[4 * i + 3] = 0;
    }
}

static void loops_reduce(const float *a, const float *b, float *c, uint32_t from, uint32_t to)
{
    (void)b;
    for (uint32_t s = from; s < to; s++) {
        float sum = 0;
        for (uint32_t i = 0; i < SUM_PER_CTA; i++)
            sum += a[s * SUM_PER_CTA + i];
        c[s] = sum;
    }
}

static const struct {
    const char *name;
    body *run;
    uint32_t n, results;
} loops[] = {
    {"vector_add", vector_add, N, N},
    {"saxpy", loops_saxpy, N, N},
    {"stencil", loops_stencil, SIDE, N},
    {"matrix_multiply", matrix_multiply, MATRIX, MATRIX *MATRIX},
    {"matrix_tiled", matrix_multiply, MATRIX, MATRIX *MATRIX},
    {"exp_sqrt", exp_sqrt, N, N},
    {"histogram", loops_histogram, N, BINS},
    {"bodies", loops_bodies, BODIES, 4 * BODIES},
    {"reduce", loops_reduce, N / SUM_PER_CTA, N / SUM_PER_CTA},
};

static struct {
    float *a, *b, *c;
    unsigned loop;
    int repeats;
    pthread_barrier_t meet;
} job;

static void *loops_work(void *index)
{
    uint32_t n = loops[job.loop].n, k = (uint32_t)(uintptr_t)index;
    for (int r = 0; r < job.repeats; r++) {
        loops[job.loop].run(job.a, job.b, job.c, n / THREADS * k, n / THREADS * (k + 1));
        pthread_barrier_wait(&job.meet);
    }
    return NULL;
}

static int loops_repeat(int repeats)
{
    pthread_t thread[THREADS];
    job.repeats = repeats;
    for (uintptr_t k = 1; k < THREADS; k++)
        if (pthread_create(&thread[k], NULL, loops_work, (void *)k))
            return -1;
    loops_work(NULL);
    for (int k = 1; k < THREADS; k++)
        pthread_join(thread[k], NULL);
    return 0;
}

int main(int argc, char **argv)
{
    int repeats = argc == 3 ? atoi(argv[2]) : 0;
    unsigned count = sizeof loops / sizeof *loops;
    while (repeats > 0 && job.loop < count && strcmp(loops[job.loop].name, argv[1]))
        job.loop++;
    if (repeats < 1 || job.loop == count) {
        fprintf(stderr, "usage: loops-c KERNEL REPEATS\n");
        return 2;
    }
    job.a = malloc(N * sizeof(float));
    job.b = malloc(N * sizeof(float));
    job.c = calloc(N, sizeof(float));
    if (!job.a || !job.b || !job.c || pthread_barrier_init(&job.meet, NULL, THREADS))
        return 1;
    mt_fill(job.a, N, 1);
    mt_fill(job.b, N, 2);
    if (loops_repeat(1))
        return 1;
    double elapsed = mt_clock(CLOCK_MONOTONIC), processor = mt_clock(CLOCK_PROCESS_CPUTIME_ID);
    if (loops_repeat(repeats))
        return 1;
    elapsed = mt_clock(CLOCK_MONOTONIC) - elapsed;
    processor = mt_clock(CLOCK_PROCESS_CPUTIME_ID) - processor;
    if (!strcmp(argv[1], "histogram"))
        for (uint32_t i = 0; i < BINS; i++) {
            uint32_t v;
            memcpy(&v, &job.c[i], sizeof v);
            job.c[i] = (float)(i + 1) * (float)(v / (uint32_t)(repeats + 1));
        }
    mt_print(elapsed, processor, job.c, loops[job.loop].results);
    free(job.a);
    free(job.b);
    free(job.c);
    return 0;
}
