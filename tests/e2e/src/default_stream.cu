// Two host threads, each on the default stream: with a default stream per thread their
// kernels wait for each other.
#include "../../../examples/common/example.h"
#include <thread>

__global__ void meet(volatile int *p, int set, int wait)
{
    p[set] = 1;
    while (p[wait] == 0) {
    }
}

static void one(int *p, int set, int wait)
{
    meet<<<1, 1>>>(p, set, wait);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(0));
}

int main()
{
    int *p;
    CHECK(cudaMallocManaged(&p, 2 * sizeof(int)));
    p[0] = p[1] = 0;
    std::thread a(one, p, 0, 1), b(one, p, 1, 0);
    a.join();
    b.join();
    return verdict("default_stream", p[0] + p[1] != 2);
}
