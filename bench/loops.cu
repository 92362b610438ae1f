// Kernels whose speed on the CPU device bench/run compares with the same loops in C (loops.c); compiled
// together with life.cu. Usage: loops KERNEL LAUNCHES; prints elapsed and processor seconds of the launches,
// and a sum over the result.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "loops.h"
#include "life.h"

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t e = (call);                                                                              \
        if (e != cudaSuccess) {                                                                              \
            fprintf(stderr, "loops: %s: %s\n", #call, cudaGetErrorString(e));                                \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

__global__ void vector_add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

__global__ void saxpy(float f, const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = f * a[i] + b[i];
}

__global__ void stencil(const float *a, float *c, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && y > 0 && x < width - 1 && y < height - 1)
        c[y * width + x] =
            0.5f * a[y * width + x] + 0.125f * (a[y * width + x - 1] + a[y * width + x + 1] +
                                                a[(y - 1) * width + x] + a[(y + 1) * width + x]);
}

__global__ void matrix_multiply(const float *a, const float *b, float *c, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}

__global__ void exp_sqrt(const float *a, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = expf(-a[i]) * sqrtf(a[i]);
}

__global__ void histogram(const float *a, unsigned *bins, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[(int)(a[i] * 256.0f)], 1);
}

__global__ void bodies(const float4 *p, float4 *f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = 0, y = 0, z = 0;
    float4 me = p[i];
    for (int j = 0; j < n; j++) {
        float4 you = p[j];
        float dx = you.x - me.x, dy = you.y - me.y, dz = you.z - me.z;
        float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = you.w * r * r * r;
        x += dx * s;
        y += dy * s;
        z += dz * s;
    }
    f[i] = make_float4(x, y, z, 0);
}

#define TILE 16
__global__ void matrix_tiled(const float *a, const float *b, float *c, int n)
{
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    float sum = 0;
    for (int t = 0; t < n; t += TILE) {
        as[threadIdx.y][threadIdx.x] = a[y * n + t + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + x];
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}

__global__ void reduce(const float *a, float *c, int per_cta)
{
    __shared__ float part[256];
    float sum = 0;
    for (int i = threadIdx.x; i < per_cta; i += blockDim.x)
        sum += a[blockIdx.x * per_cta + i];
    part[threadIdx.x] = sum;
    for (int half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (!threadIdx.x)
        c[blockIdx.x] = part[0];
}

__global__ void nothing()
{
}

void mt_life_launch(const struct mt_life *k, const float *a, const float *b, float *c);

static uint32_t launch(const char *name, float *a, float *b, float *c)
{
    if (const struct mt_life *life = mt_life_find(name))
        return mt_life_launch(life, a, b, c), life->results;
    dim3 tiles(MATRIX / TILE, MATRIX / TILE), tile(TILE, TILE);
    if (!strcmp(name, "vector_add"))
        return vector_add<<<N / 256, 256>>>(a, b, c, N), N;
    if (!strcmp(name, "saxpy"))
        return saxpy<<<N / 256, 256>>>(2.5f, a, b, c, N), N;
    if (!strcmp(name, "stencil"))
        return stencil<<<dim3(SIDE / 32, SIDE / 8), dim3(32, 8)>>>(a, c, SIDE, SIDE), N;
    if (!strcmp(name, "matrix_multiply"))
        return matrix_multiply<<<tiles, tile>>>(a, b, c, MATRIX), MATRIX * MATRIX;
    if (!strcmp(name, "exp_sqrt"))
        return exp_sqrt<<<N / 256, 256>>>(a, c, N), N;
    if (!strcmp(name, "histogram"))
        return histogram<<<64, 256>>>(a, (unsigned *)c, N), 0;
    if (!strcmp(name, "bodies"))
        return bodies<<<BODIES / 256, 256>>>((float4 *)a, (float4 *)c, BODIES), 4 * BODIES;
    if (!strcmp(name, "matrix_tiled"))
        return matrix_tiled<<<tiles, tile>>>(a, b, c, MATRIX), MATRIX * MATRIX;
    if (!strcmp(name, "reduce"))
        return reduce<<<N / SUM_PER_CTA, 256>>>(a, c, SUM_PER_CTA), N / SUM_PER_CTA;
    if (!strcmp(name, "nothing"))
        return nothing<<<1, 32>>>(), 0;
    fprintf(stderr, "loops: no kernel %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    int launches = argc == 3 ? atoi(argv[2]) : 0;
    if (launches < 1) {
        fprintf(stderr, "usage: loops KERNEL LAUNCHES\n");
        return 2;
    }
    float *d[3];
    std::vector<float> host(N);
    for (int i = 0; i < 3; i++) {
        CHECK(cudaMalloc((void **)&d[i], N * sizeof(float)));
        mt_life_fill(argv[1], host.data(), i);
        CHECK(cudaMemcpy(d[i], host.data(), N * sizeof(float), cudaMemcpyHostToDevice));
    }
    CHECK(cudaMemset(d[2], 0, N * sizeof(float)));
    uint32_t results = launch(argv[1], d[0], d[1], d[2]); // warms up caches, page tables and threads
    CHECK(cudaDeviceSynchronize());
    double elapsed = mt_clock(CLOCK_MONOTONIC), processor = mt_clock(CLOCK_PROCESS_CPUTIME_ID);
    for (int l = 0; l < launches; l++)
        launch(argv[1], d[0], d[1], d[2]);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    elapsed = mt_clock(CLOCK_MONOTONIC) - elapsed;
    processor = mt_clock(CLOCK_PROCESS_CPUTIME_ID) - processor;
    CHECK(cudaMemcpy(host.data(), d[2], N * sizeof(float), cudaMemcpyDeviceToHost));
    if (!strcmp(argv[1], "histogram")) { // integers, converted to floats
        results = BINS;
        for (uint32_t i = 0; i < BINS; i++) {
            unsigned v;
            memcpy(&v, &host[i], sizeof v);
            host[i] = (float)(i + 1) * (v / (launches + 1));
        }
    }
    if (const struct mt_life *life = mt_life_find(argv[1]))
        if (mt_life_check(life, host.data()))
            return 1;
    mt_print(elapsed, processor, host.data(), results);
    return 0;
}
