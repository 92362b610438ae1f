// A 7-point stencil in one dimension over several launches. Each CTA stages its cells and RADIUS ghost cells
// from either neighbour in shared memory, so the traffic between CTAs is the ghost cells, byte for byte.
// Usage: stencil_1d [CTAs] [threads per CTA] [steps]
#include "../common/example.h"
#include <vector>

constexpr int RADIUS = 3;

// Cells outside [0, n) count as 0 and are not loaded. Dynamic shared memory: blockDim.x + 2 * RADIUS ints.
__global__ void stencil_1d(const int *in, int *out, int n)
{
    extern __shared__ int tile[];
    int t = threadIdx.x, width = blockDim.x;
    int i = blockIdx.x * width + t;
    tile[RADIUS + t] = in[i];
    if (t < RADIUS) {
        int left = i - RADIUS, right = i + width;
        if (left >= 0)
            tile[t] = in[left];
        else
            tile[t] = 0;
        if (right < n)
            tile[RADIUS + width + t] = in[right];
        else
            tile[RADIUS + width + t] = 0;
    }
    __syncthreads();
    int sum = 0;
    for (int k = 0; k <= 2 * RADIUS; k++)
        sum += tile[t + k];
    out[i] = sum / (2 * RADIUS + 1);
}

int main(int argc, char **argv)
{
    int ctas = argument(argc, argv, 1, "CTAs", 8, 1, 1 << 20);
    int threads = argument(argc, argv, 2, "threads per CTA", 128, RADIUS, 1024);
    int steps = argument(argc, argv, 3, "steps", 4, 1, 1 << 20);
    int n = ctas * threads;

    std::vector<int> now(n), next(n), result(n);
    unsigned seed = 7;
    for (int &v : now)
        v = next_random(&seed) % 100000;
    int *d[2];
    for (int k = 0; k < 2; k++)
        CHECK(cudaMalloc(&d[k], n * sizeof(int)));
    CHECK(cudaMemcpy(d[0], now.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    for (int s = 0; s < steps; s++) {
        stencil_1d<<<ctas, threads, (threads + 2 * RADIUS) * sizeof(int)>>>(d[s % 2], d[(s + 1) % 2], n);
        CHECK_LAUNCH();
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(result.data(), d[steps % 2], n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int k = 0; k < 2; k++)
        CHECK(cudaFree(d[k]));

    Tally tally = {};
    for (int s = 0; s < steps; s++) {
        for (int i = 0; i < n; i++) {
            tally.load(sizeof(int)); // the thread's own cell
            if (i % threads < RADIUS) {
                if (i - RADIUS >= 0)
                    tally.load(sizeof(int)); // a ghost cell on the left
                if (i + threads < n)
                    tally.load(sizeof(int)); // a ghost cell on the right
            }
            int sum = 0;
            for (int k = i - RADIUS; k <= i + RADIUS; k++)
                sum += k >= 0 && k < n ? now[k] : 0;
            next[i] = sum / (2 * RADIUS + 1);
            tally.store(sizeof(int));
        }
        now.swap(next);
    }
    long wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += result[i] != now[i];
    print_count("stencil_1d", tally, steps, false);
    return verdict("stencil_1d", wrong);
}
