/* The CPU device's scheduler: every expectation is computed here, from CUDA's rules, not from what the device
 * did. usage: test_cpu_run THREADS */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"
#include "memtrace/record.h"
#include "scheduler.h"

static const struct mt_image *image;
static unsigned threads;
#define SMS 7

static int run_go(const char *name, struct dim grid, struct dim block, void **args)
{
    struct mt_cpu_launch l = {0};
    int rc = launch(&l, image, name, grid, block, 0, args);
    if (rc)
        print_message("%s: %d: %s\n", name, rc, l.message);
    return rc;
}
#define D(...) ((struct dim){__VA_ARGS__})
#define ARGS(...) ((void *[]){__VA_ARGS__})

/* ---- coordinates and results ---- */

static void coordinates_of(const char *kernel, struct dim grid, struct dim block)
{
    size_t n = (size_t)grid.x * grid.y * grid.z * block.x * block.y * block.z;
    uint32_t *p = calloc(n * 4, sizeof *p);
    assert_int_equal(run_go(kernel, grid, block, ARGS(&p)), 0);
    for (size_t i = 0; i < n * 4; i++)
        if (p[i] != 1)
            fail_msg("%s: thread %zu, word %zu is %u", kernel, i / 4, i % 4, p[i]);
    free(p);
}

static void every_thread_once(void **state)
{
    coordinates_of("coordinates", D(3, 4, 5), D(8, 4, 2));
    coordinates_of("coordinates", D(1000, 1, 1), D(1, 1, 1));
    coordinates_of("spin_coordinates", D(3, 4, 5), D(8, 4, 2));
    coordinates_of("spin_coordinates", D(2, 3, 1), D(1024, 1, 1));
    coordinates_of("spin_coordinates", D(5, 1, 1), D(33, 1, 1));
}

static void barriers_make_sums(void **state)
{
    enum { CTAS = 40, N = 256 };
    uint32_t *in = malloc(CTAS * N * 4), *out = calloc(CTAS, 4);
    for (int i = 0; i < CTAS * N; i++)
        in[i] = (uint32_t)i * 7919u;
    assert_int_equal(run_go("block_sum", D(CTAS, 1, 1), D(N, 1, 1), ARGS(&in, &out)), 0);
    for (int c = 0; c < CTAS; c++) {
        uint32_t sum = 0;
        for (int i = 0; i < N; i++)
            sum += in[c * N + i];
        assert_int_equal(out[c], sum);
    }
    free(in);
    free(out);
}

/* ---- warp collectives ---- */

static void run_collectives(void **state)
{
    enum { CTAS = 3, N = 96 };
    uint32_t *out = calloc(CTAS * N * 16, 4);
    assert_int_equal(run_go("warp_ops", D(CTAS, 1, 1), D(N, 1, 1), ARGS(&out)), 0);
    for (uint32_t t = 0; t < CTAS * N; t++) {
        const uint32_t *o = out + t * 16, l = t % 32;
        uint32_t same = 0;
        for (uint32_t j = 0; j < 32; j++)
            same |= (uint32_t)(j / 5 == l / 5) << j;
        uint32_t two_bits;
        memcpy(&two_bits, &(float){2}, 4);
        assert_int_equal(o[0], l < 3 ? l : l - 3);
        assert_int_equal(o[1], l + 5 > 31 ? l : l + 5);
        assert_int_equal(o[2], l ^ 6);
        assert_int_equal(o[3], 9);
        assert_int_equal(o[4], l % 8 == 7 ? l : l + 1);
        assert_int_equal(o[5], l % 16 < 4 ? l : (l - 4) | 1u << 31);
        assert_int_equal(o[6], same);
        assert_int_equal(o[7], 0xffffffff);
        assert_int_equal(o[8], 0);
        assert_int_equal((int32_t)o[9], -16);
        assert_int_equal((int32_t)o[10], -1);
        assert_int_equal(o[11], 1 + 0 + 4);
        assert_int_equal(o[12], two_bits);
        assert_int_equal(o[13], 0xffffffff);
    }
    free(out);
}

static void run_divergence(void **state)
{
    enum { CTAS = 5, N = 128 };
    uint32_t *out = calloc(CTAS * N, 4);
    assert_int_equal(run_go("divergent", D(CTAS, 1, 1), D(N, 1, 1), ARGS(&out)), 0);
    for (uint32_t t = 0; t < CTAS * N; t++)
        assert_int_equal(out[t], t % 2 ? 30 + 1000 : 40 + 240);
    free(out);
}

static void activemask_under_divergence(void **state)
{
    enum { CTAS = 4, N = 96 };
    uint32_t *out = calloc(CTAS * N, 4);
    assert_int_equal(run_go("active", D(CTAS, 1, 1), D(N, 1, 1), ARGS(&out)), 0);
    for (uint32_t t = 0; t < CTAS * N; t++) {
        uint32_t w = t % N / 32 * 32, rest = 0;
        for (uint32_t l = 7; l < 32; l++)
            rest |= (uint32_t)((w + l) % 3 != 0) << l;
        if (t % 32 < 7)
            assert_int_equal(out[t], 0x7f);
        else
            assert_int_equal(out[t], t % N % 3 == 0 ? 0 : rest);
    }
    assert_int_equal(run_go("active_calls", D(CTAS, 1, 1), D(N, 1, 1), ARGS(&out)), 0);
    for (uint32_t t = 0; t < CTAS * N; t++)
        assert_int_equal(out[t], t % 32 < 7 ? 0x7f : ~0x7fu);
    free(out);
}

static void early_exits(void **state)
{
    enum { CTAS = 3, N = 128 };
    uint32_t *out = calloc(CTAS * N, 4), stay = 70;
    assert_int_equal(run_go("early_exit", D(CTAS, 1, 1), D(N, 1, 1), ARGS(&out, &stay)), 0);
    for (uint32_t t = 0; t < CTAS * N; t++)
        assert_int_equal(out[t], t % N < stay && t % 2 == 0 ? stay + 1 : 0);
    free(out);
}

/* ---- clusters ---- */

static int go_clusters(const char *kernel, uint32_t ctas, uint32_t per_cluster, uint32_t threads, void **args,
                       struct mt_cpu_launch *l)
{
    *l = (struct mt_cpu_launch){.cluster = {per_cluster, 1, 1}};
    return launch(l, image, kernel, D(ctas, 1, 1), D(threads, 1, 1), 0, args);
}

static void run_clusters(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 8, 16};
    enum { N = 70, ROUNDS = 6 };
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct mt_cpu_launch l;
        uint32_t n = sizes[i], ctas = 4 * n, *out = calloc((size_t)ctas * N, 4), rounds = ROUNDS;
        assert_int_equal(go_clusters("cluster_rounds", ctas, n, N, ARGS(&out, &rounds), &l), 0);
        for (uint32_t k = 0; k < ctas * N; k++) {
            uint32_t cta = k / N, from = cta / n * n + (cta % n + n - 1) % n;
            assert_int_equal(out[k], k % N % 5 == 4 ? 0 : ROUNDS * from * 1000 + ROUNDS * (ROUNDS - 1) / 2);
        }
        free(out);
    }
}

static void clusters_that_fail(void **state)
{
    struct mt_cpu_launch l;
    mt_fault_install();
    for (uint32_t how = 0; how < 2; how++) {
        assert_int_equal(go_clusters("cluster_deadlock", 8, 4, 32, ARGS(&how), &l), 702);
        assert_non_null(strstr(l.message, "deadlock"));
        every_thread_once(NULL);
    }
    uint32_t none = 0;
    assert_int_equal(go_clusters("cluster_trap", 8, 4, 32, ARGS(&none), &l), 719);
    assert_non_null(strstr(l.message, "CTA (5,0,0), thread (7,0,0)"));
    every_thread_once(NULL);
    assert_int_equal(go_clusters("cluster_trap", 6, 4, 32, ARGS(&none), &l), 9);
    assert_int_equal(go_clusters("cluster_trap", 17, 17, 32, ARGS(&none), &l), 9);
}

/* ---- barriers ---- */

static void named_barriers(void **state)
{
    enum { CTAS = 4, N = 128, ROUNDS = 9 };
    uint32_t *out = calloc(CTAS * N / 2 * ROUNDS, 4), rounds = ROUNDS;
    assert_int_equal(run_go("named", D(CTAS, 1, 1), D(N, 1, 1), ARGS(&out, &rounds)), 0);
    for (uint32_t c = 0; c < CTAS; c++)
        for (uint32_t r = 0; r < ROUNDS; r++)
            for (uint32_t t = 0; t < N / 2; t++)
                assert_int_equal(out[(c * ROUNDS + r) * N / 2 + t], r * 1000 + t);
    free(out);
}

static void cooperative_grid(void **state)
{
    enum { CTAS = 24, N = 64, ROUNDS = 5 };
    uint32_t counter = 0, *pc = &counter, data[CTAS] = {0}, *pd = data, rounds = ROUNDS, expect[CTAS];
    uint32_t *out = calloc(CTAS * CTAS, 4);
    void *args[5] = {&pc, &pd, &out, &rounds, NULL};
    struct mt_cpu_launch l = {.image = image,
                              .kernel = mt_image_find_kernel(image, "grid_barrier"),
                              .args = args,
                              .grid = {CTAS, 1, 1},
                              .block = {N, 1, 1},
                              .cooperative = 1};
    assert_int_equal(run(&l), 0);
    for (uint32_t i = 0; i < CTAS; i++)
        expect[i] = (i + 1) * ROUNDS * (ROUNDS + 1) / 2;
    for (uint32_t c = 0; c < CTAS; c++)
        assert_memory_equal(out + c * CTAS, expect, sizeof expect);
    free(out);
    /* The same without the word "cooperative": CTAs that spin let others begin. */
    counter = 0;
    out = calloc(CTAS * CTAS, 4);
    l.cooperative = 0;
    assert_int_equal(run(&l), 0);
    for (uint32_t c = 0; c < CTAS; c++)
        assert_memory_equal(out + c * CTAS, expect, sizeof expect);
    free(out);
}

static void chain_of_ctas(void **state)
{
    enum { CTAS = 200 };
    uint32_t *flag = calloc(CTAS, 4);
    assert_int_equal(run_go("chain", D(CTAS, 1, 1), D(1, 1, 1), ARGS(&flag)), 0);
    for (int i = 0; i < CTAS; i++)
        assert_int_equal(flag[i], 1);
    free(flag);
}

static void spin_locks(void **state)
{
    uint32_t lock = 0, count = 0, *pl = &lock, *pn = &count;
    assert_int_equal(run_go("spin_lock", D(6, 1, 1), D(96, 1, 1), ARGS(&pl, &pn)), 0);
    assert_int_equal(count, 6 * 96);
}

/* ---- failures ---- */

static void expect_failure(const char *kernel, void **args, int code, const char *text, const char *text2)
{
    struct mt_cpu_launch l = {0};
    int rc = launch(&l, image, kernel, D(8, 1, 1), D(64, 1, 1), 0, args);
    if (rc != code || !strstr(l.message, text) || !strstr(l.message, text2))
        fail_msg("%s: %d (expected %d): %s (expected %s, %s)", kernel, rc, code, l.message, text, text2);
    every_thread_once(NULL); /* and the device still works */
}

static void run_failures(void **state)
{
    int *null = NULL;
    uint32_t deep = 100000, shallow = 10;
    expect_failure("trap_at", NULL, 719, "CTA (3,0,0), thread (5,0,0)", "trap");
    expect_failure("assert_at", NULL, 710, "x > 0", "file.cu:42");
    expect_failure("assert_at", NULL, 710, "CTA (1,0,0), thread (2,0,0)", "");
    expect_failure("unsupported", NULL, 801, "tex.1d", "file.cu:7");
    expect_failure("bad_address", ARGS(&null), 700, "illegal address 0x0", "thread (1,0,0)");
    expect_failure("bad_address_loop_body", ARGS(&null), 700, "illegal address 0x0", "");
    expect_failure("recurse", ARGS(&deep), 700, "stack overflow", "MEMTRACE_CPU_STACK");
    expect_failure("divide", NULL, 719, "division by zero", "");
    expect_failure("deadlock", NULL, 702, "32 of 64 threads at barrier 1, 32 of 64 threads at barrier 2",
                   "deadlock");
    assert_int_equal(run_go("recurse", D(4, 1, 1), D(64, 1, 1), ARGS(&shallow)), 0);
}

static void incomplete_collective(void **state)
{
    enum { N = 64 };
    uint32_t *out = calloc(N, 4);
    assert_int_equal(run_go("incomplete", D(1, 1, 1), D(N, 1, 1), ARGS(&out)), 0);
    for (uint32_t t = 0; t < N; t++)
        assert_int_equal(out[t], t % 32 < 16 ? 0xffff : 20);
    free(out);
}

static void bad_configurations(void **state)
{
    uint32_t *p = NULL, n = 0;
    assert_int_equal(run_go("fill", D(0, 1, 1), D(1, 1, 1), ARGS(&p, &n)), 9);
    assert_int_equal(run_go("fill", D(1, 1, 1), D(33, 32, 1), ARGS(&p, &n)), 9);
    assert_int_equal(run_go("fill", D(1, 1, 1), D(1025, 1, 1), ARGS(&p, &n)), 9);
}

/* ---- traces ---- */

struct sink {
    pthread_mutex_t lock;
    struct mt_raw_record *r;
    size_t n, capacity, calls;
};

static void run_collect(void *ctx, const void *records, size_t count)
{
    struct sink *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->calls++;
    if (s->n + count > s->capacity)
        s->r = realloc(s->r, (s->capacity = (s->n + count) * 2) * sizeof *s->r);
    memcpy(s->r + s->n, records, count * sizeof *s->r);
    s->n += count;
    pthread_mutex_unlock(&s->lock);
}

static int run_traced(const char *kernel, struct dim grid, struct dim block, void **args,
                      struct mt_cpu_launch *l, struct sink *s)
{
    memset(l, 0, sizeof *l);
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    l->flush = run_collect;
    l->flush_ctx = s;
    return launch(l, image, kernel, grid, block, 0, args);
}

static void records_of_fill(void **state)
{
    enum { CTAS = 700, N = 256, LAST = CTAS * N - 100 };
    uint32_t *p = calloc(CTAS * N, 4), n = LAST;
    uint8_t *seen = calloc(CTAS * N, 1);
    struct mt_cpu_launch l;
    struct sink s;
    assert_int_equal(run_traced("fill", D(CTAS, 1, 1), D(N, 1, 1), ARGS(&p, &n), &l, &s), 0);
    assert_int_equal(l.records, LAST);
    assert_int_equal(s.n, LAST);
    assert_true(s.calls > 1);
    for (size_t i = 0; i < s.n; i++) {
        uint64_t at = (mt_rec_address(&s.r[i]) - (uint64_t)(uintptr_t)p) / 4;
        assert_true(at < LAST && !seen[at]);
        seen[at] = 1;
        assert_int_equal(p[at], at);
        assert_int_equal(mt_rec_size(&s.r[i]), 4);
        assert_int_equal(mt_rec_type(&s.r[i]), MT_STORE);
        assert_int_equal(mt_rec_cta_x(&s.r[i]), at / N);
        assert_int_equal(mt_rec_smid(&s.r[i]), at / N % SMS);
        if (threads == 1) /* then the order is that of CTAs and threads */
            assert_int_equal(at, i);
    }
    free(s.r);
    free(seen);
    free(p);
}

static void untraced_has_no_records(void **state)
{
    struct mt_cpu_launch l = {0};
    uint32_t *p = calloc(100000, 4), n = 100000;
    assert_int_equal(launch(&l, image, "fill", D(1000, 1, 1), D(100, 1, 1), 0, ARGS(&p, &n)), 0);
    assert_int_equal(l.records, 0);
    assert_int_equal(p[99999], 99999);
    free(p);
}

static void run_spaces(void **state)
{
    uint32_t word[2] = {0}, *p = word;
    struct mt_cpu_launch l;
    struct sink s;
    const struct mt_image_var *v = mt_image_find_var(image, "device_table");
    uint64_t a = (uint64_t)(uintptr_t)word, d = (uint64_t)(uintptr_t)v->address + 20;
    assert_int_equal(run_traced("spaces", D(2, 1, 1), D(32, 1, 1), ARGS(&p), &l, &s), 0);
    assert_int_equal(l.records, 2 * 32 * 4);
    assert_int_equal(l.untraced, 2 * 32);
    assert_int_equal(s.n, 2 * 32 * 4);
    const uint32_t max = (1u << 28) - 1;
    uint64_t address[] = {a, d, a, a + max}, size[] = {4, 4, max, 11};
    for (size_t i = 0; i < s.n; i++) {
        assert_int_equal(mt_rec_address(&s.r[i]), address[i % 4]);
        assert_int_equal(mt_rec_size(&s.r[i]), size[i % 4]);
    }
    free(s.r);
}

static void arguments_by_value(void **state)
{
    struct {
        uint32_t v[300];
    } big = {{0}};
    uint32_t out[5] = {0}, *p = out;
    uint8_t byte = 200;
    big.v[299] = 4711;
    assert_int_equal(run_go("by_value", D(1, 1, 1), D(1, 1, 1), ARGS(&big, &p, &byte)), 0);
    assert_int_equal(out[0], 4711);
    assert_int_equal(out[1], 1); /* arguments, shared memory and the stack are not global memory */
    assert_int_equal(out[2], 1);
    assert_int_equal(out[3], 1);
    assert_int_equal(out[4], 200);
}

/* ---- launches from several threads, and after a fork ---- */

static void *many_launches(void *arg)
{
    uint32_t *p = calloc(5000, 4), n = 5000;
    intptr_t bad = 0;
    for (int i = 0; i < 200 && !bad; i++) {
        struct mt_cpu_launch l;
        struct sink s;
        memset(p, 0, 5000 * 4);
        int rc = run_traced("fill", D(50, 1, 1), D(100, 1, 1), ARGS(&p, &n), &l, &s);
        if (rc || l.records != 5000 || s.n != 5000 || p[4999] != 4999)
            bad = 1;
        for (size_t k = 0; k < s.n; k++) /* no record of another launch */
            if (mt_rec_address(&s.r[k]) - (uint64_t)(uintptr_t)p >= 20000)
                bad = 1;
        free(s.r);
        uint32_t in[256] = {1, 2, 3}, sum = 0, *pi = in, *po = &sum;
        struct mt_cpu_launch l2 = {0};
        if (launch(&l2, image, "block_sum", D(1, 1, 1), D(256, 1, 1), 0, ARGS(&pi, &po)) || sum != 6)
            bad = 1;
    }
    free(p);
    return (void *)bad;
}

static void host_threads(void **state)
{
    pthread_t t[6];
    void *bad;
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&t[i], NULL, many_launches, NULL), 0);
    for (int i = 0; i < 6; i++) {
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
}

static void after_fork(void **state)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(30);
        uint32_t in[256] = {4, 5}, sum = 0, *pi = in, *po = &sum;
        struct mt_cpu_launch l = {0};
        int rc = launch(&l, image, "block_sum", D(1, 1, 1), D(256, 1, 1), 0, ARGS(&pi, &po));
        _exit(rc == 0 && sum == 9 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    every_thread_once(NULL);
}

/* ---- images ---- */

static void bad_images(void **state)
{
    const char *why = NULL;
    assert_null(mt_image_load(NULL, &why));
    assert_non_null(strstr(why, "fatbin wrapper"));
    assert_null(mt_image_load(wrap_fatbin("", 0, "NOTHING1"), &why));
    assert_non_null(strstr(why, "no CPU image"));
    assert_null(mt_image_load(wrap_fatbin("garbage", 7, MT_PAYLOAD_MAGIC), &why));
    assert_non_null(strstr(why, "cannot be loaded"));
    struct mt_image *again = load_test_image();
    assert_ptr_not_equal(again->head, image->head); /* two images, not the same one twice */
    assert_null(mt_image_find_kernel(image, "absent"));
    assert_null(mt_image_find_var(image, "absent"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_once),
        cmocka_unit_test(barriers_make_sums),
        cmocka_unit_test(run_collectives),
        cmocka_unit_test(run_divergence),
        cmocka_unit_test(activemask_under_divergence),
        cmocka_unit_test(early_exits),
        cmocka_unit_test(run_clusters),
        cmocka_unit_test(clusters_that_fail),
        cmocka_unit_test(named_barriers),
        cmocka_unit_test(cooperative_grid),
        cmocka_unit_test(chain_of_ctas),
        cmocka_unit_test(spin_locks),
        cmocka_unit_test(run_failures),
        cmocka_unit_test(incomplete_collective),
        cmocka_unit_test(bad_configurations),
        cmocka_unit_test(records_of_fill),
        cmocka_unit_test(untraced_has_no_records),
        cmocka_unit_test(run_spaces),
        cmocka_unit_test(arguments_by_value),
        cmocka_unit_test(host_threads),
        cmocka_unit_test(after_fork),
        cmocka_unit_test(bad_images),
    };
    threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    mt_cpu_settings.buffer = 100 * 24 * 10;
    if (mt_cpu_init(threads, SMS))
        return 1;
    image = load_test_image();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
