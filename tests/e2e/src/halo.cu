// Rings cut open: D devices have CELLS cells each, and in each round a cell becomes the sum of those WIDE to
// the left and to the right, beyond the ends 0. What lies with a neighbour comes by copies ("copy"), by loads
// from its memory ("load"), or the neighbour stores it ("store"). Argument: how, devices, rounds. Prints "ok"
// if all cells are as on the host.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "../../../examples/common/example.h"

enum { CELLS = 128, WIDE = 8, MOST = 8 };

// left, right: WIDE cells of the neighbours, or NULL.
__global__ void step(int *out, const int *in, const int *left, const int *right)
{
    int i = threadIdx.x, sum = 0;
    if (i >= WIDE)
        sum += in[i - WIDE];
    else if (left)
        sum += left[i];
    if (i < CELLS - WIDE)
        sum += in[i + WIDE];
    else if (right)
        sum += right[i - (CELLS - WIDE)];
    out[i] = sum;
}
// The ends of `in` into the neighbours' halos.
__global__ void push(const int *in, int *left, int *right)
{
    int i = threadIdx.x;
    if (left)
        left[i] = in[i];
    if (right)
        right[i] = in[CELLS - WIDE + i];
}

static int *cells[MOST][2], *halo[MOST][2]; // halo: from the left, from the right

static void exchange(const char *how, int devices, int now)
{
    for (int d = 0; d < devices; d++) {
        int *left = d ? halo[d - 1][1] : NULL, *right = d < devices - 1 ? halo[d + 1][0] : NULL;
        int *in = cells[d][now], bytes = WIDE * sizeof(int);
        CHECK(cudaSetDevice(d));
        if (!strcmp(how, "store"))
            push<<<1, WIDE>>>(in, left, right);
        if (!strcmp(how, "copy") && left)
            CHECK(cudaMemcpyPeer(left, d - 1, in, d, bytes));
        if (!strcmp(how, "copy") && right)
            CHECK(cudaMemcpyPeer(right, d + 1, in + CELLS - WIDE, d, bytes));
        CHECK(cudaDeviceSynchronize());
    }
}

static void compute(const char *how, int devices, int now)
{
    int loads = !strcmp(how, "load");
    for (int d = 0; d < devices; d++) {
        const int *left = !d ? NULL : loads ? cells[d - 1][now] + CELLS - WIDE : halo[d][0];
        const int *right = d == devices - 1 ? NULL : loads ? cells[d + 1][now] : halo[d][1];
        CHECK(cudaSetDevice(d));
        step<<<1, CELLS>>>(cells[d][!now], cells[d][now], left, right);
        CHECK(cudaGetLastError());
    }
    for (int d = 0; d < devices; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaDeviceSynchronize());
    }
}

int main(int argc, char **argv)
{
    const char *how = argv[1];
    int devices = atoi(argv[2]), rounds = atoi(argv[3]), n = devices * CELLS, there = 0;
    std::vector<int> want(n), next(n), got(n);
    for (int i = 0; i < n; i++)
        want[i] = i % 7;
    CHECK(cudaGetDeviceCount(&there));
    for (int d = 0; d < devices; d++) {
        CHECK(cudaSetDevice(d));
        for (int k = 0; k < devices; k++)
            if (k == d - 1 || k == d + 1)
                CHECK(cudaDeviceEnablePeerAccess(k, 0));
        for (int k = 0; k < 2; k++) {
            CHECK(cudaMalloc(&cells[d][k], CELLS * sizeof(int)));
            CHECK(cudaMalloc(&halo[d][k], WIDE * sizeof(int)));
        }
        CHECK(cudaMemcpy(cells[d][0], &want[d * CELLS], CELLS * sizeof(int), cudaMemcpyHostToDevice));
    }
    for (int r = 0; r < rounds; r++) {
        if (strcmp(how, "load"))
            exchange(how, devices, r % 2);
        compute(how, devices, r % 2);
        for (int i = 0; i < n; i++)
            next[i] = (i >= WIDE ? want[i - WIDE] : 0) + (i < n - WIDE ? want[i + WIDE] : 0);
        want.swap(next);
    }
    for (int d = 0; d < devices; d++)
        CHECK(cudaMemcpy(&got[d * CELLS], cells[d][rounds % 2], CELLS * sizeof(int), cudaMemcpyDeviceToHost));
    printf("%s\n", got == want ? "ok" : "wrong");
    return 0;
}
