// malloc and free in kernels, with a heap of 128 KiB, and after a reset with the default one. Prints what
// comes of it.
#include "../../../examples/common/example.h"
#include <algorithm>
#include <vector>

__global__ void take(void **p, size_t bytes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    p[i] = malloc(bytes);
}

// Threads free what others allocated.
__global__ void give(void **p, int from, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    free(p[from + n - 1 - i]);
}

// Nobody looks at the memory afterwards.
__global__ void touch(int *count, size_t bytes)
{
    char *p = (char *)malloc(bytes);
    if (!p)
        return;
    for (size_t i = 0; i < bytes; i += 4096)
        p[i] = 1;
    atomicAdd(count, 1);
}

static int taken(void **device, int n, size_t apart)
{
    std::vector<char *> p(n);
    CHECK(cudaMemcpy(p.data(), device, n * sizeof(void *), cudaMemcpyDeviceToHost));
    std::sort(p.begin(), p.end());
    int there = 0;
    for (int i = 0; i < n; i++) {
        there += p[i] != nullptr;
        if ((uintptr_t)p[i] % 16 || (i && p[i] && p[i] < p[i - 1] + apart))
            printf("a block at %p, after one at %p\n", p[i], p[i - 1]);
    }
    return there;
}

int main()
{
    const int n = 1 << 13;
    void **p, *one, *host;
    int *count, counted;
    size_t limit;
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 17));
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    CHECK(cudaMalloc(&p, (n + 1) * sizeof *p));
    take<<<n / 256, 256>>>(p, 16);
    take<<<1, 1>>>(p + n, 1);
    printf("%zu bytes: %d of %d, then %d\n", limit, taken(p, n, 16), n, taken(p + n, 1, 1));
    printf("limit %d\n", (int)cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 18));
    CHECK(cudaMemcpy(&one, p, sizeof one, cudaMemcpyDeviceToHost));
    printf("copy %d free %d\n", (int)cudaMemcpy(&host, one, 8, cudaMemcpyDeviceToHost), (int)cudaFree(one));
    cudaGetLastError();
    give<<<n / 512, 256>>>(p, n / 2, n / 2);
    take<<<n / 512, 256>>>(p + n / 2, 9);
    take<<<1, 1>>>(p + n, 1);
    printf("again %d, then %d\n", taken(p, n, 9), taken(p + n, 1, 1));
    give<<<n / 256, 256>>>(p, 0, n);
    take<<<1, 32>>>(p, 40000);
    printf("large %d\n", taken(p, 32, 40000));
    CHECK(cudaDeviceReset());
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    CHECK(cudaMalloc(&count, sizeof *count));
    CHECK(cudaMemset(count, 0, sizeof *count));
    touch<<<1, 64>>>(count, 1 << 20);
    CHECK(cudaMemcpy(&counted, count, sizeof counted, cudaMemcpyDeviceToHost));
    printf("%zu bytes: %d of 64\n", limit, counted);
    return 0;
}
