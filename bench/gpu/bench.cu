// The kernels of bench/gpu/run. Usage: bench KERNEL LAUNCHES SIZE [ancestor FILE]: prints the seconds from
// the first timed launch until the device is idle, and the accesses of one launch. Or: bench bandwidth
// SIZE: prints the bandwidth of copies to pinned host memory and of a kernel that writes there, in bytes per
// second. SIZE: full, or tiny (for tests of this program). ancestor: the program was compiled with the older
// tracer's record functions, whose output goes to FILE.
#define main vector_add_main
#include "../../examples/vector_add/vector_add.cu"
#undef main
#define main matrix_multiply_main
#include "../../examples/matrix_multiply/matrix_multiply.cu"
#undef main
#define main stencil_2d_main
#include "../../examples/stencil_2d/stencil_2d.cu"
#undef main
#define main histogram_main
#include "../../examples/histogram/histogram.cu"
#undef main
#include "ancestor.h"
#include <atomic>
#include <fcntl.h>
#include <string.h>
#include <thread>
#include <time.h>
#include <unistd.h>

// Loads a random element, found by its index; loads the index and stores the result contiguously.
__global__ void gather(const int *from, const unsigned *index, int *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = from[index[i]];
}

// Each thread sums eight elements, each CTA its threads' sums.
__global__ void reduce(const int *in, int *out, int n)
{
    __shared__ int sums[256];
    int sum = 0;
    for (int k = 0, i = blockIdx.x * 2048 + threadIdx.x; k < 8 && i < n; k++, i += 256)
        sum += in[i];
    sums[threadIdx.x] = sum;
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = sums[0];
}

// ---- the older tracer's host side ----

extern "C" __device__ ancestor_slot mt_ancestor[ANCESTOR_SLOTS];
__device__ ancestor_slot mt_ancestor[ANCESTOR_SLOTS];

struct ancestor {
    volatile uint64_t *words[ANCESTOR_SLOTS]; // commit, full and emptied, 64 bytes apart
    char *records[ANCESTOR_SLOTS];
    int file = -1;
    std::atomic<bool> over{false};
    std::thread reader;
    uint64_t written = 0;
};
static ancestor old;
static const uint64_t slot_records = 1 << 18; // 6 MiB

static void take(unsigned s, uint64_t n)
{
    const char *p = old.records[s];
    for (uint64_t left = n * 24; left;) {
        ssize_t got = write(old.file, p, left);
        if (got <= 0)
            exit(1);
        p += got;
        left -= got;
    }
    old.written += n;
}

static void read_slots()
{
    while (!old.over) {
        for (unsigned s = 0; s < ANCESTOR_SLOTS; s++) {
            volatile uint64_t *commit = old.words[s], *full = commit + 8, *emptied = commit + 16;
            if (!*full || *commit != *full)
                continue;
            std::atomic_thread_fence(std::memory_order_acquire);
            take(s, *full);
            *full = 0;
            std::atomic_thread_fence(std::memory_order_release);
            *emptied = *emptied + 1;
        }
        std::this_thread::yield();
    }
}

static void ancestor_begin(const char *file)
{
    ancestor_slot slots[ANCESTOR_SLOTS] = {};
    old.file = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (unsigned s = 0; s < ANCESTOR_SLOTS; s++) {
        void *words, *records, *device;
        CHECK(cudaHostAlloc(&words, 192, cudaHostAllocMapped));
        CHECK(cudaHostAlloc(&records, slot_records * 24, cudaHostAllocMapped));
        memset(words, 0, 192);
        old.words[s] = (volatile uint64_t *)words;
        old.records[s] = (char *)records;
        CHECK(cudaHostGetDevicePointer(&device, words, 0));
        slots[s].commit = (uint64_t)device;
        slots[s].full = (uint64_t)device + 64;
        slots[s].emptied = (uint64_t)device + 128;
        CHECK(cudaHostGetDevicePointer(&device, records, 0));
        slots[s].records = (uint64_t)device;
        slots[s].size = slot_records;
    }
    CHECK(cudaMemcpyToSymbol(mt_ancestor, slots, sizeof slots));
    old.reader = std::thread(read_slots);
}

// Writes the records of slots that are not full, when the device is idle.
static void ancestor_end()
{
    old.over = true;
    old.reader.join();
    for (unsigned s = 0; s < ANCESTOR_SLOTS; s++)
        take(s, *old.words[s]);
    close(old.file);
}

// ---- running ----

static double seconds()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int elements = 1 << 20, wide = 64, high = 128, ctas = 64;
static dim3 matrix(20, 10);
static int inner = 320;

// Launches a kernel. Returns the number of accesses that it makes.
static long launch(const char *kernel, char *const *d, int step)
{
    long n = elements;
    if (!strcmp(kernel, "vector_add")) {
        vector_add<<<elements / 256, 256>>>((float *)d[0], (float *)d[1], (float *)d[2], elements);
        n = 3 * n;
    } else if (!strcmp(kernel, "matrix_multiply")) {
        matrix_multiply<<<matrix, dim3(TILE, TILE)>>>((float *)d[2], (float *)d[0], (float *)d[1], inner,
                                                      (int)matrix.x * TILE);
        n = (long)matrix.x * matrix.y * TILE * TILE * (2 * (inner / TILE) + 1);
    } else if (!strcmp(kernel, "stencil_2d")) {
        stencil_2d<<<dim3(wide, high), dim3(TX, TY)>>>((int *)d[step % 2], (int *)d[(step + 1) % 2],
                                                       wide * TX, high * TY);
        n = -1;
    } else if (!strcmp(kernel, "gather")) {
        gather<<<elements / 256, 256>>>((int *)d[0], (unsigned *)d[1], (int *)d[2], elements);
        n = 3 * n;
    } else if (!strcmp(kernel, "reduce")) {
        reduce<<<elements / 2048, 256>>>((int *)d[0], (int *)d[1], elements);
        n = n + elements / 2048;
    } else if (!strcmp(kernel, "histogram")) {
        histogram_global<<<ctas, 256>>>((unsigned char *)d[0], (unsigned *)d[2], elements);
        n = 2 * n;
    } else {
        fprintf(stderr, "bench: no kernel %s\n", kernel);
        exit(2);
    }
    CHECK_LAUNCH();
    return n;
}

// 16 bytes of each thread, to memory of the host.
__global__ void fill(uint4 *to, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        to[i] = make_uint4(i, i, i, i);
}

static int bandwidth(size_t bytes)
{
    void *from, *to;
    double copies = 0, stores = 0;
    CHECK(cudaMalloc(&from, bytes));
    CHECK(cudaMallocHost(&to, bytes));
    for (int times = 1; times <= 10; times += 9) { // once to warm up
        double begin = seconds();
        for (int i = 0; i < times; i++)
            CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost));
        CHECK(cudaDeviceSynchronize());
        double between = seconds();
        for (int i = 0; i < times; i++)
            fill<<<1024, 256>>>((uint4 *)to, (int)(bytes / 16));
        CHECK(cudaDeviceSynchronize());
        copies = times * bytes / (between - begin), stores = times * bytes / (seconds() - between);
    }
    printf("%.0f %.0f\n", copies, stores);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "bandwidth"))
        return bandwidth(strcmp(argv[2], "tiny") ? 64 << 20 : 64 << 10);
    if (argc != 4 && argc != 6) {
        fprintf(stderr,
                "usage: bench KERNEL LAUNCHES full|tiny [ancestor FILE] | bench bandwidth full|tiny\n");
        return 2;
    }
    int launches = argument(argc, argv, 2, "launches", 1, 1, 1 << 20);
    if (!strcmp(argv[3], "tiny")) {
        elements = 4096;
        wide = 2, high = 4, ctas = 2;
        matrix = dim3(2, 1);
        inner = 32;
    }
    char *d[3];
    const size_t bytes = 4 << 20;
    std::vector<unsigned> random(bytes / 4);
    unsigned seed = 1;
    for (unsigned &v : random)
        for (int i = 0; i < 4; i++)
            v = v << 8 | (unsigned char)next_random(&seed);
    if (!strcmp(argv[1], "gather"))
        for (unsigned &v : random)
            v %= (unsigned)elements;
    for (char *&p : d) {
        CHECK(cudaMalloc((void **)&p, bytes));
        CHECK(cudaMemset(p, 0, bytes));
    }
    CHECK(cudaMemcpy(d[strcmp(argv[1], "gather") ? 0 : 1], random.data(), bytes, cudaMemcpyHostToDevice));
    if (argc == 6)
        ancestor_begin(argv[5]);
    launch(argv[1], d, 0);
    CHECK(cudaDeviceSynchronize());
    double begin = seconds();
    long accesses = 0;
    for (int l = 0; l < launches; l++)
        accesses = launch(argv[1], d, l);
    CHECK(cudaDeviceSynchronize());
    if (argc == 6)
        ancestor_end();
    printf("%.6f %ld", seconds() - begin, accesses);
    if (argc == 6)
        printf(" %llu", (unsigned long long)old.written);
    printf("\n");
    return 0;
}
