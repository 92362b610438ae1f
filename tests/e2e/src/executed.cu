/* Launches, and becomes itself with a word more, which launches once again. */
#include <cstdio>
#include <unistd.h>

__global__ void once(int *p)
{
    p[threadIdx.x] = 1;
}

int main(int argc, char **argv)
{
    int *p;
    cudaMalloc(&p, 128);
    once<<<1, 32>>>(p);
    cudaDeviceSynchronize();
    puts(argc > 1 ? "second" : "first");
    fflush(stdout);
    if (argc == 1)
        execl("/proc/self/exe", argv[0], "again", (char *)0);
    return 0;
}
