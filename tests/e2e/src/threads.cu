// Several host threads, each with its own stream, buffer and amount of work.
#include "../../../examples/common/example.h"
#include <thread>
#include <vector>

__global__ void add_up(int *p, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < rounds; k++)
        atomicAdd(&p[i], k);
}

static const int ctas = 4, threads = 32, n = ctas * threads, repeats = 20;
static long wrong[4];

static void work(int self)
{
    cudaStream_t stream;
    int *p, out[n];
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&p, sizeof out));
    CHECK(cudaMemsetAsync(p, 0, sizeof out, stream));
    for (int r = 0; r < repeats; r++) {
        add_up<<<ctas, threads, 0, stream>>>(p, self + 1);
        CHECK_LAUNCH();
    }
    CHECK(cudaMemcpyAsync(out, p, sizeof out, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int v : out)
        wrong[self] += v != repeats * (self * (self + 1) / 2);
    CHECK(cudaFree(p));
    CHECK(cudaStreamDestroy(stream));
}

int main()
{
    std::vector<std::thread> all;
    for (int t = 0; t < 4; t++)
        all.emplace_back(work, t);
    for (std::thread &t : all)
        t.join();
    return verdict("threads", wrong[0] + wrong[1] + wrong[2] + wrong[3]);
}
