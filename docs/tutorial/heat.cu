// Heat in a plate: the program of docs/tutorial.md. Compile with -DFIXED for the version at its end.
//
// Two buffers take turns. Each step is a 5-point stencil; every eighth step the plate is turned, so that heat
// flows the other way, and the hottest place is looked for.
#include <cstdio>
#include <cstdlib>
#include <utility>

constexpr int N = 256, TILE = 32;

__global__ void step(const float *from, float *to)
{
#ifdef FIXED
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
#else
    int y = blockIdx.x * blockDim.x + threadIdx.x, x = blockIdx.y * blockDim.y + threadIdx.y;
#endif
    if (x == 0 || y == 0 || x == N - 1 || y == N - 1)
        return;
    int i = y * N + x;
    to[i] = from[i] + 0.2f * (from[i - 1] + from[i + 1] + from[i - N] + from[i + N] - 4 * from[i]);
}

__global__ void turn(const float *from, float *to)
{
#ifdef FIXED
    __shared__ float tile[TILE][TILE + 1];
#else
    __shared__ float tile[TILE][TILE];
#endif
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += 8)
        tile[threadIdx.y + k][threadIdx.x] = from[(y + k) * N + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += 8)
        to[(y + k) * N + x] = tile[threadIdx.x][threadIdx.y + k];
}

__global__ void hottest(const float *plate, int *most)
{
    __shared__ int found;
    if (threadIdx.x == 0)
        found = 0;
    __syncthreads();
    int here = (int)(plate[blockIdx.x * N + threadIdx.x] * 1000);
    atomicMax(&found, here);
    __syncthreads();
#ifdef FIXED
    if (threadIdx.x == 0)
        atomicMax(most, found);
#else
    if (threadIdx.x == 0 && found > *most)
        *most = found;
#endif
}

int main()
{
    float *now, *next;
    int *most, result = 0;
    cudaMalloc(&now, N * N * sizeof(float));
    cudaMalloc(&next, N * N * sizeof(float));
    cudaMalloc(&most, sizeof(int));
    float *start = (float *)calloc(N * N, sizeof(float));
    start[N / 2 * N + N / 2] = 1000;
    cudaMemcpy(now, start, N * N * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(next, start, N * N * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(most, 0, sizeof(int));
    for (int i = 1; i <= 16; i++) {
        step<<<dim3(N / 32, N / 8), dim3(32, 8)>>>(now, next);
        std::swap(now, next);
        if (i % 8 == 0) {
            turn<<<dim3(N / TILE, N / TILE), dim3(TILE, 8)>>>(now, next);
            std::swap(now, next);
            hottest<<<N, N>>>(now, most);
        }
    }
    cudaMemcpy(&result, most, sizeof(int), cudaMemcpyDeviceToHost);
    printf("hottest: %.3f\n", result / 1000.0);
    return cudaGetLastError() != cudaSuccess;
}
