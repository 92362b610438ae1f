// Kernels with one mistake each, chosen by name; prints what the program sees of it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

__device__ int table[8];
__global__ void beyond(int *p, int n) // the last thread is one too far
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        p[i] = i; // BEYOND
}
__global__ void before(int *p, int by)
{
    p[-by] = 1; // BEFORE
}
__global__ void read_one(const int *p, int *out)
{
    out[threadIdx.x] = p[threadIdx.x]; // READ
}
__global__ void add_one(int *p)
{
    atomicAdd(p, 1); // ADD
}
__global__ void wide(double *p)
{
    *p = 1; // WIDE
}
__global__ void symbol(int i)
{
    table[i] = 1; // SYMBOL
}
__global__ void meets(int *p, int n) // threads that wait for the one that goes wrong
{
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == 5)
        p[n] = 1; // MEETS
    __syncthreads();
    p[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void lock(int *p, volatile int *flag) // the one that should open the lock goes wrong first
{
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        *p = 1; // LOCK
        *flag = 1;
    }
    while (!*flag)
        ;
}
__global__ void fine(int *p, const char *text, int **scratch)
{
    const char *literal = threadIdx.x & 1 ? "odd" : "even";
    int *own = (int *)malloc(8);
    own[0] = literal[threadIdx.x & 3];
    own[1] = table[threadIdx.x & 7] + text[0];
    p[threadIdx.x] = own[0] + own[1];
    if (threadIdx.x)
        free(own);
    else
        *scratch = own;
}
__global__ void late(int **scratch) // memory that a kernel allocated, freed, used
{
    int *own = *scratch;
    own[1] = 7;
    free(own);
    own[0] = 1; // LATE
}

static int *device_ints(int n)
{
    int *p;
    cudaMalloc(&p, n * sizeof *p); // ALLOC
    return p;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int *p = device_ints(100), *q = device_ints(64), **scratch, local[64] = {0};
    cudaMalloc(&scratch, sizeof *scratch);
    if (!strcmp(how, "beyond"))
        beyond<<<2, 64>>>(p, 100);
    else if (!strcmp(how, "far"))
        before<<<1, 1>>>(p, -2000);
    else if (!strcmp(how, "many"))
        beyond<<<16, 64>>>(p, 1000);
    else if (!strcmp(how, "before"))
        before<<<1, 1>>>(p, 4);
    else if (!strcmp(how, "freed")) {
        cudaFree(p); // FREE
        read_one<<<1, 1>>>(p, q);
    } else if (!strcmp(how, "null"))
        read_one<<<1, 1>>>(NULL, q);
    else if (!strcmp(how, "host"))
        read_one<<<1, 1>>>(local, q);
    else if (!strcmp(how, "heap"))
        read_one<<<1, 1>>>((int *)calloc(64, 4), q);
    else if (!strcmp(how, "wild"))
        add_one<<<1, 1>>>((int *)0x7770000000000000);
    else if (!strcmp(how, "odd"))
        add_one<<<1, 1>>>((int *)((char *)p + 2));
    else if (!strcmp(how, "wide"))
        wide<<<1, 1>>>((double *)(p + 1));
    else if (!strcmp(how, "end")) // begins inside, ends outside
        wide<<<1, 1>>>((double *)(p + 99));
    else if (!strcmp(how, "symbol"))
        symbol<<<1, 1>>>(8);
    else if (!strcmp(how, "meets"))
        meets<<<2, 64>>>(q, 64);
    else if (!strcmp(how, "lock"))
        lock<<<2, 32>>>(p + 100, q);
    else if (!strcmp(how, "late")) {
        fine<<<1, 1>>>(p, (char *)q, scratch);
        late<<<1, 1>>>(scratch);
    } else {
        char *pinned;
        cudaMallocHost(&pinned, 1);
        fine<<<1, 64>>>(p, pinned, scratch);
    }
    printf("launch %s\n", cudaGetErrorName(cudaGetLastError()));
    printf("wait %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    printf("after %s\n", cudaGetErrorName(cudaMemset(q, 0, 4)));
    cudaDeviceReset();
    printf("reset %s\n", cudaGetErrorName(cudaMalloc(&q, 4)));
    return 0;
}
