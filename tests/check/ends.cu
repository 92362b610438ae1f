// Programs that end in the middle: "loop" goes on until a signal comes, "leave" has no end of its own, "deaf"
// takes SIGTERM for a wish.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <unistd.h>

static volatile sig_atomic_t told;

static void hear(int)
{
    told = 1;
}

__global__ void step(int *p)
{
    p[threadIdx.x] = 1;
}

int main(int argc, char **argv)
{
    int *p;
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "deaf") == 0)
        signal(SIGTERM, hear);
    cudaMalloc(&p, 128);
    do {
        step<<<1, 32>>>(p);
        cudaDeviceSynchronize();
        puts("step");
        fflush(stdout);
    } while (strcmp(how, "leave") != 0 && strcmp(how, "end") != 0 && !told && usleep(1000) == 0);
    if (strcmp(how, "leave") == 0)
        _exit(0);
    cudaFree(p);
    puts("its own end");
}
