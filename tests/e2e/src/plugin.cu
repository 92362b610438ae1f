// A library that comes and goes. Its last CUDA call is in it, too: what was noted of that call must not
// be looked at when the library is gone.
__global__ void in_library(unsigned *p)
{
    p[threadIdx.x] += FACTOR;
}

extern "C" int use(unsigned *p)
{
    in_library<<<1, 32>>>(p);
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    return cudaGetLastError() != cudaSuccess;
}
