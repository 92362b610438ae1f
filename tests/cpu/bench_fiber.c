/* Prints what the CPU device's scheduling costs, as JSON: nanoseconds per barrier wait of a thread, per
 * shuffle of a lane, per CTA and launch. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "harness.h"

/* Of this process: other programs on the machine do not disturb it. */
static double cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double bench_fiber_run(const struct mt_image *image, const char *kernel, struct dim grid,
                              struct dim block, void **args)
{
    struct mt_cpu_launch l = {0};
    double t = cpu_time();
    int rc = launch(&l, image, kernel, grid, block, 0, args);
    if (rc) {
        fprintf(stderr, "%s: error %d: %s\n", kernel, rc, l.message);
        exit(1);
    }
    return (cpu_time() - t) * 1e9;
}

int main(void)
{
    uint32_t rounds = 2000, none = 0, n = 0;
    void *args[] = {&rounds}, *zero[] = {&none};
    uint32_t *out = NULL;
    void *fill[] = {&out, &n};
    mt_cpu_init(1, 16);
    const struct mt_image *image = load_test_image();
    bench_fiber_run(image, "barriers", (struct dim){1, 1, 1}, (struct dim){1024, 1, 1},
                    args); /* stacks are touched */
    double t256 = bench_fiber_run(image, "barriers", (struct dim){4, 1, 1}, (struct dim){256, 1, 1}, args) /
                  (4.0 * 256 * rounds);
    double t1024 = bench_fiber_run(image, "barriers", (struct dim){1, 1, 1}, (struct dim){1024, 1, 1}, args) /
                   (1024.0 * rounds);
    double shfl = bench_fiber_run(image, "shuffles", (struct dim){1, 1, 1}, (struct dim){1024, 1, 1}, args) /
                  (1024.0 * rounds);
    double thread =
        bench_fiber_run(image, "barriers", (struct dim){4000, 1, 1}, (struct dim){256, 1, 1}, zero) /
        (4000.0 * 256);
    uint32_t one = 1;
    void *args1[] = {&one};
    double start =
        bench_fiber_run(image, "barriers", (struct dim){4000, 1, 1}, (struct dim){256, 1, 1}, args1) /
        (4000.0 * 256);
    double loop = bench_fiber_run(image, "fill", (struct dim){4000, 1, 1}, (struct dim){256, 1, 1}, fill) /
                  (4000.0 * 256);
    double cta =
        bench_fiber_run(image, "fill", (struct dim){1000000, 1, 1}, (struct dim){1, 1, 1}, fill) / 1e6;
    double t = now();
    for (int i = 0; i < 10000; i++)
        bench_fiber_run(image, "fill", (struct dim){1, 1, 1}, (struct dim){1, 1, 1}, fill);
    double launches = (now() - t) * 1e9 / 10000;
    printf(
        "{\"barrier_256_ns\": %.2f, \"barrier_1024_ns\": %.2f, \"shfl_ns\": %.2f, \"fiber_thread_ns\": %.2f, "
        "\"fiber_one_barrier_ns\": %.2f, \"loop_thread_ns\": %.2f, \"loop_cta_ns\": %.1f, \"launch_ns\": "
        "%.0f}\n",
        t256, t1024, shfl, thread, start, loop, cta, launches);
    return 0;
}
