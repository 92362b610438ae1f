// Sum of an array in two ways: shared memory and warp shuffles with one atomic per CTA, and in two launches
// through an array of partial sums. Usage: reduction [elements] [CTAs] [threads per CTA, a multiple of 32]
#include "../common/example.h"
#include <vector>

// The sum over the CTA, in thread 0.
__device__ unsigned sum_of_cta(unsigned value)
{
    __shared__ unsigned warps[32];
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_down_sync(0xffffffffu, value, step);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = value;
    __syncthreads();
    unsigned total = 0;
    if (threadIdx.x == 0)
        for (unsigned w = 0; w < blockDim.x / 32; w++)
            total += warps[w];
    return total;
}

// The sum of a thread's elements: i, i + all threads, …
__device__ unsigned sum_of_thread(const unsigned *in, int n)
{
    unsigned sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    return sum;
}

__global__ void reduce_atomic(const unsigned *in, unsigned *result, int n)
{
    unsigned sum = sum_of_cta(sum_of_thread(in, n));
    if (threadIdx.x == 0)
        atomicAdd(result, sum);
}

__global__ void reduce_partial(const unsigned *in, unsigned *partial, int n)
{
    unsigned sum = sum_of_cta(sum_of_thread(in, n));
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

// Launched with one CTA.
__global__ void reduce_final(const unsigned *partial, unsigned *result, int n)
{
    unsigned sum = sum_of_cta(sum_of_thread(partial, n));
    if (threadIdx.x == 0)
        *result = sum;
}

int main(int argc, char **argv)
{
    int n = argument(argc, argv, 1, "elements", 50000, 1, 1 << 28);
    int ctas = argument(argc, argv, 2, "CTAs", 16, 1, 1 << 16);
    int threads = argument(argc, argv, 3, "threads per CTA", 128, 32, 1024);
    if (threads % 32) {
        fprintf(stderr, "reduction: threads per CTA must be a multiple of 32\n");
        return 2;
    }

    std::vector<unsigned> in(n);
    unsigned seed = 5, expected = 0;
    for (unsigned &v : in) {
        v = next_random(&seed);
        expected += v;
    }
    unsigned *d_in, *d_partial, *d_result, result[2] = {};
    CHECK(cudaMalloc(&d_in, n * sizeof(unsigned)));
    CHECK(cudaMalloc(&d_partial, ctas * sizeof(unsigned)));
    CHECK(cudaMalloc(&d_result, sizeof result));
    CHECK(cudaMemcpy(d_in, in.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_result, 0, sizeof result));
    reduce_atomic<<<ctas, threads>>>(d_in, d_result, n);
    CHECK_LAUNCH();
    reduce_partial<<<ctas, threads>>>(d_in, d_partial, n);
    CHECK_LAUNCH();
    reduce_final<<<1, threads>>>(d_partial, d_result + 1, ctas);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(result, d_result, sizeof result, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_in));
    CHECK(cudaFree(d_partial));
    CHECK(cudaFree(d_result));

    Tally atomic = {}, partial = {}, final = {};
    for (int t = 0; t < ctas * threads; t++) {
        for (int i = t; i < n; i += ctas * threads) {
            atomic.load(sizeof(unsigned));
            partial.load(sizeof(unsigned));
        }
        if (t % threads == 0) {
            atomic.atomic(sizeof(unsigned));
            partial.store(sizeof(unsigned));
        }
    }
    for (int t = 0; t < threads; t++)
        for (int i = t; i < ctas; i += threads)
            final.load(sizeof(unsigned));
    final.store(sizeof(unsigned));
    print_count("reduce_atomic", atomic);
    print_count("reduce_partial", partial);
    print_count("reduce_final", final);
    return verdict("reduction", (result[0] != expected) + (result[1] != expected));
}
