// __cluster_dims__, which Clang 19 does not know: no warning, and the pass gets the sizes.
// RUN: %device -O1 -Wall -Werror %s -o %t.ll
// RUN: %python %S/Inputs/annotations.py %t.ll | FileCheck %s
// RUN: %host -O1 -Wall -Werror %s -o /dev/null
// RUN: %host -DBAD %s -Xclang -verify=bad -o /dev/null

// CHECK-DAG: _Z3onePi: memtrace.cluster|2|1|1
__global__ void __cluster_dims__(2) one(int *p) { *p = 1; }
// CHECK-DAG: _Z5threePi: memtrace.cluster|2|1|4
__global__ void __cluster_dims__(1 + 1, 1, sizeof(int)) three(int *p) { *p = 1; }
// An instance has its own sizes.
// CHECK-DAG: _Z2ofILi3EfEvPT0_: memtrace.cluster|3|1|1
// CHECK-DAG: _Z2ofILi2EiEvPT0_: memtrace.cluster|2|1|1
template <int N, class T> __global__ void __cluster_dims__(N, 1, 1) of(T *p) { *p = 1; }
template __global__ void of<3, float>(float *);
void launch(int *p) { of<2, int><<<2, 1>>>(p); }
// Said once, on an earlier declaration.
// CHECK-DAG: _Z5earlyPi: memtrace.cluster|8|1|1
__global__ void __cluster_dims__(8, 1, 1) early(int *p);
__global__ void early(int *p) { *p = 1; }
// CHECK-NOT: _Z5plainPi: memtrace.cluster
__global__ void plain(int *p) { *p = 1; }

#ifdef BAD
__global__ void __cluster_dims__(0) zero() {} // bad-error {{memtrace: __cluster_dims__: expected a positive constant}}
int changes;
__global__ void __cluster_dims__(2, changes) varies() {} // bad-error {{memtrace: __cluster_dims__: expected a positive constant}}
int __cluster_dims__(2) variable; // bad-warning {{'cluster_dims' attribute only applies to functions}}
__global__ void __cluster_dims__(1, 1, 1, 1) four() {} // bad-error {{'cluster_dims' attribute takes no more than 3 arguments}}
#endif
