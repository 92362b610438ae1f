// Work that only events put into an order. The first kernel waits for the host, so everything is queued
// before anything runs. With an argument: the same through a graph that is captured once
// and launched so many times.
#include "../../../examples/common/example.h"
#include <sched.h>

const int ctas = 4, threads = 32, n = ctas * threads;

__global__ void hold(volatile int *gate)
{
    gate[0] = 1;
    while (gate[1] == 0) {
    }
}

__global__ void produce(int *out, int add)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = i + add;
}

// Each CTA reads what the CTA at the other end of the grid wrote.
__global__ void consume(int *out, const int *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[n - 1 - i] * 2;
}

struct Data {
    int *a, *b, *c, *host;
    cudaStream_t s[3];
    cudaEvent_t e[3];
};

// produce (stream 0) -> copy (stream 1) -> consume (stream 2) -> copy to the host (stream 0)
static void pipeline(Data &d, int add)
{
    produce<<<ctas, threads, 0, d.s[0]>>>(d.a, add);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(d.e[0], d.s[0]));
    CHECK(cudaStreamWaitEvent(d.s[1], d.e[0], 0));
    CHECK(cudaMemcpyAsync(d.b, d.a, n * sizeof(int), cudaMemcpyDeviceToDevice, d.s[1]));
    CHECK(cudaEventRecord(d.e[1], d.s[1]));
    CHECK(cudaStreamWaitEvent(d.s[2], d.e[1], 0));
    consume<<<ctas, threads, 0, d.s[2]>>>(d.c, d.b);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(d.e[2], d.s[2]));
    CHECK(cudaStreamWaitEvent(d.s[0], d.e[2], 0));
    CHECK(cudaMemcpyAsync(d.host, d.c, n * sizeof(int), cudaMemcpyDeviceToHost, d.s[0]));
}

static long wrong(const Data &d, int add)
{
    long bad = 0;
    for (int i = 0; i < n; i++)
        bad += d.host[i] != (n - 1 - i + add) * 2;
    return bad;
}

int main(int argc, char **argv)
{
    int launches = argument(argc, argv, 1, "launches", 0, 0, 100);
    long bad = 0;
    Data d;
    volatile int *gate;
    CHECK(cudaMalloc(&d.a, n * sizeof(int)));
    CHECK(cudaMalloc(&d.b, n * sizeof(int)));
    CHECK(cudaMalloc(&d.c, n * sizeof(int)));
    CHECK(cudaMallocHost(&d.host, n * sizeof(int)));
    CHECK(cudaMallocHost((void **)&gate, 2 * sizeof(int)));
    gate[0] = gate[1] = 0;
    for (int i = 0; i < 3; i++) {
        CHECK(cudaStreamCreateWithFlags(&d.s[i], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&d.e[i], cudaEventDisableTiming));
    }
    if (launches) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CHECK(cudaStreamBeginCapture(d.s[0], cudaStreamCaptureModeGlobal));
        pipeline(d, 5);
        CHECK(cudaStreamEndCapture(d.s[0], &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphDestroy(graph));
        for (int i = 0; i < launches; i++) {
            CHECK(cudaGraphLaunch(exec, d.s[0]));
            CHECK(cudaStreamSynchronize(d.s[0]));
            bad += wrong(d, 5);
            for (int k = 0; k < n; k++)
                d.host[k] = 0;
        }
        CHECK(cudaGraphExecDestroy(exec));
        return verdict("stream_order", bad);
    }
    hold<<<1, 1, 0, d.s[0]>>>(gate);
    CHECK_LAUNCH();
    for (int round = 0; round < 3; round++)
        pipeline(d, round);
    while (gate[0] == 0)
        sched_yield();
    bad += cudaStreamQuery(d.s[2]) != cudaErrorNotReady;
    gate[1] = 1;
    CHECK(cudaDeviceSynchronize());
    return verdict("stream_order", bad + wrong(d, 2));
}
