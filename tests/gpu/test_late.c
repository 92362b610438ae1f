/* Cases of test_path: sinks, packets and marks that take their time. Patience is 300 ms here. */
#include "path.h"
#include "host_warp.h"
#include "gpu/cuda.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A sink so slow that a kernel has long ended when its records are there: as long as they come,
 * none is given up. */
void slow_sink(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k[2] = {{.name = "one", .ctas = 2, .accesses = 25, .seed = 1},
                          {.name = "two", .ctas = 2, .accesses = 25, .seed = 2}};
    size_t n;
    unsigned before = fake_reports;
    fake_sink_us = fake_compact ? 8000 : 50000; /* per record, or group of them */
    for (unsigned i = 0; i < 2; i++)
        launch(&k[i], s, t, cudaSuccess);
    sync_stream(s, t);
    fake_sink_us = 0;
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 2);
    for (unsigned i = 0; i < 2; i++)
        check(&k[i], &got[i]);
    assert_int_equal(fake_reports, before);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* ---- fork ----------------------------------------------------------------------------------------- */

/* The child has one thread, and whatever the others had locked stays locked there. */
static void late_child(struct fake_stream *s, struct mt_trace *t)
{
    struct mt_gpu_point p;
    fake_forked = 1;
    alarm(20);
    p = mt_gpu()->point((cudaStream_t)s, t, 0);
    mt_gpu()->synced(&p, cudaSuccess);
    p = mt_gpu()->point((cudaStream_t)s, NULL, 1);
    mt_gpu()->synced(&p, cudaErrorLaunchFailure);
    mt_gpu()->stream_ends((cudaStream_t)s, t);
    mt_gpu()->reset();
    mt_gpu()->finish();
    _exit(7);
}

/* A program forks while a kernel has yet to run: the child waits for nothing, and the parent's trace is
 * whole. */
void in_a_child(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "forked", .ctas = 2, .accesses = 25, .seed = 3};
    sem_t held;
    size_t n;
    int status = 0;
    sem_init(&held, 0, 0);
    fake_stream_run(s, hold_up, &held);
    launch(&k, s, t, cudaSuccess);
    pid_t child = fork();
    if (child == 0)
        late_child(s, t);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    let_go(&held);
    sync_stream(s, t);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    check(&k, &got[0]);
    fake_stream_free(s);
    fake_trace_free(t);
    sem_destroy(&held);
}

/* ---- what comes when a launch was given up -------------------------------------------------------- */

static sem_t go_on, stalled;
static void wait_to_go_on(void)
{
    host_thread.stall = NULL; /* each lane waits once */
    sem_post(&stalled);
    sem_wait(&go_on);
}

static void *run_late(void *k)
{
    run_kernel(k);
    return NULL;
}

/* Words with this lap's tag that are not a packet. */
static void tear_ring(struct kernel *k)
{
    const struct mt_gpu_context *c = (void *)((uintptr_t)k->context & ~(uintptr_t)MT_CONTEXT_IN_PARTS);
    const struct mt_gpu_ring *r = (const void *)(uintptr_t)c->rings; /* CTA 0's; its first lap */
    struct mt_slot *slots = (void *)(uintptr_t)r->slots;
    for (unsigned i = 0; i < MT_SLOT_WORDS; i++)
        __atomic_store_n(&slots->w[i], mt_packet_tag(0, r->mask + 1), __ATOMIC_RELAXED);
    /* Before the kernel writes there, the reader must have seen it. */
    const uint64_t *tail = (const void *)(uintptr_t)r->tail;
    for (unsigned i = 0; i < 3000000 && __atomic_load_n(tail, __ATOMIC_ACQUIRE) != MT_RING_CLOSED; i++)
        usleep(100);
}

static void late_nothing(void *data)
{
}

/* A seed with which all lanes make the first access of CTA 0 together. */
static void choose_seed(struct kernel *k)
{
    for (unsigned lanes = 0; lanes < LANES; k->seed += lanes < LANES) {
        struct access first = access_of(k, 0, 0, 0);
        lanes = 0;
        for (unsigned lane = 0; lane < LANES; lane++) {
            struct access a = access_of(k, 0, lane, 0);
            lanes += a.kind < 2 && recorded(&a, lane) && a.type == first.type && a.size == first.size;
        }
    }
}

/* A kernel of which a packet has its place and is not written when the launch is given up. Those who write
 * wait: the caller lets them go on. */
static pthread_t launch_late(struct kernel *k, struct fake_stream *s, struct mt_trace *t)
{
    struct mt_gpu_launch l = {.trace = t, .stream = (cudaStream_t)s, .line = {.kernel = k->name}};
    pthread_t thread;
    sem_init(&go_on, 0, 0);
    sem_init(&stalled, 0, 0);
    k->stall = wait_to_go_on;
    k->context = mt_gpu()->launch(&l);
    assert_non_null(k->context);
    pthread_create(&thread, NULL, run_late, k);
    sem_wait(&stalled);
    fake_stream_run(s, late_nothing, NULL);
    mt_gpu()->issued(&l, cudaSuccess);
    return thread;
}

static void late_release(pthread_t thread)
{
    for (unsigned i = 0; i < 3 * LANES; i++) /* each waits for each of its stores but once */
        sem_post(&go_on);
    pthread_join(thread, NULL);
}

/* Eight launches at once. */
void borrow_all(struct fake_stream *s, struct mt_trace *t)
{
    static struct kernel k[8];
    sem_t hold;
    size_t before, n;
    fake_trace_launches(t, &before);
    sem_init(&hold, 0, 0);
    fake_stream_run(s, hold_up, &hold);
    for (unsigned i = 0; i < 8; i++) {
        k[i] = (struct kernel){.ctas = 1, .accesses = 9, .seed = 40 + i};
        snprintf(k[i].name, sizeof k[i].name, "all %u", i);
        launch(&k[i], s, t, cudaSuccess);
        if (!k[i].context)
            fail_msg("launch %u has no context: %s", i, fake_report);
    }
    sem_post(&hold);
    sync_stream(s, t);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, before + 8);
    for (unsigned i = 0; i < 8; i++)
        check(&k[i], &got[before + i]);
}

/* Records that come after their launch was given up are in no other launch's trace, and their context is lent
 * again when they have come. */
void stale_packets(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel old = {.name = "old", .ctas = 1, .accesses = 1};
    struct kernel young = {.name = "young", .ctas = 1, .accesses = 30, .seed = 12};
    size_t n;
    if (fake_every > 1)
        skip();
    choose_seed(&old);
    mt_cuda()->SetDevice(11); /* that owes nothing from other cases */
    pthread_t thread = launch_late(&old, s, t);
    sync_stream(s, t);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    assert_int_equal(got->count, 0);
    assert_int_equal(got->line.records, LANES); /* so the trace is not complete */
    assert_non_null(strstr(fake_report, "old: the GPU made 6 records, 0 arrived"));
    launch(&young, s, t, cudaSuccess);
    late_release(thread);
    sync_stream(s, t);
    got = fake_trace_launches(t, &n);
    assert_int_equal(n, 2);
    check(&young, &got[1]);
    borrow_all(s, t);
    mt_cuda()->SetDevice(0);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* ---- rings ------------------------------------------------------------------------------------------ */

/* A second device is set up while kernels of the first one wait for the reader: the driver's allocation waits
 * for them, and the reader must not wait for the allocation. */
void set_up_beside(void **state)
{
    enum { N = 4 };
    struct fake_stream *s = fake_stream_new(), *other = fake_stream_new();
    struct mt_trace *t = fake_trace_new(), *of_other = fake_trace_new();
    static struct kernel k[N], on_other = {.name = "other", .ctas = 1, .accesses = 9, .seed = 30};
    size_t n;
    fake_sink_us = fake_compact ? 300 : 2000;
    for (unsigned i = 0; i < N; i++) {
        k[i] = (struct kernel){.name = "k", .ctas = 2, .accesses = 60, .seed = 60 + i};
        launch(&k[i], s, t, cudaSuccess);
    }
    fake_allocation_waits_for = s;
    mt_cuda()->SetDevice(13);
    launch(&on_other, other, of_other, cudaSuccess);
    fake_allocation_waits_for = NULL;
    sync_stream(other, of_other);
    mt_cuda()->SetDevice(0);
    sync_stream(s, t);
    fake_sink_us = 0;
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, N);
    for (unsigned i = 0; i < N; i++)
        check(&k[i], &got[i]);
    check(&on_other, fake_trace_launches(of_other, &n));
    fake_stream_free(s);
    fake_stream_free(other);
    fake_trace_free(t);
    fake_trace_free(of_other);
}

/* The program wrote into a ring. Kernels that wait for room in it go on and end, and so does the program; the
 * trace says that it is not whole, and the device's next launches run without. */
void damaged_ring(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "torn", .ctas = 1, .accesses = 60, .seed = 70, .before = tear_ring};
    struct kernel next = {.name = "next", .ctas = 1, .accesses = 60, .seed = 71};
    size_t n;
    unsigned before = fake_missed(t);
    mt_cuda()->SetDevice(14);
    launch(&k, s, t, cudaSuccess);
    sync_stream(s, t);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    assert_true(got->count < got->line.records);
    launch(&next, s, t, cudaSuccess);
    assert_null(next.context);
    sync_stream(s, t);
    assert_int_equal(fake_missed(t), before + 1);
    mt_cuda()->SetDevice(0);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* ---- marks ------------------------------------------------------------------------------------------ */

/* The mark of a launch comes after it was given up, from the driver's thread: the launch is not there any
 * more, and its context can be lent again. */
void late_mark(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "slow", .ctas = 1, .accesses = 10, .seed = 21};
    sem_t hold;
    size_t n;
    mt_cuda()->SetDevice(12);
    fake_no_write_value = 1;
    sem_init(&hold, 0, 0);
    fake_stream_run(s, hold_up, &hold);
    launch(&k, s, t, cudaSuccess);
    fake_stream_error = cudaErrorLaunchTimeout;
    synced(s, t, cudaSuccess);
    fake_stream_error = cudaSuccess;
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    assert_int_equal(got->line.status, cudaErrorLaunchTimeout);
    sem_post(&hold);
    fake_stream_wait(s);
    fake_no_write_value = 0;
    borrow_all(s, t);
    mt_cuda()->SetDevice(0);
    fake_stream_free(s);
    fake_trace_free(t);
}

static void launch_node(struct mt_gpu_node *node, struct kernel *k, struct fake_stream *s, struct mt_trace *t)
{
    struct mt_gpu_launch l = {.trace = t, .stream = (cudaStream_t)s, .line = {.kernel = k->name}};
    k->context = mt_gpu()->node_context(node);
    mt_gpu()->graph_launch(&node, &l, 1);
    fake_stream_run(s, run_kernel, k);
    mt_gpu()->graph_issued(&node, &l, 1, cudaSuccess);
}

/* The same of a kernel of a graph, whose counters are the same in each launch: what the one that was given up
 * did is not counted as the next one's. */
void late_mark_of_node(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "slow", .ctas = 1, .accesses = 10, .seed = 21},
                  next = {.name = "next", .ctas = 2, .accesses = 20, .seed = 22};
    sem_t hold;
    size_t n;
    mt_cuda()->SetDevice(15);
    struct mt_gpu_node *node = mt_gpu()->node_new();
    sem_init(&hold, 0, 0);
    fake_stream_run(s, hold_up, &hold);
    launch_node(node, &k, s, t);
    fake_stream_error = cudaErrorLaunchTimeout;
    synced(s, t, cudaSuccess);
    fake_stream_error = cudaSuccess;
    sem_post(&hold);
    launch_node(node, &next, s, t);
    sync_stream(s, t);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 2);
    assert_int_equal(got[0].line.status, cudaErrorLaunchTimeout);
    assert_true(got[1].line.records == got[1].count);
    check(&next, &got[1]);
    mt_gpu()->node_free(node);
    borrow_all(s, t);
    mt_cuda()->SetDevice(0);
    fake_stream_free(s);
    fake_trace_free(t);
}
