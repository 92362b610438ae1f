// Copies in all their forms: structs, block copies in device code, pitched memory with 2-D copies and fills,
// symbols in device and constant memory, managed memory.
// Usage: memcpy_forms [rows] [columns]
#include "../common/example.h"
#include <string.h>
#include <vector>

constexpr int STRIDE = 32; // bytes that each thread of copy_blocks may use

struct Particle { // 24 bytes
    double mass;
    int cell[4];
};

__device__ int offsets[4];
__constant__ int coefficients[4];

__global__ void copy_structs(const Particle *in, Particle *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}

// Thread i copies 0, 8, 16 or 24 bytes; a copy of 0 bytes is not an access.
__global__ void copy_blocks(const char *in, char *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    memcpy(out + i * STRIDE, in + i * STRIDE, i % 4 * 8);
}

// Doubles each element of a pitched array, in place; one CTA per row.
__global__ void double_pitched(char *base, size_t pitch)
{
    int *row = (int *)(base + blockIdx.x * pitch);
    row[threadIdx.x] *= 2;
}

// offsets lies in global memory, coefficients in constant memory, which is not traced.
__global__ void use_symbols(int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = i * coefficients[i % 4] + offsets[i % 4];
}

__global__ void square_managed(int *values)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = values[i];
    values[i] = value * value;
}

static int rows, columns, n;

static long test_structs()
{
    std::vector<Particle> in(n), out(n);
    for (int i = 0; i < n; i++)
        in[i] = {i * 0.25, {i, i + 1, i + 2, i + 3}};
    size_t bytes = n * sizeof(Particle);
    Particle *d_in, *d_out, *d_copy;
    CHECK(cudaMalloc(&d_in, bytes));
    CHECK(cudaMalloc(&d_out, bytes));
    CHECK(cudaMalloc(&d_copy, bytes));
    CHECK(cudaMemcpy(d_in, in.data(), bytes, cudaMemcpyHostToDevice));
    copy_structs<<<rows, columns>>>(d_in, d_out);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(d_copy, d_out, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(out.data(), d_copy, bytes, cudaMemcpyDefault));
    CHECK(cudaFree(d_in));
    CHECK(cudaFree(d_out));
    CHECK(cudaFree(d_copy));
    Tally tally = {};
    tally.load(8, 3 * n); // a Particle is three words
    tally.store(8, 3 * n);
    print_count("copy_structs", tally);
    return memcmp(in.data(), out.data(), bytes) != 0;
}

static long test_blocks()
{
    size_t bytes = (size_t)n * STRIDE;
    char *in, *out, *d_in, *d_out;
    CHECK(cudaMallocHost(&in, bytes));
    CHECK(cudaHostAlloc(&out, bytes, cudaHostAllocDefault));
    for (size_t k = 0; k < bytes; k++)
        in[k] = (char)(k % 101 + 1);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&d_in, bytes));
    CHECK(cudaMalloc(&d_out, bytes));
    CHECK(cudaMemcpyAsync(d_in, in, bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(d_out, 0, bytes, stream));
    CHECK(cudaStreamSynchronize(stream));
    copy_blocks<<<rows, columns>>>(d_in, d_out);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyAsync(out, d_out, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    long wrong = 0;
    Tally tally = {};
    for (int i = 0; i < n; i++) {
        int length = i % 4 * 8;
        tally.load(1, length); // the GPU copies byte by byte when it does not know how many
        tally.store(1, length);
        for (int k = 0; k < STRIDE; k++)
            wrong += out[i * STRIDE + k] != (k < length ? in[i * STRIDE + k] : 0);
    }
    CHECK(cudaFree(d_in));
    CHECK(cudaFree(d_out));
    CHECK(cudaFreeHost(in));
    CHECK(cudaFreeHost(out));
    CHECK(cudaStreamDestroy(stream));
    print_count("copy_blocks", tally);
    return wrong;
}

static long test_pitched()
{
    size_t pitch, row = columns * sizeof(int);
    std::vector<int> in(n), out(n), cleared(n);
    for (int i = 0; i < n; i++)
        in[i] = i + 1;
    char *base;
    CHECK(cudaMallocPitch((void **)&base, &pitch, row, rows));
    CHECK(cudaMemcpy2D(base, pitch, in.data(), row, row, rows, cudaMemcpyHostToDevice));
    double_pitched<<<rows, columns>>>(base, pitch);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy2D(out.data(), row, base, pitch, row, rows, cudaMemcpyDeviceToHost));
    CHECK(cudaMemset2D(base, pitch, 0, row, rows));
    CHECK(cudaMemcpy2D(cleared.data(), row, base, pitch, row, rows, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(base));
    long wrong = 0;
    Tally tally = {};
    for (int i = 0; i < n; i++) {
        tally.load(sizeof(int));
        tally.store(sizeof(int));
        wrong += (out[i] != 2 * in[i]) + (cleared[i] != 0);
    }
    print_count("double_pitched", tally);
    return wrong;
}

static long test_symbols()
{
    const int off[4] = {100, 200, 300, 400}, coefficient[4] = {1, 2, 3, 4};
    int back[4];
    void *address;
    size_t bytes;
    CHECK(cudaMemcpyToSymbol(offsets, off, sizeof off));
    CHECK(cudaMemcpyToSymbol(coefficients, coefficient, 2 * sizeof(int)));
    CHECK(cudaMemcpyToSymbol(coefficients, coefficient + 2, 2 * sizeof(int), 2 * sizeof(int)));
    CHECK(cudaMemcpyFromSymbol(back, offsets, sizeof back));
    CHECK(cudaGetSymbolAddress(&address, offsets));
    CHECK(cudaGetSymbolSize(&bytes, offsets));
    long wrong = memcmp(off, back, sizeof off) != 0 || bytes != sizeof off || !address;
    std::vector<int> out(n);
    int *d_out;
    CHECK(cudaMalloc(&d_out, n * sizeof(int)));
    use_symbols<<<rows, columns>>>(d_out);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(out.data(), d_out, n * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_out));
    Tally tally = {};
    for (int i = 0; i < n; i++) {
        tally.load(sizeof(int)); // offsets
        tally.store(sizeof(int));
        wrong += out[i] != i * coefficient[i % 4] + off[i % 4];
    }
    print_count("use_symbols", tally);
    return wrong;
}

static long test_managed()
{
    int *values;
    CHECK(cudaMallocManaged(&values, n * sizeof(int)));
    for (int i = 0; i < n; i++)
        values[i] = i;
    square_managed<<<rows, columns>>>(values);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    long wrong = 0;
    Tally tally = {};
    for (int i = 0; i < n; i++) {
        tally.load(sizeof(int));
        tally.store(sizeof(int));
        wrong += values[i] != i * i;
    }
    CHECK(cudaFree(values));
    print_count("square_managed", tally);
    return wrong;
}

int main(int argc, char **argv)
{
    rows = argument(argc, argv, 1, "rows", 6, 1, 1024);
    columns = argument(argc, argv, 2, "columns", 50, 1, 1024);
    n = rows * columns;
    long wrong = test_structs() + test_blocks() + test_pitched() + test_symbols() + test_managed();
    return verdict("memcpy_forms", wrong);
}
