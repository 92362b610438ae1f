// What a kernel may call: printf, assert, the heap, clocks, traps.
#include "kernel_row.h"
#include <assert.h>
#include <unistd.h>
#include <new>
typedef unsigned u32;
typedef unsigned long long u64;

// Runs `launch`, waits, and compares what came on stdout with `want`.
template <class F> static void printed(conf::row &r, const char *want, F launch)
{
    char name[] = "/tmp/conformance-XXXXXX", got[6000];
    int file = mkstemp(name), saved = dup(1);
    if (!r.check(file >= 0 && saved >= 0, "no temporary file"))
        return;
    unlink(name);
    fflush(stdout);
    dup2(file, 1);
    launch();
    CONF_CALL(r, cudaDeviceSynchronize());
    fflush(stdout);
    dup2(saved, 1);
    ssize_t n = pread(file, got, sizeof got - 1, 0);
    close(file);
    close(saved);
    got[n > 0 ? n : 0] = 0;
    for (char *c = got; *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ';'; // rows are lines
    r.check(!strcmp(got, want), "got \"%s\", expected \"%s\"", got, want);
}
#define PRINT_(id, name, call, want)                                                                         \
    static __global__ void CONF_JOIN(kernel_, id)()                                                          \
    {                                                                                                        \
        call;                                                                                                \
    }                                                                                                        \
    ROW_(name, "the text on stdout", false, CONF_JOIN(k, id))                                                \
    {                                                                                                        \
        printed(r, want, [] { CONF_JOIN(kernel_, id)<<<1, 1>>>(); });                                        \
    }
#define PRINT_ID(id, ...) PRINT_(id, __VA_ARGS__)
#define PRINT(...) PRINT_ID(__COUNTER__, __VA_ARGS__)
PRINT("printf of text", printf("hello\n"), "hello;")
PRINT("printf %d %i %u", printf("%d %i %u\n", -5, 7, 4000000000u), "-5 7 4000000000;")
PRINT("printf %5d %-5d| %05d %+d", printf("%5d %-5d| %05d %+d\n", 42, 42, 42, 42), "   42 42   | 00042 +42;")
PRINT("printf %x %X %o %#x", printf("%x %X %o %#x\n", 255, 255, 8, 255), "ff FF 10 0xff;")
PRINT("printf %lld %llu %llx %ld",
      printf("%lld %llu %llx %ld\n", -5000000000ll, 18446744073709551615ull, 1ull << 40, -7l),
      "-5000000000 18446744073709551615 10000000000 -7;")
PRINT("printf %hd %hhd", printf("%hd %hhd\n", (short)-3, (char)-4), "-3 -4;")
PRINT("printf %f %e %g", printf("%f %e %g\n", 1.5, 12345.678, 0.0001), "1.500000 1.234568e+04 0.0001;")
PRINT("printf %.3f %10.2f %-10.1f|", printf("%.3f %10.2f %-10.1f|\n", 3.14159, 2.5, 2.5),
      "3.142       2.50 2.5       |;")
PRINT("printf of float", printf("%f %G %E\n", 0.25f, 1e20f, 1.0f), "0.250000 1E+20 1.000000E+00;")
PRINT("printf %a", printf("%a\n", 1.0), "0x1p+0;")
PRINT("printf of inf and nan", printf("%f %f\n", INFINITY, -INFINITY), "inf -inf;")
PRINT("printf %c %%", printf("%c%c %%\n", 'a', 66), "aB %;")
PRINT("printf %s", printf("[%s] [%6s] [%-6s] [%.2s]\n", "abc", "abc", "abc", "abc"),
      "[abc] [   abc] [abc   ] [ab];")
PRINT("printf %p", printf("%p\n", (void *)0x1234), "0x1234;")
PRINT("printf %*d", printf("%*d|%-*d|\n", 6, 42, 4, 7), "    42|7   |;")
PRINT("printf %zu", printf("%zu\n", sizeof(int)), "4;")
PRINT("printf with 32 arguments",
      printf("%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d\n", 1, 2, 3, 4, 5, 6, 7, 8, 9,
             0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2),
      "12345678901234567890123456789012;")
static __global__ void print_lines(int n)
{
    for (int i = 0; i < n; i++)
        printf("%d;", i % 10);
}
ROW("printf, 200 times", "in order for one thread")
{
    char want[401];
    for (int i = 0; i < 200; i++)
        snprintf(want + 2 * i, 3, "%d;", i % 10);
    printed(r, want, [] { print_lines<<<1, 1>>>(200); });
}
static __global__ void print_global(const char *text, int *result)
{
    *result = printf("%s\n", text);
}
ROW("printf, result and text in global memory",
    "the number of arguments; reading the text is the device's affair")
{
    conf::buffer<char> text(r, 4, [](long i) { return "xyz"[i]; });
    conf::buffer<int> result(r, 1);
    printed(r, "xyz;", [&] { print_global<<<1, 1>>>(text, result); });
    result.is([](long) { return 1; });
    r.stores(1, 4);
    r.at_least(conf::LOAD, 0, 1);
}

// ---- the heap: its memory is global memory ----
static __global__ void heap(int *out)
{
    int *p = (int *)malloc(40);
    for (int i = 0; i < 10; i++)
        p[i] = i * threadIdx.x;
    int sum = 0;
    for (int i = 0; i < 10; i++)
        sum += ((volatile int *)p)[i];
    out[threadIdx.x] = sum;
    free(p);
}
ROW("malloc, free", "32 blocks at once; 10 stores and 10 loads each")
{
    conf::buffer<int> out(r, 32);
    heap<<<1, 32>>>(out);
    out.is([](long i) { return 45 * i; });
    r.loads(320, 4);
    r.stores(320 + 32, 4);
    r.only_bytes();
}
struct node {
    int value;
    node *next;
    __device__ node(int v, node *n) : value(v), next(n)
    {
    }
};
static __global__ void list(int *out)
{
    node *head = nullptr;
    for (int i = 0; i < 5; i++)
        head = new node(i, head);
    int digits = 0;
    while (head) {
        node *next = *(node *volatile *)&head->next;
        digits = digits * 10 + *(volatile int *)&head->value;
        delete head;
        head = next;
    }
    *out = digits;
}
ROW("new, delete", "a list of five nodes")
{
    conf::buffer<int> out(r, 1);
    list<<<1, 1>>>(out);
    out.is([](long) { return 43210; });
    r.loads(5, 4);
    r.loads(5, 8);
    r.stores(5 + 1, 4);
    r.stores(5, 8);
}
__device__ int *kept;
static __global__ void keep()
{
    kept = new int[8];
    for (int i = 0; i < 8; i++)
        ((volatile int *)kept)[i] = i * i;
}
static __global__ void drop(int *out)
{
    for (int i = 0; i < 8; i++)
        out[i] = ((volatile int *)kept)[i];
    delete[] kept;
}
ROW("new[], delete[] in another kernel", "the heap lives on between launches")
{
    conf::buffer<int> out(r, 8);
    keep<<<1, 1>>>();
    drop<<<1, 1>>>(out);
    out.is([](long i) { return i * i; });
    r.at_least(conf::LOAD, 8, 4);
    r.at_least(conf::LOAD, 2, 8);
    r.at_least(conf::STORE, 16, 4);
    r.at_least(conf::STORE, 1, 8);
}
static __global__ void huge(int *out)
{
    void *volatile p = malloc((size_t)1 << 45);
    *out = p == nullptr;
    free(p);
}
ROW("malloc of too much", "null; free of null")
{
    conf::buffer<int> out(r, 1);
    huge<<<1, 1>>>(out);
    out.is([](long) { return 1; });
    r.stores(1, 4);
}
static __global__ void placed(int *memory)
{
    node *n = new (memory) node(7, nullptr);
    memory[4] = *(volatile int *)&n->value;
}
ROW("placement new", "no memory of its own")
{
    conf::buffer<int> memory(r, 5);
    placed<<<1, 1>>>(memory);
    r.check(memory.get()[4] == 7, "got %d", memory.h[4]);
    r.stores(2, 4);
    r.stores(1, 8);
    r.loads(1, 4);
}

// ---- time ----
KERNEL_ROW("clock64", "does not go back", 32, int, ({
               long long a = clock64();
               __syncwarp();
               long long b = clock64();
               b - a >= 0;
           }),
           1)
KERNEL_ROW("clock", "the low half of clock64", 32, int, ({
               long long a = clock64();
               u32 now = (u32)clock();
               long long b = clock64();
               (u64)(u32)(now - (u32)a) <= (u64)(b - a);
           }),
           1)
KERNEL_ROW("%globaltimer", "does not go back", 32, int, ({
               u64 a, b;
               asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(a));
               __syncwarp();
               asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(b));
               b >= a;
           }),
           1)
KERNEL_ROW("__nanosleep", "%globaltimer has gone on by some of it", 1, int, ({
               u64 a, b;
               asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(a));
               for (int k = 0; k < 4; k++)
                   __nanosleep(500000);
               asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(b));
               b > a;
           }),
           1)
static __global__ void fences(int *p)
{
    p[threadIdx.x] = 1;
    __threadfence_block();
    __threadfence();
    __threadfence_system();
    asm volatile("membar.gl; membar.cta; membar.sys; fence.acq_rel.gpu; fence.sc.sys; fence.proxy.async;" ::
                     : "memory");
}
ROW("fences", "__threadfence*, membar, fence: no access")
{
    conf::buffer<int> p(r, 32);
    fences<<<1, 32>>>(p);
    p.is([](long) { return 1; });
    r.stores(32, 4);
}

// ---- ends that are errors ----
static __global__ void wrong_assertion(int *p, int limit)
{
    assert((int)threadIdx.x < limit);
    p[threadIdx.x] = 1;
}
ROW("assert that holds", "nothing happens")
{
    conf::buffer<int> p(r, 32);
    wrong_assertion<<<1, 32>>>(p, 32);
    p.is([](long) { return 1; });
    r.stores(32, 4);
}
ROW_ALONE("assert that fails", "cudaErrorAssert, and it stays")
{
    conf::buffer<int> p(r, 32);
    wrong_assertion<<<1, 32>>>(p, 0);
    cudaError_t error = cudaDeviceSynchronize();
    r.check(error == cudaErrorAssert, "cudaDeviceSynchronize: %s", cudaGetErrorName(error));
    error = cudaMalloc((void **)&p.d, 4);
    r.check(error == cudaErrorAssert, "later call: %s", cudaGetErrorName(error));
    r.launch_fails();
}
static __global__ void trapped()
{
    __trap();
}
ROW_ALONE("__trap", "the launch fails, and the error stays")
{
    trapped<<<1, 1>>>();
    cudaError_t error = cudaDeviceSynchronize();
    r.check(error == cudaErrorLaunchFailure || error == cudaErrorIllegalInstruction,
            "cudaDeviceSynchronize: %s", cudaGetErrorName(error));
    void *p;
    r.check(cudaMalloc(&p, 4) != cudaSuccess, "a later cudaMalloc succeeds");
    r.launch_fails();
}
static __global__ void left_by_asm(int *p)
{
    p[threadIdx.x] = 1;
    if (threadIdx.x & 1)
        asm volatile("exit;");
    p[threadIdx.x] = 2;
}
ROW("exit", "odd threads leave")
{
    conf::buffer<int> p(r, 32);
    left_by_asm<<<1, 32>>>(p);
    p.is([](long i) { return i & 1 ? 1 : 2; });
    r.stores(32 + 16, 4);
}
CONF_MAIN
