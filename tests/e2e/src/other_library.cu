// A library as NVIDIA's are: compiled without the plugin,
// with a CUDA runtime of its own linked in (gpu_ends.cu).
static __global__ void twice(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] *= 2;
}

extern "C" __attribute__((visibility("default"))) int other_twice(int *p, int n, cudaStream_t s)
{
    twice<<<(n + 63) / 64, 64, 0, s>>>(p, n);
    return cudaGetLastError();
}
