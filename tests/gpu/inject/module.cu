// A library whose module is loaded while a kernel of the program runs (basic.cu).
__device__ int word[32];

__global__ void other()
{
    word[threadIdx.x] = threadIdx.x;
}

extern "C" int module_go(void *stream)
{
    other<<<1, 32, 0, (cudaStream_t)stream>>>();
    return cudaStreamSynchronize((cudaStream_t)stream);
}
