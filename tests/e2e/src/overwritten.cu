/* A load whose value is overwritten before it is used: unoptimised code has it, optimised code has not. */
__global__ void overwritten(const unsigned *in, unsigned *out)
{
    unsigned t = threadIdx.x, v = in[t];
    v = in[t + 1];
    out[t] = v;
}

int main()
{
    unsigned *p;
    cudaMalloc(&p, 65536);
    overwritten<<<1, 32>>>(p, p + 8192);
    return cudaDeviceSynchronize();
}
