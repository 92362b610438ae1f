// Results of warp functions that CUDA does not define: from lanes that have exited, do not exist, do not take
// part; by a lane that the mask does not name. And what is defined: out of range, and votes that lanes which
// have exited would have been part of.
__global__ void defined(int *out)
{
    if (threadIdx.x > 7)
        return;
    int v = __shfl_down_sync(0xff, (int)threadIdx.x, 4, 8);
    out[threadIdx.x] = v + __any_sync(0xffffffff, 1);
}

__global__ void exited(int *out)
{
    if (threadIdx.x)
        return;
    out[0] = __shfl_down_sync(0xffffffff, 7, 1, 4);
}

__global__ void missing(int *out)
{
    out[threadIdx.x] = __shfl_xor_sync(0xffffffff, (int)threadIdx.x, 16);
}

__global__ void elsewhere(int *out)
{
    if (threadIdx.x < 16)
        out[threadIdx.x] = __shfl_sync(0xffff, (int)threadIdx.x, 20);
    else
        out[threadIdx.x] = 1;
    __syncthreads();
}

__global__ void unnamed(int *out)
{
    out[threadIdx.x] = __any_sync(0xfffffffe, threadIdx.x == 5);
}

int main()
{
    int *out;
    cudaMalloc(&out, 32 * sizeof *out);
    defined<<<1, 32>>>(out);
    exited<<<1, 32>>>(out);
    missing<<<1, 16>>>(out);
    elsewhere<<<1, 32>>>(out);
    unnamed<<<1, 32>>>(out);
    return cudaDeviceSynchronize();
}
