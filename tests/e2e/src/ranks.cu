// One of several processes: fills a buffer, gives it away, and takes what the one before it gave. They meet
// at files. Arguments: rank, ranks, folder, device. Prints "ok" if what came is right.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include "../../../examples/common/example.h"

enum { CELLS = 1 << 18, TAKEN = 1 << 10, STEPS = 2 };

__global__ void fill(int *out, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = value + i;
}
__global__ void take(int *out, const int *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}

static const char *folder;
static void put(const char *what, int rank, const void *data, size_t size)
{
    char path[4096], made[4096];
    snprintf(path, sizeof path, "%s/%s.%d.new", folder, what, rank);
    snprintf(made, sizeof made, "%s/%s.%d", folder, what, rank);
    FILE *f = fopen(path, "w");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) || rename(path, made))
        exit(1);
}
static void get(const char *what, int rank, void *data, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%d", folder, what, rank);
    for (int i = 0; i < 30000 && access(path, F_OK); i++)
        usleep(10000);
    FILE *f = fopen(path, "r");
    if (!f || fread(data, 1, size, f) != size || fclose(f))
        exit(1);
}
static void meet(const char *what, int rank, int ranks)
{
    char c = 0;
    put(what, rank, &c, 1);
    for (int r = 0; r < ranks; r++)
        get(what, r, &c, 1);
}

int main(int argc, char **argv)
{
    int rank = atoi(argv[1]), ranks = atoi(argv[2]), *mine, *theirs, *got, *copied, cells[TAKEN];
    folder = argv[3];
    cudaIpcMemHandle_t handle;
    CHECK(cudaSetDevice(argc > 4 ? atoi(argv[4]) : 0));
    CHECK(cudaMalloc(&mine, CELLS * sizeof(int)));
    CHECK(cudaMalloc(&got, TAKEN * sizeof(int)));
    CHECK(cudaMalloc(&copied, TAKEN * sizeof(int)));
    CHECK(cudaIpcGetMemHandle(&handle, mine));
    put("handle", rank, &handle, sizeof handle);
    get("handle", (rank + ranks - 1) % ranks, &handle, sizeof handle);
    CHECK(cudaIpcOpenMemHandle((void **)&theirs, handle, cudaIpcMemLazyEnablePeerAccess));
    for (int s = 0; s < STEPS; s++) {
        char name[32];
        fill<<<CELLS / 256, 256>>>(mine, rank * 1000 + s);
        CHECK(cudaDeviceSynchronize());
        snprintf(name, sizeof name, "filled%d", s);
        meet(name, rank, ranks);
        take<<<TAKEN / 256, 256>>>(got, theirs);
        CHECK(cudaMemcpy(copied, theirs, TAKEN * sizeof(short), cudaMemcpyDeviceToDevice));
        CHECK(cudaDeviceSynchronize());
        snprintf(name, sizeof name, "taken%d", s);
        meet(name, rank, ranks);
        CHECK(cudaMemcpy(cells, got, sizeof cells, cudaMemcpyDeviceToHost));
        for (int i = 0; i < TAKEN; i++)
            if (cells[i] != (rank + ranks - 1) % ranks * 1000 + s + i) {
                printf("%d is %d\n", i, cells[i]);
                return 1;
            }
    }
    CHECK(cudaIpcCloseMemHandle(theirs));
    meet("closed", rank, ranks);
    CHECK(cudaFree(copied));
    CHECK(cudaFree(mine));
    CHECK(cudaFree(got));
    puts("ok");
}
