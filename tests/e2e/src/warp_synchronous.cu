// Lanes of a warp that exchange data with no barrier and no collective between, as a warp runs in step. Each
// kernel's result is compared with what the host computes for lanes in step.
#include <cstdio>
#include <cstdlib>

enum { LANES = 32, BINS = 8 };

__global__ void global_tree(int *data)
{
    volatile int *v = data;
    int t = threadIdx.x;
    for (int step = 32; step; step /= 2)
        v[t] += v[t + step];
}

// Three warps, each with a tree of its own.
__global__ void shared_trees(const int *in, int *out)
{
    __shared__ volatile int s[3][64];
    volatile int *v = s[threadIdx.x / 32];
    int t = threadIdx.x % 32;
    v[t] = in[t] + (int)threadIdx.x;
    v[t + 32] = in[t + 32];
    v[t] += v[t + 32];
    v[t] += v[t + 16];
    v[t] += v[t + 8];
    v[t] += v[t + 4];
    v[t] += v[t + 2];
    v[t] += v[t + 1];
    if (t == 0)
        out[threadIdx.x / 32] = v[0];
}

// Eight lanes store a column each and read a row each; no volatile.
__global__ void squares(const int *in, int *out)
{
    __shared__ int s[LANES * 8];
    int t = threadIdx.x, x = t % 8, *mine = s + t / 8 * 64;
    for (int i = 0; i < 8; i++)
        mine[i * 8 + x] = in[(t * 8 + i) % 64];
    for (int i = 0; i < 8; i++)
        out[t * 8 + i] = mine[x * 8 + i];
}

// Some lanes store what the first one adds up.
__global__ void collect(const int *in, int *out)
{
    extern __shared__ int sums[];
    if (threadIdx.x < 17)
        sums[threadIdx.x] = in[threadIdx.x] * 3;
    if (!threadIdx.x) {
        int all = 0;
        for (int k = 0; k < 17; k++)
            all += sums[k];
        *out = all;
    }
}

// The first lane tells the others, time after time.
__global__ void broadcast(const int *in, int *out, int rounds)
{
    __shared__ volatile int told;
    int sum = 0;
    for (int i = 0; i < rounds; i++) {
        if (threadIdx.x == 0)
            told = in[i];
        sum += told;
    }
    out[threadIdx.x] = sum;
}

// Running sums: fewer lanes take part the further it goes.
__global__ void scan(const int *in, int *out)
{
    __shared__ volatile int s[LANES];
    unsigned lane = threadIdx.x;
    s[lane] = in[lane];
    if (lane >= 1)
        s[lane] += s[lane - 1];
    if (lane >= 2)
        s[lane] += s[lane - 2];
    if (lane >= 4)
        s[lane] += s[lane - 4];
    if (lane >= 8)
        s[lane] += s[lane - 8];
    if (lane >= 16)
        s[lane] += s[lane - 16];
    out[lane] = s[lane];
}

__global__ void flagged(const int *in, int *out)
{
    __shared__ volatile int flag;
    for (int i = 0; i < 4; i++) {
        flag = 0;
        if (in[threadIdx.x] == i * 100)
            flag = 1;
        out[i * LANES + threadIdx.x] = flag;
    }
}

// A histogram without atomics: of the lanes with the same bin the last one to write has counted, the others
// try again.
__global__ void tags(const int *in, int *out)
{
    __shared__ volatile unsigned bin[BINS];
    if (threadIdx.x < BINS)
        bin[threadIdx.x] = 0;
    for (int i = 0; i < 2; i++) {
        volatile unsigned *b = &bin[in[threadIdx.x + i * LANES] % BINS];
        unsigned n;
        do {
            n = ((*b & 0x07ffffff) + 1) | threadIdx.x << 27;
            *b = n;
        } while (*b != n);
    }
    if (threadIdx.x < BINS)
        out[threadIdx.x] = bin[threadIdx.x] & 0x07ffffff;
}

static __device__ __noinline__ void put(volatile int *p, int i, int value)
{
    p[i] = value;
}

static __device__ __noinline__ int get(volatile int *p, int i)
{
    return p[i];
}

__global__ void calls(const int *in, int *out)
{
    __shared__ int s[LANES];
    int t = threadIdx.x, x = in[t];
    for (int i = 0; i < 3; i++) {
        put(s, t, x);
        x = get(s, (t + 1) % LANES) + 1;
    }
    out[t] = x;
}

static int *in, *out, right, kernels;

static void verdict(const char *name, const int *want, int n)
{
    int bad = cudaDeviceSynchronize() != cudaSuccess;
    for (int i = 0; i < n; i++)
        bad += out[i] != want[i];
    kernels++;
    right += !bad;
    if (bad)
        printf("%s: %d of %d wrong\n", name, bad, n);
    for (int i = 0; i < 256; i++)
        out[i] = -1;
}

static void trees()
{
    int want[64] = {}, sum = 0;
    for (int i = 0; i < 64; i++) {
        out[i] = in[i];
        want[0] += in[i];
        sum += in[i] + (i < 32 ? i : 0);
    }
    global_tree<<<1, LANES>>>(out);
    verdict("global_tree", want, 1);
    for (int w = 0; w < 3; w++)
        want[w] = sum + w * 32 * 32;
    shared_trees<<<1, 96>>>(in, out);
    verdict("shared_trees", want, 3);
}

static void exchanges()
{
    int want[256] = {}, sum = 0;
    for (int t = 0; t < LANES; t++)
        for (int i = 0; i < 8;
             i++) // element i of row t % 8 of the group: what lane i of the group stored in that row
            want[t * 8 + i] = in[((t / 8 * 8 + i) * 8 + t % 8) % 64];
    squares<<<1, LANES>>>(in, out);
    verdict("squares", want, 256);
    for (int k = 0; k < 17; k++)
        sum += in[k] * 3;
    collect<<<1, LANES, LANES * sizeof(int)>>>(in, out);
    verdict("collect", &sum, 1);
    sum = in[0] + in[1] + in[2] + in[3] + in[4];
    for (int t = 0; t < LANES; t++)
        want[t] = sum;
    broadcast<<<1, LANES>>>(in, out, 5);
    verdict("broadcast", want, LANES);
    for (int t = 0; t < LANES; t++)
        want[t] = in[(t + 3) % LANES] + 3;
    calls<<<1, LANES>>>(in, out);
    verdict("calls", want, LANES);
}

static void flags()
{
    int want[128] = {};
    for (int t = 0; t < LANES; t++)
        want[t] = (t ? want[t - 1] : 0) + in[t];
    scan<<<1, LANES>>>(in, out);
    verdict("scan", want, LANES);
    for (int i = 0; i < 4; i++)
        for (int t = 0; t < LANES; t++) {
            want[i * LANES + t] = 0;
            for (int k = 0; k < LANES; k++)
                want[i * LANES + t] |= in[k] == i * 100;
        }
    flagged<<<1, LANES>>>(in, out);
    verdict("flagged", want, 128);
    for (int i = 0; i < BINS; i++)
        want[i] = 0;
    for (int i = 0; i < 2 * LANES; i++)
        want[in[i] % BINS]++;
    tags<<<1, LANES>>>(in, out);
    verdict("tags", want, BINS);
}

int main()
{
    cudaMallocManaged(&in, 64 * sizeof(int));
    cudaMallocManaged(&out, 256 * sizeof(int));
    for (int i = 0; i < 64; i++)
        in[i] = i * i % 101 + (i == 20 ? 200 : 0);
    trees();
    exchanges();
    flags();
    printf("warp_synchronous: %d of %d\n", right, kernels);
    return 0;
}
