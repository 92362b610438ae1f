// What goes on after bad accesses: good lanes do their work, bad loads and atomics give 0, bad stores
// nothing. Prints what is not so.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

enum { THERE = 40, THREADS = 64 }; // elements of the memory, threads that want one each
struct odd {
    int a, b, c;
};
template <class T> __global__ void copy(const T *from, T *to)
{
    to[threadIdx.x] = from[threadIdx.x];
}
template <class T> __global__ void gather(const T *from, T *to, const int *at)
{
    to[at[threadIdx.x]] = from[at[threadIdx.x]];
}
__global__ void uniform(const int *p, int *out, const int *bad)
{
    out[threadIdx.x] = p[0] + bad[0] + bad[blockIdx.x];
}
__global__ void rows(const int *p, int *out)
{
    out[threadIdx.y * 16 + threadIdx.x] = p[threadIdx.y * THREADS];
}
__global__ void masked(const short *p, short *out)
{
    if (threadIdx.x % 3)
        out[threadIdx.x] = p[threadIdx.x];
}
__global__ void atomics(int *p, int *out)
{
    int i = threadIdx.x;
    out[i] = atomicAdd(p + i, 5) + atomicCAS(p + i, 6, 9) + atomicExch(p + i, 7);
}
__global__ void reduce(int *p, int *q)
{
    atomicAdd(p, 1);
    atomicAdd(q + threadIdx.x, 2);
}
__global__ void same(int *p, int n)
{
    p[0] = threadIdx.x;
    p[n] = threadIdx.x;
    p[threadIdx.x & 1 ? 1 : n] = 4;
}
__global__ void meet(const int *p, int *out)
{
    __shared__ int s[THREADS];
    int v = p[threadIdx.x];
    s[threadIdx.x] = v;
    __syncthreads();
    out[threadIdx.x] = s[THREADS - 1 - threadIdx.x] + __shfl_xor_sync(~0u, v, 1);
}
__global__ void offsets(const int *p, int *out) // an address and a constant
{
    int v;
    asm volatile("ld.global.cs.s32 %0, [%1+8];" : "=r"(v) : "l"(p));
    asm volatile("st.global.wt.s32 [%0+4], %1;" ::"l"(out), "r"(v + 1));
    out[0] = __ldg(p + 1) + __ldcg(p);
    __stcs(out + 2, v);
}

// addresses that the compiler knows
__device__ int lone = 7, four[4] = {1, 2, 3, 4};
__global__ void constant(int *out)
{
    *(volatile int *)((char *)&lone + 1) = 42;
    ((volatile int *)four + 1)[1 << 20] = 43;
    out[threadIdx.x] = ((volatile int *)four + 1)[1 << 20] + *(volatile int *)((char *)four + 2) +
                       atomicAdd((int *)four + (1 << 21), 5) + ((volatile int *)four)[2];
}

static int wrong;
static void expect(const char *what, int i, int is)
{
    if (!is && wrong++ < 20)
        printf("%s: element %d\n", what, i);
}

template <class T> static void width(const char *what)
{
    T host[THREADS], back[THREADS], zero, *from, *to;
    int index[THREADS], *at;
    memset(&zero, 0, sizeof zero);
    for (size_t i = 0; i < sizeof host; i++)
        ((unsigned char *)host)[i] = (unsigned char)(i * 7 + 1);
    cudaMalloc(&from, THERE * sizeof(T));
    cudaMalloc(&to, sizeof host);
    cudaMalloc(&at, sizeof index);
    for (int apart = 0; apart < 2; apart++) {
        for (int i = 0; i < THREADS; i++)
            index[i] = i * 29 % THREADS;
        cudaMemcpy(at, index, sizeof index, cudaMemcpyHostToDevice);
        cudaMemcpy(from, host, THERE * sizeof(T), cudaMemcpyHostToDevice);
        cudaMemset(to, 0xee, sizeof host);
        for (int back_again = 0; back_again < 2; back_again++) {
            const T *a = back_again ? to : from;
            T *b = back_again ? from : to;
            if (apart)
                gather<<<1, THREADS>>>(a, b, at);
            else
                copy<<<1, THREADS>>>(a, b);
            expect(what, -1,
                   !cudaMemcpy(back, b, (back_again ? THERE : THREADS) * sizeof(T), cudaMemcpyDeviceToHost));
            for (int i = 0; i < (back_again ? THERE : THREADS); i++)
                expect(what, i, !memcmp(&back[i], i < THERE ? &host[i] : &zero, sizeof(T)));
            cudaMemcpy(to, host, sizeof host, cudaMemcpyHostToDevice);
            cudaMemset(from, 0, THERE * sizeof(T));
        }
    }
}

template <class T> static T *managed(int n, int first, int step)
{
    T *p;
    cudaMallocManaged(&p, n * sizeof(T));
    for (int i = 0; i < n; i++)
        p[i] = (T)(first + i * step);
    return p;
}

int main()
{
    width<char>("char");
    width<short>("short");
    width<int>("int");
    width<long long>("long long");
    width<double>("double");
    width<float2>("float2");
    width<int4>("int4");
    width<odd>("odd");
    int *p = managed<int>(THREADS, 1, 1), *q = managed<int>(THREADS, 0, 0), *a = managed<int>(THERE, 1, 0);
    uniform<<<1, THREADS>>>(p, q, (int *)16);
    expect("uniform", -1, !cudaDeviceSynchronize());
    for (int i = 0; i < THREADS; i++)
        expect("uniform", i, q[i] == 1);
    rows<<<1, dim3(16, 2)>>>(p, q);
    cudaDeviceSynchronize();
    for (int i = 0; i < 32; i++)
        expect("rows", i, q[i] == (i < 16 ? 1 : 0));
    short *s = managed<short>(THERE, 3, 1), *r = managed<short>(THREADS, -1, 0);
    masked<<<1, THREADS>>>(s, r);
    cudaDeviceSynchronize();
    for (int i = 0; i < THREADS; i++)
        expect("masked", i, r[i] == (i % 3 == 0 ? -1 : i < THERE ? i + 3 : 0));
    atomics<<<1, THREADS>>>(a, q);
    cudaDeviceSynchronize();
    for (int i = 0; i < THREADS; i++)
        expect("atomics", i, q[i] == (i < THERE ? 1 + 6 + 9 : 0) && (i >= THERE || a[i] == 7));
    reduce<<<1, THREADS>>>((int *)32, a);
    reduce<<<1, THREADS>>>(a + 3, a - 4);
    cudaDeviceSynchronize();
    for (int i = 0; i < THERE; i++)
        expect("reduce", i, a[i] == 11 + (i == 3 ? THREADS : 0));
    same<<<1, THREADS>>>(a, 100);
    cudaDeviceSynchronize();
    expect("same", 0, a[0] == THREADS - 1 && a[1] == 4);
    meet<<<1, THREADS>>>(a, q);
    cudaDeviceSynchronize();
    for (int i = 0; i < THREADS; i++) {
        int other = THREADS - 1 - i;
        expect("meet", i, q[i] == (other < THERE ? a[other] : 0) + ((i ^ 1) < THERE ? a[i ^ 1] : 0));
    }
    int *few = managed<int>(2, 5, 1), *one = managed<int>(1, 0, 0);
    offsets<<<1, 1>>>(few, one);
    expect("offsets", -1, !cudaDeviceSynchronize());
    expect("offsets", 0, one[0] == 11);
    constant<<<1, THREADS>>>(q);
    expect("constant", -1, !cudaDeviceSynchronize());
    for (int i = 0; i < THREADS; i++)
        expect("constant", i, q[i] == 3);
    int was[5];
    cudaMemcpyFromSymbol(was, lone, 4);
    cudaMemcpyFromSymbol(was + 1, four, 16);
    for (int i = 0; i < 5; i++)
        expect("variables", i, was[i] == (i ? i : 7));
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
