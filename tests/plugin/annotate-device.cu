// Kernels and device functions are annotated with their source facts, whatever kind of function they are.
// RUN: %device -O0 %s | FileCheck %s
// RUN: %device -O1 %s | FileCheck %s
// RUN: %device -O2 %s | FileCheck %s
// RUN: %device -O3 %s | FileCheck %s
// A second look, by names: every annotation belongs to the function that its text names.
// RUN: %device -O1 %s > %t.ll
// RUN: %python %S/Inputs/annotations.py %t.ll | FileCheck %s --check-prefix=PAIR

// CHECK-NOT: c"memtrace.{{.*}}/__clang_cuda
// PAIR-NOT: {{/__clang_cuda|host_only}}

__device__ float declared_first(float);

namespace outer {
namespace inner {
// PAIR-DAG: _ZN5outer5inner2nsEPi: memtrace.kernel|outer::inner::ns|{{.*}}/annotate-device.cu|[[@LINE+1]]|17|data
__global__ void ns(int *data) { *data = 1; }
} // namespace inner
// PAIR-DAG: _ZN5outer5ArrayIiLi3EE2atEi: memtrace.device|outer::Array<int, 3>::at|{{.*}}|[[@LINE+3]]|19|this,i
template <class T, int N> struct Array {
    T v[N];
    __device__ T &at(int i) { return v[i]; }
};
} // namespace outer

namespace {
// PAIR-DAG: _ZN{{.*}}_GLOBAL__N_{{.*}}: memtrace.kernel|(anonymous namespace)::hidden|{{.*}}|[[@LINE+1]]|17|p
__global__ void hidden(int *p) { *p = 2; }
} // namespace

// Overloads: same name, each with its own place and parameters.
// PAIR-DAG: _Z8overloadPf: memtrace.kernel|overload|{{.*}}|[[@LINE+1]]|17|f
__global__ void overload(float *f) { *f = declared_first(*f); }
// PAIR-DAG: _Z8overloadPii: memtrace.kernel|overload|{{.*}}|[[@LINE+1]]|17|i,count
__global__ void overload(int *i, int count)
{
    outer::Array<int, 3> a = {};
    *i = a.at(count);
}

// Called before it is defined: the definition's place counts.
// PAIR-DAG: _Z14declared_firstf: memtrace.device|declared_first|{{.*}}|[[@LINE+1]]|18|x
__device__ float declared_first(float x) { return x * 2; }

// PAIR-DAG: _Z5twiceI{{[if]}}ET_S0_: memtrace.device|twice<{{int|float}}>|{{.*}}|[[@LINE+1]]|33|value
template <class T> __device__ T twice(T value) { return value + value; }
// PAIR-DAG: _Z9templatedIfLb1EEvPT_S0_: memtrace.kernel|templated<float, true>|{{.*}}|[[@LINE+2]]|44|out,
// PAIR-DAG: _Z9templatedIiLb0EEvPT_S0_: memtrace.kernel|templated<int, false>|{{.*}}|[[@LINE+1]]|44|out,
template <class T, bool B> __global__ void templated(T *out, T) { *out = twice(*out); }
// PAIR-DAG: _Z9templatedIdLb0EEvPT_S0_: memtrace.kernel|templated<double, false>|{{.*}}|[[@LINE+1]]|29|own,second
template <> __global__ void templated<double, false>(double *own, double second) { *own = second; }
template __global__ void templated<int, false>(int *, int);

// PAIR-DAG: _Z6variadIJifdEEvPiDpT_: memtrace.kernel|variad<int, float, double>|{{.*}}|[[@LINE+1]]|39|p,rest,rest,rest
template <class... T> __global__ void variad(int *p, T... rest) { *p = sizeof...(rest); }

// PAIR-DAG: _Z11takesLambda{{.*}}: memtrace.kernel|takesLambda<(lambda at annotate-device.cu:[[#@LINE+35]]:27)>|
template <class F> __global__ void takesLambda(F f, int *p) { f(p); }

// PAIR-DAG: _ZZ9localcallPiENKUliE_clEi: memtrace.device|(lambda at annotate-device.cu:[[@LINE+3]]:16)::operator()|{{.*}}|,a
__global__ void localcall(int *p)
{
    auto add = [](int a) { return a + 1; };
    *p = add(*p);
}

struct Base {
    // PAIR-DAG: _ZN4Base4callEv: memtrace.device|Base::call|{{.*}}|[[@LINE+1]]|28|this{{$}}
    __device__ virtual int call() { return 1; }
    __device__ virtual ~Base() {}
};
struct Derived : Base {
    // PAIR-DAG: _ZN7Derived4callEv: memtrace.device|Derived::call|{{.*}}|[[@LINE+1]]|20|this{{$}}
    __device__ int call() override { return 2; }
};
__global__ void virtuals(int *p)
{
    Derived d;
    Base *b = &d;
    *p = b->call();
}

// PAIR-DAG: _Z4bothi: memtrace.device|both|{{.*}}|[[@LINE+1]]|25|b
__host__ __device__ int both(int b) { return b; }
int host_only(int h) { return both(h); }

int main(int argc, char **)
{
    hidden<<<1, 1>>>((int *)nullptr);
    templated<float, true><<<1, 1>>>((float *)nullptr, 1.f);
    variad<<<1, 1>>>((int *)nullptr, 1, 2.f, 3.0);
    takesLambda<<<1, 1>>>([=] __device__(int *q) { *q = argc; }, (int *)nullptr);
}

// CHECK: @llvm.global.annotations = appending global
