/* The whole GPU path without a GPU: the device's record functions compiled for host threads (host_warp.h),
 * runtime/gpu as it is, a CUDA runtime of host threads (fake_cuda.h), and small rings, so that kernels have
 * to wait for room. What stands in the trace is compared with what each kernel was told to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/gpu.h"
#include "fake_cuda.h"
#include "host_warp.h"

void __mt_gpu_access_global(const void *p, uint32_t meta, uint32_t site, struct mt_gpu_context *c);
void __mt_gpu_access_generic(const void *p, uint32_t meta, uint32_t site, struct mt_gpu_context *c);
void __mt_gpu_access_global_n(const void *p, uint64_t bytes, uint32_t type, uint32_t site,
                              struct mt_gpu_context *c);
void __mt_gpu_access_generic_n(const void *p, uint64_t bytes, uint32_t type, uint32_t site,
                               struct mt_gpu_context *c);
void __mt_gpu_untraced(uint32_t note, struct mt_gpu_context *c);
struct mt_gpu_context *__mt_gpu_begin(struct mt_gpu_context *parameter);

_Thread_local struct host_thread host_thread;

/* ---- kernels: what lane `lane` of CTA `cta` does as its i-th access ----------------------------- */

#define LANES 6 /* 0 and 1, 5 to 8 of a warp of 32 */
static const uint32_t lane_numbers[LANES] = {0, 1, 5, 6, 7, 8};
#define OTHER 0x7000000000u /* addresses from here to 0x7fffffffff are not global */

struct access {
    int kind; /* 0 global, 1 generic, 2 global block, 3 generic block, 4 untraced */
    uint32_t type, size;
    uint64_t address, bytes;
    int odd_only; /* only every second lane does it */
};

struct kernel {
    char name[32];
    unsigned ctas, accesses, seed;
    void *context;
    const uint32_t *bases; /* its accesses are in the code of two files by turns, whose bases these are */
    void (*before)(struct kernel *k);
    struct kernel *wait_for; /* runs beside the next one, as programmatic launches do */
};

static struct access access_of(const struct kernel *k, unsigned cta, unsigned lane, unsigned i)
{
    unsigned h = (k->seed + cta * 31 + i * 7) * 2654435761u >> 8, mine = (h + lane * 40503u) >> 3;
    struct access a = {(int)(h % 5), h >> 4 & 3, 1u << (h >> 6 & 3), 0, 0, h >> 9 & 1};
    a.type = a.type == 3 ? 0 : a.type;
    a.address = 0x100000ull * (cta + 1) + i * 4096;
    if (h >> 10 & 1)
        a.address += lane * a.size; /* regular */
    else
        a.address += mine % 512 * 8; /* anywhere */
    if (a.kind % 2 == 0 && (h >> 11 & 3) == 0)
        a.address += (uint64_t)(mine % 5) << 44; /* far apart: no differences of 31 bits */
    if (a.kind % 2 && mine % 3 == 0)
        a.address = OTHER + lane; /* some lanes' generic pointers are local */
    a.bytes = mine % 4 ? mine % 1000 : mine % 3 * (1ull << 28);
    return a;
}

static void do_access(const struct access *a)
{
    const void *p = (const void *)(uintptr_t)a->address;
    struct mt_gpu_context *c = (struct mt_gpu_context *)(uintptr_t)host_thread.context;
    switch (a->kind) {
    case 0:
        __mt_gpu_access_global(p, a->type << 28 | a->size, 11, c);
        break;
    case 1:
        __mt_gpu_access_generic(p, a->type << 28 | a->size, 12, c);
        break;
    case 2:
        __mt_gpu_access_global_n(p, a->bytes, a->type, 13, c);
        break;
    case 3:
        __mt_gpu_access_generic_n(p, a->bytes, a->type, 14, c);
        break;
    default:
        __mt_gpu_untraced(15, c);
    }
}

/* Does this access of this lane make records? Then the lane is in the group. */
static int recorded(const struct access *a, unsigned lane)
{
    if (a->odd_only && lane % 2 == 0)
        return 0;
    if (a->kind == 4)
        return 1;
    if (a->kind % 2 && a->address >= OTHER)
        return 0;
    return a->kind < 2 || a->bytes;
}

/* ---- running a kernel: a thread per lane, one warp per CTA -------------------------------------- */

struct lane {
    const struct kernel *k;
    unsigned cta, index;
    struct host_warp *groups; /* one per set of lanes */
};

static unsigned set_of(const struct kernel *k, unsigned cta, unsigned i)
{
    unsigned set = 0;
    for (unsigned lane = 0; lane < LANES; lane++) {
        struct access a = access_of(k, cta, lane, i);
        set |= (unsigned)recorded(&a, lane) << lane;
    }
    return set;
}

static void *run_lane(void *data)
{
    struct lane *l = data;
    host_thread = (struct host_thread){.lane = lane_numbers[l->index],
                                       .sm = 3 + l->cta % 5,
                                       .cta = {l->cta % 3, l->cta / 3 % 2, l->cta / 6},
                                       .grid = {3, 2},
                                       .not_global_from = OTHER,
                                       .not_global_to = OTHER + 0x1000000000};
    host_thread.context = (uint64_t)(uintptr_t)__mt_gpu_begin(l->k->context);
    for (unsigned i = 0; i < l->k->accesses; i++) {
        struct access a = access_of(l->k, l->cta, l->index, i);
        host_thread.warp = &l->groups[set_of(l->k, l->cta, i)];
        host_thread.site_base = l->k->bases ? &l->k->bases[i % 2] : NULL;
        if (!(a.odd_only && l->index % 2 == 0))
            do_access(&a);
    }
    return NULL;
}

static void *run_cta(void *data)
{
    struct lane *first = data;
    struct host_warp *groups = calloc(1 << LANES, sizeof *groups);
    struct lane lanes[LANES];
    pthread_t threads[LANES];
    for (unsigned set = 1; set < 1 << LANES; set++) {
        for (unsigned i = 0; i < LANES; i++)
            groups[set].mask |= (set >> i & 1) << lane_numbers[i];
        pthread_barrier_init(&groups[set].meet, NULL, (unsigned)__builtin_popcount(set));
    }
    for (unsigned i = 0; i < LANES; i++) {
        lanes[i] = (struct lane){first->k, first->cta, i, groups};
        pthread_create(&threads[i], NULL, run_lane, &lanes[i]);
    }
    for (unsigned i = 0; i < LANES; i++)
        pthread_join(threads[i], NULL);
    for (unsigned set = 1; set < 1 << LANES; set++)
        pthread_barrier_destroy(&groups[set].meet);
    free(groups);
    return NULL;
}

static void run_kernel(void *data)
{
    struct kernel *k = data;
    struct lane *ctas = calloc(k->ctas, sizeof *ctas);
    pthread_t *threads = calloc(k->ctas, sizeof *threads);
    if (k->before)
        k->before(k);
    for (unsigned i = 0; i < k->ctas; i++) {
        ctas[i] = (struct lane){k, i, 0, NULL};
        pthread_create(&threads[i], NULL, run_cta, &ctas[i]);
    }
    for (unsigned i = 0; i < k->ctas; i++)
        pthread_join(threads[i], NULL);
    free(ctas);
    free(threads);
}

/* ---- launching and checking --------------------------------------------------------------------- */

static void launch(struct kernel *k, struct fake_stream *s, struct mt_trace *t, cudaError_t status)
{
    struct mt_gpu_launch l = {.trace = t, .stream = (cudaStream_t)s, .line = {.kernel = k->name}};
    k->context = mt_gpu()->launch(&l);
    if (!status)
        fake_stream_run(s, run_kernel, k);
    mt_gpu()->issued(&l, status);
}

static void sync_stream(struct fake_stream *s)
{
    fake_stream_wait(s);
    mt_gpu()->synced((cudaStream_t)s, 0, cudaSuccess);
}

static uint64_t cta_word(unsigned cta)
{
    return (uint64_t)(cta % 3) << 32 | (uint64_t)(cta / 3 % 2) << 16 | cta / 6;
}

/* The records of one thread's access: each is found once, behind those of the thread's earlier accesses. */
static void check_access(const struct kernel *k, const struct fake_launch *got, char *used, unsigned cta,
                         unsigned lane, unsigned i, size_t *at)
{
    struct access a = access_of(k, cta, lane, i);
    uint64_t most = (1u << 28) - 1, bytes = a.kind < 2 ? a.size : a.bytes;
    if (!recorded(&a, lane) || a.kind == 4)
        return;
    for (uint64_t done = 0; done < bytes; done += most) {
        uint64_t size = bytes - done < most ? bytes - done : most;
        struct mt_raw_record want = {
            {(uint64_t)(3 + cta % 5) << 32 | a.type << 28 | size, a.address + done, cta_word(cta)}};
        while (*at < got->count && (used[*at] || memcmp(&got->records[*at], &want, sizeof want)))
            (*at)++;
        if (*at == got->count)
            fail_msg("%s: CTA %u, lane %u: access %u (type %u, %lx bytes at %lx) is missing", k->name, cta,
                     lane, i, a.type, size, want.w[1]);
        used[(*at)++] = 1;
    }
}

static void check(const struct kernel *k, const struct fake_launch *got)
{
    uint64_t untraced = 0, total = 0;
    char *used = calloc(got->count + 1, 1);
    assert_string_equal(got->kernel, k->name);
    for (unsigned cta = 0; cta < k->ctas; cta += fake_every)
        for (unsigned lane = 0; lane < LANES; lane++) {
            size_t at = 0;
            for (unsigned i = 0; i < k->accesses; i++) {
                struct access a = access_of(k, cta, lane, i);
                check_access(k, got, used, cta, lane, i, &at);
                untraced += a.kind == 4 && recorded(&a, lane);
            }
        }
    for (size_t i = 0; i < got->count; i++)
        total += (uint64_t)used[i];
    free(used);
    assert_int_equal(got->count, total);
    assert_int_equal(got->line.records, total);
    assert_int_equal(got->line.untraced, untraced);
    assert_int_equal(got->line.status, 0);
}

/* ---- cases -------------------------------------------------------------------------------------- */

static void one_launch(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "one", .ctas = 7, .accesses = 60, .seed = 1};
    size_t n;
    launch(&k, s, t, cudaSuccess);
    sync_stream(s);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    check(&k, got);
    assert_true(got->count > 500 / fake_every);
    mt_gpu()->stream_ends((cudaStream_t)s, t);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* Many launches without waiting, on two streams at once; contexts are lent again and again. */
static void two_streams(void **state)
{
    enum { N = 20 };
    struct fake_stream *s[2] = {fake_stream_new(), fake_stream_new()};
    struct mt_trace *t[2] = {fake_trace_new(), fake_trace_new()};
    static struct kernel k[2][N];
    size_t n;
    for (unsigned i = 0; i < N; i++)
        for (unsigned j = 0; j < 2; j++) {
            k[j][i] = (struct kernel){.ctas = 1 + i % 3, .accesses = i % 10, .seed = 100 * i + j};
            snprintf(k[j][i].name, sizeof k[j][i].name, "k%u.%u", j, i);
            launch(&k[j][i], s[j], t[j], cudaSuccess);
        }
    for (unsigned j = 0; j < 2; j++) {
        sync_stream(s[j]);
        const struct fake_launch *got = fake_trace_launches(t[j], &n);
        assert_int_equal(n, N);
        for (unsigned i = 0; i < N; i++) {
            check(&k[j][i], &got[i]);
            assert_true(!i || got[i].line.seq > got[i - 1].line.seq);
        }
        mt_gpu()->stream_ends((cudaStream_t)s[j], t[j]);
        fake_stream_free(s[j]);
        fake_trace_free(t[j]);
    }
}

/* The second kernel runs and records while the first has not ended: its records wait. */
static struct kernel early;
static pthread_t early_thread;
static void *run_early(void *k)
{
    run_kernel(k);
    return NULL;
}
static void run_early_first(struct kernel *k)
{
    pthread_create(&early_thread, NULL, run_early, &early);
    pthread_join(early_thread, NULL);
}
static void hold_up(void *semaphore)
{
    sem_wait(semaphore);
}
static void let_go(void *semaphore)
{
    sem_post(semaphore);
}
static void nothing(void *data)
{
}

static void overtaking(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "first", .ctas = 2, .accesses = 20, .seed = 5, .before = run_early_first};
    early = (struct kernel){.name = "second", .ctas = 3, .accesses = 80, .seed = 6};
    struct mt_gpu_launch l[2] = {{.trace = t, .stream = (cudaStream_t)s, .line = {.kernel = "first"}},
                                 {.trace = t, .stream = (cudaStream_t)s, .line = {.kernel = "second"}}};
    sem_t hold;
    size_t n;
    k.context = mt_gpu()->launch(&l[0]);
    sem_init(&hold, 0, 0);
    fake_stream_run(s, hold_up, &hold);
    fake_stream_run(s, run_kernel, &k);
    mt_gpu()->issued(&l[0], cudaSuccess);
    early.context = mt_gpu()->launch(&l[1]);
    fake_stream_run(s, nothing, NULL);
    mt_gpu()->issued(&l[1], cudaSuccess);
    sem_post(&hold);
    sync_stream(s);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 2);
    check(&k, &got[0]);
    check(&early, &got[1]);
    fake_stream_free(s);
    fake_trace_free(t);
}

static void not_issued(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel bad = {.name = "bad"}, good = {.name = "good", .ctas = 1, .accesses = 5, .seed = 9};
    struct kernel plain = {.name = "plain", .ctas = 1, .accesses = 5, .seed = 9};
    size_t n;
    unsigned before = fake_untraced();
    launch(&bad, s, t, cudaErrorInvalidConfiguration);
    launch(&good, s, t, cudaSuccess);
    launch(&plain, s, NULL, cudaSuccess);
    assert_null(plain.context); /* and the record functions do nothing */
    sync_stream(s);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    check(&good, got);
    assert_int_equal(fake_untraced(), before + 2);
    assert_false(mt_gpu()->capturing((cudaStream_t)s));
    fake_capturing = 1;
    assert_true(mt_gpu()->capturing((cudaStream_t)s));
    fake_capturing = 0;
    fake_stream_free(s);
    fake_trace_free(t);
}

/* A graph of two kernels and a third that is not traced, launched again and again in two streams in turn
 * without a wait: each launch has its own records, whatever of the next one has come already. */
static void graphs(void **state)
{
    enum { KERNELS = 3, TIMES = 12 };
    struct fake_stream *s[2] = {fake_stream_new(), fake_stream_new()};
    struct mt_trace *t[2] = {fake_trace_new(), fake_trace_new()};
    struct mt_gpu_node *nodes[KERNELS];
    static struct kernel k[TIMES][KERNELS];
    sem_t done[TIMES];
    size_t n;
    unsigned before = fake_untraced();
    for (unsigned i = 0; i < KERNELS; i++)
        assert_non_null(nodes[i] = mt_gpu()->node_new());
    for (unsigned r = 0; r < TIMES; r++) {
        struct mt_gpu_launch l[KERNELS];
        sem_init(&done[r], 0, 0);
        if (r) /* as the API layer's event */
            fake_stream_run(s[r % 2], hold_up, &done[r - 1]);
        for (unsigned i = 0; i < KERNELS; i++) {
            k[r][i] = (struct kernel){.ctas = 1 + (r + i) % 3, .accesses = r % 4 * 5, .seed = 50 * r + i};
            snprintf(k[r][i].name, sizeof k[r][i].name, "n%u.%u", r, i);
            k[r][i].context = mt_gpu()->node_context(nodes[i]);
            l[i] = (struct mt_gpu_launch){.trace = i < 2 ? t[r % 2] : NULL,
                                          .stream = (cudaStream_t)s[r % 2],
                                          .line = {.kernel = k[r][i].name}};
        }
        mt_gpu()->graph_launch(nodes, l, KERNELS);
        for (unsigned i = 0; i < KERNELS; i++)
            fake_stream_run(s[r % 2], run_kernel, &k[r][i]);
        mt_gpu()->graph_issued(nodes, l, KERNELS, cudaSuccess);
        fake_stream_run(s[r % 2], let_go, &done[r]);
    }
    for (unsigned i = 0; i < KERNELS; i++)
        mt_gpu()->node_free(nodes[i]); /* while they run */
    for (unsigned j = 0; j < 2; j++) {
        sync_stream(s[j]);
        const struct fake_launch *got = fake_trace_launches(t[j], &n);
        assert_int_equal(n, TIMES / 2 * 2);
        for (unsigned i = 0; i < n; i++)
            check(&k[i / 2 * 2 + j][i % 2], &got[i]);
    }
    assert_int_equal(fake_untraced(), before + TIMES);
    for (unsigned j = 0; j < 2; j++) {
        mt_gpu()->stream_ends((cudaStream_t)s[j], t[j]);
        fake_stream_free(s[j]);
        fake_trace_free(t[j]);
    }
}

static void graphs_without_write_value(void **state)
{
    fake_no_write_value = 1;
    graphs(state);
    fake_no_write_value = 0;
}

/* A graph that is not launched after all leaves nothing behind; nor do its kernels record anywhere then. */
static void graph_not_issued(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct mt_gpu_node *node = mt_gpu()->node_new();
    struct kernel k = {.name = "stray", .ctas = 1, .accesses = 20, .seed = 3};
    struct mt_gpu_launch l = {.trace = t, .stream = (cudaStream_t)s, .line = {.kernel = "refused"}};
    size_t n;
    mt_gpu()->graph_launch(&node, &l, 1);
    mt_gpu()->graph_issued(&node, &l, 1, cudaErrorInvalidValue);
    k.context = mt_gpu()->node_context(node);
    fake_stream_run(s, run_kernel, &k);
    struct kernel good = {.name = "good", .ctas = 1, .accesses = 20, .seed = 9};
    launch(&good, s, t, cudaSuccess);
    sync_stream(s);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    check(&good, got);
    assert_true(mt_gpu()->node_idle(node, 0));
    mt_gpu()->node_free(node);
    mt_gpu()->stream_ends((cudaStream_t)s, t);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* Records of each site of two files whose bases are these; [0]: of no site. */
static void count_sites(const struct kernel *k, const uint32_t base[2], unsigned count[], uint32_t most)
{
    for (unsigned cta = 0; cta < k->ctas; cta += fake_every)
        for (unsigned lane = 0; lane < LANES; lane++)
            for (unsigned i = 0; i < k->accesses; i++) {
                struct access a = access_of(k, cta, lane, i);
                uint32_t site = base[i % 2] ? base[i % 2] + 11 + (uint32_t)a.kind : 0;
                assert_true(site < most);
                if (recorded(&a, lane) && a.kind != 4)
                    count[site] +=
                        a.kind < 2 ? 1 : (unsigned)((a.bytes + MT_RAW_MAX_SIZE - 1) / MT_RAW_MAX_SIZE);
            }
}

/* The code of two files is one program (-fgpu-rdc): before its first launch on a device, and when that was
 * reset, each file's code gets to know its base. Where one of the files cannot, its records have no site. */
static void sites_of_files(void **state)
{
    static uint32_t of_cpu_image;
    static struct mt_image_head heads[2] = {
        {.nsites = 20, .site_base = &of_cpu_image, .site_variable = "first"},
        {.nsites = 30, .site_base = &of_cpu_image, .site_variable = "second"}};
    static struct mt_image images[2] = {{.head = &heads[0], .site_base = 100, .peer = &images[1]},
                                        {.head = &heads[1], .site_base = 200}};
    enum { SITES = 300, TIMES = 3 };
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "linked", .ctas = 3, .accesses = 60, .seed = 21, .bases = fake_variables};
    size_t n;
    if (fake_compact) {
        for (unsigned i = 0; i < TIMES; i++) {
            const uint32_t want_base[2] = {100, i < 2 ? 200 : 0};
            unsigned want[SITES] = {0}, have[SITES] = {0};
            fake_variable_names[0] = "first";
            fake_variable_names[1] = i < 2 ? "second" : NULL;
            fake_variables[0] = fake_variables[1] = MT_SITE_UNKNOWN;
            fake_report[0] = 0;
            for (unsigned twice = 0; twice < 2; twice++) {
                struct mt_gpu_launch l = {.image = images,
                                          .symbol = &k,
                                          .trace = t,
                                          .stream = (cudaStream_t)s,
                                          .line = {.kernel = k.name}};
                k.context = mt_gpu()->launch(&l);
                fake_stream_run(s, run_kernel, &k);
                mt_gpu()->issued(&l, cudaSuccess);
                sync_stream(s);
            }
            const struct fake_launch *got = fake_trace_launches(t, &n);
            assert_int_equal(n, 2 * i + 2);
            check(&k, &got[n - 1]);
            for (size_t r = 0; r < got[n - 1].count; r++) {
                assert_true(got[n - 1].sites[r] < SITES);
                have[got[n - 1].sites[r]]++;
            }
            count_sites(&k, want_base, want, SITES);
            assert_memory_equal(have, want, sizeof want);
            assert_true((strstr(fake_report, "linked: sites") != NULL) == (i == 2));
            mt_gpu()->reset();
        }
    }
    mt_gpu()->stream_ends((cudaStream_t)s, t);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* The compiler found no room for its context: no trace, counted, and the user hears why. */
static void no_room(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct mt_image_kernel kernel = {.flags = MT_KERNEL_TRACED | MT_KERNEL_GPU_UNTRACED};
    struct mt_gpu_launch l = {
        .trace = t, .kernel = &kernel, .stream = (cudaStream_t)s, .line = {.kernel = "full"}};
    size_t n;
    unsigned before = fake_untraced();
    assert_null(mt_gpu()->launch(&l));
    mt_gpu()->issued(&l, cudaSuccess);
    mt_gpu()->synced((cudaStream_t)s, 0, cudaSuccess);
    assert_int_equal(fake_untraced(), before + 1);
    fake_trace_launches(t, &n);
    assert_int_equal(n, 0);
    assert_non_null(strstr(fake_report, "full is not traced"));
    fake_stream_free(s);
    fake_trace_free(t);
}

static void without_write_value(void **state)
{
    fake_no_write_value = 1;
    one_launch(state);
    fake_no_write_value = 0;
}

/* The device fails: the wait ends, what had come stands in the trace, which is not complete. */
static void device_dies(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "dies", .ctas = 1, .accesses = 10, .seed = 3};
    size_t n;
    fake_drop_marks = 1;
    launch(&k, s, t, cudaSuccess);
    fake_stream_wait(s);
    fake_stream_error = cudaErrorIllegalAddress;
    mt_gpu()->synced((cudaStream_t)s, 0, cudaSuccess);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    assert_int_equal(got->line.status, cudaErrorIllegalAddress);
    assert_true(got->line.records > got->count); /* counts as incomplete */
    assert_non_null(strstr(fake_report, "did not end"));
    fake_drop_marks = 0;
    fake_stream_error = cudaSuccess;
    fake_stream_free(s);
    fake_trace_free(t);
}

/* The program's own wait fails. Errors that say nothing of the device end nothing; others end the stream's
 * launches. */
static void wait_fails(void **state)
{
    struct fake_stream *s[2] = {fake_stream_new(), fake_stream_new()};
    struct mt_trace *t[2] = {fake_trace_new(), fake_trace_new()};
    struct kernel k[2] = {{.name = "lost", .ctas = 1, .accesses = 10, .seed = 3},
                          {.name = "lost, too", .ctas = 1, .accesses = 10, .seed = 4}};
    size_t n;
    fake_drop_marks = 1;
    for (unsigned i = 0; i < 2; i++) {
        launch(&k[i], s[i], t[i], cudaSuccess);
        fake_stream_wait(s[i]);
    }
    fake_report[0] = 0;
    mt_gpu()->synced((cudaStream_t)s[0], 0, cudaErrorInvalidResourceHandle);
    assert_string_equal(fake_report, "");
    mt_gpu()->synced(NULL, 1, cudaErrorLaunchFailure); /* another device's: this one is well */
    assert_string_equal(fake_report, "");
    mt_gpu()->synced((cudaStream_t)s[0], 0, cudaErrorLaunchFailure);
    assert_non_null(strstr(fake_report, "did not end"));
    const struct fake_launch *got = fake_trace_launches(t[0], &n);
    assert_int_equal(n, 1);
    assert_int_equal(got->line.status, cudaErrorLaunchFailure);
    assert_true(got->count > 0 && got->line.records > got->count);
    fake_stream_error = cudaErrorLaunchFailure;
    mt_gpu()->synced(NULL, 1, cudaErrorLaunchFailure);
    got = fake_trace_launches(t[1], &n);
    assert_int_equal(n, 1);
    assert_int_equal(got->line.status, cudaErrorLaunchFailure);
    fake_drop_marks = 0;
    fake_stream_error = cudaSuccess;
    for (unsigned i = 0; i < 2; i++) {
        fake_stream_free(s[i]);
        fake_trace_free(t[i]);
    }
}

/* The device is reset after a launch that nobody waited for, and used again: it is set up anew. */
static void is_reset(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k[3] = {{.name = "before", .ctas = 2, .accesses = 30, .seed = 4},
                          {.name = "after", .ctas = 2, .accesses = 30, .seed = 5},
                          {.name = "again", .ctas = 3, .accesses = 30, .seed = 6}};
    size_t n;
    for (unsigned i = 0; i < 3; i++) {
        launch(&k[i], s, t, cudaSuccess);
        mt_gpu()->reset();
    }
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 3);
    for (unsigned i = 0; i < 3; i++)
        check(&k[i], &got[i]);
    mt_gpu()->reset(); /* not in use */
    mt_gpu()->stream_ends((cudaStream_t)s, t);
    fake_stream_free(s);
    fake_trace_free(t);
}

static void at_exit(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "late", .ctas = 2, .accesses = 30, .seed = 4};
    size_t n;
    launch(&k, s, t, cudaSuccess);
    mt_gpu()->finish(); /* the program never waited */
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    check(&k, got);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* With an argument n, every n-th CTA is traced; with two, into compact traces. */
int main(int argc, char **argv)
{
    fake_compact = argc > 2;
    fake_every = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_launch),       cmocka_unit_test(two_streams),
        cmocka_unit_test(overtaking),       cmocka_unit_test(not_issued),
        cmocka_unit_test(at_exit),          cmocka_unit_test(without_write_value),
        cmocka_unit_test(device_dies),      cmocka_unit_test(no_room),
        cmocka_unit_test(wait_fails),       cmocka_unit_test(is_reset),
        cmocka_unit_test(graphs),           cmocka_unit_test(graphs_without_write_value),
        cmocka_unit_test(graph_not_issued), cmocka_unit_test(sites_of_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
