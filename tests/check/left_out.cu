// Bad accesses by pointers that may lead to any memory: they alone are left out (cases_init.py has the
// counts).
#include <cstdio>
#include <cstdlib>

enum { THREADS = 64, HAS = 32 };
__device__ int kept[2];

__global__ void absolute()
{
    *(int *)0x87654320 = 42;                   // 1
    kept[0] = *(volatile int *)0x87654320 + 7; // 2
}
__global__ void misplaced()
{
    *(int *)((char *)&kept[1] + 1) = 42; // 3
    kept[1] = 9;
}
__device__ __noinline__ int *
chosen(int *a, int *s) // odd threads have global memory, from thread HAS on beyond its end
{
    return threadIdx.x % 2 ? a + threadIdx.x : s + threadIdx.x;
}
__global__ void loads(int *a, int *out)
{
    __shared__ int s[THREADS];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = *chosen(a, s) + 1; // 4
}
__global__ void updates(int *a, int *out)
{
    __shared__ int s[THREADS];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int old = atomicAdd(chosen(a, s), 5); // 5
    __syncthreads();
    out[threadIdx.x] = old + s[threadIdx.x];
}
__global__ void stores(int *a, int *out)
{
    __shared__ int s[THREADS];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    *chosen(a, s) = 3; // 6
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}

static int *a, *out;
static void left_out_check(const char *what, int (*value)(int))
{
    int h[THREADS];
    if (cudaDeviceSynchronize() != cudaSuccess)
        printf("%s failed\n", what), exit(3);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int t = 0; t < THREADS; t++)
        if (h[t] != value(t))
            printf("%s: thread %d has %d, not %d\n", what, t, h[t], value(t)), exit(4);
}

int main()
{
    int h[HAS], k[2];
    for (int &x : h)
        x = 100;
    cudaMalloc(&a, sizeof h);
    cudaMalloc(&out, THREADS * sizeof(int));
    cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
    absolute<<<1, 1>>>();
    misplaced<<<1, 1>>>();
    loads<<<1, THREADS>>>(a, out);
    left_out_check("loads", [](int t) { return t % 2 == 0 ? t + 1 : t < HAS ? 101 : 1; });
    updates<<<1, THREADS>>>(a, out);
    left_out_check("updates", [](int t) { return t % 2 == 0 ? 2 * t + 5 : t + (t < HAS ? 100 : 0); });
    stores<<<1, THREADS>>>(a, out);
    left_out_check("stores", [](int t) { return t % 2 ? t : 3; });
    cudaMemcpy(h, a, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(k, kept, sizeof k);
    for (int t = 0; t < HAS; t++)
        if (h[t] != (t % 2 ? 3 : 100))
            printf("a[%d] is %d\n", t, h[t]), exit(5);
    if (k[0] != 7 || k[1] != 9)
        printf("kept %d %d\n", k[0], k[1]), exit(6);
    return cudaFree(a) || cudaFree(out);
}
