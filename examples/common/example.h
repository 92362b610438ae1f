// What the examples share: checked CUDA calls, arguments, and the program's own count of accesses.
//
// Each example computes its result a second time on the host with the control flow of its kernels and tallies
// there which accesses to global memory one GPU thread makes. That count knows nothing of the tracing tool;
// the tests compare it with the trace. It is printed as one line per kernel,
// over all of the kernel's launches:
//
//   count <kernel> launches=<n> load:<bytes>=<accesses> store:<bytes>=<accesses> atomic:<bytes>=<accesses>
#ifndef EXAMPLE_H
#define EXAMPLE_H
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t check_error = (call);                                                                    \
        if (check_error != cudaSuccess) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(check_error));  \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

// After a <<<>>> launch: errors of the launch itself.
#define CHECK_LAUNCH() CHECK(cudaGetLastError())

// Argument `index` as a whole number in [low, high], or `standard` when it is not given.
static inline int argument(int argc, char **argv, int index, const char *name, int standard, int low,
                           int high)
{
    if (index >= argc)
        return standard;
    char *end;
    long value = strtol(argv[index], &end, 10);
    if (*end || end == argv[index] || value < low || value > high) {
        fprintf(stderr, "%s: %s must be a whole number in %d..%d, not \"%s\"\n", argv[0], name, low, high,
                argv[index]);
        exit(2);
    }
    return (int)value;
}

// Accesses to global memory, by kind and by the bytes one thread touches (at most 64 here).
struct Tally {
    unsigned long long n[3][65];
    void load(int bytes, unsigned long long times = 1)
    {
        n[0][bytes] += times;
    }
    void store(int bytes, unsigned long long times = 1)
    {
        n[1][bytes] += times;
    }
    void atomic(int bytes, unsigned long long times = 1)
    {
        n[2][bytes] += times;
    }
};

// Prints the count line; `tally` is of one launch, or of all of them with `each` = false.
static inline void print_count(const char *kernel, const Tally &tally, unsigned launches = 1,
                               bool each = true)
{
    static const char *const kind[3] = {"load", "store", "atomic"};
    printf("count %s launches=%u", kernel, launches);
    for (int k = 0; k < 3; k++)
        for (int bytes = 1; bytes <= 64; bytes++)
            if (tally.n[k][bytes])
                printf(" %s:%d=%llu", kind[k], bytes, tally.n[k][bytes] * (each ? launches : 1));
    printf("\n");
}

// Pseudo-random numbers that are the same everywhere.
static inline unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// The program's last words: exit code 0 and "passed", or 1.
static inline int verdict(const char *name, long wrong)
{
    if (wrong) {
        fprintf(stderr, "%s: FAILED, %ld wrong values\n", name, wrong);
        return 1;
    }
    printf("%s: passed\n", name);
    return 0;
}
#endif
