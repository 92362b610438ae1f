// One kernel on two streams at once, and on the default stream. Streams are numbered by their first launch.
#include "../../../examples/common/example.h"
#include <vector>

__global__ void bump(int *p, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < rounds; k++)
        atomicAdd(&p[i], 1);
}

int main()
{
    const int ctas = 8, threads = 64, n = ctas * threads, rounds[3] = {40, 60, 3};
    cudaStream_t streams[3] = {0, 0, 0};
    int *p[3];
    for (int s = 0; s < 3; s++)
        CHECK(cudaMalloc(&p[s], n * sizeof(int)));
    // The first one made is the second one used.
    CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&streams[0], cudaStreamNonBlocking));
    for (int s = 0; s < 3; s++)
        CHECK(cudaMemset(p[s], 0, n * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    for (int repeat = 0; repeat < 4; repeat++)
        for (int s = 0; s < 2; s++)
            bump<<<ctas, threads, 0, streams[s]>>>(p[s], rounds[s]);
    bump<<<ctas, threads>>>(p[2], rounds[2]);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    long wrong = 0;
    for (int s = 0; s < 3; s++) {
        std::vector<int> out(n);
        CHECK(cudaMemcpy(out.data(), p[s], n * sizeof(int), cudaMemcpyDeviceToHost));
        for (int v : out)
            wrong += v != rounds[s] * (s < 2 ? 4 : 1);
        CHECK(cudaFree(p[s]));
    }
    CHECK(cudaStreamDestroy(streams[0]));
    CHECK(cudaStreamDestroy(streams[1]));
    return verdict("streams", wrong);
}
