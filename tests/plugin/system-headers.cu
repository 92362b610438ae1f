// Where the system's header folders hold another CUDA toolkit (/usr/local/include often does), the overlay's headers
// are found first all the same, on both sides.
// RUN: %cuda -fplugin=%plugin -isystem %toolkit/include -O1 -c %s -o %t.o
// RUN: not %cuda -isystem %toolkit/include -O1 --cuda-device-only -S %s -o %t.s 2>&1 | FileCheck %s
// CHECK: use of undeclared identifier '__ldcs'
__global__ void k(const double2 *d, double2 *e) { __stcg(&e[threadIdx.x], __ldcs(&d[threadIdx.x])); }
