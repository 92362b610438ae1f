// Programs whose one size is given: bench/run makes them larger and looks how cost grows.
// Usage: scale launches|streams|pages|devices N
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

__global__ void tiny(int *p)
{
    p[threadIdx.x] += 1;
}

// One byte of each page.
__global__ void touch(char *p, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        p[i * 4096] += 1;
}

static int *zeros(size_t bytes)
{
    int *p = nullptr;
    if (cudaMalloc(&p, bytes) != cudaSuccess || cudaMemset(p, 0, bytes) != cudaSuccess)
        exit(3);
    return p;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    const long n = argc > 2 ? atol(argv[2]) : 0;
    if (!strcmp(what, "launches")) {
        int *p = zeros(128);
        for (long i = 0; i < n; i++)
            tiny<<<1, 32>>>(p);
    } else if (!strcmp(what, "streams")) {
        std::vector<cudaStream_t> streams(n);
        int *p = zeros(n * 128);
        for (cudaStream_t &s : streams)
            cudaStreamCreate(&s);
        for (long i = 0; i < n; i++)
            tiny<<<1, 32, 0, streams[i]>>>(p + i * 32);
    } else if (!strcmp(what, "devices")) {
        for (long i = 0; i < n; i++) {
            cudaSetDevice(i);
            tiny<<<1, 32>>>(zeros(128));
        }
    } else if (!strcmp(what, "pages")) {
        touch<<<(n + 255) / 256, 256>>>((char *)zeros(n * 4096), n);
    } else {
        fprintf(stderr, "usage: scale launches|streams|pages|devices N\n");
        return 2;
    }
    return cudaDeviceSynchronize();
}
