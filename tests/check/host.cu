// Host code that touches shared memory before it has waited for the kernels and copies that use it, and right
// twins.
#include <cuda_runtime.h>
#include <atomic>
#include <cuda/atomic>
#include <unistd.h>
#include "faults.h"

__global__ void write_all(int *a, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        a[i] = i;
}
__global__ void read_all(const int *a, int *to, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        to[i] = a[i];
}
__global__ void hand_over(int *a, volatile int *flag, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        a[i] = i;
    __threadfence_system();
    __syncthreads();
    if (!threadIdx.x)
        *flag = 1;
}
// Waits until the host has written.
__global__ void take_over(const int *a, volatile int *flag, int *to)
{
    while (!*flag)
        ;
    *to = *(volatile const int *)a;
}
__global__ void count_all(int *sum)
{
    atomicAdd_system(sum, 1);
}

__global__ void count_on_gpu(int *sum)
{
    atomicAdd(sum, 1);
}
template <cuda::thread_scope scope> __global__ void release_it(int *a, int *flag)
{
    a[0] = 6;
    cuda::atomic_ref<int, scope>(*flag).store(1, cuda::memory_order_release);
}

// Memory of the host and the device: managed, pinned, mapped or registered.
enum Kind { MANAGED, PINNED, MAPPED, REGISTERED };
template <Kind kind> struct Shared {
    int *p = nullptr, *d = nullptr;
    int n;
    explicit Shared(int n = N) : n(n)
    {
        size_t bytes = n * sizeof(int);
        if (kind == MANAGED)
            cudaMallocManaged((void **)&p, bytes);
        else if (kind == PINNED)
            cudaMallocHost((void **)&p, bytes);
        else if (kind == MAPPED)
            cudaHostAlloc((void **)&p, bytes, cudaHostAllocMapped);
        else if ((p = (int *)aligned_alloc(4096, 4096 * 3)))
            cudaHostRegister(p, 4096 * 3, cudaHostRegisterMapped);
        d = p;
        if (kind != MANAGED)
            cudaHostGetDevicePointer((void **)&d, p, 0);
        for (int i = 0; i < n; i++)
            p[i] = 0;
    }
    ~Shared()
    {
        cudaDeviceSynchronize();
        if (kind == MANAGED)
            cudaFree(p);
        else if (kind != REGISTERED)
            cudaFreeHost(p);
        else {
            cudaHostUnregister(p);
            free(p);
        }
    }
};

static volatile int kept;

template <Kind kind> static void early_read(int right) // the result, before the kernel has ended
{
    Shared<kind> a;
    write_all<<<1, 128>>>(a.d, N);
    if (right)
        cudaDeviceSynchronize();
    kept = a.p[5]; // !managed_read: host-race !mapped_read: host-race !registered_read: host-race
}
template <Kind kind> static void early_write(int right) // the next input, while the kernel reads this one
{
    Shared<kind> a;
    Buffer<int> to;
    cudaEvent_t e;
    cudaEventCreate(&e);
    cudaDeviceSynchronize();
    read_all<<<1, 128>>>(a.d, to, N);
    cudaEventRecord(e);
    if (right)
        cudaEventSynchronize(e);
    a.p[N - 1] = 7; // !managed_write: host-race !mapped_write: host-race !registered_write: host-race
    cudaDeviceSynchronize();
    get(to, N * sizeof(int));
    cudaEventDestroy(e);
}
template <Kind kind> static void refilled(int right) // the source of a copy, which may not have been read
{
    Shared<kind> a;
    Buffer<int> to;
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    cudaMemcpyAsync(to, a.p, N * sizeof(int), cudaMemcpyHostToDevice, s);
    if (right)
        cudaStreamSynchronize(s);
    memset(a.p, 1, N * sizeof(int)); // !pinned_refilled: host-race !managed_refilled: host-race
    cudaStreamSynchronize(s);
    get(to, N * sizeof(int));
    cudaStreamDestroy(s);
}
template <Kind kind> static void early_copy(int right) // what a copy brings
{
    Shared<kind> a;
    Buffer<int> from;
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    write_all<<<1, 128>>>(from, N);
    cudaDeviceSynchronize();
    cudaMemcpyAsync(a.p, from, N * sizeof(int), cudaMemcpyDeviceToHost, s);
    while (right && cudaStreamQuery(s) != cudaSuccess)
        ;
    for (int i = 0; i < N; i++)
        kept += a.p[i]; // !pinned_copy: host-race !registered_copy: host-race
    cudaStreamSynchronize(s);
    cudaStreamDestroy(s);
}
static void half_waited(int right) // for the other stream
{
    Shared<PINNED> a, b;
    cudaStream_t s[2];
    for (auto &x : s)
        cudaStreamCreateWithFlags(&x, cudaStreamNonBlocking);
    write_all<<<1, 128, 0, s[0]>>>(a.d, N);
    write_all<<<1, 128, 0, s[1]>>>(b.d, N);
    cudaStreamSynchronize(s[0]);
    kept = a.p[3];
    if (right)
        cudaStreamSynchronize(s[1]);
    kept = b.p[3]; // !half_waited: host-race
    for (auto &x : s)
        cudaStreamSynchronize(x), cudaStreamDestroy(x);
}
static void slept(int right) // a moment is no wait
{
    Shared<MANAGED> a;
    write_all<<<1, 128>>>(a.d, N);
    usleep(1000);
    puts("printing neither");
    fflush(stdout);
    if (right)
        cudaDeviceSynchronize();
    kept = a.p[0]; // !slept: host-race
}
static void filled(int right) // an asynchronous fill
{
    Shared<PINNED> a;
    cudaMemsetAsync(a.d, 1, N * sizeof(int));
    if (right)
        cudaStreamSynchronize(0);
    kept = a.p[9]; // !filled: host-race
}

// Atomics of gpu scope are none beside the host.
static void summed(int right)
{
    Shared<MANAGED> sum(1);
    count_on_gpu<<<2, 64>>>(sum.d);
    if (right)
        cudaDeviceSynchronize();
    kept = *sum.p; // !summed: host-race
}
static void cleared(int right)
{
    Shared<MAPPED> sum(1);
    count_on_gpu<<<2, 64>>>(sum.d);
    if (right)
        cudaDeviceSynchronize();
    *sum.p = 0; // !cleared: host-race
}
static void flag_of_gpu(int right) // a flag orders only if its scope includes the host
{
    Shared<MAPPED> a(1), flag(1);
    if (right)
        release_it<cuda::thread_scope_system><<<1, 1>>>(a.d, flag.d);
    else
        release_it<cuda::thread_scope_device><<<1, 1>>>(a.d, flag.d);
    while (!*(volatile int *)flag.p) // !flag_of_gpu: host-race
        ;
    kept = a.p[0]; // !flag_of_gpu: host-race
    cudaDeviceSynchronize();
}

// ---- right programs that look wrong ----

static void by_flag(int) // a flag orders what the kernel wrote before
{
    Shared<MAPPED> a, flag(1);
    hand_over<<<1, 128>>>(a.d, flag.d, N);
    while (!*(volatile int *)flag.p)
        ;
    for (int i = 0; i < N; i++)
        kept += a.p[i];
    cudaDeviceSynchronize();
}
static void by_flag_late(int) // the flag is looked at where accesses are not seen
{
    Shared<MAPPED> a, flag(1), other(1);
    int ends[2];
    char c = 0;
    if (pipe(ends) || write(ends[1], &c, 1) != 1 || read(ends[0], &c, 1) != 1)
        abort();
    hand_over<<<1, 128>>>(a.d, flag.d, N);
    if (dup2(ends[0], ends[1]) < 0) // a system call that opens all memory
        abort();
    while (!*(volatile int *)flag.p)
        ;
    write_all<<<1, 1>>>(other.d, 1);
    kept += a.p[0];
    cudaDeviceSynchronize();
}
static void told_by_host(int) // the kernel waits for the host
{
    Shared<MAPPED> a, flag(1), to(1);
    take_over<<<1, 1>>>(a.d, flag.d, to.d);
    a.p[0] = 5;
    *(volatile int *)flag.p = 1;
    cudaDeviceSynchronize();
    if (to.p[0] != 5)
        abort();
}
static std::atomic<int> done;
static void host_function(int) // sets what the host waits for
{
    Shared<MANAGED> a;
    done = 0;
    write_all<<<1, 128>>>(a.d, N);
    cudaLaunchHostFunc(
        0,
        [](void *p) {
            kept = ((int *)p)[1];
            done = 1;
        },
        a.p);
    while (!done)
        ;
    kept = a.p[2];
    cudaDeviceSynchronize();
}
static void apart(int) // the host's half and the kernel's
{
    Shared<MANAGED> a(4096);
    write_all<<<1, 128>>>(a.d, 2048);
    for (int i = 2048; i < 4096; i++)
        a.p[i] = i;
    cudaDeviceSynchronize();
}
static void both_read(int)
{
    Shared<MANAGED> a;
    Buffer<int> to;
    cudaDeviceSynchronize();
    read_all<<<1, 128>>>(a.d, to, N);
    for (int i = 0; i < N; i++)
        kept += a.p[i];
    cudaDeviceSynchronize();
    get(to, N * sizeof(int));
}
static void counters(int) // both count by atomics of the system
{
    Shared<MANAGED> sum(1);
    count_all<<<4, 32>>>(sum.d);
    for (int i = 0; i < 100; i++)
        __sync_fetch_and_add(sum.p, 1);
    cudaDeviceSynchronize();
    if (*sum.p != 228)
        abort();
}
static void written_out(int) // the kernel of the system reads it
{
    Shared<PINNED> text(1 << 16), more(1);
    int ends[2];
    static char got[1 << 14];
    memset(text.p, 'x', 1 << 16);
    write_all<<<1, 1>>>(more.d, 1);
    if (pipe(ends) || write(ends[1], text.p, sizeof got) != sizeof got)
        abort();
    write_all<<<1, 1>>>(more.d, 1);
    if (read(ends[0], text.p + 4096, sizeof got) != sizeof got || memcmp(text.p, text.p + 4096, sizeof got))
        abort();
    write_all<<<1, 1>>>(more.d, 1);
    FILE *f = tmpfile();
    if (!f || fwrite(text.p, 1 << 16, 1, f) != 1)
        abort();
    rewind(f);
    write_all<<<1, 1>>>(more.d, 1);
    if (fread(text.p, 1 << 16, 1, f) != 1)
        abort();
    fclose(f);
    cudaDeviceSynchronize();
}

static const Fault faults[] = {{"managed_read", early_read<MANAGED>},
                               {"mapped_read", early_read<MAPPED>},
                               {"registered_read", early_read<REGISTERED>},
                               {"managed_write", early_write<MANAGED>},
                               {"mapped_write", early_write<MAPPED>},
                               {"registered_write", early_write<REGISTERED>},
                               {"pinned_refilled", refilled<PINNED>},
                               {"managed_refilled", refilled<MANAGED>},
                               {"pinned_copy", early_copy<PINNED>},
                               {"registered_copy", early_copy<REGISTERED>},
                               {"half_waited", half_waited},
                               {"slept", slept},
                               {"filled", filled},
                               {"summed", summed},
                               {"cleared", cleared},
                               {"flag_of_gpu", flag_of_gpu}};
static const Fault right_ones[] = {{"by_flag", by_flag},
                                   {"by_flag_late", by_flag_late},
                                   {"told_by_host", told_by_host},
                                   {"host_function", host_function},
                                   {"apart", apart},
                                   {"both_read", both_read},
                                   {"counters", counters},
                                   {"written_out", written_out}};

// "right": names of those without a fault
int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "right") == 0)
        return run_fault(right_ones, argc - 1, argv + 1);
    return run_fault(faults, argc, argv);
}
