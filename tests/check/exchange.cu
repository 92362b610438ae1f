// Exchanges of words that nothing wrote before (cases_init.py): an error only if the old value is used.
#include <cstdlib>

__device__ unsigned exchange(unsigned *p) // stays inline asm
{
    unsigned old;
    asm volatile("atom.acq_rel.gpu.exch.b32 %0, [%1], 5;" : "=r"(old) : "l"(p) : "memory");
    return old;
}
__global__ void drops(unsigned *p, unsigned long long *q,
                      unsigned *r) // right: 96 words in three ways, then read
{
    int t = threadIdx.x;
    atomicExch(&p[t], t);
    atomicExch_block(&q[t], 7ull);
    exchange(&r[t]);
    p[t] = p[t] + (unsigned)q[t] + r[t];
}
__global__ void uses(unsigned *p, unsigned long long *q, unsigned *r, unsigned long long *out) // 32 of each
{
    int t = threadIdx.x;
    out[t] = atomicExch(&p[t], t);
    out[t] += atomicExch_block(&q[t], 7ull);
    out[t] += exchange(&r[t]);
}
__global__ void shared_drops(unsigned *out) // right
{
    __shared__ unsigned s[64];
    int t = threadIdx.x;
    atomicExch(&s[t], t);
    out[t] = s[t];
}
__global__ void shared_uses(unsigned *out) // 64 words
{
    __shared__ unsigned s[64];
    int t = threadIdx.x;
    out[t] = atomicExch(&s[t], t);
}
__global__ void adds(unsigned *p) // 32 words: the sum has what was there, whoever uses the result
{
    atomicAdd(&p[threadIdx.x], 1u);
}
__global__ void two(unsigned *p) // right: another CTA writes the word that is read here, by an exchange
{
    if (blockIdx.x == 1)
        atomicExch(p, 1u);
    else
        atomicAdd(p, 1u);
}

static unsigned *unwritten(void)
{
    void *p = NULL;
    cudaMalloc(&p, 512);
    return (unsigned *)p;
}
static unsigned long long *unwritten_8(void)
{
    return (unsigned long long *)unwritten();
}

int main()
{
    drops<<<1, 32>>>(unwritten(), unwritten_8(), unwritten());
    uses<<<1, 32>>>(unwritten(), unwritten_8(), unwritten(), unwritten_8());
    shared_drops<<<1, 64>>>(unwritten());
    shared_uses<<<1, 64>>>(unwritten());
    adds<<<1, 32>>>(unwritten());
    two<<<2, 1>>>(unwritten());
    return cudaDeviceSynchronize();
}
