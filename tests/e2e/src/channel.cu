// Kernels whose records tests can tell thread by thread: as they leave a GPU (cases_channel.py).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

const int ROUNDS = 12;

// Each thread stores into its own ROUNDS words, in order; which rounds it takes and when it ends differ from
// lane to lane.
__global__ void diverge(int *a)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < ROUNDS; r++) {
        if (r > t % 7 + 4)
            return;
        if ((t * 5 + r * 3) % 4 == 0)
            continue;
        if (t >> (r % 3) & 1)
            a[t * ROUNDS + r] = t;
        else
            a[t * ROUNDS + r] = -t;
    }
}

// Lanes that are far apart, at no distance that repeats.
__global__ void scatter(int **parts, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int *p = parts[t % 3];
    p[(t * 37) % n] = t;
    __syncthreads();
    p[(t * 11) % n] += 1;
}

// Blocks whose lengths differ from lane to lane, 0 among them; cp.async is what makes them.
__global__ void blocks(const char *from, int bytes)
{
    extern __shared__ char to[];
    unsigned at = (unsigned)__cvta_generic_to_shared(to + threadIdx.x * 16);
    int n = (threadIdx.x * bytes) % 20;
    n = n > 16 ? 16 : n;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from + threadIdx.x * 16),
                 "r"(n));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
}

// Lanes of one warp in different branches: a GPU may run their record calls, which are calls of one function,
// together.
__global__ void branches(const int *in, double *out, volatile int *flags)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t % 3 == 0)
        out[t] = t;
    else if (t % 3 == 1)
        flags[2 * t] = in[t];
    else
        flags[t / 3 * 3] += in[5 * t];
}

__global__ void many(int *a)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int v = __shfl_xor_sync(0xffffffff, a[t], 1);
    a[t] = v + 1;
}

static int stress(int launches, int nstreams)
{
    std::vector<cudaStream_t> streams(nstreams);
    std::vector<int *> data(nstreams);
    std::vector<std::thread> threads;
    for (int i = 0; i < nstreams; i++)
        if (cudaStreamCreate(&streams[i]) || cudaMalloc(&data[i], 256 * sizeof(int)))
            return 1;
    for (int i = 0; i < nstreams; i++)
        threads.emplace_back([&, i] {
            for (int k = i; k < launches; k += nstreams)
                many<<<4, 64, 0, streams[i]>>>(data[i]);
        });
    for (auto &t : threads)
        t.join();
    return cudaDeviceSynchronize();
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "stress")) {
        int e = stress(atoi(argv[2]), 8);
        printf("channel: %s\n", e ? cudaGetErrorString((cudaError_t)e) : "passed");
        return e;
    }
    if (argc > 1 &&
        !strcmp(argv[1], "reset")) { // a launch, the device reset without a wait, a graph, reset, a launch
        int *p;
        for (int i = 0; i < 3; i++) {
            cudaMalloc(&p, 256 * sizeof(int));
            many<<<4, 64>>>(p);
            if (i == 1) {
                cudaStream_t s;
                cudaGraph_t g;
                cudaGraphExec_t x;
                cudaStreamCreate(&s);
                cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
                many<<<4, 64, 0, s>>>(p);
                cudaStreamEndCapture(s, &g);
                cudaGraphInstantiate(&x, g, 0);
                cudaGraphLaunch(x, 0);
            }
            if (i < 2)
                cudaDeviceReset();
        }
        return 0; // nor a wait at the end
    }
    const int threads = 3 * 80, n = 1 << 20; // the last warp of each CTA is half empty
    int *a, *part[3], **parts;
    cudaMalloc(&a, threads * ROUNDS * sizeof(int));
    cudaMalloc(&part[0], n * sizeof(int));
    cudaMalloc(&part[1], (size_t)3 << 30); // 1 GiB and more in between; nobody touches most of it
    cudaMalloc(&part[2], n * sizeof(int));
    cudaMalloc(&parts, sizeof part);
    cudaMemcpy(parts, part, sizeof part, cudaMemcpyHostToDevice);
    diverge<<<3, 80>>>(a);
    scatter<<<3, 80>>>(parts, n);
    blocks<<<1, 48, 48 * 16>>>((const char *)part[0], 3);
    branches<<<2, 80>>>(part[0], (double *)part[2], a);
    int e = cudaDeviceSynchronize();
    printf("channel: %s\n", e ? cudaGetErrorString((cudaError_t)e) : "passed");
    return e;
}
