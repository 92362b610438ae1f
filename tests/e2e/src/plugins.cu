// Libraries with kernels are loaded and unloaded: before the first CUDA call, and after kernels of theirs
// have run.
#include <cstdio>
#include <dlfcn.h>

__global__ void in_program(unsigned *p)
{
    p[threadIdx.x] *= 2;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        void *h = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (!h || dlclose(h))
            return 1;
    }
    unsigned *p;
    if (cudaMallocManaged(&p, 128) != cudaSuccess)
        return 2;
    for (int i = 0; i < 32; i++)
        p[i] = i;
    for (int round = 0; round < 2; round++)
        for (int i = 1; i < argc; i++) {
            void *h = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
            int (*use)(unsigned *) = (int (*)(unsigned *))dlsym(h, "use");
            if (!use || use(p))
                return 3;
            if (dlclose(h))
                return 4;
            in_program<<<1, 32>>>(p);
        }
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 5;
    std::printf("%u %u\n", p[0], p[31]);
    return 0;
}
