// Histogram of bytes, with atomics on global memory only, and with one histogram per CTA in shared memory
// that is added to the global one at the end. Usage: histogram [bytes] [CTAs] [threads per CTA]
#include "../common/example.h"
#include <vector>

constexpr int BINS = 256;

__global__ void histogram_global(const unsigned char *data, unsigned *bins, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[data[i]], 1);
}

__global__ void histogram_shared(const unsigned char *data, unsigned *bins, int n)
{
    __shared__ unsigned local[BINS];
    for (int b = threadIdx.x; b < BINS; b += blockDim.x)
        local[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i]], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += blockDim.x)
        atomicAdd(&bins[b], local[b]);
}

int main(int argc, char **argv)
{
    int n = argument(argc, argv, 1, "bytes", 60000, 1, 1 << 28);
    int ctas = argument(argc, argv, 2, "CTAs", 12, 1, 1 << 16);
    int threads = argument(argc, argv, 3, "threads per CTA", 128, 1, 1024);

    std::vector<unsigned char> data(n);
    unsigned expected[BINS] = {}, seed = 11;
    for (unsigned char &v : data) {
        v = (next_random(&seed) % 256) & (next_random(&seed) % 256);
        expected[v]++;
    }
    unsigned char *d_data;
    unsigned *d_global, *d_shared, global[BINS], shared[BINS];
    CHECK(cudaMalloc(&d_data, n));
    CHECK(cudaMalloc(&d_global, sizeof global));
    CHECK(cudaMalloc(&d_shared, sizeof shared));
    CHECK(cudaMemcpy(d_data, data.data(), n, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_global, 0, sizeof global));
    CHECK(cudaMemset(d_shared, 0, sizeof shared));
    histogram_global<<<ctas, threads>>>(d_data, d_global, n);
    CHECK_LAUNCH();
    histogram_shared<<<ctas, threads>>>(d_data, d_shared, n);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(global, d_global, sizeof global, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(shared, d_shared, sizeof shared, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_data));
    CHECK(cudaFree(d_global));
    CHECK(cudaFree(d_shared));

    Tally with_global = {}, with_shared = {};
    for (int i = 0; i < n; i++) {
        with_global.load(1);
        with_global.atomic(sizeof(unsigned));
        with_shared.load(1);
    }
    for (int cta = 0; cta < ctas; cta++)
        for (int b = 0; b < BINS; b++)
            with_shared.atomic(sizeof(unsigned));
    long wrong = 0;
    for (int b = 0; b < BINS; b++)
        wrong += (global[b] != expected[b]) + (shared[b] != expected[b]);
    print_count("histogram_global", with_global);
    print_count("histogram_shared", with_shared);
    return verdict("histogram", wrong);
}
