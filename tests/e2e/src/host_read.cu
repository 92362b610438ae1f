// Blocks of the host that only copies to the device read: whole, by rows with a pitch, pinned and
// asynchronously. One more is never read, and one is never freed.
#include <cstdio>
#include <cstdlib>

static int *host_read_fill(int n)
{
    int *p = (int *)malloc(n * sizeof *p); // kept or freed below
    for (int i = 0; i < n; i++)
        p[i] = i;
    return p;
}

int main()
{
    int *whole = host_read_fill(10000), *rows = host_read_fill(1024), *never = host_read_fill(3000),
        *leaked = host_read_fill(12500), *d, sum = 0;
    cudaMalloc(&d, 40000);
    cudaMemcpy(d, whole, 40000, cudaMemcpyHostToDevice);
    cudaMemcpy2DAsync(d, 256, rows, 512, 256, 8, cudaMemcpyHostToDevice, 0);
    cudaDeviceSynchronize();
    for (int i = 0; i < 12500; i += 100)
        sum += leaked[i];
    printf("%d\n", sum);
    cudaFree(d);
    free(whole);
    free(rows);
    free(never);
    return 0;
}
