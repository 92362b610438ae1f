/* Stream capture on the CPU device: what becomes of what is put into a captured stream, and CUDA's errors. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include "graph.h"

static void *launch_and_wait(void *p)
{
    cudaStream_t s = stream();
    OK(step(p, 0, s));
    OK(cudaStreamSynchronize(s));
    return NULL;
}

TEST(capture)
{
    unsigned *p = words(8), *h = words(2), calls = 0;
    cudaStream_t s = stream(), t = stream();
    cudaEvent_t fork = event(), join = event();
    enum cudaStreamCaptureStatus status;
    cudaGraph_t g, inside;
    cudaGraphNode_t found[16];
    const cudaGraphNode_t *tips;
    unsigned long long id;
    size_t n;
    pthread_t thread;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(p, 0, 4, s));
    for (unsigned i = 0; i < 3; i++)
        OK(step(p, i, s)); /* `i` of now */
    OK(cudaEventRecord(fork, s));
    OK(cudaStreamWaitEvent(t, fork, 0));
    OK(step(p, 3, t));
    OK(cudaLaunchHostFunc(s, count_up, &calls));
    OK(cudaStreamIsCapturing(t, &status));
    WANT(status == cudaStreamCaptureStatusActive);
    OK(cudaEventRecord(join, t));
    OK(cudaStreamWaitEvent(s, join, 0));
    OK(cudaStreamGetCaptureInfo(s, &status, &id, &inside, &tips, NULL, &n));
    WANT(status == cudaStreamCaptureStatusActive && n == 2 && count_nodes(inside) == 6);
    OK(cudaMemcpyAsync(h, p, 8, cudaMemcpyDefault, s));
    pthread_create(&thread, NULL, launch_and_wait, p + 4); /* others are not disturbed */
    pthread_join(thread, NULL);
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaStreamIsCapturing(s, &status));
    WANT(status == cudaStreamCaptureStatusNone && g == inside);
    OK(cudaStreamIsCapturing(t, &status));
    WANT(status == cudaStreamCaptureStatusNone);
    OK(cudaDeviceSynchronize());
    WANT(p[0] == 0 && calls == 0 && p[4] == 1); /* nothing of it has run */
    OK(cudaGraphGetEdges(g, NULL, NULL, NULL, &n));
    WANT(count_nodes(g) == 7 && n == 7); /* 0-1-2-3, 3-4, 3-5, both-6 */
    n = 16;
    OK(cudaGraphGetNodes(g, found, &n));
    n = 8;
    OK(cudaGraphNodeGetDependencies(found[6], found + 8, NULL, &n));
    WANT(n == 2);
    cudaGraphExec_t x = ready(g);
    for (unsigned i = 0; i < 8; i++) {
        OK(cudaGraphLaunch(x, i % 2 ? s : t));
        OK(cudaDeviceSynchronize());
        WANT(p[0] == 4 && p[1] == 0 && h[0] == 4 && calls == i + 1);
    }
    /* events that are nodes, not edges */
    EXPECT(cudaErrorInvalidValue, cudaEventRecordWithFlags(fork, s, cudaEventRecordExternal));
    EXPECT(cudaErrorInvalidValue, cudaStreamWaitEvent(s, fork, cudaEventWaitExternal));
    OK(cudaEventRecord(join, s));
    OK(cudaStreamBeginCapture(t, cudaStreamCaptureModeGlobal));
    OK(cudaStreamWaitEvent(t, join, cudaEventWaitExternal));
    OK(cudaEventRecordWithFlags(fork, t, cudaEventRecordExternal));
    OK(cudaStreamEndCapture(t, &g));
    WANT(count_nodes(g) == 2);
    OK(cudaGraphLaunch(ready(g), t));
    OK(cudaEventSynchronize(fork));
}

/* Each in a capture of its own, which must be invalid afterwards when CUDA says so. */
static void capture_broken(cudaStream_t s, cudaError_t at_the_end)
{
    cudaGraph_t g = (cudaGraph_t)1;
    enum cudaStreamCaptureStatus status;
    EXPECT(at_the_end, cudaStreamEndCapture(s, &g));
    WANT(!g);
    OK(cudaStreamIsCapturing(s, &status));
    WANT(status == cudaStreamCaptureStatusNone);
}

static void *end_elsewhere(void *s)
{
    cudaGraph_t g;
    EXPECT(cudaErrorStreamCaptureWrongThread, cudaStreamEndCapture(s, &g));
    return NULL;
}

TEST(capture_errors)
{
    unsigned *p = words(8);
    void *d;
    cudaStream_t s = stream(), t = stream(), blocking;
    cudaEvent_t e = event(), before = event();
    cudaGraph_t g;
    pthread_t thread;
    enum cudaStreamCaptureMode mode;
    enum cudaStreamCaptureStatus status;
    OK(cudaMalloc(&d, 64));
    OK(cudaStreamCreate(&blocking));
    EXPECT(cudaErrorIllegalState, cudaStreamEndCapture(s, &g));
    EXPECT(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    EXPECT(cudaErrorIllegalState, cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    EXPECT(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(s));
    EXPECT(cudaErrorStreamCaptureInvalidated, step(p, 0, s));
    OK(cudaStreamIsCapturing(s, &status));
    WANT(status == cudaStreamCaptureStatusInvalidated);
    capture_broken(s, cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    EXPECT(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(s));
    capture_broken(s, cudaErrorStreamCaptureInvalidated);
    /* a graph cannot be launched into it, but beside it */
    OK(cudaGraphCreate(&g, 0));
    add_zero(g, NULL, p + 1);
    cudaGraphExec_t zero = ready(g);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    OK(cudaGraphLaunch(zero, t));
    OK(cudaStreamSynchronize(t));
    EXPECT(cudaErrorStreamCaptureUnsupported, cudaGraphLaunch(zero, s));
    EXPECT(cudaErrorStreamCaptureInvalidated, cudaGraphLaunch(zero, s));
    capture_broken(s, cudaErrorStreamCaptureInvalidated);
    OK(cudaGraphLaunch(zero, s));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    EXPECT(cudaErrorStreamCaptureUnsupported, cudaDeviceSynchronize());
    capture_broken(s, cudaErrorStreamCaptureInvalidated);
    /* calls that may synchronise: by mode of the capture, and of the thread */
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    EXPECT(cudaErrorStreamCaptureUnsupported, cudaMalloc(&d, 64));
    capture_broken(s, cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    EXPECT(cudaErrorStreamCaptureUnsupported, cudaMemcpy(p, p + 2, 4, cudaMemcpyDefault));
    capture_broken(s, cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    OK(cudaMalloc(&d, 64));
    OK(cudaStreamEndCapture(s, &g));
    mode = cudaStreamCaptureModeRelaxed;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    WANT(mode == cudaStreamCaptureModeGlobal);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaMalloc(&d, 64));
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    WANT(mode == cudaStreamCaptureModeRelaxed);
    /* the legacy stream would depend on a captured one */
    OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
    EXPECT(cudaErrorStreamCaptureImplicit, step(p, 0, 0));
    capture_broken(blocking, cudaErrorStreamCaptureInvalidated);
    /* forks that do not come back, and ends in the wrong place */
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(step(p, 0, s));
    OK(cudaEventRecord(e, s));
    OK(cudaStreamWaitEvent(t, e, 0));
    OK(step(p, 1, t));
    EXPECT(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(t, &g));
    pthread_create(&thread, NULL, end_elsewhere, s);
    pthread_join(thread, NULL);
    capture_broken(s, cudaErrorStreamCaptureUnjoined);
    EXPECT(cudaErrorCapturedEvent, cudaEventQuery(e));
    EXPECT(cudaErrorCapturedEvent, cudaEventSynchronize(e));
    OK(cudaEventRecord(e, s)); /* a record outside makes it an event again */
    OK(cudaEventSynchronize(e));
    /* a stream may be destroyed before the end of the capture, joined or not */
    for (int joined = 0; joined < 2; joined++) {
        cudaStream_t gone = stream();
        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
        OK(step(p, 0, s));
        OK(cudaEventRecord(e, s));
        OK(cudaStreamWaitEvent(gone, e, 0));
        OK(step(p, 1, gone));
        OK(cudaEventRecord(e, gone));
        OK(cudaStreamDestroy(gone));
        if (joined)
            OK(cudaStreamWaitEvent(s, e, 0));
        if (joined)
            OK(cudaStreamEndCapture(s, &g));
        else
            capture_broken(s, cudaErrorStreamCaptureUnjoined);
    }
    /* two captures, and events of outside */
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaStreamBeginCapture(t, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(e, s));
    EXPECT(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(t, e, 0));
    capture_broken(s, cudaErrorStreamCaptureInvalidated);
    capture_broken(t, cudaErrorStreamCaptureInvalidated);
    OK(cudaEventRecord(before, t));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    EXPECT(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(s, before, 0));
    capture_broken(s, cudaErrorStreamCaptureInvalidated);
    OK(cudaDeviceSynchronize());
    WANT(p[0] == 0);
}

#if CUDART_VERSION >= 12030
/* While a capture is under way neither its graph nor a node of it may go; afterwards both may. */
TEST(graph_of_a_capture)
{
    unsigned *p = words(1);
    cudaGraph_t mine, got = NULL;
    cudaStream_t s = stream(), t = stream();
    OK(cudaGraphCreate(&mine, 0));
    cudaGraphNode_t first = add_zero(mine, NULL, p);
    OK(cudaStreamBeginCaptureToGraph(s, mine, &first, NULL, 1, cudaStreamCaptureModeRelaxed));
    OK(step(p, 0, s));
    EXPECT(cudaErrorInvalidValue, cudaGraphDestroy(mine));
    EXPECT(cudaErrorInvalidValue, cudaGraphDestroyNode(first));
    /* A second capture into it that cannot begin, and one that ends first, change nothing. */
    EXPECT(cudaErrorIllegalState,
           cudaStreamBeginCaptureToGraph(s, mine, NULL, NULL, 0, cudaStreamCaptureModeRelaxed));
    OK(cudaStreamBeginCaptureToGraph(t, mine, NULL, NULL, 0, cudaStreamCaptureModeRelaxed));
    OK(cudaStreamEndCapture(t, NULL));
    EXPECT(cudaErrorInvalidValue, cudaGraphDestroy(mine));
    OK(cudaStreamEndCapture(s, &got));
    WANT(got == mine && count_nodes(mine) == 2);
    /* Of a graph that the program does not have otherwise the result is needed. */
    OK(cudaStreamBeginCapture(t, cudaStreamCaptureModeRelaxed));
    EXPECT(cudaErrorInvalidValue, cudaStreamEndCapture(t, NULL));
    OK(cudaStreamEndCapture(t, &got));
    OK(cudaGraphDestroy(got));
    cudaGraphExec_t x = ready(mine);
    OK(cudaGraphLaunch(x, s));
    OK(cudaStreamSynchronize(s));
    WANT(*p == 1);
    OK(cudaGraphDestroyNode(first));
    OK(cudaGraphDestroy(mine));
    /* The stream that began it goes: the graph is the program's again. */
    OK(cudaGraphCreate(&mine, 0));
    OK(cudaStreamBeginCaptureToGraph(s, mine, NULL, NULL, 0, cudaStreamCaptureModeRelaxed));
    OK(cudaStreamDestroy(s));
    OK(cudaGraphDestroy(mine));
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capture),
        cmocka_unit_test(capture_errors),
#if CUDART_VERSION >= 12030
        cmocka_unit_test(graph_of_a_capture),
#endif
    };
    program_streams = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
