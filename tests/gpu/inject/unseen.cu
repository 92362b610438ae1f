// Kernels for play.c, launched in name only, with instructions that NVIDIA's library reports in some versions
// or in none.
#include <cstdint>

extern "C" __global__ void plain(int *a)
{
    a[threadIdx.x] = 2 * a[threadIdx.x];
}

extern "C" __global__ void texture_of(cudaTextureObject_t t, float *a)
{
    a[threadIdx.x] = tex2D<float>(t, threadIdx.x, 1);
}

extern "C" __global__ void surface_of(cudaSurfaceObject_t s)
{
    surf1Dwrite(1.f, s, 4 * threadIdx.x);
}

// A function of its own: the kernel that calls it has its instructions.
extern "C" __device__ __noinline__ void fetch(cudaTextureObject_t t, float *a)
{
    a[0] = tex1Dfetch<float>(t, a[1] > 0);
}

extern "C" __global__ void calls(cudaTextureObject_t t, float *a)
{
    fetch(t, a);
    fetch(t, a + 2);
}

// Waits for a flag: strong loads.
extern "C" __global__ void waits(volatile int *a)
{
    while (!*a)
        ;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
extern "C" __global__ void tensor(const __grid_constant__ uint64_t map, int *a)
{
    __shared__ __align__(128) char s[1024];
    __shared__ uint64_t bar;
    unsigned to = __cvta_generic_to_shared(s), b = __cvta_generic_to_shared(&bar);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
                 "{%2, %2}], [%3];" ::"r"(to),
                 "l"(&map), "r"(0), "r"(b)
                 : "memory");
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1, {%2, %2}], [%0];" ::"r"(to),
                 "l"(&map), "r"(0)
                 : "memory");
    asm volatile(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%1, {%2, %2}], [%0];" ::"r"(to),
        "l"(&map), "r"(0)
        : "memory");
    a[0] = s[1];
}

extern "C" __global__ void multicast(float *a)
{
    float x;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(x) : "l"(a));
    asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(a), "f"(x));
    asm volatile("multimem.red.relaxed.sys.global.add.f32 [%0], %1;" ::"l"(a), "f"(x));
}

extern "C" __global__ void bulk(char *a)
{
    __shared__ __align__(128) char s[1024];
    __shared__ uint64_t bar;
    unsigned to = __cvta_generic_to_shared(s), b = __cvta_generic_to_shared(&bar);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(a), "r"(256), "r"(b)
        : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%1], [%0], %2;" ::"r"(to),
                 "l"(a), "r"(256)
                 : "memory");
    a[0] = s[1];
}
#endif

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
extern "C" __global__ void cancels(int *a)
{
    __shared__ uint64_t bar;
    __shared__ __align__(16) unsigned char r[16];
    asm volatile(
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::
            "r"((unsigned)__cvta_generic_to_shared(r)),
        "r"((unsigned)__cvta_generic_to_shared(&bar))
        : "memory");
    a[0] = r[0];
}
#endif
