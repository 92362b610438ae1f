// Several programs in one run: "bad" writes behind its buffer, "clean" does not, "gives" has "opens", another
// process, write what it reads.
#include "faults.h"
#include <string>

__global__ void put(int *a)
{
    a[threadIdx.x] = threadIdx.x; // BAD
}
__global__ void add(const int *a, int *b)
{
    b[threadIdx.x] = a[threadIdx.x] + 1;
}

static void gives(const char *self)
{
    Buffer<int> a(64, false), b(64, false);
    cudaIpcMemHandle_t handle;
    cudaIpcGetMemHandle(&handle, a.p);
    std::string command = std::string(self) + " opens ";
    for (unsigned char c : handle.reserved)
        command += "0123456789abcdef"[c >> 4], command += "0123456789abcdef"[c & 15];
    if (system(command.c_str()))
        abort();
    add<<<1, 64>>>(a, b);
    get(b, 256);
}

static void opens(const char *hex)
{
    cudaIpcMemHandle_t handle;
    void *a;
    for (unsigned i = 0; i < sizeof handle; i++)
        handle.reserved[i] = (char)std::stoi(std::string(hex + 2 * i, 2), nullptr, 16);
    if (cudaIpcOpenMemHandle(&a, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess)
        exit(1);
    put<<<1, 64>>>((int *)a);
    cudaDeviceSynchronize();
    cudaIpcCloseMemHandle(a);
}

int main(int argc, char **argv)
{
    if (argc > 2)
        opens(argv[2]);
    else if (strcmp(argv[1], "gives") == 0)
        gives(argv[0]);
    else {
        Buffer<int> a(strcmp(argv[1], "bad") == 0 ? 60 : 64);
        put<<<1, 64>>>(a);
        get(a, 240);
    }
    return 0;
}
