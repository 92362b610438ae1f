// Writes to address 0 and to constant memory, which compilers like to drop (cases.py): nothing.cu NAME runs
// one, and prints what the launch returns. A warp of 32 threads.
#include <cstdio>
#include <cstring>

struct Pair {
    int a, b;
};
__constant__ int table[32];
__constant__ Pair pair;
__device__ void put(int *p, int v)
{
    *p = v;
}

__global__ void store(int *p) // null
{
    *(int *)0 = p[threadIdx.x];
}
__global__ void member(int *p) // null
{
    ((Pair *)0)->b = p[threadIdx.x];
}
__global__ void inlined(int *p) // null
{
    put(0, p[threadIdx.x]);
}
__global__ void block(int *p) // null
{
    __builtin_memcpy(0, p, sizeof(Pair));
}
__global__ void update(int *p) // null
{
    atomicAdd((int *)0, p[threadIdx.x]);
}
__global__ void guarded(int *p) // right
{
    if (p[threadIdx.x])
        *(int *)0 = 1;
    if (p[threadIdx.x] > 1)
        table[threadIdx.x] = 1;
    p[threadIdx.x] = 7 + table[threadIdx.x] + pair.b;
}
__global__ void entry(int *p) // constant
{
    table[threadIdx.x] = p[threadIdx.x];
}
__global__ void field(int *p) // constant
{
    pair.b = p[threadIdx.x];
}
__global__ void copied(int *p) // constant
{
    __builtin_memcpy(table, p, 32);
}
__global__ void counted(int *p) // constant
{
    atomicAdd(&table[threadIdx.x], p[threadIdx.x]);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*kernel)(int *);
    } all[] = {{"store", store},   {"member", member},   {"inlined", inlined}, {"block", block},
               {"update", update}, {"guarded", guarded}, {"entry", entry},     {"field", field},
               {"copied", copied}, {"counted", counted}};
    int *p, h[32] = {0};
    for (const auto &one : all) {
        if (argc < 2 || strcmp(one.name, argv[1]))
            continue;
        cudaMalloc(&p, sizeof h);
        cudaMemset(p, 0, sizeof h);
        one.kernel<<<1, 32>>>(p);
        const char *error = cudaGetErrorName(cudaDeviceSynchronize());
        cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost);
        printf("%s %d\n", error, h[31]);
        cudaFree(p);
    }
    return 0;
}
