// Copies to the host of what nothing wrote, each by a call of its own, or of a block of its own
// (cases_init.py).
#include <cstdlib>

static char to[1024];
template <typename T> static void get(const T *from, size_t bytes)
{
    cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
}

int main()
{
    int *a, *b;
    cudaMalloc(&a, 1024);
    cudaMalloc(&b, 1024);
    cudaMemcpy(to, a, 100, cudaMemcpyDeviceToHost);
    cudaMemcpy(to, a, 200, cudaMemcpyDeviceToHost);
    cudaMemcpy(to, b, 300, cudaMemcpyDeviceToHost);
    get(a, 400);
    get(b, 500);
    return cudaFree(a) || cudaFree(b);
}
