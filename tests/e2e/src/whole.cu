// STREAMS LAUNCHES: so many streams, each with so many launches. "long": a kernel that writes much, and then
// waits until the host has read a line of standard input.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

__global__ void work(int *data, int add)
{
    data[threadIdx.x] += add;
}

__global__ void write_and_wait(int *data, volatile int *go, int n)
{
    for (int k = 0; k < n; k++)
        data[(threadIdx.x * 7919 + k * 104729) % (64 * 4096)] = k;
    while (!*go) {
    }
}

static int wait_in_kernel()
{
    int *data, *go;
    if (cudaMalloc(&data, 64 * 4096 * sizeof(int)) || cudaHostAlloc(&go, sizeof *go, cudaHostAllocMapped))
        return 1;
    *go = 0;
    std::thread([go] {
        char line[64];
        if (fgets(line, sizeof line, stdin))
            *(volatile int *)go = 1;
    }).detach();
    write_and_wait<<<1, 64>>>(data, go, 4096);
    cudaError_t e = cudaDeviceSynchronize();
    printf("1 launches\n");
    return e;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "long"))
        return wait_in_kernel();
    int streams = argc > 1 ? atoi(argv[1]) : 2, launches = argc > 2 ? atoi(argv[2]) : 2;
    int *data;
    if (cudaMalloc(&data, streams * 32 * sizeof(int)))
        return 1;
    cudaMemset(data, 0, streams * 32 * sizeof(int));
    for (int i = 0; i < streams; i++) {
        cudaStream_t s;
        if (cudaStreamCreate(&s))
            return 1;
        for (int k = 0; k < launches; k++)
            work<<<1, 32, 0, s>>>(data + i * 32, k);
    }
    if (cudaDeviceSynchronize())
        return 1;
    printf("%d launches\n", streams * launches);
    return 0;
}
