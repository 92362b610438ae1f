/* Cases of test_path: graphs, code of several files, several devices, waits for some of what runs. */
#include "path.h"
#include "format/packet.h"
#include "gpu/cuda.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A graph of two kernels, a third that is not to be traced and a fourth that can only run without record
 * calls, launched again and again in two streams in turn without a wait: each launch has its own records,
 * whatever of the next one has come already. */
void graphs(void **state)
{
    enum { KERNELS = 4, TIMES = 12 };
    struct fake_stream *s[2] = {fake_stream_new(), fake_stream_new()};
    struct mt_trace *t[2] = {fake_trace_new(), fake_trace_new()};
    struct mt_gpu_node *nodes[KERNELS];
    static struct kernel k[TIMES][KERNELS];
    sem_t done[TIMES];
    size_t n;
    unsigned before = fake_untraced();
    for (unsigned i = 0; i < 3; i++)
        assert_non_null(nodes[i] = mt_gpu()->node_new());
    nodes[3] = NULL;
    for (unsigned r = 0; r < TIMES; r++) {
        struct mt_gpu_launch l[KERNELS];
        sem_init(&done[r], 0, 0);
        if (r) /* as the API layer's event */
            fake_stream_run(s[r % 2], hold_up, &done[r - 1]);
        for (unsigned i = 0; i < KERNELS; i++) {
            k[r][i] = (struct kernel){.ctas = 1 + (r + i) % 3, .accesses = r % 4 * 5, .seed = 50 * r + i};
            snprintf(k[r][i].name, sizeof k[r][i].name, "n%u.%u", r, i);
            k[r][i].context = nodes[i] ? mt_gpu()->node_context(nodes[i]) : NULL;
            l[i] = (struct mt_gpu_launch){.trace = i != 2 ? t[r % 2] : NULL,
                                          .stream = (cudaStream_t)s[r % 2],
                                          .line = {.kernel = k[r][i].name}};
        }
        mt_gpu()->graph_launch(nodes, l, KERNELS);
        for (unsigned i = 0; i < KERNELS; i++)
            fake_stream_run(s[r % 2], run_kernel, &k[r][i]);
        mt_gpu()->graph_issued(nodes, l, KERNELS, cudaSuccess);
        fake_stream_run(s[r % 2], let_go, &done[r]);
    }
    for (unsigned i = 0; i < 3; i++)
        mt_gpu()->node_free(nodes[i]); /* while they run */
    for (unsigned j = 0; j < 2; j++) {
        sync_stream(s[j], t[j]);
        const struct fake_launch *got = fake_trace_launches(t[j], &n);
        assert_int_equal(n, TIMES / 2 * 2);
        for (unsigned i = 0; i < n; i++)
            check(&k[i / 2 * 2 + j][i % 2], &got[i]);
        assert_int_equal(fake_missed(t[j]), TIMES / 2);
    }
    assert_int_equal(fake_untraced(), before + 2 * TIMES);
    for (unsigned j = 0; j < 2; j++) {
        mt_gpu()->stream_ends((cudaStream_t)s[j], t[j]);
        fake_stream_free(s[j]);
        fake_trace_free(t[j]);
    }
}

void graphs_without_write_value(void **state)
{
    fake_no_write_value = 1;
    graphs(state);
    fake_no_write_value = 0;
}

/* A graph that is not launched after all leaves nothing behind; nor do its kernels record anywhere then. */
void graph_not_issued(void **state)
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
    sync_stream(s, t);
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

static void run_once(struct kernel *k, const struct mt_image *image, struct fake_stream *s,
                     struct mt_trace *t)
{
    struct mt_gpu_launch l = {
        .image = image, .symbol = k, .trace = t, .stream = (cudaStream_t)s, .line = {.kernel = k->name}};
    k->context = mt_gpu()->launch(&l);
    fake_stream_run(s, run_kernel, k);
    mt_gpu()->issued(&l, cudaSuccess);
    sync_stream(s, t);
}

enum { SITES = 300 };

/* Launches the kernel twice: the sites of the second launch are those, and the user was told of unknown ones
 * or not. */
static void check_sites(struct kernel *k, const struct mt_image *image, const uint32_t base[2], int told)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    unsigned want[SITES] = {0}, have[SITES] = {0};
    size_t n;
    fake_report[0] = 0;
    run_once(k, image, s, t);
    run_once(k, image, s, t);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 2);
    check(k, &got[1]);
    for (size_t i = 0; i < got[1].count; i++) {
        assert_true(got[1].sites[i] < SITES);
        have[got[1].sites[i]]++;
    }
    count_sites(k, base, want, SITES);
    assert_memory_equal(have, want, sizeof want);
    assert_int_equal(strstr(fake_report, ": sites") != NULL, told);
    mt_gpu()->reset();
    mt_gpu()->stream_ends((cudaStream_t)s, t);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* The code of two files is one program (-fgpu-rdc): before its first launch on a device, and when that was
 * reset, each file's code gets to know its base. Where one of the files cannot, its records have no site. Nor
 * have those of a file alone whose code for this GPU makes other accesses. */
void sites_of_files(void **state)
{
    static uint32_t of_cpu_image;
    static struct mt_image_head heads[2] = {
        {.nsites = 20, .site_base = &of_cpu_image, .site_variable = "first"},
        {.nsites = 30, .site_base = &of_cpu_image, .site_variable = "second"}};
    static struct mt_image images[2] = {{.head = &heads[0], .site_base = 100, .peer = &images[1]},
                                        {.head = &heads[1], .site_base = 200}};
    static struct mt_image_head alone_head = {.nsites = 20, .site_variable = "first"};
    static struct mt_image alone = {.head = &alone_head, .site_base = 250};
    struct kernel k = {.name = "linked", .ctas = 3, .accesses = 60, .seed = 21, .bases = fake_variables};
    struct kernel single = {.name = "alone", .ctas = 2, .accesses = 60, .seed = 22};
    if (!fake_compact)
        return;
    for (unsigned i = 0; i < 3; i++) {
        fake_variable_names[0] = "first";
        fake_variable_names[1] = i < 2 ? "second" : NULL;
        fake_variables[0] = fake_variables[1] = MT_SITE_UNKNOWN;
        check_sites(&k, images, (uint32_t[]){100, i < 2 ? 200 : 0}, i == 2);
    }
    check_sites(&single, &alone, (uint32_t[]){250, 250}, 0);
    fake_variable_names[0] = "of another architecture";
    check_sites(&single, &alone, (uint32_t[]){0, 0}, 1);
}

/* ---- several devices, waits for some of what runs ------------------------------------------------- */

#define EACH 12
struct host {
    int device;
    struct fake_stream *s;
    struct mt_trace *t;
    struct kernel k[EACH];
};

static void *use_device(void *data)
{
    struct host *h = data;
    mt_cuda()->SetDevice(h->device);
    for (unsigned i = 0; i < EACH; i++) {
        h->k[i] = (struct kernel){.name = "same", .ctas = 1 + i % 3, .accesses = 20, .seed = i};
        launch(&h->k[i], h->s, h->t, cudaSuccess);
        if (i % 4 == 3)
            synced(NULL, NULL, cudaSuccess);
    }
    sync_stream(h->s, h->t);
    return NULL;
}

/* A thread per device, the same kernels on both at once; then a reset of the one,
 * which the other survives. */
void two_devices(void **state)
{
    static struct host h[2];
    pthread_t threads[2];
    size_t n;
    for (int i = 0; i < 2; i++) {
        h[i].device = i;
        h[i].s = fake_stream_new();
        h[i].t = fake_trace_new();
        pthread_create(&threads[i], NULL, use_device, &h[i]);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < 2; i++) {
        const struct fake_launch *got = fake_trace_launches(h[i].t, &n);
        assert_int_equal(n, EACH);
        for (unsigned j = 0; j < EACH; j++)
            check(&h[i].k[j], &got[j]);
    }
    mt_gpu()->reset(); /* device 0, this thread's */
    for (unsigned i = 0; i < 2; i++) {
        struct kernel k = {.name = "later", .ctas = 2, .accesses = 20, .seed = i};
        mt_cuda()->SetDevice((int)i);
        launch(&k, h[i].s, h[i].t, cudaSuccess);
        sync_stream(h[i].s, h[i].t);
        check(&k, &fake_trace_launches(h[i].t, &n)[EACH]);
    }
    mt_cuda()->SetDevice(0);
    for (unsigned i = 0; i < 2; i++) {
        mt_gpu()->stream_ends((cudaStream_t)h[i].s, h[i].t);
        fake_stream_free(h[i].s);
        fake_trace_free(h[i].t);
    }
}

/* A kernel on device 1 that does not end before the program says so holds up nobody who waits for something
 * else: device 0, its reset, another stream of the device, an event before it in its own stream. */
void others_run(void **state)
{
    struct fake_stream *s[3] = {fake_stream_new(), fake_stream_new(), fake_stream_new()};
    struct mt_trace *t[3] = {fake_trace_new(), fake_trace_new(), fake_trace_new()};
    struct kernel k[4] = {{.name = "before", .ctas = 1, .accesses = 20, .seed = 31},
                          {.name = "runs on", .ctas = 2, .accesses = 20, .seed = 32},
                          {.name = "beside", .ctas = 2, .accesses = 20, .seed = 33},
                          {.name = "on device 0", .ctas = 2, .accesses = 20, .seed = 34}};
    sem_t go;
    size_t n;
    sem_init(&go, 0, 0);
    fake_report[0] = 0;
    mt_cuda()->SetDevice(1);
    launch(&k[0], s[0], t[0], cudaSuccess);
    struct mt_gpu_point event = mt_gpu()->point((cudaStream_t)s[0], t[0], 0);
    fake_stream_run(s[0], hold_up, &go);
    launch(&k[1], s[0], t[0], cudaSuccess);
    mt_gpu()->synced(&event, cudaSuccess);
    check(&k[0], fake_trace_launches(t[0], &n));
    launch(&k[2], s[1], t[1], cudaSuccess);
    sync_stream(s[1], t[1]);
    check(&k[2], fake_trace_launches(t[1], &n));
    mt_cuda()->SetDevice(0);
    launch(&k[3], s[2], t[2], cudaSuccess);
    synced(NULL, NULL, cudaSuccess);
    check(&k[3], fake_trace_launches(t[2], &n));
    mt_gpu()->reset();
    assert_string_equal(fake_report, "");
    sem_post(&go);
    sync_stream(s[0], t[0]);
    const struct fake_launch *got = fake_trace_launches(t[0], &n);
    assert_int_equal(n, 2);
    check(&k[1], &got[1]);
    for (unsigned i = 0; i < 3; i++) {
        mt_gpu()->stream_ends((cudaStream_t)s[i], t[i]);
        fake_stream_free(s[i]);
        fake_trace_free(t[i]);
    }
}
