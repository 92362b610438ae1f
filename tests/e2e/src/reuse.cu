// An address that is freed and handed out again: what a kernel wrote there before is nobody's message to a
// later one. The second buffer is cleared by the host in its first half and by nobody in its second.
#include "../../../examples/common/example.h"
#include <vector>

__global__ void write_all(int *p)
{
    p[threadIdx.x] = 7;
}

__global__ void read_all(const int *p, int *out)
{
    int value = p[threadIdx.x];
    out[threadIdx.x] = threadIdx.x < 32 ? value : 0;
}

int main()
{
    const size_t bytes = 2 << 20; // large: such blocks come back at once; only 64 ints are used
    int *first, *out, *again;
    CHECK(cudaMalloc(&out, bytes));
    CHECK(cudaMalloc(&first, bytes));
    write_all<<<1, 64>>>(first);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(first));
    std::vector<int *> others;
    for (int tries = 0;; tries++) {
        CHECK(cudaMalloc(&again, bytes));
        if (again == first || tries == 10000)
            break;
        others.push_back(again);
    }
    printf("%s\n", again == first ? "same address" : "another address");
    CHECK(cudaMemset(again, 0, 32 * sizeof(int)));
    read_all<<<1, 64>>>(again, out);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    for (int *p : others)
        CHECK(cudaFree(p));
    CHECK(cudaFree(again));
    CHECK(cudaFree(out));
    return 0;
}
