// Inline asm that computes its addresses, predicates and jumps itself.
#include <cstdio>

// Threads below n load.
__global__ void computed(const int *in, int *out, int n)
{
    int v, i = threadIdx.x;
    asm volatile("{\n\t.reg .u64 a;\n\t.reg .pred q;\n\t"
                 "mul.wide.u32 a, %2, 4;\n\tadd.u64 a, a, %1;\n\t"
                 "setp.lt.s32 q, %2, %3;\n\tmov.u32 %0, 7;\n\t@q ld.global.u32 %0, [a];\n\t}"
                 : "=r"(v)
                 : "l"(in), "r"(i), "r"(n));
    out[i] = v;
}

// Thread t stores t + 1 pairs.
__global__ void loop(int *out)
{
    int n = threadIdx.x + 1;
    int *p = out + 64 * threadIdx.x;
    asm volatile("{\n\t.reg .u64 a;\n\t.reg .u32 i;\n\t.reg .pred q;\n\t"
                 "mov.u64 a, %0;\n\tmov.u32 i, 0;\n"
                 "again:\n\tst.global.v2.u32 [a], {i, i};\n\tadd.u64 a, a, 8;\n\tadd.u32 i, i, 1;\n\t"
                 "setp.lt.u32 q, i, %1;\n\t@q bra again;\n\t}" ::"l"(p),
                 "r"(n)
                 : "memory");
}

// Threads 0 to 3 copy 16 bytes, the others get zeros.
__global__ void copy(const int *in, int *out)
{
    __shared__ int4 s[32];
    unsigned at = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
    asm volatile("{\n\t.reg .pred q;\n\tsetp.gt.s32 q, %2, 3;\n\t"
                 "cp.async.cg.shared.global [%0], [%1], 16, q;\n\tcp.async.wait_all;\n\t}" ::"r"(at),
                 "l"(in + 4 * threadIdx.x), "r"((int)threadIdx.x)
                 : "memory");
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x].w;
}

__global__ void halves(unsigned short *sum)
{
    asm volatile("{\n\t.reg .u64 a;\n\t.reg .u32 l;\n\t.reg .b16 one;\n\tmov.u32 l, %%laneid;\n\t"
                 "and.b32 l, l, 1;\n\tmad.wide.u32 a, l, 2, %0;\n\tmov.b16 one, 0x3c00;\n\t"
                 "red.global.add.noftz.f16 [a], one;\n\t}" ::"l"(sum)
                 : "memory");
}

// The second address is what the first load gives.
__global__ void chase(int **in, int *out)
{
    int v;
    asm volatile("{\n\t.reg .u64 a;\n\tld.global.u64 a, [%1];\n\tld.global.u32 %0, [a];\n\t}"
                 : "=r"(v)
                 : "l"(in + threadIdx.x));
    out[threadIdx.x] = v;
}

// An arrival without a count, one that expects bytes, and the bulk copy that brings them.
__global__ void bulk(const int *in, int *out)
{
    __shared__ __align__(16) int s[16];
    __shared__ unsigned long long bar;
    unsigned at = (unsigned)__cvta_generic_to_shared(&bar), to = (unsigned)__cvta_generic_to_shared(s);
    unsigned long long state;
    int over;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(at) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], 64;"
                     : "=l"(state)
                     : "r"(at)
                     : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 64, [%2];" ::"r"(
                to),
            "l"(in), "r"(at)
            : "memory");
    } else
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    do
        asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(over)
                     : "r"(at), "l"(state)
                     : "memory");
    while (!over);
    out[threadIdx.x] = s[threadIdx.x % 16];
}

int main()
{
    int host[32 * 64], *in, *out, **pointers, good = 0;
    cudaMallocManaged(&in, sizeof host);
    cudaMallocManaged(&out, sizeof host);
    cudaMallocManaged(&pointers, 32 * sizeof *pointers);
    for (int i = 0; i < 32 * 64; i++) {
        in[i] = i * 3;
        out[i] = -1;
    }
    computed<<<1, 32>>>(in, out, 20);
    cudaDeviceSynchronize();
    for (int i = 0; i < 32; i++)
        good += out[i] == (i < 20 ? i * 3 : 7);
    loop<<<1, 32>>>(out);
    cudaDeviceSynchronize();
    for (int t = 0; t < 32; t++)
        for (int i = 0; i < 32; i++)
            good += i > t || (out[64 * t + 2 * i] == i && out[64 * t + 2 * i + 1] == i);
    copy<<<1, 32>>>(in, out);
    cudaDeviceSynchronize();
    for (int i = 0; i < 32; i++)
        good += out[i] == (i < 4 ? (4 * i + 3) * 3 : 0);
    out[0] = 0;
    halves<<<1, 32>>>((unsigned short *)out);
    cudaDeviceSynchronize();
    good += out[0] == 0x4c004c00; // 16 and 16
    for (int i = 0; i < 32; i++)
        pointers[i] = in + 31 - i;
    chase<<<1, 32>>>(pointers, out);
    cudaDeviceSynchronize();
    for (int i = 0; i < 32; i++)
        good += out[i] == (31 - i) * 3;
    bulk<<<1, 32>>>(in, out);
    cudaDeviceSynchronize();
    for (int i = 0; i < 32; i++)
        good += out[i] == i % 16 * 3;
    printf("assembly: %d of %d\n", good, 32 + 1024 + 32 + 1 + 32 + 32);
    return 0;
}
