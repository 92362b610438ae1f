// Sums, scans, histograms, searches: shuffles, shared memory, volatile, atomics.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

template <typename T> __device__ __forceinline__ T across_warp(T x)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1)
        x += __shfl_down_sync(0xffffffff, x, offset);
    return x;
}

template <typename T, unsigned SIZE> __global__ void reduce_unrolled(const T *in, T *out, unsigned n)
{
    __shared__ T part[SIZE];
    unsigned t = threadIdx.x, i = blockIdx.x * SIZE * 2 + t;
    T sum = 0;
    while (i < n) {
        sum += in[i];
        if (i + SIZE < n)
            sum += in[i + SIZE];
        i += SIZE * 2 * gridDim.x;
    }
    part[t] = sum;
    __syncthreads();
    if (SIZE >= 256) {
        if (t < 128)
            part[t] = sum = sum + part[t + 128];
        __syncthreads();
    }
    if (SIZE >= 128) {
        if (t < 64)
            part[t] = sum = sum + part[t + 64];
        __syncthreads();
    }
    if (t < 32) {
        sum += part[t + 32];
        sum = across_warp(sum);
    }
    if (t == 0)
        out[blockIdx.x] = sum;
}
template __global__ void reduce_unrolled<int, 256>(const int *, int *, unsigned);
template __global__ void reduce_unrolled<float, 128>(const float *, float *, unsigned);
template __global__ void reduce_unrolled<double, 64>(const double *, double *, unsigned);

__global__ void reduce_vector(const float4 *in, float *out, int n)
{
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = in[i];
        sum += v.x + v.y + v.z + v.w;
    }
    sum = across_warp(sum);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, sum);
}

__global__ void reduce_volatile(const int *in, int *out)
{
    __shared__ volatile int part[64];
    int t = threadIdx.x;
    part[t] = in[blockIdx.x * 64 + t];
    __syncthreads();
    if (t < 32) {
        part[t] += part[t + 32];
        part[t] += part[t + 16];
        part[t] += part[t + 8];
        part[t] += part[t + 4];
        part[t] += part[t + 2];
        part[t] += part[t + 1];
    }
    if (t == 0)
        out[blockIdx.x] = part[0];
}

__device__ unsigned arrived;

__global__ void reduce_once(const double *in, volatile double *parts, double *out, int n)
{
    __shared__ bool last;
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    double sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    for (int offset = 16; offset; offset /= 2)
        sum += warp.shfl_down(sum, offset);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(&arrived, gridDim.x) == gridDim.x - 1;
    }
    block.sync();
    if (last && threadIdx.x == 0) {
        sum = 0;
        for (int i = 0; i < gridDim.x; i++)
            sum += parts[i];
        *out = sum;
    }
}

__global__ void dot(const double2 *a, const double2 *b, double *out, int n)
{
    double sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += a[i].x * b[i].x + a[i].y * b[i].y;
    sum = across_warp(sum);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, sum);
}

__global__ void scan_steps(const int *in, int *out, int n)
{
    extern __shared__ int both[];
    int t = threadIdx.x, from = 1, to = 0;
    both[t] = t > 0 ? in[t - 1] : 0;
    for (int offset = 1; offset < n; offset *= 2) {
        __syncthreads();
        to = 1 - to;
        from = 1 - to;
        both[to * n + t] =
            t >= offset ? both[from * n + t] + both[from * n + t - offset] : both[from * n + t];
    }
    __syncthreads();
    out[t] = both[to * n + t];
}

__global__ void scan_tree(float *data, float *sums, int n)
{
    __shared__ float part[512];
    int t = threadIdx.x, offset = 1;
    part[2 * t] = data[blockIdx.x * 512 + 2 * t];
    part[2 * t + 1] = data[blockIdx.x * 512 + 2 * t + 1];
    for (int d = 256; d > 0; d >>= 1, offset *= 2) {
        __syncthreads();
        if (t < d)
            part[offset * (2 * t + 2) - 1] += part[offset * (2 * t + 1) - 1];
    }
    if (t == 0) {
        sums[blockIdx.x] = part[511];
        part[511] = 0;
    }
    for (int d = 1; d < 512; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            float v = part[offset * (2 * t + 1) - 1];
            part[offset * (2 * t + 1) - 1] = part[offset * (2 * t + 2) - 1];
            part[offset * (2 * t + 2) - 1] += v;
        }
    }
    __syncthreads();
    data[blockIdx.x * 512 + 2 * t] = part[2 * t];
    data[blockIdx.x * 512 + 2 * t + 1] = part[2 * t + 1];
}

__global__ void scan_uint4(uint4 *out, const uint4 *in, unsigned *totals)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    uint4 v = in[i];
    v.y += v.x;
    v.z += v.y;
    v.w += v.z;
    unsigned sum = v.w;
    for (int offset = 1; offset < 32; offset *= 2) {
        unsigned other = __shfl_up_sync(0xffffffff, sum, offset);
        if (lane >= offset)
            sum += other;
    }
    unsigned before = sum - v.w;
    out[i] = make_uint4(v.x + before, v.y + before, v.z + before, v.w + before);
    if (lane == 31)
        totals[i / 32] = sum;
}

__global__ void histogram_shared(const unsigned *in, unsigned *out, int words)
{
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
        unsigned v = in[i];
        atomicAdd(&bins[v & 255], 1);
        atomicAdd(&bins[v >> 8 & 255], 1);
        atomicAdd(&bins[v >> 16 & 255], 1);
        atomicAdd(&bins[v >> 24], 1);
    }
    __syncthreads();
    atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

__global__ void histogram_colours(const uchar4 *in, int *red, int *green, int *blue)
{
    uchar4 p = in[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(red + p.x, 1);
    atomicAdd(green + p.y, 1);
    atomicAdd(blue + p.z, 1);
}

__global__ void merge_histograms(const unsigned *parts, unsigned *out, int n)
{
    unsigned sum = 0;
    for (int i = 0; i < n; i++)
        sum += parts[blockIdx.x + i * 256];
    out[blockIdx.x] = sum;
}

__global__ void greatest(const float *in, unsigned long long *best, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned key = __float_as_uint(in[i]);
        key = key & 0x80000000 ? ~key : key | 0x80000000;
        atomicMax(best, (unsigned long long)key << 32 | (unsigned)i);
    }
}

struct Extent {
    int least, most;
    long sum;
};

__global__ void extent(const short2 *in, Extent *out, int n)
{
    Extent e = {1 << 30, -(1 << 30), 0};
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        short2 v = in[blockIdx.x * n + i];
        e.least = min(e.least, min((int)v.x, (int)v.y));
        e.most = max(e.most, max((int)v.x, (int)v.y));
        e.sum += v.x + v.y;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = e;
}

__global__ void compact(const int *in, int *out, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, v = i < n ? in[i] : 0, base;
    unsigned keep = __ballot_sync(0xffffffff, v > 0);
    if (lane == 0)
        base = atomicAdd(count, __popc(keep));
    base = __shfl_sync(0xffffffff, base, 0);
    if (v > 0)
        out[base + __popc(keep & ((1u << lane) - 1))] = v;
}

__global__ void segments(const float *values, const int *begins, float *sums, int n)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n)
        return;
    float sum = 0;
    for (int i = begins[s]; i < begins[s + 1]; i++)
        sum += values[i];
    sums[s] = sum;
}

__global__ void search(const int *sorted, const int *keys, int *places, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, low = 0, high = n, key = keys[i];
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    places[i] = low;
}

__global__ void bitonic(unsigned *keys, unsigned *values, unsigned size, unsigned stride)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, at = 2 * i - (i & (stride - 1));
    bool up = !(i & size / 2);
    unsigned a = keys[at], b = keys[at + stride];
    if ((a > b) == up) {
        keys[at] = b;
        keys[at + stride] = a;
        unsigned v = values[at];
        values[at] = values[at + stride];
        values[at + stride] = v;
    }
}

__global__ void radix_count(const uint4 *keys, unsigned *counts, int shift, int n)
{
    __shared__ unsigned local[16];
    if (threadIdx.x < 16)
        local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint4 k = keys[i];
        atomicAdd(&local[k.x >> shift & 15], 1);
        atomicAdd(&local[k.y >> shift & 15], 1);
        atomicAdd(&local[k.z >> shift & 15], 1);
        atomicAdd(&local[k.w >> shift & 15], 1);
    }
    __syncthreads();
    if (threadIdx.x < 16)
        counts[threadIdx.x * gridDim.x + blockIdx.x] = local[threadIdx.x];
}
