// Kernel names: anonymous namespaces, overloads, non-type and template template arguments,
// extern "C", a functor.
#include "../../../examples/common/example.h"

namespace
{
struct Tag {
};
__global__ void hidden(int *p)
{
    *p = 1;
}
template <typename T> __global__ void tagged(int *p)
{
    *p = sizeof(T);
}
} // namespace

extern "C" __global__ void plain_c(int *p)
{
    *p = 2;
}

__global__ void overloaded(int *p, int v)
{
    *p = v;
}

__global__ void overloaded(int *p, float v)
{
    *p = (int)v;
}

template <bool B, char C> __global__ void flags(int *p)
{
    *p = B ? C : 0;
}

template <typename F> __global__ void apply(int *p, F f)
{
    f(p);
}

struct Functor {
    int value;
    __device__ void operator()(int *p) const
    {
        *p = value;
    }
};

int main()
{
    int *p, last;
    CHECK(cudaMalloc(&p, 4));
    hidden<<<1, 1>>>(p);
    tagged<Tag><<<1, 1>>>(p);
    plain_c<<<1, 1>>>(p);
    overloaded<<<1, 1>>>(p, 1);
    overloaded<<<1, 1>>>(p, 1.0f);
    flags<true, 'x'><<<1, 1>>>(p);
    apply<<<1, 1>>>(p, Functor{42});
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(&last, p, 4, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(p));
    return verdict("scopes", last != 42);
}
