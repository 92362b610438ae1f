// Compiled by nvcc, and run with libmemtrace.so as its CUDA runtime, as one image and kernel by kernel:
// cases_parts.py. Each kernel uses what others use, so that a second storage or address of anything shows in
// what is printed.
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

__device__ int counter = 5;
__device__ int table[256];
__constant__ int factors[4] = {1, 2, 3, 4};

__device__ __noinline__ int ticket()
{
    static int next = 100;
    return atomicAdd(&next, 1);
}

__global__ void add(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] * factors[i & 3] + counter;
}

__global__ void count(int *y)
{
    __shared__ int sum;
    if (!threadIdx.x)
        sum = 0;
    __syncthreads();
    atomicAdd(&sum, table[threadIdx.x]);
    __syncthreads();
    if (!threadIdx.x) {
        y[0] = sum;
        counter += 1;
    }
}

__global__ void fill(int *y)
{
    table[threadIdx.x] = threadIdx.x;
    if (!threadIdx.x)
        y[1] = ticket();
}

__global__ void where(unsigned long long *p)
{
    p[0] = (unsigned long long)&counter;
    p[1] = (unsigned long long)factors;
    p[2] = ticket();
    printf("in %s\n", "where");
}

#if defined POINTERS || defined TABLE
typedef int (*function)(int);
__device__ __noinline__ int twice(int x)
{
    table[x] = x;
    return 2 * x;
}
__device__ __noinline__ int thrice(int x)
{
    return twice(x) + x;
}
__device__ function functions[2] = {twice, thrice};
#endif

#ifdef TABLE // as virtual functions: no kernel has the addresses
__global__ void by_table(int *y)
{
    y[threadIdx.x] = functions[threadIdx.x & 1](threadIdx.x);
}
#endif

#ifdef POINTERS
__device__ function chosen;

__global__ void choose(int i)
{
    chosen = i ? thrice : twice;
}

__global__ void by_pointer(int *y)
{
    y[threadIdx.x] = functions[threadIdx.x & 1](threadIdx.x) + (chosen == functions[1] ? 1000 : 0);
}

__global__ void by_chosen(int *y)
{
    y[threadIdx.x] = chosen(threadIdx.x) + thrice(1);
}
#endif

template <int N> __global__ void many(int *y)
{
    atomicAdd(&y[N], N + counter);
}

static int *parts_device(int n)
{
    int *p = nullptr;
    cudaMalloc(&p, n * sizeof *p);
    cudaMemset(p, 0, n * sizeof *p);
    return p;
}

static void parts_show(const char *name, const int *p, int n)
{
    std::vector<int> h(n);
    cudaMemcpy(h.data(), p, n * sizeof *p, cudaMemcpyDeviceToHost);
    printf("%s", name);
    for (int x : h)
        printf(" %d", x);
    printf("\n");
}

// Before any kernel is there.
static void *parts_symbols()
{
    void *at = nullptr;
    size_t bytes = 0;
    int first = 0, changed[4] = {10, 20, 30, 40};
    cudaGetSymbolAddress(&at, counter);
    cudaGetSymbolSize(&bytes, counter);
    cudaMemcpyFromSymbol(&first, counter, sizeof first);
    cudaMemcpyToSymbol(factors, changed, sizeof changed);
    printf("symbol %d %d of %d bytes\n", at != nullptr, first, (int)bytes);
    return at;
}

static void parts_kernels(void *at)
{
    int n = 64, *x = parts_device(n), *y = parts_device(n);
    unsigned long long *p, h[3], constant;
    cudaMalloc(&p, sizeof h);
    cudaMemset(x, 1, n * sizeof *x); // 16843009 each
    add<<<2, 32>>>(x, y, n);
    parts_show("add", y, 4);
    fill<<<1, 256>>>(y);
    count<<<1, 256>>>(y);
    add<<<2, 32>>>(x, y + 2, n - 2);
    parts_show("count", y, 4);
    where<<<1, 1>>>(p);
    cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost);
    cudaGetSymbolAddress((void **)&constant, factors);
    printf("where %d %d %d\n", h[0] == (unsigned long long)at, h[1] == constant, (int)h[2]);
    cudaFuncAttributes a;
    printf("attributes %s", cudaGetErrorName(cudaFuncGetAttributes(&a, count)));
    printf(" %d\n", (int)a.sharedSizeBytes);
#ifdef TABLE
    by_table<<<1, 8>>>(y);
    parts_show("by_table", y, 8);
#endif
#ifdef POINTERS
    choose<<<1, 1>>>(1);
    by_pointer<<<1, 8>>>(y);
    parts_show("by_pointer", y, 8);
    by_chosen<<<1, 8>>>(y);
    parts_show("by_chosen", y, 8);
#endif
}

static void parts_threads()
{
    int *y = parts_device(8);
    std::vector<std::thread> all;
    for (int t = 0; t < 12; t++)
        all.emplace_back([y, t] {
            void (*const list[])(int *) = {many<0>, many<1>, many<2>, many<3>, many<4>, many<5>};
            for (int k = 0; k < 6; k++)
                list[(k + t) % 6]<<<1, 2>>>(y);
        });
    for (auto &t : all)
        t.join();
    parts_show("threads", y, 6);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "memory")) {
        parts_device(4);
    } else {
        void *at = parts_symbols();
        if (!strcmp(mode, "threads"))
            parts_threads();
        else if (strcmp(mode, "symbols") != 0)
            parts_kernels(at);
    }
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
