/* For a debugger (nvcc -G) ptxas leaves out no access of the PTX: a dead load, a store that is overwritten
 * and two loads of one word are made. 64 threads: 5 loads and 3 stores of each in one kernel. */
#include <cstdio>

__global__ void unoptimised(const unsigned *in, unsigned *out)
{
    unsigned t = threadIdx.x, v = in[t];
    v = in[t + 1];
    out[t] = v;
    out[t] = in[t] + in[t];
    out[t] = out[t] * 2;
}

int main()
{
    unsigned host[65], *p;
    for (unsigned i = 0; i < 65; i++)
        host[i] = i + 1;
    cudaMalloc(&p, 2 * sizeof host);
    cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice);
    unoptimised<<<1, 64>>>(p, p + 65);
    cudaMemcpy(host, p + 65, 64 * sizeof *host, cudaMemcpyDeviceToHost);
    printf("%u %u\n", host[0], host[63]);
    return 0;
}
