// Two streams, each with a half of one buffer: one stream's trace does not show who writes the other half.
#include <cstdio>
#include <vector>

enum { N = 4096 };

__global__ void twice(const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 2 * in[i];
}

int main()
{
    std::vector<float> h(2 * N, 1.0f), r(2 * N);
    float *in, *out;
    cudaMalloc(&in, 2 * N * sizeof *in);
    cudaMalloc(&out, 2 * N * sizeof *out);
    cudaStream_t s[2];
    for (int k = 0; k < 2; k++) {
        cudaStreamCreate(&s[k]);
        cudaMemcpyAsync(in + k * N, h.data() + k * N, N * sizeof *in, cudaMemcpyHostToDevice, s[k]);
        twice<<<N / 256, 256, 0, s[k]>>>(in + k * N, out + k * N);
    }
    cudaDeviceSynchronize();
    cudaMemcpy(r.data(), out, 2 * N * sizeof *out, cudaMemcpyDeviceToHost);
    std::printf("%g\n", r[0] + r[2 * N - 1]);
    cudaFree(in);
    cudaFree(out);
}
