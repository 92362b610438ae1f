// Typical kernels in CUDA; opencl/life.cl has the same ones. life.def defines their launches.
#include "life.h"

#define FULL 0xffffffffu

// A CTA of 16 x 16 threads computes 64 x 64 elements of the product, each thread 4 x 4 of them in registers.
__global__ void gemm(const float *a, const float *b, float *c, int n)
{
    __shared__ float as[16][64], bs[16][64];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int t = 0; t < n; t += 16) {
        for (int i = ty * 16 + tx; i < 64 * 16; i += 256) {
            as[i % 16][i / 16] = a[(row + i / 16) * n + t + i % 16];
            bs[i / 64][i % 64] = b[(t + i / 64) * n + column + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] += as[k][ty * 4 + i] * bs[k][tx * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(row + ty * 4 + i) * n + column + tx * 4 + j] = sum[i][j];
}

__global__ void transpose(const float *a, const float *b, float *c, int n)
{
    __shared__ float tile[32][33];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 32, y = blockIdx.y * 32;
    for (int i = ty; i < 32; i += 8)
        tile[i][tx] = a[(y + i) * n + x + tx];
    __syncthreads();
    for (int i = ty; i < 32; i += 8)
        c[(x + i) * n + y + tx] = tile[tx][i];
}

// Prefix sums (Hillis and Steele) of each block of 256 elements.
__global__ void scan(const float *a, const float *b, float *c, int n)
{
    __shared__ float part[2][256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t, from = 0;
    part[0][t] = i < n ? a[i] : 0;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        part[1 - from][t] = part[from][t] + (t >= d ? part[from][t - d] : 0);
        from = 1 - from;
        __syncthreads();
    }
    if (i < n)
        c[i] = part[from][t];
}

__device__ float warp_add(float x)
{
    for (int d = 16; d; d /= 2)
        x += __shfl_xor_sync(FULL, x, d);
    return x;
}

__device__ float warp_most(float x)
{
    for (int d = 16; d; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(FULL, x, d));
    return x;
}

// Sums over a CTA of 256 threads: within each warp, then over the eight warps; all threads get the sum.
__device__ float block_add(float x)
{
    __shared__ float part[8];
    x = warp_add(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_add(threadIdx.x % 32 < 8 ? part[threadIdx.x % 32] : 0);
}

__device__ float block_most(float x)
{
    __shared__ float part[8];
    x = warp_most(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_most(part[threadIdx.x % 8]);
}

__global__ void block_sum(const float *a, const float *b, float *c, int n)
{
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 256)
        sum += a[blockIdx.x * n + i];
    sum = block_add(sum);
    if (threadIdx.x == 0)
        c[blockIdx.x] = sum;
}

__global__ void warp_sum(const float *a, const float *b, float *c, int n)
{
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0;
    for (int i = lane; i < n; i += 32)
        sum += a[row * n + i];
    sum = warp_add(sum);
    if (lane == 0)
        c[row] = sum;
}

// A CTA computes a row.
__global__ void softmax(const float *a, const float *b, float *c, int n)
{
    const float *from = a + blockIdx.x * n;
    float most = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < n; i += 256)
        most = fmaxf(most, from[i]);
    most = block_most(most);
    for (int i = threadIdx.x; i < n; i += 256) {
        float e = expf(from[i] - most);
        c[blockIdx.x * n + i] = e;
        sum += e;
    }
    sum = 1 / block_add(sum);
    for (int i = threadIdx.x; i < n; i += 256)
        c[blockIdx.x * n + i] *= sum;
}

// A warp computes a row; b contains the weights, then the biases.
__global__ void layernorm(const float *a, const float *b, float *c, int n)
{
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const float *from = a + row * n;
    float mean = 0, variance = 0;
    for (int i = lane; i < n; i += 32)
        mean += from[i];
    mean = warp_add(mean) / n;
    for (int i = lane; i < n; i += 32)
        variance += (from[i] - mean) * (from[i] - mean);
    variance = rsqrtf(warp_add(variance) / n + 1e-5f);
    for (int i = lane; i < n; i += 32)
        c[row * n + i] = (from[i] - mean) * variance * b[i] + b[n + i];
}

// Each CTA sorts 512 elements.
__global__ void bitonic(const float *a, const float *b, float *c, int n)
{
    __shared__ float key[512];
    int t = threadIdx.x, from = blockIdx.x * 512;
    key[t] = a[from + t];
    key[t + 256] = a[from + t + 256];
    for (int size = 2; size <= 512; size *= 2)
        for (int d = size / 2; d; d /= 2) {
            int i = 2 * t - (t & (d - 1));
            __syncthreads();
            float x = key[i], y = key[i + d];
            if ((x > y) == ((i & size) == 0)) {
                key[i] = y;
                key[i + d] = x;
            }
        }
    __syncthreads();
    c[from + t] = key[t];
    c[from + t + 256] = key[t + 256];
}

// A CTA computes a column of cells, whose planes pass through shared memory one after another.
__global__ void stencil3d(const float *a, const float *b, float *c, int depth)
{
    __shared__ float plane[10][34];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, at = y * DX + x;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    float before = a[at], here = a[at + DX * DY];
    for (int z = 1; z < depth - 1; z++) {
        at += DX * DY;
        float after = a[at + DX * DY];
        plane[ty][tx] = here;
        if (tx == 1 && x > 0)
            plane[ty][0] = a[at - 1];
        if (tx == 32 && x < DX - 1)
            plane[ty][33] = a[at + 1];
        if (ty == 1 && y > 0)
            plane[0][tx] = a[at - DX];
        if (ty == 8 && y < DY - 1)
            plane[9][tx] = a[at + DX];
        __syncthreads();
        if (x > 0 && x < DX - 1 && y > 0 && y < DY - 1)
            c[at] = 0.4f * here + 0.1f * (plane[ty][tx - 1] + plane[ty][tx + 1] + plane[ty - 1][tx] +
                                          plane[ty + 1][tx] + before + after);
        __syncthreads();
        before = here;
        here = after;
    }
}

// A warp computes a row; mt_life_sparse defines the contents of a and b.
__global__ void spmv(const float *a, const float *b, float *c, int n)
{
    const int *begin = (const int *)b, *column = begin + n + 1;
    const float *x = a + N - n;
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0;
    for (int k = begin[row] + lane; k < begin[row + 1]; k += 32)
        sum += a[k] * x[column[k]];
    sum = warp_add(sum);
    if (lane == 0)
        c[row] = sum;
}

__global__ void bodies_tiled(const float *a, const float *b, float *c, int n)
{
    __shared__ float4 tile[256];
    const float4 *p = (const float4 *)a;
    int i = blockIdx.x * 256 + threadIdx.x;
    float x = 0, y = 0, z = 0;
    float4 me = p[i];
    for (int t = 0; t < n; t += 256) {
        tile[threadIdx.x] = p[t + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 256; j++) {
            float4 you = tile[j];
            float dx = you.x - me.x, dy = you.y - me.y, dz = you.z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = you.w * r * r * r;
            x += dx * s;
            y += dy * s;
            z += dz * s;
        }
        __syncthreads();
    }
    ((float4 *)c)[i] = make_float4(x, y, z, 0);
}

// k may be a row of another file's table.
void mt_life_launch(const struct mt_life *k, const float *a, const float *b, float *c)
{
    static void (*const kernels[])(const float *, const float *, float *, int) = {
#define LIFE(name, ...) name,
#include "life.def"
#undef LIFE
    };
    dim3 grid(k->grid[0], k->grid[1]), block(k->block[0], k->block[1]);
    kernels[mt_life_find(k->name) - mt_lives]<<<grid, block>>>(a, b, c, k->n);
}
