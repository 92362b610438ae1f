// c = a + b: one thread per element; the last CTA is only partly used.
// Usage: vector_add [elements] [threads per CTA] [launches]
#include "../common/example.h"
#include <vector>

__global__ void vector_add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

int main(int argc, char **argv)
{
    int n = argument(argc, argv, 1, "elements", 100000, 1, 1 << 28);
    int threads = argument(argc, argv, 2, "threads per CTA", 256, 1, 1024);
    int launches = argument(argc, argv, 3, "launches", 1, 0, 1 << 20);
    int ctas = (n + threads - 1) / threads;

    std::vector<float> a(n), b(n), c(n);
    for (int i = 0; i < n; i++) {
        a[i] = i * 0.5f;
        b[i] = n - i;
    }
    size_t bytes = n * sizeof(float);
    float *da, *db, *dc;
    CHECK(cudaMalloc(&da, bytes));
    CHECK(cudaMalloc(&db, bytes));
    CHECK(cudaMalloc(&dc, bytes));
    CHECK(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(dc, 0, bytes));
    for (int l = 0; l < launches; l++) {
        vector_add<<<ctas, threads>>>(da, db, dc, n);
        CHECK_LAUNCH();
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(da));
    CHECK(cudaFree(db));
    CHECK(cudaFree(dc));

    long wrong = 0;
    Tally tally = {};
    for (int cta = 0; cta < ctas; cta++)
        for (int t = 0; t < threads; t++) {
            int i = cta * threads + t;
            if (i < n) {
                tally.load(sizeof(float)); // a[i]
                tally.load(sizeof(float)); // b[i]
                tally.store(sizeof(float));
                wrong += c[i] != (launches ? a[i] + b[i] : 0);
            }
        }
    print_count("vector_add", tally, launches);
    return verdict("vector_add", wrong);
}
