/* fork while other threads are inside the API: the child finds no lock taken and no table half changed.
 * Nothing here depends on who gets how far when: that the child comes to its end is all that is asked. */
#include "api.h"
#include "util.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { FORKS = 60, SECONDS = 60 };
static _Atomic int stop;

/* Each of these is a round of calls that leaves nothing behind. 0, or the number of what went wrong. */
static int fork_events(void)
{
    cudaEvent_t e;
    float ms;
    if (cudaEventCreate(&e) || cudaEventRecord(e, 0) || cudaEventSynchronize(e) ||
        cudaEventElapsedTime(&ms, e, e))
        return 1;
    return cudaEventDestroy(e) ? 2 : 0;
}

static int fork_captures(void)
{
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphExec_t x;
    static char to[64], from[64];
    if (cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) ||
        cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed) ||
        cudaMemcpyAsync(to, from, sizeof to, cudaMemcpyHostToHost, s) || cudaStreamEndCapture(s, &g))
        return 3;
    if (cudaGraphInstantiate(&x, g, 0) || cudaGraphLaunch(x, s) || cudaStreamSynchronize(s))
        return 4;
    return cudaGraphExecDestroy(x) || cudaGraphDestroy(g) || cudaStreamDestroy(s) ? 5 : 0;
}

static int fork_memory(void)
{
    void *p, *q;
    struct cudaPointerAttributes a;
    if (cudaMalloc(&p, 1000) || cudaMalloc(&q, 3 << 20) || cudaMemset(p, 1, 1000) ||
        cudaPointerGetAttributes(&a, p))
        return 6;
    return cudaFree(p) || cudaFree(q) ? 7 : 0;
}

static int fork_pools(void)
{
    cudaMemPool_t pool;
    void *p;
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice}};
    if (cudaMemPoolCreate(&pool, &props) || cudaMallocFromPoolAsync(&p, 5000, pool, 0) ||
        cudaFreeAsync(p, 0) || cudaStreamSynchronize(0))
        return 8;
    return cudaMemPoolDestroy(pool) ? 9 : 0;
}

static int (*const rounds[])(void) = {fork_events, fork_captures, fork_memory, fork_pools};
enum { ROUNDS = sizeof rounds / sizeof *rounds };

static void *fork_hammer(void *arg)
{
    long rc = 0;
    while (!stop && !rc)
        rc = rounds[(size_t)arg]();
    return (void *)rc;
}

static int fork_everything(void)
{
    int rc = 0;
    alarm(SECONDS); /* a lock that is taken for ever */
    for (int i = 0; i < ROUNDS && !rc; i++)
        rc = rounds[i]();
    return rc;
}

static void among_threads(void **state)
{
    pthread_t thread[ROUNDS];
    void *rc;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* its allocator keeps in the child the locks that other threads had */
#endif
    fresh_dir();
    for (size_t i = 0; i < ROUNDS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fork_hammer, (void *)i), 0);
    for (int i = 0; i < FORKS; i++) {
        int status;
        pid_t pid = fork();
        if (!pid)
            _exit(fork_everything());
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status) {
            stop = 1;
            fail_msg("child %d: %s %d", i, WIFSIGNALED(status) ? "signal" : "exit code",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
    }
    stop = 1;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_join(thread[i], &rc);
        assert_int_equal((long)rc, 0);
    }
    assert_int_equal(fork_everything(), 0);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(among_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
