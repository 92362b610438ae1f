// What C++ makes kernels of: extern "C", templates, lambdas, member function pointers, virtual bases. 64
// threads in one block each; each thread loads in[i] and stores out[i], each of 4 bytes,
// unless said otherwise.
#include <cstdio>
#include "../../../examples/common/example.h"
#define N 64

extern "C" __global__ void plain_name(const int *in, int *out)
{
    out[threadIdx.x] = in[threadIdx.x] + 1;
}
template <typename T, int Factor> __global__ void scale(const T *in, T *out)
{
    out[threadIdx.x] = Factor * in[threadIdx.x];
}
template <typename F> __global__ void apply(F f)
{
    f(threadIdx.x);
}
template <typename... Ts> __global__ void sum_all(int *out, Ts... values) // only stores
{
    out[threadIdx.x] = (values + ...);
}
struct Pair {
    int a, b;
};
__global__ void by_reference(Pair pair, int *out) // only stores
{
    const int Pair::*member = threadIdx.x & 1 ? &Pair::a : &Pair::b;
    out[threadIdx.x] = pair.*member;
}
namespace space
{
namespace
{
struct Functor {
    const int *in;
    int *out;
    template <typename I> __device__ void operator()(I i) const
    {
        out[i] = in[i] * 5;
    }
};
} // namespace
} // namespace space

static int *in, *out;
static int expect(const char *what, int (*want)(int))
{
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < N; i++)
        if (out[i] != want(i)) {
            printf("%s %d: %d, not %d\n", what, i, out[i], want(i));
            return 1;
        }
    return 0;
}

int main()
{
    CHECK(cudaMallocManaged(&in, N * sizeof(int)));
    CHECK(cudaMallocManaged(&out, N * sizeof(int)));
    for (int i = 0; i < N; i++)
        in[i] = i;
    int bad = 0, three = 3;
    const int *from = in;
    int *to = out;
    plain_name<<<1, N>>>(in, out);
    bad |= expect("plain_name", [](int i) { return i + 1; });
    scale<int, 7><<<1, N>>>(in, out);
    bad |= expect("scale", [](int i) { return 7 * i; });
    apply<<<1, N>>>([=] __device__(int i) { to[i] = from[i] * three; });
    bad |= expect("device lambda", [](int i) { return 3 * i; });
    auto both = [=] __host__ __device__(int i) { to[i] = from[i] + three; };
    apply<<<1, N>>>(both);
    bad |= expect("host device lambda", [](int i) { return i + 3; });
    for (int i = 0; i < N; i++)
        both(i);
    apply<<<1, N>>>([=] __device__(auto i) { to[i] = [](int v) { return v - 2; }(from[i]); });
    bad |= expect("generic lambda", [](int i) { return i - 2; });
    apply<<<1, N>>>(space::Functor{in, out});
    bad |= expect("functor", [](int i) { return 5 * i; });
    sum_all<<<1, N>>>(out, 1, 2.5, short(4));
    bad |= expect("sum_all", [](int) { return 7; });
    by_reference<<<1, N>>>(Pair{10, 20}, out);
    bad |= expect("by_reference", [](int i) { return i & 1 ? 10 : 20; });
    puts(bad ? "wrong" : "right");
    return bad;
}
