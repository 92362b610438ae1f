// A 5-point stencil (each cell becomes the mean of its four neighbours) over several launches, straight from
// global memory: a CTA loads the edge cells of the tiles west, east, north and south of its own. Usage:
// stencil_2d [tiles in x] [tiles in y] [steps]
#include "../common/example.h"
#include <vector>

constexpr int TX = 16, TY = 8; // not square, so that x and y cannot be mixed up unseen

// The domain's edge cells keep their values.
__global__ void stencil_2d(const int *in, int *out, int width, int height)
{
    int x = blockIdx.x * TX + threadIdx.x, y = blockIdx.y * TY + threadIdx.y;
    int i = y * width + x;
    int value;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1)
        value = in[i];
    else
        value = (in[i - 1] + in[i + 1] + in[i - width] + in[i + width]) / 4;
    out[i] = value;
}

int main(int argc, char **argv)
{
    int tiles_x = argument(argc, argv, 1, "tiles in x", 4, 1, 4096);
    int tiles_y = argument(argc, argv, 2, "tiles in y", 3, 1, 4096);
    int steps = argument(argc, argv, 3, "steps", 4, 1, 1 << 20);
    int width = tiles_x * TX, height = tiles_y * TY, n = width * height;

    std::vector<int> now(n), next(n), result(n);
    unsigned seed = 3;
    for (int &v : now)
        v = next_random(&seed) % 100000;
    int *d[2];
    for (int k = 0; k < 2; k++)
        CHECK(cudaMalloc(&d[k], n * sizeof(int)));
    CHECK(cudaMemcpy(d[0], now.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    for (int s = 0; s < steps; s++) {
        stencil_2d<<<dim3(tiles_x, tiles_y), dim3(TX, TY)>>>(d[s % 2], d[(s + 1) % 2], width, height);
        CHECK_LAUNCH();
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(result.data(), d[steps % 2], n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int k = 0; k < 2; k++)
        CHECK(cudaFree(d[k]));

    Tally tally = {};
    for (int s = 0; s < steps; s++) {
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                int i = y * width + x;
                bool edge = x == 0 || y == 0 || x == width - 1 || y == height - 1;
                tally.load(sizeof(int), edge ? 1 : 4);
                next[i] = edge ? now[i] : (now[i - 1] + now[i + 1] + now[i - width] + now[i + width]) / 4;
                tally.store(sizeof(int));
            }
        now.swap(next);
    }
    long wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += result[i] != now[i];
    print_count("stencil_2d", tally, steps, false);
    return verdict("stencil_2d", wrong);
}
