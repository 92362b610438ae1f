// Templated kernels in namespaces, over several types: their names in the trace carry the template arguments,
// their records the size of the type. Usage: templated [CTAs] [threads per CTA]
#include "../common/example.h"
#include <vector>

namespace numbers
{
struct Pair { // 12 bytes, copied as a whole
    int key, value[2];
};

// y = x * factor + y for PER_THREAD elements per thread, a grid's width apart.
template <typename T, int PER_THREAD> __global__ void scale_add(const T *x, T *y, T factor)
{
    int all = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < PER_THREAD; k++)
        y[i + k * all] = x[i + k * all] * factor + y[i + k * all];
}

namespace detail
{
template <typename T> __global__ void reverse(const T *in, T *out)
{
    int all = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[all - 1 - i] = in[i];
}
} // namespace detail
} // namespace numbers

static int ctas, threads;

template <typename T, int PER_THREAD> long test_scale_add(const char *name)
{
    int n = ctas * threads * PER_THREAD;
    std::vector<T> x(n), y(n), result(n);
    for (int i = 0; i < n; i++) {
        x[i] = (T)(i % 50);
        y[i] = (T)(i % 7);
    }
    T *dx, *dy;
    CHECK(cudaMalloc(&dx, n * sizeof(T)));
    CHECK(cudaMalloc(&dy, n * sizeof(T)));
    CHECK(cudaMemcpy(dx, x.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dy, y.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    numbers::scale_add<T, PER_THREAD><<<ctas, threads>>>(dx, dy, (T)2);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(result.data(), dy, n * sizeof(T), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(dx));
    CHECK(cudaFree(dy));
    long wrong = 0;
    Tally tally = {};
    for (int i = 0; i < n; i++) {
        tally.load(sizeof(T), 2);
        tally.store(sizeof(T));
        wrong += result[i] != (T)(x[i] * 2 + y[i]);
    }
    print_count(name, tally);
    return wrong;
}

static long test_reverse(const char *name)
{
    typedef numbers::Pair Pair;
    int n = ctas * threads;
    std::vector<Pair> in(n), out(n);
    for (int i = 0; i < n; i++)
        in[i] = {i, {2 * i, 3 * i}};
    Pair *d_in, *d_out;
    CHECK(cudaMalloc(&d_in, n * sizeof(Pair)));
    CHECK(cudaMalloc(&d_out, n * sizeof(Pair)));
    CHECK(cudaMemcpy(d_in, in.data(), n * sizeof(Pair), cudaMemcpyHostToDevice));
    numbers::detail::reverse<Pair><<<ctas, threads>>>(d_in, d_out);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(out.data(), d_out, n * sizeof(Pair), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_in));
    CHECK(cudaFree(d_out));
    long wrong = 0;
    Tally tally = {};
    for (int i = 0; i < n; i++) {
        tally.load(4, sizeof(Pair) / 4);
        tally.store(4, sizeof(Pair) / 4);
        const Pair &a = in[i], &b = out[n - 1 - i];
        wrong += a.key != b.key || a.value[0] != b.value[0] || a.value[1] != b.value[1];
    }
    print_count(name, tally);
    return wrong;
}

int main(int argc, char **argv)
{
    ctas = argument(argc, argv, 1, "CTAs", 5, 1, 4096);
    threads = argument(argc, argv, 2, "threads per CTA", 64, 1, 1024);
    long wrong = 0;
    wrong += test_scale_add<float, 1>("numbers::scale_add<float, 1>");
    wrong += test_scale_add<float, 4>("numbers::scale_add<float, 4>");
    wrong += test_scale_add<double, 2>("numbers::scale_add<double, 2>");
    wrong += test_scale_add<int, 1>("numbers::scale_add<int, 1>");
    wrong += test_scale_add<short, 2>("numbers::scale_add<short, 2>");
    wrong += test_scale_add<unsigned char, 3>("numbers::scale_add<unsigned char, 3>");
    wrong += test_reverse("numbers::detail::reverse<numbers::Pair>");
    return verdict("templated", wrong);
}
