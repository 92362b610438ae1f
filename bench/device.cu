// The examples' kernels, launched back to back and timed without the examples' host work.
// Usage: device KERNEL LAUNCHES; prints the seconds from the first launch until the device is idle.
// An untimed launch first warms up caches, page tables and worker threads.
#define main vector_add_main
#include "../examples/vector_add/vector_add.cu"
#undef main
#define main matrix_multiply_main
#include "../examples/matrix_multiply/matrix_multiply.cu"
#undef main
#define main stencil_2d_main
#include "../examples/stencil_2d/stencil_2d.cu"
#undef main
#define main histogram_main
#include "../examples/histogram/histogram.cu"
#undef main
#include <string.h>
#include <time.h>

__global__ void random_gather(const int *index, const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[index[i]];
}

static double seconds()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static const int elements = 1 << 20;         // elements of a vector
static const int wide = 64, high = 128;      // tiles of the stencil, 1 Mi cells in total
static const int bytes = 1 << 20, ctas = 64; // bytes and CTAs of the histogram

static void launch(const char *kernel, char *const *d, int step)
{
    if (!strcmp(kernel, "vector_add"))
        vector_add<<<elements / 256, 256>>>((float *)d[0], (float *)d[1], (float *)d[2], elements);
    else if (!strcmp(kernel, "matrix_multiply"))
        matrix_multiply<<<dim3(20, 10), dim3(TILE, TILE)>>>((float *)d[2], (float *)d[0], (float *)d[1], 320,
                                                            640);
    else if (!strcmp(kernel, "stencil_2d"))
        stencil_2d<<<dim3(wide, high), dim3(TX, TY)>>>((int *)d[step % 2], (int *)d[(step + 1) % 2],
                                                       wide * TX, high * TY);
    else if (!strcmp(kernel, "histogram_global"))
        histogram_global<<<ctas, 256>>>((unsigned char *)d[0], (unsigned *)d[1], bytes);
    else if (!strcmp(kernel, "histogram_shared"))
        histogram_shared<<<ctas, 256>>>((unsigned char *)d[0], (unsigned *)d[1], bytes);
    else if (!strcmp(kernel, "random_gather"))
        random_gather<<<elements / 256, 256>>>((int *)d[0], (float *)d[1], (float *)d[2], elements);
    else {
        fprintf(stderr, "device: no kernel %s\n", kernel);
        exit(2);
    }
    CHECK_LAUNCH();
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: device KERNEL LAUNCHES\n");
        return 2;
    }
    int launches = argument(argc, argv, 2, "launches", 1, 1, 1 << 20);
    char *d[3];
    std::vector<unsigned char> random(4 << 20);
    unsigned seed = 1;
    for (unsigned char &v : random)
        v = next_random(&seed);
    for (char *&p : d) {
        CHECK(cudaMalloc((void **)&p, random.size()));
        CHECK(cudaMemset(p, 0, random.size()));
    }
    if (!strncmp(argv[1], "histogram", 9))
        CHECK(cudaMemcpy(d[0], random.data(), random.size(), cudaMemcpyHostToDevice));
    if (!strcmp(argv[1], "random_gather")) {
        std::vector<int> index(elements);
        for (int &i : index)
            i = (next_random(&seed) << 16 ^ next_random(&seed)) % elements;
        CHECK(cudaMemcpy(d[0], index.data(), index.size() * sizeof index[0], cudaMemcpyHostToDevice));
    }
    launch(argv[1], d, 0);
    CHECK(cudaDeviceSynchronize());
    double begin = seconds();
    for (int l = 0; l < launches; l++)
        launch(argv[1], d, l);
    CHECK(cudaDeviceSynchronize());
    printf("%.6f\n", seconds() - begin);
    for (char *p : d)
        CHECK(cudaFree(p));
    return 0;
}
