/* A CPU image written by
 * hand for the launch tests. */
#include "access.c"

#ifndef IMAGE_VERSION
#define IMAGE_VERSION MT_IMAGE_VERSION
#define IMAGE_CPU "x86-64-v3"
#endif

uint32_t __mt_site_base;
static uint32_t counter[4];
static const uint32_t konst[4] = {1, 2, 3, 4};

/* out[i] = i + base, one recorded store per thread */
static void fill_thread(void **args)
{
    uint32_t *out = *(uint32_t **)args[0], n = *(uint32_t *)args[1];
    uint32_t i = mt_cpu_tls.ctaid[0] * mt_cpu_tls.ntid[0] + mt_cpu_tls.tid[0];
    if (i < n) {
        __mt_access_global(&out[i], 1u << 28 | 4, 0);
        out[i] = i + counter[0];
    }
}

static void fill(void **args)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    for (t->tid[0] = 32 * t->warp_first; t->tid[0] < t->ntid[0] && t->tid[0] < 32 * t->warp_end; t->tid[0]++)
        fill_thread(args);
}

static void nothing(void **args)
{
}

static void trap(void **args)
{
    mt_cpu_trap();
}

static void unsupported(void **args)
{
    mt_cpu_unsupported("asm frobnicate", "image.cu", 7);
}

/* Says p[set], then waits for p[wait]. */
static void meet(void **args)
{
    volatile uint32_t *p = *(volatile uint32_t **)args[0];
    uint32_t set = *(uint32_t *)args[1], wait = *(uint32_t *)args[2];
    __mt_access_global((void *)&p[set], 1u << 28 | 4, 0);
    __atomic_fetch_add(&p[set], 1, __ATOMIC_SEQ_CST);
    while (!p[wait])
        mt_cpu_yield();
}

/* p[0] must be `expected`, else p[1] is counted up; p[0] becomes the next number. */
static void step(void **args)
{
    uint32_t *p = *(uint32_t **)args[0], expected = *(uint32_t *)args[1];
    __mt_access_global(p, 4, 0);
    __mt_access_global(p, 1u << 28 | 4, 0);
    if (__atomic_exchange_n(&p[0], expected + 1, __ATOMIC_SEQ_CST) != expected)
        p[1]++;
}

static const struct mt_image_param meet_params[] = {{"p", 8, 8}, {"set", 4, 4}, {"wait", 4, 4}};
static void wide(void **args)
{
}

static const struct mt_image_param wide_params[70]; /* of no bytes: only their number counts */
static const struct mt_image_param fill_params[] = {{"out", 8, 8}, {"n", 4, 4}};
#define KERNEL(f, entry, flags, params, n, shared, threads)                                                  \
    {"_Z" #f,                                                                                                \
     #f "<int>",                                                                                             \
     "void " #f "<int>()",                                                                                   \
     "image.cu",                                                                                             \
     1,                                                                                                      \
     flags,                                                                                                  \
     entry,                                                                                                  \
     params,                                                                                                 \
     n,                                                                                                      \
     shared,                                                                                                 \
     threads,                                                                                                \
     0,                                                                                                      \
     .vector_rows = WARPS(f, entry),                                                                         \
     .record_rows = WARPS(f, entry),                                                                         \
     .record_any = WARPS(f, entry)}
/* f runs the threads of several warps; as entry, too: one thread. */
#define WARPS(f, entry) ((void (*)(void **))(f) == (entry) ? 0 : (void (*)(void **))(f))
static const struct mt_image_kernel kernels[] = {
    KERNEL(fill, fill_thread, MT_KERNEL_TRACED | MT_KERNEL_GPU_RECORDS, fill_params, 2, 0, 0),
    KERNEL(nothing, nothing, 0, 0, 0, 1024, 64),
    KERNEL(trap, trap, MT_KERNEL_TRACED, 0, 0, 0, 0),
    KERNEL(unsupported, unsupported, MT_KERNEL_TRACED, 0, 0, 0, 0),
    KERNEL(meet, meet, MT_KERNEL_TRACED, meet_params, 3, 0, 0),
    KERNEL(step, step, MT_KERNEL_TRACED, fill_params, 2, 0, 0),
    KERNEL(wide, wide, MT_KERNEL_TRACED | MT_KERNEL_GPU_RECORDS, wide_params, 70, 0, 0),
};
static const struct mt_image_site sites[] = {{"image.cu", "fill", "out", 5, 6, 1, 4, 4, 0, 0, 0, 0, 0}};
static const struct mt_image_var vars[] = {{"counter", counter, sizeof counter, MT_VAR_DEVICE, 0},
                                           {"konst", konst, sizeof konst, MT_VAR_CONSTANT, 0}};
__attribute__((visibility("default"))) const struct mt_image_head mt_image = {
    MT_IMAGE_MAGIC, IMAGE_VERSION, IMAGE_CPU, "image.cu", kernels, sites, vars, 0, 7, 1, 2, 0, 0,
};
