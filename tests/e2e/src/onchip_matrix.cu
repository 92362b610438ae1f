// Tiles of a matrix product in shared memory: loads and stores of a warp as wmma and ldmatrix make them.
#include <cstdio>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

__global__ void product(const half *a, const half *b, float *c)
{
    __shared__ half tile_a[256], tile_b[256];
    __shared__ float tile_c[256];
    for (int i = threadIdx.x; i < 256; i += 32) {
        tile_a[i] = a[i];
        tile_b[i] = b[i];
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, tile_a, 16); // wmma load
    wmma::load_matrix_sync(fb, tile_b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(tile_c, fc, 16, wmma::mem_row_major); // wmma store
    __syncwarp();
    unsigned r[4];
    unsigned at = (unsigned)__cvta_generic_to_shared(&tile_a[(threadIdx.x % 16) * 16 + threadIdx.x / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" // ldmatrix
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
    for (int i = threadIdx.x; i < 256; i += 32)
        c[i] = tile_c[i] + (r[0] != 0x3c003c00);
}

// Nothing orders the second warp after the first.
__global__ void read_too_early(float *c)
{
    __shared__ float tile[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> ones;
    wmma::fill_fragment(ones, 1.0f);
    if (threadIdx.x < 32)
        wmma::store_matrix_sync(tile, ones, 16, wmma::mem_row_major); // stored by one warp
    else
        for (int i = threadIdx.x - 32; i < 256; i += 32)
            c[i] = ((volatile float *)tile)[i]; // loaded by the other
}

int main()
{
    half *a, *b;
    float *c;
    cudaMallocManaged(&a, 512);
    cudaMallocManaged(&b, 512);
    cudaMallocManaged(&c, 1024);
    for (int i = 0; i < 256; i++)
        a[i] = b[i] = 1;
    product<<<1, 32>>>(a, b, c);
    if (cudaDeviceSynchronize())
        return 1;
    printf("%g\n", c[255]);
    read_too_early<<<1, 64>>>(c);
    return cudaDeviceSynchronize();
}
