// Unsigned indices of 32 bits that count backwards in shared and local memory: addresses there have 32 bits,
// and what is above is cut off (PTX manual, "Addresses as Operands"), so p[~a] is p[-1 - a]. What is expected
// is computed here with signed indices. An index of 16 bits that wraps round is negative: LLVM 19 took its
// constant out all the same. Prints "wrapped: N wrong of M".
#include <cstdio>
enum { N = 64 };
#define HALF (N * 2)

// Each has its own indices out of memory, of which nothing is known: back[i] = i % 7 + 1.
__global__ void loads(const unsigned *back, unsigned *out)
{
    __shared__ unsigned s[2 * HALF];
    unsigned n = threadIdx.x, a = back[n];
    for (unsigned i = n; i < 2 * HALF; i += N)
        s[i] = 1000 + i;
    __syncthreads();
    unsigned *p = s + (HALF + 2 * n);
    out[n] = p[~a] + p[0u - a] + (p + 1)[a * 0xffffffffu] + p[(~a | 1) - 1];
}

// A loop carries the index on.
__global__ void carried(const unsigned *back, unsigned *out)
{
    __shared__ unsigned s[2 * HALF];
    unsigned n = threadIdx.x, a = back[n], v;
    for (unsigned i = n; i < 2 * HALF; i += N)
        s[i] = 1000 + i;
    __syncthreads();
    unsigned *p = s + (HALF + 2 * n), *q = p + 1;
    for (;; a += back[N]) {
        v = p[~a];
        if (v % 2)
            break;
        v = q[~a];
        if (v % 2)
            break;
    }
    out[n] = v;
}

__global__ void stores(const unsigned *back, unsigned *out)
{
    __shared__ unsigned s[2 * HALF];
    __shared__ volatile unsigned char bytes[2 * HALF];
    unsigned n = threadIdx.x, a = back[n];
    for (unsigned i = n; i < 2 * HALF; i += N)
        s[i] = bytes[i] = 0;
    __syncthreads();
    unsigned *p = s + (HALF + 2 * n + a);
    p[~a] = n + 1;
    atomicAdd(&p[0u - a], 1000);
    atomicCAS(&p[~a], n + 1, n + 2);
    (bytes + HALF + n + a)[0u - a] = (unsigned char)n;
    __syncthreads();
    out[n] = s[HALF + 2 * n - 1] + s[HALF + 2 * n] * 3 + bytes[HALF + n];
}

__global__ void local(const unsigned *back, unsigned *out)
{
    unsigned n = threadIdx.x, a = back[n], l[32], sum = 0;
    for (unsigned i = 0; i < 32; i++)
        l[i] = back[(n + i) % N] * 100 + i;
    unsigned *p = l + (16 + n % 8);
    for (unsigned i = 0; i < 4; i++)
        sum = sum * 3 + p[~a - i];
    out[n] = sum;
}

__device__ short around[1 << 16];

__global__ void narrow(const unsigned *, unsigned *out)
{
    unsigned n = threadIdx.x;
    const short *p = around + (1 << 15);
    out[n] = (unsigned)(p[(short)(n * 16 + 32767 - 5 * 16)] + p[(signed char)(n * 4 + 100)]);
}

static short around_here[1 << 16];
static unsigned back[N + 1], got[N], want[N], wrong, total;

static void run(const char *name, void (*kernel)(const unsigned *, unsigned *), unsigned *in, unsigned *out)
{
    kernel<<<1, N>>>(in, out);
    if (cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost) != cudaSuccess)
        printf("%s fails\n", name), wrong++;
    for (int i = 0; i < N; i++, total++)
        if (got[i] != want[i] && wrong++ < 5)
            printf("%s, thread %d: %u for %u\n", name, i, got[i], want[i]);
}

int main()
{
    unsigned *in, *out;
    for (int i = 0; i < N; i++)
        back[i] = i % 7 + 1;
    cudaMalloc(&in, sizeof back);
    cudaMalloc(&out, sizeof got);
    cudaMemcpy(in, back, sizeof back, cudaMemcpyHostToDevice);
    for (int n = 0; n < N; n++) {
        int a = (int)back[n], at = 1000 + HALF + 2 * n;
        want[n] = (unsigned)((at - 1 - a) + (at - a) + (at + 1 - a) + (at + ((-1 - a) | 1) - 1));
    }
    run("loads", loads, in, out);
    for (int n = 0; n < N; n++) {
        int v = 1000 + HALF + 2 * n - 1 - (int)back[n];
        want[n] = (unsigned)(v % 2 ? v : v + 1);
    }
    run("carried", carried, in, out);
    for (int n = 0; n < N; n++)
        want[n] = (unsigned)(n + 2 + 3 * 1000 + n);
    run("stores", stores, in, out);
    for (int n = 0; n < N; n++) {
        want[n] = 0;
        for (int i = 0; i < 4; i++) {
            int at = 16 + n % 8 - 1 - (int)back[n] - i;
            want[n] = want[n] * 3 + back[(n + at) % N] * 100 + (unsigned)at;
        }
    }
    run("local", local, in, out);
    for (int i = 0; i < 1 << 16; i++)
        around_here[i] = (short)(i * 7);
    cudaMemcpyToSymbol(around, around_here, sizeof around_here);
    for (int n = 0; n < N; n++)
        want[n] = (unsigned)(around_here[(1 << 15) + (short)(n * 16 + 32767 - 5 * 16)] +
                             around_here[(1 << 15) + (signed char)(n * 4 + 100)]);
    run("narrow", narrow, in, out);
    printf("wrapped: %u wrong of %u\n", wrong, total);
    return wrong != 0;
}
