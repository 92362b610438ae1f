/* Shared and local memory: each access in a line of its own, whose bank conflicts, hazards and counts are
 * known (cases_onchip.py).
 * "// name" is what the cases call the line. */
#include <cstdio>
#include <cuda_pipeline.h>
#include <cooperative_groups.h>
#include <cuda/barrier>
#include "../../../examples/common/example.h"
namespace cg = cooperative_groups;

extern __shared__ __align__(16) char memory[];

/* ---- banks: one warp ---- */

__device__ __forceinline__ float4 four_at(const float4 *p)
{
    float4 f;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" // fours
                 : "=f"(f.x), "=f"(f.y), "=f"(f.z), "=f"(f.w)
                 : "r"((unsigned)__cvta_generic_to_shared(p)));
    return f;
}

__device__ __forceinline__ float4 four_at(const float4 *p, long offset)
{
    float4 f;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4+0];" // every second four
                 : "=f"(f.x), "=f"(f.y), "=f"(f.z), "=f"(f.w)
                 : "l"(__cvta_generic_to_shared(p) + offset));
    return f;
}

__global__ void banks(float *out, double *doubles, float4 *fours, const unsigned *where)
{
    float *s = (float *)memory;
    double *d = (double *)memory;
    float4 *v = (float4 *)memory;
    unsigned *u = (unsigned *)memory;
    unsigned char *b = (unsigned char *)memory;
    unsigned t = threadIdx.x;
    s[t] = t; // row
    __syncwarp();
    s[t * 32] = t; // column
    __syncwarp();
    s[t * 33] = t; // padded
    __syncwarp();
    s[t * 2] = t; // every second
    __syncwarp();
    out[t] = s[7] + s[9];   // one word
    out[t] = s[t / 2 * 32]; // pairs of a column
    out[t] = s[where[t]];   // anywhere
    __syncwarp();
    d[t] = t; // doubles
    __syncwarp();
    d[t * 2] = t; // every second double
    __syncwarp();
    float4 f = four_at(&v[t]);
    fours[t] = f;
    f = four_at(&v[t * 2], 0);
    fours[t] = f;
    __syncwarp();
    b[t] = t; // bytes
    __syncwarp();
    if (t % 2)
        s[t * 32] = t; // half of a column
    __syncwarp();
    atomicAdd(&u[0], 1); // atomics at one word
    __syncwarp();
    atomicAdd(&u[t], 1); // atomics of a row
    __syncwarp();
    doubles[t] = d[31 - t]; // doubles, backwards
}

/* ---- hazards: four warps, or as many as the launch has ---- */

__global__ void ordered(int *out)
{
    __shared__ int s[128];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int got = s[127 - threadIdx.x];
    __syncthreads();
    s[threadIdx.x] = got;
    __syncthreads();
    out[threadIdx.x] = s[127 - threadIdx.x];
}

__global__ void unordered(int *out)
{
    __shared__ int s[128];
    s[threadIdx.x] = threadIdx.x;            // unordered store
    out[threadIdx.x] = s[127 - threadIdx.x]; // unordered load
}

__global__ void summed_by_one(int *out)
{
    __shared__ int s[128];
    s[threadIdx.x] = threadIdx.x; // summed store
    if (threadIdx.x == 0) {
        int sum = 0;
#pragma unroll 1
        for (int i = 0; i < 128; i++)
            sum += s[i]; // summed load
        *out = sum;
    }
}

__global__ void lanes_in_order(int *out)
{
    __shared__ int s[128];
    s[threadIdx.x] = threadIdx.x;
    __syncwarp();
    out[threadIdx.x] = s[threadIdx.x ^ 1];
}

__global__ void lanes_unordered(int *out)
{
    __shared__ int s[128];
    s[threadIdx.x] = threadIdx.x;          // lanes store
    out[threadIdx.x] = s[threadIdx.x ^ 1]; // lanes load
}

__global__ void overwritten(int *out)
{
    __shared__ int s[32];
    s[threadIdx.x % 32] = threadIdx.x; // overwritten
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x % 32];
}

__global__ void counted(int *out)
{
    __shared__ int s[4];
    if (threadIdx.x < 4)
        s[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&s[threadIdx.x % 4], 1);
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x % 4];
}

__global__ void bytes_beside(unsigned char *out)
{
    __shared__ unsigned char s[128]; /* neighbours of a word are of one warp; the last lane of a warp writes
                                        its neighbour's, too */
    s[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = s[threadIdx.x];
}

__global__ void halves_meet(unsigned short *out)
{
    __shared__ unsigned char s[256];
    s[2 * threadIdx.x + 1] = threadIdx.x; // halves store
    if (threadIdx.x)
        out[threadIdx.x] = s[2 * threadIdx.x - 1]; // halves load
}

/* Warps 0 and 1 hand data to warps 2 and 3 through barriers of their own. */
__global__ void handed_over(int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        if (t < 64) {
            asm volatile("bar.sync 2, 128;" ::: "memory"); /* empty */
            s[t] = t + i;
            asm volatile("bar.arrive 1, 128;" ::: "memory"); /* full */
        } else {
            asm volatile("bar.arrive 2, 128;" ::: "memory");
            asm volatile("bar.sync 1, 128;" ::: "memory");
            out[t] = s[127 - t];
        }
    }
}

__global__ void tiles(int *out)
{
    __shared__ int s[128];
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    s[threadIdx.x] = threadIdx.x;
    tile.sync();
    int got = s[threadIdx.x ^ 8];
    cg::this_thread_block().sync();
    s[127 - threadIdx.x] = got;
    cg::this_thread_block().sync();
    out[threadIdx.x] = s[threadIdx.x];
}

__global__ void copied(const int4 *in, int *out)
{
    __shared__ int4 s[32];
    if (threadIdx.x < 32)
        __pipeline_memcpy_async(&s[threadIdx.x], &in[threadIdx.x], 16); // copied store
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = ((int *)s)[127 - threadIdx.x];
}

/* ---- what the last access alone does not show ---- */

__global__ void set_late(int *out)
{
    __shared__ int n;
    if (threadIdx.x == 0)
        n = 0;        // set
    atomicAdd(&n, 1); // added
    __syncthreads();
    out[threadIdx.x] = n;
}

__global__ void read_early(int *out)
{
    __shared__ int bins[4];
    if (threadIdx.x < 4)
        bins[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 5)
        atomicAdd(&bins[threadIdx.x / 32], 1);    // binned
    if (threadIdx.x < 4 && bins[threadIdx.x] > 1) // read out
        out[threadIdx.x] = 1;
}

__global__ void neighbours_first(int *out)
{
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncwarp();
    int next = ((volatile int *)s)[(threadIdx.x + 1) % 32]; // next
    int mine = ((volatile int *)s)[threadIdx.x];            // mine
    s[threadIdx.x] = next + mine;                           // changed
    __syncwarp();
    out[threadIdx.x] = s[threadIdx.x];
}

__global__ void two_warps(int *out)
{
    __shared__ int s;
    if (threadIdx.x == 0)
        s = 1;
    __syncthreads();
    int got = *(volatile int *)&s; // both warps
    __syncwarp();
    if (threadIdx.x == 63)
        s = 2; // by one
    out[threadIdx.x] = got;
}

/* Full and empty as barriers in memory: nothing races. */
__global__ void through_memory(int *out)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier full, empty;
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t == 0) {
        init(&full, 128);
        init(&empty, 128);
    }
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        if (t < 64) {
            if (i)
                empty.arrive_and_wait();
            s[t] = t + i;
            (void)full.arrive();
        } else {
            full.arrive_and_wait();
            out[t] = s[127 - t];
            if (!i)
                (void)empty.arrive();
        }
    }
}

/* ---- local memory ---- */

__global__ void local(int *out, int k)
{
    int a[8];
#pragma unroll 1
    for (int i = 0; i < 8; i++)
        a[i] = i * k; // local store
    int sum = 0;
#pragma unroll 1
    for (int i = 0; i < 12; i++)
        sum += a[(i * k + threadIdx.x) & 7]; // local load
    out[threadIdx.x] = sum;
}

/* A pointer that may lead anywhere. */
__device__ __noinline__ int sum_of(const int *p, int n)
{
    int sum = 0;
#pragma unroll 1
    for (int i = 0; i < n; i++)
        sum += p[i]; // anywhere load
    return sum;
}

__global__ void mixed(int *out, const int *in, int n)
{
    __shared__ int s[4];
    int a[4];
    for (int i = 0; i < 4; i++)
        a[i] = in[i] + threadIdx.x;
    if (threadIdx.x < 4)
        s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = sum_of(in, n) + sum_of(s, n) + sum_of(a, n);
}

int main()
{
    unsigned where[32];
    for (unsigned i = 0; i < 32; i++)
        where[i] = (i * i * 7 + i * 13) % 1024;
    char *out;
    unsigned *there;
    CHECK(cudaMalloc(&out, 1 << 16));
    CHECK(cudaMalloc(&there, sizeof where));
    CHECK(cudaMemset(out, 0, 1 << 16));
    CHECK(cudaMemcpy(there, where, sizeof where, cudaMemcpyHostToDevice));
    int *ints = (int *)out;
    banks<<<2, 32, 8192>>>((float *)out, (double *)out, (float4 *)out, there);
    ordered<<<2, 128>>>(ints);
    unordered<<<2, 128>>>(ints);
    summed_by_one<<<1, 128>>>(ints);
    lanes_in_order<<<1, 128>>>(ints);
    lanes_unordered<<<1, 128>>>(ints);
    overwritten<<<1, 128>>>(ints);
    counted<<<1, 128>>>(ints);
    bytes_beside<<<1, 128>>>((unsigned char *)out);
    halves_meet<<<1, 128>>>((unsigned short *)out);
    handed_over<<<2, 128>>>(ints);
    tiles<<<1, 128>>>(ints);
    copied<<<1, 128>>>((int4 *)out, ints + 1024);
    set_late<<<1, 64>>>(ints);
    read_early<<<1, 128>>>(ints + 2048);
    neighbours_first<<<1, 32>>>(ints);
    two_warps<<<1, 64>>>(ints);
    through_memory<<<1, 128>>>(ints);
    local<<<1, 64>>>(ints, 3);
    mixed<<<1, 64>>>(ints + 1024, ints, 4);
    CHECK(cudaDeviceSynchronize());
    static char back[1 << 16];
    CHECK(cudaMemcpy(back, out, sizeof back, cudaMemcpyDeviceToHost));
    unsigned hash = 0;
    for (unsigned i = 0; i < sizeof back; i++)
        hash = hash * 31 + (unsigned char)back[i];
    printf("%08x\n", hash);
    return 0;
}
