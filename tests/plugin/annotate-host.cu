// The host side annotates the stubs of kernels, so that launches can be named as the device side names kernels.
// RUN: %host -O0 %s -o %t.ll
// RUN: %python %S/Inputs/annotations.py %t.ll > %t.0
// RUN: FileCheck %s < %t.0
// RUN: %host -O2 %s -o %t.ll
// RUN: %python %S/Inputs/annotations.py %t.ll > %t.2
// RUN: diff %t.0 %t.2

// CHECK-DAG: _Z20__device_stub__scalePff: memtrace.kernel|scale|{{.*}}/annotate-host.cu|[[@LINE+1]]|17|values,factor
__global__ void scale(float *values, float factor) { *values *= factor; }
// CHECK-DAG: _ZN2ns19__device_stub__fillIfEEvPT_: memtrace.kernel|ns::fill<float>|{{.*}}|[[@LINE+2]]|36|out
namespace ns {
template <class T> __global__ void fill(T *out) { *out = 0; }
} // namespace ns
// CHECK-NOT: memtrace.device|only_device
__device__ void only_device() {}

int main()
{
    scale<<<1, 1>>>((float *)nullptr, 1.f);
    ns::fill<<<1, 1>>>((float *)nullptr);
}
