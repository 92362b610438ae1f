// What is in the wrong place is said by Clang, at its place. (Host side: it says each thing once.)
// RUN: %host %s -Xclang -verify -o /dev/null

[[memtrace::skip]] int variable; // expected-warning {{'memtrace::skip' attribute only applies to functions}}
struct [[memtrace::trace]] Record {}; // expected-warning {{'memtrace::trace' attribute only applies to functions}}
typedef int Type __attribute__((memtrace_skip)); // expected-warning {{'memtrace_skip' attribute only applies to functions}}
void parameter([[memtrace::skip]] int p); // expected-warning {{'memtrace::skip' attribute only applies to functions}}

[[memtrace::skip, memtrace::trace]] __global__ void both(int *p) { *p = 1; } // expected-error {{'memtrace::trace' and 'memtrace::skip' attributes are not compatible}}
__attribute__((memtrace_trace(3))) __global__ void argument(int *p) { *p = 1; } // expected-error {{'memtrace_trace' attribute takes no arguments}}

__global__ void statement(int *p)
{
    [[memtrace::skip]] *p = 1; // expected-warning {{'memtrace::skip' attribute only applies to functions}}
    [[memtrace::trace]] { *p = 2; } // expected-warning {{'memtrace::trace' attribute only applies to functions}}
}

[[memtrace::skip]] void host_only() {} // expected-warning {{memtrace: this has no effect on host code}}
[[memtrace::skip]] __host__ __device__ void host_and_device() {}
[[memtrace::nothing]] __global__ void unknown() {} // expected-warning {{unknown attribute 'nothing' ignored}}
