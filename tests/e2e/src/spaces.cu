// Which memory an access touches: only global memory leaves records, wherever the pointer came from.
#include "../../../examples/common/example.h"

struct Big { // passed by value: parameter space
    int values[16];
};

__constant__ int table[16];
__device__ int global_table[16];

// Even threads read shared memory, odd ones global memory, through one generic pointer.
__global__ void selected(const int *in, int *out, int pick)
{
    __shared__ int local[64];
    int t = threadIdx.x;
    local[t] = 1000 + t;
    __syncthreads();
    const int *p = (t + pick) % 2 ? in : local;
    out[t] = p[t];
}

__global__ void by_value(Big big, int *out)
{
    out[threadIdx.x] = big.values[threadIdx.x % 16];
}

__device__ __noinline__ int read_at(const int *p, int i)
{
    return p[i];
}

__device__ __noinline__ void write_at(int *p, int i, int value)
{
    p[i] = value;
}

// Helpers get pointers to parameters, to local arrays, to shared, to constant and to global memory.
__global__ void all_spaces(Big big, const int *in, int *out)
{
    __shared__ int shared[64];
    int local[4];
    int t = threadIdx.x;
    for (int k = 0; k < 4; k++)
        write_at(local, k, t + k);
    write_at(shared, t, t * 2);
    __syncthreads();
    int sum = read_at(big.values, t % 16) + read_at(local, t % 4) + read_at(shared, 63 - t) +
              read_at(table, t % 16);
    sum += read_at(in, t);
    sum += read_at(global_table, t % 16);
    write_at(out, t, sum);
}

__global__ void constants(int *out)
{
    out[threadIdx.x] = table[threadIdx.x % 16];
}

// Local arrays with indices unknown at compile time.
__global__ void locals(int *out, int n)
{
    int a[16];
    for (int k = 0; k < 16; k++)
        a[k] = (k * 7 + n) % 16;
    int at = threadIdx.x % 16;
    for (int k = 0; k < n; k++)
        at = a[at];
    out[threadIdx.x] = at;
}

// One generic pointer to shared or global memory, for atomics.
__global__ void selected_atomic(unsigned *sum, unsigned *out)
{
    __shared__ unsigned own;
    int t = threadIdx.x;
    if (t == 0)
        own = 0;
    __syncthreads();
    unsigned *p = t % 4 == 0 ? sum : &own;
    atomicAdd(p, 1u);
    __syncthreads();
    if (t == 0)
        *out = own;
}

// Shared memory only, and no access at all to global memory.
__global__ void no_global(int n)
{
    __shared__ volatile int s[64];
    s[threadIdx.x] = n;
    __syncthreads();
    s[(threadIdx.x + 1) % 64] = s[threadIdx.x] + 1;
}

int main()
{
    const int n = 64;
    Big big;
    int tab[16], in[n], out[n];
    for (int k = 0; k < 16; k++) {
        big.values[k] = 100 * k;
        tab[k] = 10000 * k;
    }
    for (int k = 0; k < n; k++)
        in[k] = -k;
    int *d_in, *d_out;
    unsigned *d_sum, sums[2] = {};
    CHECK(cudaMemcpyToSymbol(table, tab, sizeof tab));
    CHECK(cudaMemcpyToSymbol(global_table, tab, sizeof tab));
    CHECK(cudaMalloc(&d_in, sizeof in));
    CHECK(cudaMalloc(&d_out, sizeof out));
    CHECK(cudaMalloc(&d_sum, sizeof sums));
    CHECK(cudaMemcpy(d_in, in, sizeof in, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_sum, 0, sizeof sums));
    long wrong = 0;

    selected<<<1, n>>>(d_in, d_out, 0);
    CHECK(cudaMemcpy(out, d_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int t = 0; t < n; t++)
        wrong += out[t] != (t % 2 ? -t : 1000 + t);
    by_value<<<1, n>>>(big, d_out);
    CHECK(cudaMemcpy(out, d_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int t = 0; t < n; t++)
        wrong += out[t] != 100 * (t % 16);
    all_spaces<<<1, n>>>(big, d_in, d_out);
    CHECK(cudaMemcpy(out, d_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int t = 0; t < n; t++)
        wrong +=
            out[t] != 100 * (t % 16) + t + t % 4 + (63 - t) * 2 + 10000 * (t % 16) - t + 10000 * (t % 16);
    constants<<<1, n>>>(d_out);
    CHECK(cudaMemcpy(out, d_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int t = 0; t < n; t++)
        wrong += out[t] != 10000 * (t % 16);
    locals<<<1, n>>>(d_out, 5);
    CHECK(cudaMemcpy(out, d_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int t = 0; t < n; t++) {
        int at = t % 16;
        for (int k = 0; k < 5; k++)
            at = (at * 7 + 5) % 16;
        wrong += out[t] != at;
    }
    selected_atomic<<<1, n>>>(d_sum, d_sum + 1);
    CHECK(cudaMemcpy(sums, d_sum, sizeof sums, cudaMemcpyDeviceToHost));
    wrong += (sums[0] != 16) + (sums[1] != 48);
    no_global<<<2, n>>>(3);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(d_in));
    CHECK(cudaFree(d_out));
    CHECK(cudaFree(d_sum));
    return verdict("spaces", wrong);
}
