// clang-format off: a diagnostic and its row share a line
// Language that clang 19 does not compile for CUDA.
#include <cuda_runtime.h>

__global__ void child(int *p)
{
    *p = 1;
}

__global__ void parent(int *p)
{
    child<<<1, 1>>>(p); // row kernel<<<>>> in device code | clang 19 has no device-side launches | error reference to __global__
}
