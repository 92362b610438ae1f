// Every place in which a function can begin.
#include "sub/scale.h"
#include <cstddef>
#ifdef NEVER
#  include "sub/scale.h"
#endif
#define KERNEL __global__ void
#define MAKE_TEMPLATE(name) template <class T> __global__ void name(T *p) { *p = 1; }
#define MAKE(name) __global__ void name(int *p) { *p = 1; }

static __device__ float helper(float v) { return v * scale(2.f); }
MAKE_TEMPLATE(made_template)
MAKE(made)
KERNEL half_macro(float *p) { *p = helper(*p); }

template <typename T>
__global__ void templated(T *p, const char *text = "a\"b\\")
{
    *p = helper(*p);
}
template <> __global__ void templated<int>(int *p, const char *) { *p = 3; }
template __global__ void templated<double>(double *, const char *);
extern "C" __global__ void c_name(int *p) { *p = 2; }
struct Value {
    int v; __device__ Value(int a) : v(a) {} __device__ int get() const { return v; }
    template <class U> __device__ U as() { return U(v); }
    Value() = default;
    friend __device__ int befriended(Value &a) { return a.v; }
};
template <class T> struct Box { static __device__ T same(T x) { return x; } __device__ T later(T x); };
template <class T> __device__ T Box<T>::later(T x)
{
    return x + 1;
}
	static __device__ __forceinline__ int tabbed(int a) { return a; } __device__ int second(int b) { return b + 1; }
[[memtrace::skip]] __global__ void skipped(int *p) { *p = 1; }
__launch_bounds__(64) __global__ void bounded(int *p) { *p = 1; }
namespace a { namespace b {
__global__ void nested(int *p)
{
    Value v(3);
    *p = tabbed(*p) + second(1) + v.get() + v.as<short>() + befriended(v) + Box<int>::same(2) + Box<int>().later(4);
}
} }
#pragma memtrace off
__global__ void quiet(int *p) { *p = 1; }
#pragma memtrace on
__device__ constexpr int constant(int a) { return a; }
namespace { __global__ void hidden(int *p) { *p = constant(5); } }

int main()
{
    made_template<<<1, 1>>>((float *)0);
    made<<<1, 1>>>((int *)0); half_macro<<<1, 1>>>((float *)0);
    templated<<<1, 1>>>((float *)0);
    templated<int><<<1, 1>>>((int *)0);
    a::b::nested<<<1, 1>>>((int *)0);
    hidden<<<1, 1>>>((int *)0);
    auto local = [] __device__(int *p) { *p = 1; };
    (void)local;
    return 0;
}
