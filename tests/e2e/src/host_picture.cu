/* Data that goes host -> kernel -> host through each kind of memory; cases_host.py knows the lines by their
 * marks and what must be transferred between them. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

enum { N = 256, THREADS = 64, BYTES = N * sizeof(int) };

__global__ void twice(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 2 * in[i];
}

static __attribute__((noinline)) void fill_low(int *p)
{
    for (int i = 0; i < N / 2; i++)
        p[i] = i; /* LOW */
}

static __attribute__((noinline)) void fill_high(int *p)
{
    for (int i = N / 2; i < N; i++)
        p[i] = i; /* HIGH */
}

static __attribute__((noinline)) long sum(const int *p)
{
    long s = 0;
    for (int i = 0; i < N; i++)
        s += p[i]; /* READ */
    return s;
}

static __attribute__((noinline)) void stage(int *to, const int *from, size_t bytes)
{
    memcpy(to, from, bytes); /* STAGE */
}

static void pageable()
{
    int *h = (int *)malloc(BYTES), *back = (int *)malloc(BYTES), *in, *out;
    cudaMalloc(&in, BYTES);
    cudaMalloc(&out, BYTES);
    fill_low(h);
    fill_high(h);
    cudaMemcpy(in, h, BYTES, cudaMemcpyHostToDevice);
    fill_low(h); /* too late: the copy has gone */
    twice<<<N / THREADS, THREADS>>>(in, out);
    cudaMemcpy(back, out, BYTES, cudaMemcpyDeviceToHost);
    printf("pageable %ld\n", sum(back));
    cudaFree(in);
    cudaFree(out);
    free(h);
    free(back);
}

static void pinned()
{
    int *h, *staged, *in, *out;
    cudaMallocHost((void **)&h, BYTES);
    cudaMallocHost((void **)&staged, BYTES);
    cudaMalloc(&in, BYTES);
    cudaMalloc(&out, BYTES);
    fill_low(h);
    fill_high(h);
    stage(staged, h, BYTES / 2);
    fill_high(staged);
    cudaStream_t s;
    cudaStreamCreate(&s);
    cudaMemcpyAsync(in, staged, BYTES, cudaMemcpyHostToDevice, s);
    twice<<<N / THREADS, THREADS, 0, s>>>(in, out);
    cudaMemcpyAsync(h, out, BYTES, cudaMemcpyDeviceToHost, s);
    cudaStreamSynchronize(s);
    printf("pinned %ld\n", sum(h));
    cudaStreamDestroy(s);
    cudaFree(in);
    cudaFree(out);
    cudaFreeHost(h);
    cudaFreeHost(staged);
}

static void managed()
{
    int *in, *out;
    cudaMallocManaged(&in, BYTES);
    cudaMallocManaged(&out, BYTES);
    fill_low(in);
    fill_high(in);
    twice<<<N / THREADS, THREADS>>>(in, out);
    cudaDeviceSynchronize();
    printf("managed %ld\n", sum(out));
    cudaFree(in);
    cudaFree(out);
}

int main()
{
    pageable();
    pinned();
    managed();
    return 0;
}
