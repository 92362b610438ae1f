// Every form of an access that NVIDIA's assembler has for what the patches may not see, and its neighbours
// (sass.py).
#include <cstdint>
#include <cuda_runtime.h>

extern "C" __global__ void textures(cudaTextureObject_t t, cudaTextureObject_t u, float *a)
{
    int i = threadIdx.x;
    a[i] = tex1D<float>(t, i) + tex2D<float>(t, i, i) + tex3D<float>(u, i, i, i) +
           tex2DLod<float>(t, i, i, 1.f) + tex2DLayered<float>(t, i, i, 2) + texCubemap<float>(t, i, i, i);
}

extern "C" __global__ void texel(cudaTextureObject_t t, float *a)
{
    a[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x);
}

extern "C" __global__ void gathered(cudaTextureObject_t t, float *a)
{
    a[threadIdx.x] = tex2Dgather<float4>(t, threadIdx.x, threadIdx.x, 1).x;
}

extern "C" __global__ void gradient(cudaTextureObject_t t, float *a)
{
    a[threadIdx.x] = tex2DGrad<float>(t, threadIdx.x, 1, make_float2(1, 2), make_float2(2, 3));
}

extern "C" __global__ void surface_load(cudaSurfaceObject_t s, float *a)
{
    int i = threadIdx.x;
    a[i] = surf2Dread<float>(s, i * 4, i) + surf1Dread<float>(s, i * 4) + surf3Dread<float>(s, i * 4, i, i);
}

extern "C" __global__ void surface_store(cudaSurfaceObject_t s, float *a)
{
    int i = threadIdx.x;
    surf2Dwrite(a[i], s, i * 4, i);
    surf1Dwrite(a[i], s, i * 4);
    asm volatile("sust.p.2d.b32.trap [%0, {%1, %1}], {%2};" ::"l"(s), "r"(i), "r"(i));
}

extern "C" __global__ void surface_reduce(cudaSurfaceObject_t s)
{
    asm volatile("sured.b.1d.add.u32.trap [%0, {%1}], %2;" ::"l"(s), "r"(threadIdx.x * 4), "r"(1));
    asm volatile("sured.p.2d.min.b32.trap [%0, {%1, %1}], %2;" ::"l"(s), "r"(threadIdx.x * 4), "r"(1));
}

// What rows of all versions report: loads and stores of every kind, atomics, cp.async; prefetches and cache
// control.
extern "C" __global__ void ordinary(int *g, float *f, double *d, unsigned long long *u, int n)
{
    __shared__ int s[128];
    int i = threadIdx.x, local[8];
    for (int k = 0; k < 8; k++)
        local[k] = g[k];
    s[i] = __ldg(g + i) + __ldcg(g + i + 1) + __ldcs(g + i + 2) + local[n & 7];
    __syncthreads();
    int *p = n > 3 ? s : n > 2 ? local : g;
    p[n] = p[n + 1];
    atomicAdd(p + n, 1);
    atomicAdd(f + i, 1.f);
    atomicAdd(d + i, 1.0);
    g[9] = atomicCAS(g + i, 1, 2) + atomicExch(g + 3, 1) + s[n];
    u[1] = atomicCAS(u, 1ull, 2ull);
    atomicMax(u + i, 3ull);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(g));
    asm volatile("prefetch.global.L1 [%0];" ::"l"(g));
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(g));
    asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(g));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(s)),
                 "l"(g));
    asm volatile("cp.async.wait_all;");
#endif
    __threadfence_system();
}

// Weak loads alone.
extern "C" __global__ void weak(const int *__restrict__ a, int *b)
{
    b[threadIdx.x] = a[threadIdx.x];
}
#define STRONG(name, text)                                                                                   \
    extern "C" __global__ void name(int *a)                                                                  \
    {                                                                                                        \
        int v;                                                                                               \
        asm volatile(text " %0, [%1];" : "=r"(v) : "l"(a));                                                  \
        a[1] = v;                                                                                            \
    }
STRONG(strong_volatile, "ld.volatile.global.u32")
STRONG(strong_relaxed, "ld.relaxed.gpu.global.u32")
STRONG(strong_system, "ld.relaxed.sys.global.u32")
STRONG(strong_cta, "ld.relaxed.cta.global.u32")
STRONG(strong_acquire, "ld.acquire.gpu.u32")
#undef STRONG

extern "C" __global__ void strong_atomic(int *a)
{
    a[1] = atomicAdd(a, 0);
}

// By pointers that may lead anywhere: ATOM in place of ATOMG.
struct Anywhere {
    int *p;
    float *f;
    double *d;
    unsigned long long *u;
};
extern "C" __global__ void strong_lock(Anywhere *a)
{
    while (atomicCAS(a->p, 0, 1))
        ;
}
extern "C" __global__ void strong_lock_wide(Anywhere *a)
{
    while (atomicCAS(a->u, 0ull, 1ull))
        ;
}
extern "C" __global__ void strong_float(Anywhere *a)
{
    a->f[1] = atomicAdd(a->f, 1.f);
}
extern "C" __global__ void strong_double(Anywhere *a)
{
    a->d[1] = atomicAdd(a->d, 1.);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
#define WIDE(name, text)                                                                                     \
    extern "C" __global__ void name(int *a)                                                                  \
    {                                                                                                        \
        int v[8];                                                                                            \
        asm volatile(text " {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"                                         \
                     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]),   \
                       "=r"(v[7])                                                                            \
                     : "l"(a));                                                                              \
        a[8] = v[0] + v[1] + v[2] + v[3] + v[4] + v[5] + v[6] + v[7];                                        \
    }
WIDE(wide_weak, "ld.global.v8.b32")
WIDE(wide_constant, "ld.global.nc.v8.b32")
WIDE(wide_strong, "ld.relaxed.gpu.global.v8.b32")
WIDE(wide_volatile, "ld.volatile.global.v8.b32")
#undef WIDE
#endif

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
extern "C" __global__ void prefetches(const __grid_constant__ uint64_t map, char *a)
{
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %1}];" ::"l"(&map), "r"(1));
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(a), "r"(256));
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map));
}
#endif
