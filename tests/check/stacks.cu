// Who led to a launch, an allocation and an access: all three are in functions that several others call.
#include <cuda_runtime.h>
#include <string.h>

__device__ __forceinline__ void put(int *p, int i)
{
    p[i] = i; // PUT
}
__device__ __forceinline__ void put_twice(int *p, int i)
{
    put(p, i);
    put(p, i + 64); // TWICE
}
__global__ void fill(int *p)
{
    put_twice(p, threadIdx.x); // FILL
}

__attribute__((noinline)) static int *make(size_t n)
{
    int *p = nullptr;
    cudaMalloc(&p, n * sizeof *p); // MAKE
    return p;
}
template <typename T> __attribute__((noinline)) static void launch(void (*kernel)(T *), T *p)
{
    kernel<<<1, 64>>>(p); // LAUNCH
}
__attribute__((noinline)) static void run(int *p)
{
    launch(fill, p); // RUN
    cudaDeviceSynchronize();
}
__attribute__((noinline)) static int *kept(void)
{
    return make(100); // KEPT
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "leak")) {
        int *a = make(10); // LEAKA
        a = make(10);      // LEAKB
        a = kept();        // LEAKC
        cudaMemset(a, 0, 400);
        return 0;
    }
    int *p = argc > 1 && !strcmp(argv[1], "fine") ? make(128) : make(96); // MAKES
    run(p);                                                               // MAIN
    cudaFree(p);
    return 0;
}
