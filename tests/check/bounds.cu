// Accesses that leave their variable and stay in memory that exists (see faults.cu).
#include "faults.h"

// ---- device variables ----

__device__ int counts[32], after_counts[32];
__device__ float weights[3][4] = {{1}, {2}, {3}};
__device__ float more_weights[16] = {4};
__device__ struct {
    short head[6];
    int tail;
} packet;

__global__ void count_all(const int *key, int n)
{
    for (int i = threadIdx.x; i < n; i += 32)
        atomicAdd(&counts[key[i]], 1); // !count_all: out-of-bounds
}
__global__ void weigh(const int *row, float *to)
{
    to[threadIdx.x] = weights[row[threadIdx.x]][threadIdx.x % 4]; // !weigh: out-of-bounds
}
__global__ void fill_head(int at)
{
    for (int i = 0; i < 6; i++)
        packet.head[i] = (short)i;
    ((short *)&packet)[at] = 7; // !fill_packet: out-of-bounds
}
__global__ void use_more(int *to)
{
    to[0] = after_counts[threadIdx.x] + (int)more_weights[threadIdx.x % 16] + packet.head[threadIdx.x % 6] +
            packet.tail;
}

// Bytes from the one variable to the other: there is memory there, whatever the compiler put between the two.
template <typename A, typename B> static long apart(const A &from, const B &to)
{
    void *a, *b;
    cudaGetSymbolAddress(&a, from);
    cudaGetSymbolAddress(&b, to);
    return (char *)b - (char *)a;
}
static void count_all(int right)
{
    Buffer<int> key(64), to(32);
    std::vector<int> h(64, 31);
    h[40] = right ? 0 : (int)(apart(counts, after_counts) / 4);
    cudaMemcpy(key, h.data(), 256, cudaMemcpyHostToDevice);
    count_all<<<1, 32>>>(key, 64);
    use_more<<<1, 32>>>(to);
    get(to, 128);
}
static void weigh(int right)
{
    Buffer<int> row(32), to(32);
    Buffer<float> f(32);
    std::vector<int> h(32, 2);
    h[5] = right ? 1 : (int)(apart(weights, more_weights) / 16 + 1); // 64 bytes are there
    cudaMemcpy(row, h.data(), 128, cudaMemcpyHostToDevice);
    weigh<<<1, 32>>>(row, f);
    use_more<<<1, 32>>>(to);
    get(f, 128);
    get(to, 128);
}
static void fill_packet(int right)
{
    fill_head<<<1, 1>>>(right ? 7 : (int)(apart(packet, more_weights) / 2));
    Buffer<int> to(32);
    use_more<<<1, 32>>>(to);
    get(to, 128);
}

// ---- constants ----

__constant__ float taps[5] = {1, 2, 3, 2, 1};
__constant__ float other_taps[8] = {1, 1, 1, 1};
__constant__ int primes[16] = {2, 3, 5, 7, 11};
struct Row {
    double scale;
    int first, count;
};
__constant__ Row rows[4] = {{1, 0, 4}, {2, 4, 4}, {3, 8, 4}, {4, 12, 4}};

__global__ void filter(const float *x, float *y, int n)
{
    float s = 0;
    for (int i = 0; i < n; i++)
        s += taps[i] * x[i]; // !filter: out-of-bounds
    y[threadIdx.x] = s + other_taps[threadIdx.x % 8];
}
__global__ void prime_of(const int *key, int *to)
{
    to[threadIdx.x] = primes[key[threadIdx.x]]; // !prime_of: out-of-bounds
}
__global__ void scale_rows(double *x, int n)
{
    for (int r = threadIdx.y; r < n; r += blockDim.y)
        x[r] *= rows[r].scale; // !scale_rows: out-of-bounds
}

static void filter(int right)
{
    Buffer<float> x(8), y(32);
    filter<<<1, 32>>>(x, y, right ? 5 : 6);
    get(y, 128);
}
static void prime_of(int right)
{
    Buffer<int> key(32), to(32);
    std::vector<int> h(32, 15);
    h[7] = right ? 0 : -1;
    cudaMemcpy(key, h.data(), 128, cudaMemcpyHostToDevice);
    prime_of<<<1, 32>>>(key, to);
    get(to, 128);
}
static void scale_rows(int right)
{
    Buffer<double> x(5);
    scale_rows<<<1, dim3(1, 2)>>>(x, right ? 4 : 5);
    get(x, 40);
}

// ---- shared memory: arrays of the kernel ----

__global__ void next_array(int *a, int last)
{
    __shared__ int tile[32];
    __shared__ int more[32];
    int t = threadIdx.x;
    more[t] = t;
    tile[t] = 2 * t;
    __syncthreads();
    if (t == 0)
        tile[last] = 1; // !next_array: out-of-bounds
    __syncthreads();
    a[t] = tile[t] + more[t];
}
__device__ int sum_of(const int *p, int n)
{
    int s = 0;
    for (int i = 0; i < n; i++)
        s += p[i]; // !by_pointer: out-of-bounds
    return s;
}
__global__ void by_pointer(int *a, int n)
{
    __shared__ int part[64];
    __shared__ int rest[64];
    part[threadIdx.x] = rest[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
        a[64] = sum_of(part, n);
    a[threadIdx.x] = rest[63 - threadIdx.x];
}
__global__ void either(int *a, int right)
{
    __shared__ int even[32];
    __shared__ int odd[32];
    int t = threadIdx.x, *mine = t & 1 ? odd : even;
    even[t] = odd[t] = t;
    __syncthreads();
    a[t] = mine[right ? t : 32 * t]; // !either: out-of-bounds
    a[t] += even[31 - t] + odd[31 - t];
}
__global__ void halo(int *a, int right)
{
    __shared__ int left[16];
    __shared__ int line[66];
    int t = threadIdx.x;
    line[t + 1] = a[t];
    if (t < 16)
        left[t] = t;
    if (t == 0)
        line[0] = line[65] = 0;
    __syncthreads();
    a[t] = line[t - (right ? 0 : 1)] + left[t % 16]; // !halo: out-of-bounds
}
struct alignas(16) Cell {
    int x, y, z, w;
};
__global__ void bytes_of(Cell *a, int at)
{
    __shared__ Cell cells[8];
    __shared__ Cell spare[8];
    int t = threadIdx.x % 8;
    cells[t] = a[t];
    spare[t] = a[t];
    __syncthreads();
    a[t] = *(const Cell *)((const char *)cells + at * t); // !bytes_of: out-of-bounds
    a[t].x += spare[t].y;
}

static void next_array(int right)
{
    Buffer<int> a(32);
    next_array<<<1, 32>>>(a, right ? 31 : 32);
    get(a, 128);
}
static void by_pointer(int right)
{
    Buffer<int> a(65);
    by_pointer<<<1, 64>>>(a, right ? 64 : 65);
    get(a, 4 * 65);
}
static void halo(int right)
{
    Buffer<int> a(64);
    halo<<<1, 64>>>(a, right);
    get(a, 256);
}
static void bytes_of(int right)
{
    Buffer<Cell> a(8);
    bytes_of<<<1, 8>>>(a, right ? 16 : 32);
    get(a, 128);
}

// ---- shared memory: of a launch ----

extern __shared__ int pool[];

__global__ void reverse(int *a, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        pool[i] = a[i]; // !one_short: out-of-bounds
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        a[i] = pool[63 - i]; // !one_short: out-of-bounds
}
__global__ void two_parts(double *a, int n, int right)
{
    double *d = (double *)pool;
    char *c = (char *)(d + n); // both parts are in one array
    int t = threadIdx.x;
    d[t] = a[t];
    c[t] = (char)t;
    __syncthreads();
    c[right ? t : t + 1] = 1; // !two_parts: out-of-bounds
    __syncthreads();
    a[t] = d[n - 1 - t] + c[t];
}
__global__ void behind_static(float *a, int at)
{
    __shared__ float own[32];
    float *dynamic = (float *)pool;
    int t = threadIdx.x;
    own[t] = a[t];
    dynamic[t] = a[t];
    __syncthreads();
    a[t] = own[31 - t] + dynamic[t - at]; // !behind_static: out-of-bounds
}
__global__ void none_at_all(int *a, int right)
{
    if (!right)
        pool[threadIdx.x] = 1; // !none_at_all: out-of-bounds
    a[threadIdx.x] = 2;
}

static void one_short(int right)
{
    Buffer<int> a(64);
    reverse<<<1, 32, right ? 256 : 252>>>(a, 64);
    get(a, 256);
}
static void two_parts(int right)
{
    Buffer<double> a(32);
    two_parts<<<1, 32, 32 * 9>>>(a, 32, right);
    get(a, 256);
}
static void behind_static(int right)
{
    Buffer<float> a(32);
    behind_static<<<1, 32, 128>>>(a, right ? 0 : 4);
    get(a, 128);
}

// ---- local arrays ----

__global__ void counts_of(const int *key, int *to, int n)
{
    int bins[8] = {0};
    for (int i = 0; i < n; i++)
        bins[key[i]]++; // !counts_of: out-of-bounds
    for (int i = 0; i < 8; i++)
        to[i * 32 + threadIdx.x] = bins[i];
}
__global__ void permute(const int *key, int *to)
{
    int v[16];
    for (int i = 0; i < 16; i++)
        v[key[i]] = i;
    to[threadIdx.x] = v[key[16]]; // !permute: out-of-bounds
}
__global__ void two_arrays(const int *key, int *to)
{
    int first[8], second[8];
    for (int i = 0; i < 8; i++) {
        first[key[i]] = i;
        second[key[i]] = -i;
    }
    to[threadIdx.x] = first[key[16]] + second[key[17]]; // !two_arrays: out-of-bounds
}

__global__ void walk_array(const int *key, int *to, int n)
{
    int v[16], s = 0;
    for (int i = 0; i < 16; i++)
        v[key[i]] = i;
    for (const int *p = v; p != v + n; p += key[1])
        s += *p; // !walk_array: out-of-bounds
    to[threadIdx.x] = s;
}

template <int bad> static void keys(int *key, int right, int at)
{
    std::vector<int> h(18);
    for (int i = 0; i < 18; i++)
        h[i] = i % (at == 16 ? 16 : 8);
    if (!right)
        h[at] = bad;
    cudaMemcpy(key, h.data(), 72, cudaMemcpyHostToDevice);
}
static void counts_of(int right)
{
    Buffer<int> key(18), to(256);
    keys<8>(key, right, 3);
    counts_of<<<1, 32>>>(key, to, 16);
    cudaDeviceSynchronize();
    get(to, 1024);
}
static void permute(int right)
{
    Buffer<int> key(18), to(32);
    keys<17>(key, right, 16);
    permute<<<1, 32>>>(key, to);
    cudaDeviceSynchronize();
    get(to, 128);
}
static void two_arrays(int right)
{
    Buffer<int> key(18), to(32);
    keys<-9>(key, right, 17);
    two_arrays<<<1, 32>>>(key, to);
    cudaDeviceSynchronize();
    get(to, 128);
}

static void walk_array(int right)
{
    Buffer<int> key(18), to(32);
    keys<0>(key, 1, 16);
    walk_array<<<1, 32>>>(key, to, right ? 16 : 17);
    get(to, 128);
}

static const Fault faults[] = {
    {"count_all", count_all},
    {"weigh", weigh},
    {"fill_packet", fill_packet},
    {"filter", filter},
    {"prime_of", prime_of},
    {"scale_rows", scale_rows},
    {"next_array", next_array},
    {"by_pointer", by_pointer},
    {"either", of<either, 32>},
    {"halo", halo},
    {"bytes_of", bytes_of},
    {"one_short", one_short},
    {"two_parts", two_parts},
    {"behind_static", behind_static},
    {"none_at_all", of<none_at_all, 32>},
    {"counts_of", counts_of},
    {"permute", permute},
    {"two_arrays", two_arrays},
    {"walk_array", walk_array},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
