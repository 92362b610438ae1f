// Compiled by nvcc, with libmemtrace.so as its CUDA runtime: cases_images.py says what each run must give.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#ifdef MORE // the second file of a program with relocatable device code
static __device__ int hidden(int x)
{
    return 2 * x;
}
__device__ int twice(int x)
{
    return hidden(x);
}
__device__ int elsewhere = 100;
__global__ void other(int *p)
{
    p[threadIdx.x] += 1;
}
void launch_other(int *p)
{
    other<<<1, 32>>>(p);
}
#else
__device__ int step = 5;
__constant__ int scale[4] = {1, 2, 3, 4};

__global__ void work(int n, const int *x, int *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] * scale[i & 3] + step;
}

__global__ void which(int *p)
{
#ifdef __CUDA_ARCH__
    p[0] = __CUDA_ARCH__;
#endif
#if defined ODD && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= ODD
    asm volatile("bfind.u32 %0, 1;" : "=r"(p[1])); // cases_images.py makes another word of it
#endif
}

#ifdef RDC
extern __device__ int elsewhere;
__device__ int twice(int);
void launch_other(int *p);
__global__ void files(int *p)
{
    p[threadIdx.x] = twice(threadIdx.x) + elsewhere;
}
#endif

static volatile sig_atomic_t children;
static void on_child(int)
{
    children++;
}

static void say(const char *what, cudaError_t e)
{
    printf("%s: %s\n", what, cudaGetErrorName(e));
}

int main(int argc, char **argv)
{
    enum { N = 1000 };
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "nothing"))
        return puts("nothing") < 0;
    if (!strcmp(mode, "memory")) { // calls of the runtime that need no device code
        void *p;
        say("malloc", cudaMalloc(&p, 100));
        say("free", cudaFree(p));
        return 0;
    }
    signal(SIGCHLD, on_child);
    if (!strcmp(mode, "closed"))
        close(0), close(2);
    int *x, *y, h[N], seven = 7;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    for (int i = 0; i < N; i++)
        h[i] = i;
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    say("symbol", cudaMemcpyToSymbol(step, &seven, sizeof seven));
    work<<<4, 256>>>(N, x, y);
    say("work", cudaGetLastError());
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    long sum = 0;
    for (int v : h)
        sum += v;
    printf("sum %ld\n", sum);
    if (!strcmp(mode, "which")) {
        which<<<1, 1>>>(y);
        say("which", cudaDeviceSynchronize());
        cudaMemcpy(h, y, sizeof *h, cudaMemcpyDeviceToHost);
        printf("arch %d\n", h[0]);
    }
#ifdef RDC
    files<<<1, 32>>>(y);
    launch_other(y);
    say("files", cudaDeviceSynchronize());
    cudaMemcpy(h, y, 32 * sizeof *h, cudaMemcpyDeviceToHost);
    for (int i = sum = 0; i < 32; i++)
        sum += h[i];
    printf("files %ld\n", sum);
#endif
    int none = waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
    printf("children %d, %s\n", (int)children, none ? "none to wait for" : "one to wait for");
    return 0;
}
#endif
