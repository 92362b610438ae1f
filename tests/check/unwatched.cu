// Programs whose host memtrace check cannot watch, or not all the time: one function for each reason. Right
// in all else.
#include <cuda_runtime.h>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include "faults.h"

__global__ void write_all(int *a)
{
    a[threadIdx.x] = threadIdx.x;
}
__global__ void await(volatile int *flag)
{
    while (!*flag)
        ;
}

static int *a, old_kernel;
static volatile int kept;

// Stands before the C library's; 59: PR_SET_SYSCALL_USER_DISPATCH.
extern "C" int prctl(int option, ...) noexcept
{
    va_list v;
    va_start(v, option);
    unsigned long w[4];
    for (auto &x : w)
        x = va_arg(v, unsigned long);
    va_end(v);
    return option == 59 && old_kernel ? -1 : (int)syscall(SYS_prctl, (long)option, w[0], w[1], w[2], w[3]);
}

static void launch()
{
    write_all<<<1, 64>>>(a);
    cudaDeviceSynchronize();
    kept = a[3];
}
static void none(int)
{
    for (int i = 0; i < 3; i++)
        launch();
}
static void threads(int) // during two of three launches
{
    std::atomic<int> stop{0};
    std::thread t([&] {
        while (!stop)
            usleep(100);
    });
    launch(), launch();
    stop = 1;
    t.join();
    launch();
}
static void on_signal(int)
{
}
static void handle(int flags, bool all)
{
    struct sigaction s = {};
    s.sa_handler = on_signal;
    s.sa_flags = flags;
    if (all)
        sigfillset(&s.sa_mask);
    sigaction(SIGUSR1, &s, nullptr);
}
static void masked(int)
{
    launch();
    handle(0, true);
    launch();
}
static void small(int)
{
    static char room[1 << 16];
    stack_t s = {};
    s.ss_sp = room;
    s.ss_size = getauxval(51 /* AT_MINSIGSTKSZ */) + 2048;
    if (sigaltstack(&s, nullptr))
        abort();
    handle(SA_ONSTACK, false);
    launch();
    s.ss_size = sizeof room;
    if (sigaltstack(&s, nullptr))
        abort();
    launch();
}
static void busy(int)
{
    await<<<1, 1>>>(a);
    *(volatile int *)a = 1;
    cudaDeviceSynchronize();
}
static void old(int)
{
    old_kernel = 1;
    launch();
}
static void called(int) // a system call that is not known to be harmless
{
    write_all<<<1, 64>>>(a);
    kept = (int)syscall(SYS_getppid);
    cudaDeviceSynchronize();
    write_all<<<1, 64>>>(a);
    void *p = mmap(nullptr, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // these are
    munmap(p, 1 << 20);
    cudaDeviceSynchronize();
}
static void large(int) // the third and the fifth call of a place are not watched
{
    char *more;
    cudaMallocManaged((void **)&more, 128 << 20);
    for (int i = 0; i < 5; i++)
        launch();
    cudaFree(more);
}
static void read_only(int)
{
    void *p = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cudaHostRegister(p, 8192, 0);
    launch();
    mprotect(p, 8192, PROT_READ);
    launch();
    mprotect(p, 8192, PROT_READ | PROT_WRITE);
    cudaHostUnregister(p);
}
static void many(int) // accesses
{
    int *part[6];
    for (auto &p : part)
        cudaMallocHost((void **)&p, 255 * 4096);
    write_all<<<1, 64>>>(a);
    for (auto &p : part)
        for (int i = 0; i < 255; i++)
            kept += p[i * 1024];
    cudaDeviceSynchronize();
    for (auto &p : part)
        cudaFreeHost(p);
}

static const Fault faults[] = {
    {"none", none}, {"threads", threads}, {"masked", masked}, {"small", small},         {"busy", busy},
    {"old", old},   {"called", called},   {"large", large},   {"read_only", read_only}, {"many", many}};

int main(int argc, char **argv)
{
    cudaMallocManaged((void **)&a, 256);
    for (int i = 0; i < 64; i++)
        a[i] = 0;
    int code = run_fault(faults, argc, argv);
    cudaFree(a);
    return code;
}
