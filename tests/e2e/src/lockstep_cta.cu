// All warps of a CTA add to the same elements, without atomics: each element comes out right only where no
// warp is a round ahead of another.
#include <cstdio>

__global__ void rows(float *x, const float *a, int n)
{
    int i = threadIdx.x;
    for (int j = 0; j < n; j++)
        x[i] += a[j];
}

int main()
{
    const int n = 50;
    float *x, *a;
    int good = 0;
    cudaMallocManaged(&x, 32 * sizeof *x);
    cudaMallocManaged(&a, n * sizeof *a);
    for (int i = 0; i < 32; i++)
        x[i] = 0;
    for (int j = 0; j < n; j++)
        a[j] = 1;
    rows<<<1, dim3(32, 8)>>>(x, a, n);
    cudaDeviceSynchronize();
    for (int i = 0; i < 32; i++)
        good += x[i] == n;
    printf("rows: %d of 32\n", good);
    return 0;
}
