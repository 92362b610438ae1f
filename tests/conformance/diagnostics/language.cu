// clang-format off: a diagnostic and its row share a line
// Language that clang 19 does not compile for CUDA.
#include <cuda_runtime.h>

__managed__ int everywhere; // row __managed__ | clang 19 has no managed variables | warning clang 19 has no __managed__ variables: allocate with cudaMallocManaged

__global__ void child(int *p)
{
    *p = everywhere; // row __managed__ in device code | such a variable is the host's | error reference to __host__ variable
}

__global__ void parent(int *p)
{
    child<<<1, 1>>>(p); // row kernel<<<>>> in device code | clang 19 has no device-side launches | error reference to __global__
}
