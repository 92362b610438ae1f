// Calls that stay calls: by pointer, of virtual functions, and of functions that call themselves. The host
// computes the same.
#include <cstdio>
#include <cstring>

#define N 960
#define BOTH __host__ __device__

typedef int (*work)(int, int);
BOTH int calls_add(int x, int i)
{
    return x + i;
}
BOTH int calls_scale(int x, int i)
{
    return x * (i + 1);
}
BOTH __noinline__ int calls_halve(int x, int i)
{
    return i <= 0 ? x : 1 + calls_halve(x / 2, i - 1 - (i & 1));
}
__device__ work table[3] = {calls_add, calls_scale, calls_halve};
static work host_table[3] = {calls_add, calls_scale, calls_halve};

__device__ int calls_thread()
{
    return (blockIdx.x * blockDim.z * blockDim.y + threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x +
           threadIdx.x;
}

// Each lane has a target of its own; odd ones call twice.
__global__ void different(int *out, const int *in, int n)
{
    int i = calls_thread();
    if (i >= n)
        return;
    int x = table[in[i] % 3](in[i], i % 7);
    out[i] = i & 1 ? table[x % 3 < 0 ? 0 : x % 3](x, 2) : x;
}
static int different_host(const int *in, int i)
{
    int x = host_table[in[i] % 3](in[i], i % 7);
    return i & 1 ? host_table[x % 3 < 0 ? 0 : x % 3](x, 2) : x;
}

// Warps exchange values, and CTAs wait, within what is called.
typedef int (*meeting)(int);
__device__ int meet_shuffle(int x)
{
    return __any_sync(__activemask(), x == 13) + __popc(__ballot_sync(__activemask(), x & 1)) * 0 + x;
}
__device__ int meet_barrier(int x)
{
    __shared__ int turn[1024];
    int at = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z),
        n = blockDim.x * blockDim.y * blockDim.z;
    turn[at] = x;
    __syncthreads();
    int other = turn[n - 1 - at];
    __syncthreads();
    return other;
}
__device__ meeting meetings[2] = {meet_shuffle, meet_barrier};
__global__ void meets(int *out, const int *in, int n)
{
    int i = calls_thread();
    out[i] = meetings[1](i < n ? in[i] : 0);
}

BOTH __noinline__ int calls_fib(int n)
{
    return n < 2 ? n : calls_fib(n - 1) + calls_fib(n - 2);
}
__global__ void fibonacci(int *out, const int *in, int n)
{
    int i = calls_thread();
    if (i < n)
        out[i] = calls_fib(in[i] % 12);
}

BOTH int calls_odd(int n, int x);
BOTH __noinline__ int calls_even(int n, int x)
{
    return n == 0 ? x : calls_odd(n - 1, 3 * x + n) + 1;
}
BOTH __noinline__ int calls_odd(int n, int x)
{
    return n == 0 ? -x : calls_even(n - 1, x ^ n) - 1;
}
__global__ void mutual(int *out, const int *in, int n)
{
    int i = calls_thread();
    if (i < n && in[i] % 5)
        out[i] = calls_even(in[i] % 40, i);
}
static int mutual_host(const int *in, int i)
{
    return in[i] % 5 ? calls_even(in[i] % 40, i) : 0;
}

struct shape {
    BOTH virtual int area(const int *in, int i) const = 0;
};
struct square : shape {
    int side;
    BOTH square(int s) : side(s)
    {
    }
    BOTH int area(const int *in, int i) const override
    {
        return side * side + in[i];
    }
};
struct strip : shape {
    int a, b;
    BOTH strip(int a, int b) : a(a), b(b)
    {
    }
    BOTH int area(const int *in, int i) const override
    {
        return a * b - in[i / 2];
    }
};
BOTH int virtual_of(const int *in, int i)
{
    square s(i);
    strip t(i + 1, in[i]);
    const shape *list[] = {&s, &t};
    return list[in[i] & 1]->area(in, i);
}
__global__ void virtuals(int *out, const int *in, int n)
{
    int i = calls_thread();
    if (i < n)
        out[i] = virtual_of(in, i);
}

// A pointer of which LLVM finds out where it leads.
typedef int (*reader)(const int *, int);
BOTH __noinline__ int known_read(const int *in, int i)
{
    return in[i] + 2 * in[i / 3];
}
BOTH int known_of(const int *in, int i)
{
    reader r = known_read;
    return in[i / 2] + r(in, i);
}
__global__ void known(int *out, const int *in, int n)
{
    int i = calls_thread();
    if (i < n)
        out[i] = known_of(in, i);
}

// Structures come by value and are written to.
struct big {
    int v[6];
};
BOTH __noinline__ big big_step(big b, int d)
{
    if (d == 0)
        return b;
    for (int i = 0; i < 6; i++)
        b.v[i] += d * i;
    big r = big_step(b, d - 1);
    r.v[d % 6]++;
    return r;
}
BOTH int big_of(const int *in, int i)
{
    big b;
    for (int k = 0; k < 6; k++)
        b.v[k] = k + i;
    big r = big_step(b, in[i] % 5);
    int sum = 0;
    for (int k = 0; k < 6; k++)
        sum = sum * 3 + r.v[k] + b.v[k];
    return sum;
}
__global__ void structures(int *out, const int *in, int n)
{
    int i = calls_thread();
    if (i < n)
        out[i] = big_of(in, i);
}
__global__ void written(big b, int *out, const int *in, int n)
{
    int i = calls_thread();
    if (i >= n)
        return;
    for (int k = 0; k < in[i] % 9; k++)
        b.v[(in[i] + k) % 6] += i;
    out[i] = b.v[in[i] % 6] + b.v[0];
}
static int written_host(const int *in, int i)
{
    big b = {{1, 2, 3, 4, 5, 6}};
    for (int k = 0; k < in[i] % 9; k++)
        b.v[(in[i] + k) % 6] += i;
    return b.v[in[i] % 6] + b.v[0];
}

static int *in, *out, host[N], wrong;
static void calls_done(const char *name, dim3 cta, int (*expect)(const int *, int))
{
    cudaError_t e = cudaDeviceSynchronize();
    int bad = e != cudaSuccess;
    for (int i = 0; i < N; i++)
        if (out[i] != expect(host, i) && !bad++)
            printf("%s: [%d] is %d, not %d\n", name, i, out[i], expect(host, i));
    printf("%s, %u x %u x %u: %s, %d wrong\n", name, cta.x, cta.y, cta.z, cudaGetErrorString(e), bad);
    wrong += bad;
    memset(out, 0, 2 * N * sizeof *out);
}

static unsigned cta_threads;
int main()
{
    const dim3 ctas[] = {dim3(1), dim3(5), dim3(31), dim3(32), dim3(48), dim3(96), dim3(8, 8), dim3(7, 3, 2)};
    big b = {{1, 2, 3, 4, 5, 6}};
    cudaMallocManaged(&in, N * sizeof *in);
    cudaMallocManaged(&out, 2 * N * sizeof *out);
    memset(out, 0, 2 * N * sizeof *out);
    for (int i = 0; i < N; i++)
        in[i] = host[i] = (int)(i * 2654435761u >> 9) & 1023;
    for (dim3 cta : ctas) {
        cta_threads = cta.x * cta.y * cta.z;
        int grid = (N + cta_threads - 1) / cta_threads;
        different<<<grid, cta>>>(out, in, N);
        calls_done("different", cta, different_host);
        meets<<<grid, cta>>>(out, in, N);
        calls_done("meets", cta, [](const int *in, int i) {
            int first = i / cta_threads * cta_threads, at = first + cta_threads - 1 - (i - first);
            return at < N ? in[at] : 0;
        });
        fibonacci<<<grid, cta>>>(out, in, N);
        calls_done("fibonacci", cta, [](const int *in, int i) { return calls_fib(in[i] % 12); });
        mutual<<<grid, cta>>>(out, in, N);
        calls_done("mutual", cta, mutual_host);
        virtuals<<<grid, cta>>>(out, in, N);
        calls_done("virtuals", cta, virtual_of);
        known<<<grid, cta>>>(out, in, N);
        calls_done("known", cta, known_of);
        structures<<<grid, cta>>>(out, in, N);
        calls_done("structures", cta, big_of);
        written<<<grid, cta>>>(b, out, in, N);
        calls_done("written", cta, written_host);
    }
    puts(wrong ? "WRONG" : "all right");
}
