// Kernels that use functions and variables of parts.cu. 64 threads in one block each.
#include <cstdio>
#include "parts.h"
#include "../../../../examples/common/example.h"
#define N 64
#define EXPECT(what, want)                                                                                   \
    do {                                                                                                     \
        CHECK(cudaDeviceSynchronize());                                                                      \
        for (int i = 0; i < N; i++)                                                                          \
            if (out[i] != (want)) {                                                                          \
                printf("%s %d: %d, not %d\n", what, i, out[i], (want));                                      \
                return 1;                                                                                    \
            }                                                                                                \
    } while (0)

__device__ int total = 0;
__device__ int relay(int i);

__device__ int choose(int i)
{
    return 11 * i;
}
__global__ void functions(const int *in, int *out)
{
    int i = threadIdx.x;
    out[i] = add(in, i) + offset;
}
__global__ void make_shapes(Shape **shapes)
{
    if (threadIdx.x < 2)
        shapes[threadIdx.x] = make_shape(threadIdx.x);
}
__global__ void virtuals(Shape **shapes, int *out)
{
    int i = threadIdx.x;
    out[i] = shapes[i & 1]->area(i) + weights[i & 3];
}
__global__ void pointers(int *out)
{
    int i = threadIdx.x;
    out[i] = pick(i & 1)(i) + relay(i);
}
__global__ void shared(int *out)
{
    __shared__ int mine[N];
    extern __shared__ int dynamic[];
    int i = threadIdx.x;
    mine[i] = i;
    dynamic[i] = 1000 * i;
    __syncthreads();
    int sum = sum_of_block(i);
    out[i] = sum + mine[N - 1 - i] + dynamic[i] + *in_shared<int>(i);
}
__global__ void atomics()
{
    atomicAdd(&total, 1);
    bump();
}
__global__ void variables(int *out)
{
    if (threadIdx.x == 0)
        common = 9;
    __syncthreads();
    out[threadIdx.x] = read_common();
}
// Before main, and before or after the other file's constructors.
struct Early {
    int value = 0, *memory = nullptr;
    Early()
    {
        cudaMallocManaged(&memory, N * sizeof(int));
        scaled<<<1, N>>>(memory, 5);
        cudaDeviceSynchronize();
        value = memory[N - 1];
    }
};
static Early early;

int main()
{
    int *in, *out, weight[4] = {10, 20, 30, 40}, sum, seven = 0;
    Shape **shapes;
    CHECK(cudaMallocManaged(&in, N * sizeof(int)));
    CHECK(cudaMallocManaged(&out, N * sizeof(int)));
    CHECK(cudaMalloc(&shapes, 2 * sizeof *shapes));
    for (int i = 0; i < N; i++)
        in[i] = i;
    CHECK(cudaMemcpyFromSymbol(&seven, offset, sizeof seven));
    CHECK(cudaMemcpyToSymbol(weights, weight, sizeof weight));
    functions<<<1, N>>>(in, out);
    EXPECT("functions", 2 * i + seven);
    make_shapes<<<1, N>>>(shapes);
    virtuals<<<1, N>>>(shapes, out);
    EXPECT("virtuals", (i & 1 ? i * i : 2 * i) + weight[i & 3]);
    pointers<<<1, N>>>(out);
    EXPECT("pointers", (i & 1 ? i + 100 : i - 100) + 11 * i);
    shared<<<1, N, N * sizeof(int)>>>(out);
    EXPECT("shared", 3 * (N * (N - 1) / 2) + N - 1 - i + 1000 * i + 7 * i);
    atomics<<<1, N>>>();
    CHECK(cudaMemcpyFromSymbol(&sum, total, sizeof sum));
    variables<<<1, N>>>(out);
    EXPECT("variables", 9);
    scaled<<<1, N>>>(out, 4);
    EXPECT("scaled", 4 * i);
    fill<float><<<1, N>>>((float *)out, 2.5f);
    launch_from_parts(out);
    CHECK(cudaDeviceSynchronize());
    printf("seven %d sum %d early %d float %.1f\n", seven, sum, early.value, ((float *)out)[N - 1]);
    return 0;
}
