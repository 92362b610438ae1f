// Vectors and structs whose sectors are known: 4 CTAs of 64 threads, thread i has element i.
#include <cstdio>
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
#include <cub/iterator/cache_modified_input_iterator.cuh>
#include <cuda_fp16.h>

constexpr int CTAS = 4, THREADS = 64, N = CTAS * THREADS;

struct Point { // 12 bytes, at multiples of 4
    float x, y, z;
};

struct Body { // 16 bytes, at multiples of 4
    float x, y, z;
    int kind;
};

struct alignas(16) Aligned { // 16 bytes, at multiples of 16
    float x, y, z;
    int kind;
};

template <typename T> __device__ void copy(const T *in, T *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}

__global__ void floats_4(const float4 *in, float4 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = in[i];
    out[i] = make_float4(v.x + 1, v.y + 1, v.z + 1, v.w + 1);
}

__global__ void doubles_2(const double2 *in, double2 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double2 v = in[i];
    out[i] = make_double2(v.x + 1, v.y + 1);
}

__global__ void ints_4(const int4 *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int4 v = in[i];
    out[i] = v.x + v.y + v.z + v.w;
}

__global__ void halves_2(const __half2 *in, __half2 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __hadd2(in[i], in[i]);
}

__global__ void struct_12(const Point *in, Point *out)
{
    copy(in, out);
}

__global__ void struct_16(const Body *in, Body *out)
{
    copy(in, out);
}

__global__ void struct_aligned(const Aligned *in, Aligned *out)
{
    copy(in, out);
}

// CUB asks for the alignment and has a way for each answer. LLVM makes one of both, in which the four
// integers are not known to be aligned: four loads.
__global__ void cub_ints(const int *in, int *out)
{
    int items[4];
    cub::BlockLoad<int, THREADS, 4, cub::BLOCK_LOAD_VECTORIZE>().Load(
        const_cast<int *>(in) + blockIdx.x * THREADS * 4, items);
    for (int &v : items)
        v++;
    cub::BlockStore<int, THREADS, 4, cub::BLOCK_STORE_VECTORIZE>().Store(out + blockIdx.x * THREADS * 4,
                                                                         items);
}

// The loads are inline asm here: ld.global.nc.v4.u32.
__global__ void cub_cached(const int *in, int *out)
{
    int items[4];
    cub::CacheModifiedInputIterator<cub::LOAD_LDG, int> from(const_cast<int *>(in) +
                                                             blockIdx.x * THREADS * 4);
    cub::BlockLoad<int, THREADS, 4, cub::BLOCK_LOAD_VECTORIZE>().Load(from, items);
    cub::BlockStore<int, THREADS, 4, cub::BLOCK_STORE_VECTORIZE>().Store(out + blockIdx.x * THREADS * 4,
                                                                         items);
}

int main()
{
    char *in, *out;
    cudaMalloc(&in, N * 16);
    cudaMalloc(&out, N * 16);
    cudaMemset(in, 1, N * 16);
    floats_4<<<CTAS, THREADS>>>((float4 *)in, (float4 *)out);
    doubles_2<<<CTAS, THREADS>>>((double2 *)in, (double2 *)out);
    ints_4<<<CTAS, THREADS>>>((int4 *)in, (int *)out);
    halves_2<<<CTAS, THREADS>>>((__half2 *)in, (__half2 *)out);
    struct_12<<<CTAS, THREADS>>>((Point *)in, (Point *)out);
    struct_16<<<CTAS, THREADS>>>((Body *)in, (Body *)out);
    struct_aligned<<<CTAS, THREADS>>>((Aligned *)in, (Aligned *)out);
    cub_cached<<<CTAS, THREADS>>>((int *)in, (int *)out);
    cub_ints<<<CTAS, THREADS>>>((int *)in, (int *)out);
    int got[N * 4];
    cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost);
    int wrong = cudaDeviceSynchronize() != cudaSuccess;
    for (int v : got)
        wrong += v != 0x01010102;
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
