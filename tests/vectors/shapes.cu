// Kernels for the ways in which addresses, lanes and waits can lie, with results that are known beforehand.
// cases.py knows how many of them run as vectors, and which do not.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define N 4096

// Unsigned numbers that wrap round within a row (lane 0 is at 2^32 - 5), or are above 2^31, made wider.
__host__ __device__ int shapes_far(unsigned i)
{
    return (int)(((unsigned long long)(i - 5) * 0x123456789ull +
                  (unsigned long long)(i + 0x80000003u) * 0x1234567ull) >>
                 20);
}
__global__ void wraps(const int *in, int *out)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, left = i - 1;
    out[i] = (i > 0 ? in[left] : -1) + shapes_far(i);
}
// The same with a number of lanes that are left out, for loads and stores, in rows of 32 and of 16.
__global__ void shifted(const int *in, int *out, unsigned by)
{
    unsigned i = (blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x, at = i - by;
    if (i >= by)
        out[at] = in[at] + in[2 * at + by];
    else
        out[N - 1 - i] = i;
}
__global__ void reversed(const int *in, int *out, int n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[n - 1 - i];
}
// Elements of 16 bytes, members of them, bytes, and an address that is the same for a row.
__global__ void wide(const int4 *in, int4 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int4 v = in[i];
    out[i] = make_int4(v.w, v.z, v.y, v.x);
}
__global__ void bytes(const int *in, signed char *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (in[i] & 1)
        out[i] = (signed char)in[i];
    else
        out[i] = -7;
}
__global__ void rows(const int *in, int *out)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (threadIdx.x == 0 && row % 3)
        out[row * 16] = in[row];
    if (row % 2)
        out[row * 16 + threadIdx.x] += in[row] + threadIdx.x;
}
// All lanes store to one place: the last one that is there stays.
__global__ void last(int *out, const int *in)
{
    if (in[threadIdx.x] & 2)
        out[blockIdx.x] = threadIdx.x;
}
// The threads that are left come to the barrier; the others have gone.
__global__ void leaves(const int *in, int *out, int n)
{
    __shared__ int s[128];
    s[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x >= n)
        return;
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[n - 1 - threadIdx.x];
}
// Lanes leave a loop at different times, and take along what is the same for all that are still in it.
__global__ void counts(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, steps = 0, x = i + 1;
    while (x != 1 && steps < 1000) {
        x = x & 1 ? 3 * x + 1 : x / 2;
        steps++;
    }
    out[i] = steps;
}
// Two loops that lanes leave at once, in different rounds; all ways lead through one block, some of them a
// round later.
__host__ __device__ int shapes_burns(int t, int fuel)
{
    while (t & 4) {
        if (--fuel < 0)
            break;
        do {
            if (--fuel < 0)
                break;
        } while (t % 3 == 0);
    }
    return fuel;
}
__global__ void burn(int fuel, int *out)
{
    out[threadIdx.x] = shapes_burns(threadIdx.x, fuel);
}
// A division in lanes that are there alone; local arrays; structures by value.
struct three {
    int x, y, z;
};
__global__ void divides(const int *in, int *out, three by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, d = in[i] % 5, own[5];
    for (int k = 0; k < 5; k++)
        own[k] = k * by.x;
    if (d)
        out[i] = i / d + own[d] + i % d * by.y + (int)(i * 10000000019ll / d % 97);
    else
        out[i] = by.z;
}
__global__ void votes(const int *in, unsigned *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned odd = __ballot_sync(~0u, in[i] & 1), here = 0, sum = 0;
    if (in[i] & 1) {
        here = __activemask();
        sum = __popc(here & ((1u << (threadIdx.x & 31)) - 1));
    }
    out[i] = (odd == here || !(in[i] & 1)) ? sum + __shfl_xor_sync(~0u, threadIdx.x, 5) : ~0u;
}
__global__ void adds(const int *in, int *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&sum[0], in[i]);
    if (in[i] & 1)
        atomicMax(&sum[1], in[i]);
    atomicAdd(&sum[2 + (in[i] & 7)], 1);
}
// A lane waits for another one; a call by pointer; not as vectors: a barrier in one half of a warp.
__global__ void locks(int *lock, int *count)
{
    while (atomicCAS(lock, 0, 1))
        ;
    *(volatile int *)count += 1;
    __threadfence();
    atomicExch(lock, 0);
}
__device__ int twice(int x)
{
    return 2 * x;
}
__device__ int thrice(int x)
{
    return 3 * x;
}
__device__ int (*table[2])(int) = {twice, thrice};
__global__ void points(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = table[in[i] & 1](i);
}
__global__ void halves(int *out)
{
    __shared__ int s;
    if (threadIdx.x == 40)
        s = 0;
    __syncthreads();
    if (threadIdx.x < 16) {
        atomicAdd(&s, 1);
        asm volatile("barrier.sync 1, 32;" ::: "memory");
        out[threadIdx.x] = s;
    } else if (threadIdx.x < 32) {
        atomicAdd(&s, 1);
        asm volatile("barrier.sync 1, 32;" ::: "memory");
        out[threadIdx.x] = s;
    }
}

static int *in, *out;
static int wrong;
static void shapes_begin()
{
    memset(out, 0, N * 16);
}
static void shapes_done(const char *name, int (*expect)(int), int n)
{
    cudaError_t e = cudaDeviceSynchronize();
    int bad = 0;
    for (int i = 0; i < n; i++)
        if (out[i] != expect(i) && !bad++)
            printf("%s: [%d] is %d, not %d\n", name, i, out[i], expect(i));
    printf("%s: %s, %d wrong\n", name, cudaGetErrorString(e), bad);
    wrong += bad + (e != cudaSuccess);
}
static int shapes_value(int i)
{
    return (int)(i * 2654435761u >> 7) & 1023;
}
static int shapes_collatz(int i)
{
    int x = i + 1, n = 0;
    for (; x != 1 && n < 1000; n++)
        x = x & 1 ? 3 * x + 1 : x / 2;
    return n;
}
static int shapes_rank(int i)
{
    int n = 0;
    for (int k = i & ~31; k < i; k++)
        n += shapes_value(k) & 1;
    return (shapes_value(i) & 1 ? n : 0) + (i % 64 ^ 5);
}
static int shapes_added(int i)
{
    int n = 0;
    for (int k = 0; k < N; k++)
        n = i == 0   ? n + shapes_value(k)
            : i == 1 ? (shapes_value(k) & 1 && shapes_value(k) > n ? shapes_value(k) : n)
                     : n + ((shapes_value(k) & 7) == i - 2);
    return n;
}

int main()
{
    cudaMallocManaged(&in, N * 16);
    cudaMallocManaged(&out, N * 16);
    for (int i = 0; i < 4 * N; i++)
        in[i] = shapes_value(i);
    shapes_begin();
    wraps<<<N / 256, 256>>>(in, out);
    shapes_done("wraps", [](int i) { return (i ? shapes_value(i - 1) : -1) + shapes_far((unsigned)i); }, N);
    for (int narrow = 0; narrow < 2; narrow++) {
        shapes_begin();
        shifted<<<N / 256, narrow ? dim3(16, 16) : dim3(256)>>>(in, out, 21);
        shapes_done(
            "shifted",
            [](int i) { return i < N - 21 ? shapes_value(i) + shapes_value(2 * i + 21) : N - 1 - i; }, N);
    }
    shapes_begin();
    reversed<<<N / 256, 256>>>(in, out, N);
    shapes_done("reversed", [](int i) { return shapes_value(N - 1 - i); }, N);
    shapes_begin();
    wide<<<N / 256, 256>>>((int4 *)in, (int4 *)out);
    shapes_done("wide", [](int i) { return shapes_value((i & ~3) + 3 - (i & 3)); }, 4 * N);
    shapes_begin();
    bytes<<<N / 64, 64>>>(in, (signed char *)out);
    shapes_done(
        "bytes",
        [](int i) {
            signed char b[4];
            for (int k = 0; k < 4; k++)
                b[k] = shapes_value(4 * i + k) & 1 ? (signed char)shapes_value(4 * i + k) : -7;
            int x;
            memcpy(&x, b, 4);
            return x;
        },
        N / 4);
    shapes_begin();
    rows<<<N / 256, dim3(16, 16)>>>(in, out);
    shapes_done(
        "rows",
        [](int i) {
            int row = i / 16, x = i % 16;
            return (x == 0 && row % 3 ? shapes_value(row) : 0) + (row % 2 ? shapes_value(row) + x : 0);
        },
        N);
    shapes_begin();
    last<<<8, 32>>>(out, in);
    shapes_done(
        "last",
        [](int i) {
            int n = 0;
            for (int k = 0; k < 32; k++)
                n = shapes_value(k) & 2 ? k : n;
            return i < 8 ? n : 0;
        },
        8);
    shapes_begin();
    leaves<<<1, 128>>>(in, out, 77);
    shapes_done("leaves", [](int i) { return i < 77 ? shapes_value(76 - i) : 0; }, 128);
    shapes_begin();
    counts<<<N / 128, 128>>>(in, out);
    shapes_done("counts", shapes_collatz, N);
    shapes_begin();
    burn<<<1, 64>>>(40, out);
    shapes_done("burn", [](int i) { return shapes_burns(i, 40); }, 64);
    shapes_begin();
    divides<<<N / 128, dim3(128)>>>(in, out, three{3, 7, -5});
    shapes_done(
        "divides",
        [](int i) {
            int d = shapes_value(i) % 5;
            return d ? i / d + d * 3 + i % d * 7 + (int)(i * 10000000019ll / d % 97) : -5;
        },
        N);
    shapes_begin();
    votes<<<N / 64, 64>>>(in, (unsigned *)out);
    shapes_done("votes", shapes_rank, N);
    shapes_begin();
    adds<<<N / 256, 256>>>(in, out);
    shapes_done("adds", shapes_added, 10);
    shapes_begin();
    locks<<<2, 64>>>(out + 1, out);
    shapes_done("locks", [](int i) { return i ? 0 : 128; }, 2);
    shapes_begin();
    points<<<N / 128, 128>>>(in, out);
    shapes_done("points", [](int i) { return i * (shapes_value(i) & 1 ? 3 : 2); }, N);
    shapes_begin();
    halves<<<1, 64>>>(out);
    shapes_done("halves", [](int i) { return i < 32 ? 32 : 0; }, 64);
    puts(wrong ? "wrong" : "all right");
    return wrong != 0;
}
