// C = A * B with 32x32 tiles staged in shared memory.
// Usage: matrix_multiply [launches] [width of A] [height of A] [width of B]; sizes are multiples of 32.
#include "../common/example.h"
#include <vector>

constexpr int TILE = 32;

// One CTA of TILE x TILE threads per tile of C; wa, wb: widths of A and B in elements.
__global__ void matrix_multiply(float *c, const float *a, const float *b, int wa, int wb)
{
    __shared__ float ta[TILE][TILE];
    __shared__ float tb[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int k = 0; k < wa; k += TILE) {
        ta[y][x] = a[row * wa + k + x];
        tb[y][x] = b[(k + y) * wb + column];
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += ta[y][i] * tb[i][x];
        __syncthreads();
    }
    c[row * wb + column] = sum;
}

int main(int argc, char **argv)
{
    int launches = argument(argc, argv, 1, "launches", 1, 1, 1 << 20);
    int wa = argument(argc, argv, 2, "width of A", 320, TILE, 1 << 14);
    int ha = argument(argc, argv, 3, "height of A", 320, TILE, 1 << 14);
    int wb = argument(argc, argv, 4, "width of B", 640, TILE, 1 << 14);
    if (wa % TILE || ha % TILE || wb % TILE) {
        fprintf(stderr, "matrix_multiply: sizes must be multiples of %d\n", TILE);
        return 2;
    }

    // Small whole numbers: every sum is exact, whatever the order and fusion of operations.
    std::vector<float> a((size_t)wa * ha), b((size_t)wb * wa), c((size_t)wb * ha);
    unsigned seed = 1;
    for (float &v : a)
        v = next_random(&seed) % 8;
    for (float &v : b)
        v = next_random(&seed) % 8;
    float *da, *db, *dc;
    CHECK(cudaMalloc(&da, a.size() * sizeof(float)));
    CHECK(cudaMalloc(&db, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&dc, c.size() * sizeof(float)));
    CHECK(cudaMemcpy(da, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));
    dim3 grid(wb / TILE, ha / TILE), block(TILE, TILE);
    for (int l = 0; l < launches; l++) {
        matrix_multiply<<<grid, block>>>(dc, da, db, wa, wb);
        CHECK_LAUNCH();
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(da));
    CHECK(cudaFree(db));
    CHECK(cudaFree(dc));

    Tally tally = {};
    for (unsigned cta = 0; cta < grid.x * grid.y; cta++)
        for (int thread = 0; thread < TILE * TILE; thread++) {
            for (int k = 0; k < wa; k += TILE) {
                tally.load(sizeof(float)); // A
                tally.load(sizeof(float)); // B
            }
            tally.store(sizeof(float));
        }
    long wrong = 0;
    std::vector<float> line(wb);
    for (int row = 0; row < ha; row++) {
        for (float &v : line)
            v = 0;
        for (int k = 0; k < wa; k++)
            for (int column = 0; column < wb; column++)
                line[column] += a[(size_t)row * wa + k] * b[(size_t)k * wb + column];
        for (int column = 0; column < wb; column++)
            wrong += c[(size_t)row * wb + column] != line[column];
    }
    print_count("matrix_multiply", tally, launches);
    return verdict("matrix_multiply", wrong);
}
