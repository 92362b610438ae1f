// Copies alone, from device to device around a ring: no kernel.
#include "../../../examples/common/example.h"

int main(void)
{
    int n, *p[8], in[100], out[100];
    CHECK(cudaGetDeviceCount(&n));
    for (int d = 0; d < n; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaMalloc((void **)&p[d], sizeof in));
    }
    for (int i = 0; i < 100; i++)
        in[i] = i;
    CHECK(cudaMemcpy(p[0], in, sizeof in, cudaMemcpyDefault));
    for (int d = 0; d < n; d++)
        CHECK(cudaMemcpy(p[(d + 1) % n], p[d], sizeof in, cudaMemcpyDefault));
    CHECK(cudaMemcpy(out, p[0], sizeof out, cudaMemcpyDefault));
    printf("%d\n", out[99]);
    return 0;
}
