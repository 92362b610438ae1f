// Each GPU has device variables of its own, with their first values, and constants; managed ones are
// everybody's.
#include <cstdio>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t e = call;                                                                                \
        if (e != cudaSuccess)                                                                                \
            return printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(e)), 1;                   \
    } while (0)

__device__ int counter = 100;
__device__ int *place = &counter; // a first value that is an address: this GPU's
__constant__ int step = 1;
__managed__ int everybody;

template <typename T> __device__ T held = 7;

__global__ void count()
{
    atomicAdd(place, step);
    if (threadIdx.x)
        return;
    held<int> += step;
    everybody += step;
}

__global__ void touch(int *other)
{
    other[0] = 5;
}

int main()
{
    int n = 0, at_least = 2;
    CHECK(cudaGetDeviceCount(&n));
    if (n < at_least)
        return puts("one device"), 1;
    int *first = nullptr, sum = 0;
    for (int d = 0; d < n; d++) {
        int mine = 10 * d + 1;
        CHECK(cudaSetDevice(d));
        if (d) // device 0 keeps the first values
            CHECK(cudaMemcpyToSymbol(step, &mine, sizeof mine));
        for (int i = 0; i <= d; i++)
            count<<<1, 4>>>();
        CHECK(cudaDeviceSynchronize());
        sum += (d + 1) * mine;
    }
    for (int d = n - 1; d >= 0; d--) {
        int got = 0, mine = 10 * d + 1, *address = nullptr;
        CHECK(cudaSetDevice(d));
        CHECK(cudaMemcpyFromSymbol(&got, counter, sizeof got));
        if (got != 100 + (d + 1) * 4 * mine)
            return printf("device %d: counter is %d\n", d, got), 1;
        CHECK(cudaMemcpyFromSymbol(&got, held<int>, sizeof got));
        if (got != 7 + (d + 1) * mine)
            return printf("device %d: held is %d\n", d, got), 1;
        CHECK(cudaGetSymbolAddress((void **)&address, counter));
        cudaPointerAttributes a;
        CHECK(cudaPointerGetAttributes(&a, address));
        if (a.device != d || a.type != cudaMemoryTypeDevice)
            return printf("device %d: its variable is of %d\n", d, a.device), 1;
        if (d == 0)
            first = address;
        int *managed = nullptr;
        CHECK(cudaGetSymbolAddress((void **)&managed, everybody));
        if (managed != &everybody)
            return printf("device %d: the managed variable is another one\n", d), 1;
    }
    if (everybody != sum)
        return printf("everybody is %d, not %d\n", everybody, sum), 1;
    // What one device's stream captures is no concern of another's default stream.
    cudaStream_t captured;
    cudaGraph_t graph;
    CHECK(cudaSetDevice(1));
    CHECK(cudaStreamCreate(&captured));
    CHECK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed));
    CHECK(cudaSetDevice(0));
    CHECK(cudaMemset(first, 1, sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(1));
    if (cudaDeviceSynchronize() != cudaErrorStreamCaptureUnsupported)
        return puts("device 1 is waited for while it captures"), 1;
    cudaStreamEndCapture(captured, &graph);
    cudaGetLastError();
    CHECK(cudaStreamDestroy(captured));
    // No peer: device 1 must not touch what is device 0's; then it may.
    CHECK(cudaSetDevice(1));
    CHECK(cudaDeviceEnablePeerAccess(0, 0));
    touch<<<1, 1>>>(first);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceDisablePeerAccess(0));
    touch<<<1, 1>>>(first);
    if (cudaDeviceSynchronize() != cudaErrorIllegalAddress)
        return puts("no access, and no error"), 1;
    puts("ok");
    return 0;
}
