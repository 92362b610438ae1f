// What fills, ends and mixes in ways that matter on the way of a GPU's records (tests/gpu/cases_gpu.py). The
// first argument says which:
//   registers  blocks of 1,024 threads, each with as many values at once as it has registers for
//   return     a kernel, a copy, and the end of main
//   many       more records than a pipe holds
//   library    graphs captured from kernels of ours and of a library with a CUDA runtime of its own
//   (other_library.cu)
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <vector>

enum { VALUES = 56, BLOCK = 1024, BLOCKS = 2, ALL = BLOCK * BLOCKS };
enum { CTAS = 3, THREADS = 64, N = CTAS * THREADS };
enum { ROUNDS = 32, MANY = 64 * 256 };

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t e_ = (call);                                                                             \
        if (e_)                                                                                              \
            return printf("%s: %s\n", #call, cudaGetErrorName(e_)), 1;                                       \
    } while (0)

static __host__ __device__ unsigned mixed(const unsigned *in, int t)
{
    unsigned v[VALUES], sum = 0;
#pragma unroll
    for (int i = 0; i < VALUES; i++)
        v[i] = in[i * ALL + t];
#pragma unroll
    for (int i = 0; i < VALUES; i++)
        v[i] = v[i] * v[(i + 17) % VALUES] + v[(i + 31) % VALUES];
#pragma unroll
    for (int i = 0; i < VALUES; i++)
        sum = sum * 33 ^ v[VALUES - 1 - i];
    return sum;
}

__global__ void mix(const unsigned *in, unsigned *out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    out[t] = mixed(in, t);
}

__global__ void add(int *p, int by)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] += by;
}

__global__ void many(int *p)
{
    for (int i = 0; i < ROUNDS; i++)
        p[i * MANY + blockIdx.x * blockDim.x + threadIdx.x] = i;
}

static int registers()
{
    std::vector<unsigned> in(VALUES * ALL), out(ALL);
    unsigned *a, *b;
    for (size_t i = 0; i < in.size(); i++)
        in[i] = unsigned(i * 2654435761u);
    CHECK(cudaMalloc(&a, in.size() * 4));
    CHECK(cudaMalloc(&b, out.size() * 4));
    CHECK(cudaMemcpy(a, in.data(), in.size() * 4, cudaMemcpyHostToDevice));
    mix<<<BLOCKS, BLOCK>>>(a, b);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out.data(), b, out.size() * 4, cudaMemcpyDeviceToHost));
    for (int t = 0; t < ALL; t++)
        if (out[t] != mixed(in.data(), t))
            return printf("thread %d: %u\n", t, out[t]), 1;
    return puts("passed"), 0;
}

/* No wait after the copy, and nothing freed. */
static int returns()
{
    int *p, got[N];
    CHECK(cudaMalloc(&p, sizeof got));
    CHECK(cudaMemset(p, 0, sizeof got));
    add<<<CTAS, THREADS>>>(p, 7);
    CHECK(cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost));
    puts(got[N - 1] == 7 ? "passed" : "wrong");
    return 0;
}

static int fills()
{
    int *p;
    CHECK(cudaMalloc(&p, ROUNDS * MANY * sizeof *p));
    many<<<MANY / 256, 256>>>(p);
    CHECK(cudaDeviceSynchronize());
    return puts("passed"), 0;
}

static int library()
{
    void *other = dlopen("libother.so", RTLD_NOW | RTLD_LOCAL);
    auto twice = (int (*)(int *, int, cudaStream_t))(other ? dlsym(other, "other_twice") : nullptr);
    int *p, got[N], with, expect = 0;
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    if (!twice)
        return printf("%s\n", dlerror()), 1;
    CHECK(cudaMalloc(&p, sizeof got));
    CHECK(cudaMemset(p, 0, sizeof got));
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaDeviceSynchronize());
    with = !twice(p, N, s); /* where there is no GPU it cannot */
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    add<<<CTAS, THREADS, 0, s>>>(p, 1);
    if (with && twice(p, N, s))
        return puts("the library cannot be captured"), 1;
    add<<<CTAS, THREADS, 0, s>>>(p, 1);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGetLastError());
    for (int i = 0; i < 3; i++) {
        CHECK(cudaGraphLaunch(ready, s));
        expect = (expect + 1) * (with ? 2 : 1) + 1;
    }
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        if (got[i] != expect)
            return printf("%d: %d instead of %d\n", i, got[i], expect), 1;
    printf("library: %s, passed\n", with ? "captured" : "cannot run");
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "registers"))
        return registers();
    if (!strcmp(what, "return"))
        return returns();
    if (!strcmp(what, "many"))
        return fills();
    return library();
}
