/* A library without a CUDA runtime, which opens the driver. */
#include <dlfcn.h>

int lib_run(int *out)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = h ? (int (*)(unsigned))dlsym(h, "cuInit") : 0;
    *out = init ? init(0) : -1;
    return !h;
}
