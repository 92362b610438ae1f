/* The queues of streams under many threads, with everything but kernels: this test also runs under the
 * sanitizers, where device code cannot. Each operation checks that what it must follow has been done. */
#define _GNU_SOURCE
#include "api.h"
#include "util.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 6, ROUNDS = 200 };

struct turn {
    unsigned *counter, expected, *wrong;
};

/* In stream order this one is next. */
static void queue_next(void *data)
{
    struct turn *t = data;
    if (*t->counter != t->expected)
        ++*t->wrong;
    *t->counter = t->expected + 1;
}

/* Each thread has streams of its own; their operations are in one order by events alone. */
static void *events_thread(void *arg)
{
    cudaStream_t s[3];
    cudaEvent_t e;
    unsigned counter = 0, wrong = 0;
    struct turn *turn = calloc(ROUNDS, sizeof *turn);
    OK(cudaEventCreate(&e));
    for (int i = 0; i < 3; i++)
        OK(cudaStreamCreateWithFlags(&s[i], i == 2 ? cudaStreamDefault : cudaStreamNonBlocking));
    for (unsigned i = 0; i < ROUNDS; i++) {
        turn[i] = (struct turn){&counter, i, &wrong};
        OK(cudaLaunchHostFunc(s[i % 3], queue_next, &turn[i]));
        OK(cudaEventRecord(e, s[i % 3]));
        OK(cudaStreamWaitEvent(s[(i + 1) % 3], e, 0));
        if (i % 50 == 49)
            OK(cudaEventSynchronize(e));
    }
    OK(cudaEventSynchronize(e));
    assert_int_equal(counter, ROUNDS);
    assert_int_equal(wrong, 0);
    OK(cudaEventDestroy(e));
    for (int i = 0; i < 3; i++)
        OK(cudaStreamDestroy(s[i]));
    free(turn);
    return NULL;
}

/* Copies, fills and host functions of blocking streams among those of the legacy stream. */
static void *legacy_thread(void *arg)
{
    enum { N = 256 };
    unsigned char *d, *pinned, plain[N];
    unsigned counter = 0, wrong = 0;
    struct turn turn[ROUNDS];
    cudaStream_t s;
    OK(cudaMalloc((void **)&d, N));
    OK(cudaMallocHost((void **)&pinned, N));
    OK(cudaStreamCreate(&s));
    for (unsigned i = 0; i < ROUNDS; i++) {
        cudaStream_t here = i % 3 ? s : i % 2 ? cudaStreamLegacy : 0;
        turn[i] = (struct turn){&counter, i, &wrong};
        OK(cudaLaunchHostFunc(here, queue_next, &turn[i]));
        OK(cudaMemsetAsync(d, (int)i, N, here));
        OK(cudaMemcpyAsync(pinned, d, N, cudaMemcpyDeviceToHost, here));
        memset(plain, (int)i + 1, N);
        OK(cudaMemcpyAsync(d, plain, N, cudaMemcpyHostToDevice, here)); /* taken now */
        memset(plain, 0, N);
        if (i % 10 == 9) {
            OK(cudaMemcpy(plain, d, N, cudaMemcpyDeviceToHost));
            OK(cudaStreamSynchronize(here));
            assert_int_equal(plain[N - 1], (unsigned char)(i + 1));
            assert_int_equal(pinned[7], (unsigned char)i);
        }
    }
    OK(cudaDeviceSynchronize());
    assert_int_equal(counter, ROUNDS);
    assert_int_equal(wrong, 0);
    OK(cudaStreamDestroy(s));
    OK(cudaFree(d));
    OK(cudaFreeHost(pinned));
    return NULL;
}

/* Captures in several threads at once, and launches of the graphs. */
static void *graph_thread(void *arg)
{
    unsigned counter = 0, wrong = 0, *d, out = 0;
    struct turn turn[4];
    cudaStream_t s, t;
    cudaEvent_t fork, join;
    cudaGraph_t g;
    cudaGraphExec_t x;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    OK(cudaEventCreate(&fork));
    OK(cudaEventCreate(&join));
    OK(cudaMalloc((void **)&d, 4));
    for (int round = 0; round < 20; round++) {
        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        for (unsigned i = 0; i < 4; i++) {
            turn[i] = (struct turn){&counter, i, &wrong};
            OK(cudaLaunchHostFunc(s, queue_next, &turn[i]));
        }
        OK(cudaEventRecord(fork, s));
        OK(cudaStreamWaitEvent(t, fork, 0));
        OK(cudaMemsetAsync(d, round, 4, t));
        OK(cudaEventRecord(join, t));
        OK(cudaStreamWaitEvent(s, join, 0));
        OK(cudaStreamEndCapture(s, &g));
        OK(cudaGraphInstantiate(&x, g, 0));
        OK(cudaGraphDestroy(g));
        for (int i = 0; i < 5; i++) {
            counter = 0;
            OK(cudaGraphLaunch(x, i % 2 ? s : t));
            OK(cudaStreamSynchronize(i % 2 ? s : t));
            assert_int_equal(counter, 4);
        }
        OK(cudaGraphExecDestroy(x));
        OK(cudaMemcpyAsync(&out, d, 4, cudaMemcpyDeviceToHost, s));
        assert_int_equal(out, 0x01010101u * (unsigned)round);
    }
    assert_int_equal(wrong, 0);
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join));
    OK(cudaStreamDestroy(s));
    OK(cudaStreamDestroy(t));
    OK(cudaFree(d));
    return NULL;
}

static void queue_run(void *(*thread)(void *))
{
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, thread, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    OK(cudaDeviceSynchronize());
}

static void queue_events(void **state)
{
    queue_run(events_thread);
}

static void queue_legacy(void **state)
{
    queue_run(legacy_thread);
}

static void queue_graphs(void **state)
{
    queue_run(graph_thread);
}

/* All kinds at once, and streams of threads that end. */
static void *mixed_thread(void *arg)
{
    static void *(*const kinds[])(void *) = {events_thread, legacy_thread};
    unsigned counter = 0, wrong = 0;
    struct turn turn = {&counter, 0, &wrong};
    OK(cudaLaunchHostFunc(cudaStreamPerThread, queue_next, &turn));
    kinds[(intptr_t)arg % 2](NULL);
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    assert_int_equal(counter, 1);
    return NULL;
}

static void queue_mixed(void **state)
{
    pthread_t t[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, mixed_thread, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_events),
        cmocka_unit_test(queue_legacy),
        cmocka_unit_test(queue_graphs),
        cmocka_unit_test(queue_mixed),
    };
    fresh_dir();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
