// Numbers of cuRAND's host functions next to those of the device functions of curand_kernel.h, where NVIDIA's
// guide says which is which: XORWOW in the old order, Philox, Sobol.
#include <cstdio>
#include <curand.h>
#include <curand_kernel.h>

enum { N = 8192, STREAMS = 4096, SEED = 1234 };

// Number n of the sequence is number n / STREAMS of stream n % STREAMS.
__global__ void xorwow(unsigned *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandStateXORWOW_t state;
    curand_init(SEED, i, 0, &state);
    for (int n = i; n < N; n += STREAMS)
        out[n] = curand(&state);
}

__global__ void sobol(unsigned *out, curandDirectionVectors32_t *vectors)
{
    int dimension = threadIdx.x;
    curandStateSobol32_t state;
    curand_init(vectors[dimension], 0, &state);
    for (int n = 0; n < N / 2; n++)
        out[dimension * (N / 2) + n] = curand(&state);
}

// Four numbers of each stream.
__global__ void philox(uint4 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandStatePhilox4_32_10_t state;
    curand_init(SEED, i, 0, &state);
    out[i] = curand4(&state);
}

static unsigned host[N], device[N], *of_host, *of_device;
static int kernel_compare(const char *what)
{
    int same = 0;
    cudaMemcpy(host, of_host, sizeof host, cudaMemcpyDeviceToHost);
    cudaMemcpy(device, of_device, sizeof device, cudaMemcpyDeviceToHost);
    for (int i = 0; i < N; i++)
        same += host[i] == device[i];
    if (same != N)
        std::printf("%s: %d of %d numbers are the same\n", what, same, N);
    return same == N;
}

int main()
{
    curandGenerator_t g;
    curandDirectionVectors32_t *vectors, *there;
    int good = 1;
    cudaMalloc(&of_host, sizeof host);
    cudaMalloc(&of_device, sizeof device);
    good &= !curandCreateGenerator(&g, CURAND_RNG_PSEUDO_XORWOW) &&
            !curandSetPseudoRandomGeneratorSeed(g, SEED) &&
            !curandSetGeneratorOrdering(g, CURAND_ORDERING_PSEUDO_LEGACY) && !curandGenerate(g, of_host, N);
    xorwow<<<STREAMS / 256, 256>>>(of_device);
    good &= kernel_compare("XORWOW");
    good &= !curandDestroyGenerator(g) && !curandCreateGenerator(&g, CURAND_RNG_QUASI_SOBOL32) &&
            !curandSetQuasiRandomGeneratorDimensions(g, 2) && !curandGenerate(g, of_host, N) &&
            !curandGetDirectionVectors32(&vectors, CURAND_DIRECTION_VECTORS_32_JOEKUO6);
    cudaMalloc(&there, 2 * sizeof *there);
    cudaMemcpy(there, vectors, 2 * sizeof *there, cudaMemcpyHostToDevice);
    sobol<<<1, 2>>>(of_device, there);
    good &= kernel_compare("Sobol");
    good &= !curandDestroyGenerator(g) && !curandCreateGenerator(&g, CURAND_RNG_PSEUDO_PHILOX4_32_10) &&
            !curandSetPseudoRandomGeneratorSeed(g, SEED) && !curandGenerate(g, of_host, N);
    philox<<<N / 4 / 256, 256>>>((uint4 *)of_device);
    good &= kernel_compare("Philox");
    return !good;
}
