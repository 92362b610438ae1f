// The program's first allocation comes after its first CUDA call.
#include <cstdio>

int main(int argc, char **)
{
    int *device;
    cudaMalloc(&device, 64);
    volatile int *v = new int[1000];
    for (int i = 0; i < 1000; i++)
        v[i] = argc;
    std::printf("%d\n", v[999]);
    delete[] v;
    cudaFree(device);
}
