// Heat in a plate that lies in bands on several GPUs: each cell becomes the mean of its four neighbours, and
// the rows above and below a band lie on another device. `loads`: the kernel takes them from there; `copies`:
// they are copied into rows of its own before each step.
// Usage: MEMTRACE_CPU_DEVICES=4 ./halo_exchange [loads or copies] [width] [rows of a band] [steps]
#include "../common/example.h"
#include <cstring>
#include <vector>

constexpr int TX = 32, TY = 8;

// A band has `rows` rows; `above` and `below` are the rows beyond it, NULL at the ends of the plate, where
// cells keep their values.
__global__ void step(const float *in, const float *above, const float *below, float *out, int width, int rows)
{
    int x = blockIdx.x * TX + threadIdx.x, y = blockIdx.y * TY + threadIdx.y, i = y * width + x;
    if (x >= width || y >= rows)
        return;
    const float *up = y ? in + i - width : above ? above + x : nullptr;
    const float *down = y < rows - 1 ? in + i + width : below ? below + x : nullptr;
    if (x == 0 || x == width - 1 || !up || !down)
        out[i] = in[i];
    else
        out[i] = (in[i - 1] + in[i + 1] + *up + *down) / 4;
}

struct Band {
    float *now, *next, *above, *below; // above, below: of its own, for copies
    cudaStream_t stream;
};
static std::vector<Band> bands;

static void make(bool copies, int width, int rows, const std::vector<float> &plate)
{
    int devices = (int)bands.size();
    size_t row = width * sizeof(float);
    for (int d = 0; d < devices; d++) {
        Band &b = bands[d];
        CHECK(cudaSetDevice(d));
        CHECK(cudaStreamCreate(&b.stream));
        CHECK(cudaMalloc(&b.now, rows * row));
        CHECK(cudaMalloc(&b.next, rows * row));
        if (copies && d)
            CHECK(cudaMalloc(&b.above, row));
        if (copies && d < devices - 1)
            CHECK(cudaMalloc(&b.below, row));
        CHECK(cudaMemcpy(b.now, &plate[(size_t)d * rows * width], rows * row, cudaMemcpyHostToDevice));
        for (int other : {d - 1, d + 1})
            if (other >= 0 && other < devices)
                CHECK(cudaDeviceEnablePeerAccess(other, 0));
    }
}

static void wait()
{
    for (int d = 0; d < (int)bands.size(); d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaStreamSynchronize(bands[d].stream));
    }
}

static void one_step(bool copies, int width, int rows)
{
    int devices = (int)bands.size();
    size_t row = width * sizeof(float), last = (size_t)(rows - 1) * width;
    for (int d = 0; d < devices; d++) {
        Band &b = bands[d];
        const float *above = d ? bands[d - 1].now + last : nullptr;
        const float *below = d < devices - 1 ? bands[d + 1].now : nullptr;
        CHECK(cudaSetDevice(d));
        if (copies && above)
            CHECK(cudaMemcpyPeerAsync(b.above, d, above, d - 1, row, b.stream));
        if (copies && below)
            CHECK(cudaMemcpyPeerAsync(b.below, d, below, d + 1, row, b.stream));
        step<<<dim3((width + TX - 1) / TX, (rows + TY - 1) / TY), dim3(TX, TY), 0, b.stream>>>(
            b.now, copies && above ? b.above : above, copies && below ? b.below : below, b.next, width, rows);
        CHECK_LAUNCH();
    }
    wait(); // all have read what the next step overwrites
    for (Band &b : bands)
        std::swap(b.now, b.next);
}

static void on_host(std::vector<float> &now, int width, int height)
{
    std::vector<float> next = now;
    for (int y = 1; y < height - 1; y++)
        for (int x = 1; x < width - 1; x++) {
            int i = y * width + x;
            next[i] = (now[i - 1] + now[i + 1] + now[i - width] + now[i + width]) / 4;
        }
    now.swap(next);
}

int main(int argc, char **argv)
{
    bool copies = argc > 1 && !strcmp(argv[1], "copies");
    int width = argument(argc, argv, 2, "width", 128, 3, 1 << 14);
    int rows = argument(argc, argv, 3, "rows of a band", 32, 1, 1 << 14);
    int steps = argument(argc, argv, 4, "steps", 8, 1, 1 << 20), devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    bands.resize(devices);
    std::vector<float> plate((size_t)devices * rows * width), result(plate.size());
    unsigned seed = 3;
    for (float &v : plate)
        v = (float)(next_random(&seed) % 1024);
    make(copies, width, rows, plate);
    for (int s = 0; s < steps; s++) {
        one_step(copies, width, rows);
        on_host(plate, width, devices * rows);
    }
    for (int d = 0; d < devices; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaMemcpy(&result[(size_t)d * rows * width], bands[d].now, rows * width * sizeof(float),
                         cudaMemcpyDeviceToHost));
        for (float *of : {bands[d].now, bands[d].next, bands[d].above, bands[d].below})
            CHECK(cudaFree(of));
        CHECK(cudaStreamDestroy(bands[d].stream));
    }
    long wrong = 0;
    for (size_t i = 0; i < plate.size(); i++)
        wrong += result[i] != plate[i];
    if (wrong) {
        printf("%ld cells are wrong\n", wrong);
        return 1;
    }
    printf("ok: %d devices, %d steps\n", devices, steps);
}
