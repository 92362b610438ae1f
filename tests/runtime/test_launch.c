/* Launches by every entry point, their checks, symbols, and what comes into traces and companions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "child.h"

static const dim3 one = {1, 1, 1};

static cudaError_t launch_fill(unsigned *out, unsigned n, cudaStream_t s)
{
    void *args[] = {&out, &n};
    return cudaLaunchKernel(stub_fill, (dim3){(n + 31) / 32, 1, 1}, (dim3){32, 1, 1}, args, 0, s);
}

static unsigned *device_words(unsigned n)
{
    void *p;
    OK(cudaMalloc(&p, n * 4));
    OK(cudaMemset(p, 0xff, n * 4));
    return p;
}

/* Libraries that were unloaded again before the first call. */
TEST(unloaded)
{
    program_come_and_go();
    program_come_and_go();
    unsigned *d = device_words(4), h[4];
    void *symbol;
    OK(launch_fill(d, 4, 0));
    OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    WANT(h[3] == 3);
    program_come_and_go();
    EXPECT(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(stub_gone, one, one, NULL, 0, 0));
    EXPECT(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&symbol, &shadow_gone));
    OK(cudaGetSymbolAddress(&symbol, shadow_counter));
}

/* A file size limit below the image's size: no kernels, but no death. */
TEST(small_files)
{
    struct rlimit small = {1024, 1024};
    unsigned *d = device_words(4);
    WANT(setrlimit(RLIMIT_FSIZE, &small) == 0);
    EXPECT(cudaErrorNoKernelImageForDevice, launch_fill(d, 4, 0));
    OK(cudaDeviceSynchronize());
}

/* ---- threads that cannot be started ---- */

static _Atomic int no_threads;

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                                                          void *(*run)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
            RTLD_NEXT, "pthread_create");
    return no_threads ? EAGAIN : real(thread, attr, run, arg);
}

static size_t address_space(void)
{
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    WANT(f && fscanf(f, "%zu", &pages) == 1);
    fclose(f);
    return pages * 4096 + mallinfo2().uordblks;
}

/* Launches fail then, but nothing grows, and they go on when there are threads again. */
TEST(no_worker)
{
    unsigned *d = device_words(4), h[4];
    no_threads = 1;
    launch_fill(d, 4, 0);
    cudaDeviceSynchronize();
    size_t before = address_space();
    for (int i = 0; i < 300; i++) {
        launch_fill(d, 4, 0);
        WANT(cudaDeviceSynchronize() != cudaSuccess);
        cudaGetLastError();
    }
    WANT(address_space() - before < 2 << 20);
    no_threads = 0;
    OK(launch_fill(d, 4, 0));
    OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    WANT(h[3] == 3);
}

TEST(every_entry_point)
{
    enum { N = 100 };
    unsigned *d = device_words(N), h[N], n = N;
    void *args[] = {&d, &n};
    cudaKernel_t kernel;
    dim3 grid = {4, 1, 1}, block = {32, 1, 1}, g, b;
    size_t shared;
    cudaStream_t s;
    OK(cudaLaunchKernel(stub_fill, grid, block, args, 0, 0));
    OK(cudaLaunchCooperativeKernel(stub_fill, grid, block, args, 0, 0));
    cudaLaunchAttribute attr = {.id = cudaLaunchAttributeCooperative, .val.cooperative = 1};
    cudaLaunchConfig_t config = {.gridDim = grid, .blockDim = block, .attrs = &attr, .numAttrs = 1};
    OK(cudaLaunchKernelExC(&config, stub_fill, args));
    OK(__cudaGetKernel(&kernel, stub_fill));
    OK(__cudaLaunchKernel(kernel, grid, block, args, 0, 0));
    WANT(__cudaPushCallConfiguration((dim3){7, 1, 1}, one, 5, cudaStreamPerThread) == 0); /* they nest */
    WANT(__cudaPushCallConfiguration(grid, block, 0, 0) == 0);
    OK(__cudaPopCallConfiguration(&g, &b, &shared, &s));
    WANT(g.x == 4 && b.x == 32 && shared == 0 && s == 0);
    OK(cudaLaunchKernel(stub_fill, g, b, args, shared, s));
    OK(__cudaPopCallConfiguration(&g, &b, &shared, &s));
    WANT(g.x == 7 && b.x == 1 && shared == 5 && s == cudaStreamPerThread);
    EXPECT(cudaErrorMissingConfiguration, __cudaPopCallConfiguration(&g, &b, &shared, &s));
    OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < N; i++)
        WANT(h[i] == i);
    OK(cudaDeviceSynchronize());
    struct raw r;
    WANT(!raw_read(in_dir(dir, "MemTrace-pipe-0"), &r));
    WANT(r.launches == 5 && r.whole == r.bytes);
    for (int i = 0; i < 5; i++)
        WANT(r.launch[i].records == N && r.launch[i].ended && !strcmp(r.launch[i].name, "fill<int>"));
}

TEST(streams_are_numbered_by_first_launch)
{
    unsigned *d = device_words(64), n = 64;
    void *args[] = {&d, &n};
    cudaStream_t a, b;
    OK(cudaStreamCreate(&a));
    OK(cudaStreamCreate(&b));
    OK(launch_fill(d, 10, b));
    OK(launch_fill(d, 20, a));
    OK(launch_fill(d, 30, b));
    OK(cudaLaunchKernel_ptsz(stub_fill, (dim3){2, 1, 1}, (dim3){32, 1, 1}, args, 0, 0));
    OK(launch_fill(d, 40, cudaStreamPerThread)); /* the same stream */
    OK(launch_fill(d, 50, 0));
    OK(launch_fill(d, 60, cudaStreamLegacy));
    OK(cudaStreamDestroy(b));
    OK(cudaStreamCreate(&b));
    OK(launch_fill(d, 5, b)); /* a new stream, whatever its handle */
    EXPECT(cudaErrorInvalidResourceHandle, launch_fill(d, 5, (cudaStream_t)d));
    OK(cudaDeviceSynchronize());
    static const unsigned expect[5][3] = {{10, 30}, {20}, {64, 40}, {50, 60}, {5}};
    for (int i = 0; i < 5; i++) {
        char name[64];
        struct raw r;
        snprintf(name, sizeof name, "MemTrace-pipe-%d", i);
        WANT(!raw_read(in_dir(dir, name), &r) && r.whole == r.bytes);
        for (int k = 0; k < 3; k++)
            WANT(k < r.launches ? r.launch[k].records == expect[i][k] : expect[i][k] == 0);
    }
}

TEST(checks)
{
    unsigned *d = device_words(4), n = 4;
    void *args[] = {&d, &n};
    EXPECT(cudaErrorInvalidConfiguration, cudaLaunchKernel(stub_fill, (dim3){0, 1, 1}, one, args, 0, 0));
    EXPECT(cudaErrorInvalidConfiguration, cudaLaunchKernel(stub_fill, (dim3){1, 65536, 1}, one, args, 0, 0));
    EXPECT(cudaErrorInvalidConfiguration, cudaLaunchKernel(stub_fill, one, (dim3){1025, 1, 1}, args, 0, 0));
    EXPECT(cudaErrorInvalidConfiguration, cudaLaunchKernel(stub_fill, one, (dim3){32, 33, 1}, args, 0, 0));
    EXPECT(cudaErrorInvalidConfiguration, cudaLaunchKernel(stub_fill, one, (dim3){1, 1, 65}, args, 0, 0));
    EXPECT(cudaErrorInvalidConfiguration, cudaLaunchKernel(stub_fill, one, (dim3){1, 0, 1}, args, 0, 0));
    OK(cudaLaunchKernel(stub_fill, one, (dim3){1024, 1, 1}, args, 0, 0));
    OK(cudaLaunchKernel(stub_nothing, one, (dim3){64, 1, 1}, NULL, 0, 0));
    EXPECT(cudaErrorLaunchOutOfResources, cudaLaunchKernel(stub_nothing, one, (dim3){65, 1, 1}, NULL, 0, 0));
    EXPECT(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(&n, one, one, args, 0, 0));
    EXPECT(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(NULL, one, one, args, 0, 0));
    EXPECT(cudaErrorInvalidValue, cudaLaunchKernel(stub_fill, one, one, NULL, 0, 0));
    /* shared memory: 48 KiB in all unless the kernel opts in, 227 KiB at most */
    OK(cudaLaunchKernel(stub_fill, one, one, args, 49152, 0));
    EXPECT(cudaErrorInvalidValue, cudaLaunchKernel(stub_fill, one, one, args, 49153, 0));
    EXPECT(cudaErrorInvalidValue, cudaLaunchKernel(stub_nothing, one, one, NULL, 49152 - 1023, 0));
    EXPECT(cudaErrorInvalidValue,
           cudaFuncSetAttribute(stub_fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449));
    OK(cudaFuncSetAttribute(stub_fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448));
    OK(cudaLaunchKernel(stub_fill, one, one, args, 232448, 0));
    EXPECT(cudaErrorInvalidValue, cudaLaunchKernel(stub_fill, one, one, args, 232449, 0));
    /* cooperative: 2048 threads an SM, 4 SMs */
    OK(cudaLaunchCooperativeKernel(stub_fill, (dim3){8, 1, 1}, (dim3){1024, 1, 1}, args, 0, 0));
    EXPECT(cudaErrorCooperativeLaunchTooLarge,
           cudaLaunchCooperativeKernel(stub_fill, (dim3){9, 1, 1}, (dim3){1024, 1, 1}, args, 0, 0));
}

TEST(attributes_and_occupancy)
{
    struct cudaFuncAttributes a;
    int n;
    size_t bytes;
    OK(cudaFuncGetAttributes(&a, stub_nothing));
    WANT(a.sharedSizeBytes == 1024 && a.maxThreadsPerBlock == 64 &&
         a.maxDynamicSharedSizeBytes == 48 * 1024 - 1024);
    OK(cudaFuncGetAttributes(&a, stub_fill));
    WANT(a.sharedSizeBytes == 0 && a.maxThreadsPerBlock == 1024);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, stub_fill, 256, 0));
    WANT(n == 8);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, stub_fill, 33, 0)); /* two warps; 32 CTAs at most */
    WANT(n == 32);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, stub_fill, 32, 47 * 1024)); /* 228 KiB / (47 + 1) */
    WANT(n == 4);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, stub_nothing, 65, 0));
    WANT(n == 0);
    OK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, stub_fill, 8, 256));
    WANT(bytes == (228 / 8.0 - 1) * 1024);
    EXPECT(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&a, &n));
}

TEST(symbols)
{
    unsigned v[4] = {10, 20, 30, 40}, w[4];
    void *p;
    size_t n;
    OK(cudaGetSymbolSize(&n, shadow_counter));
    WANT(n == 16);
    OK(cudaGetSymbolAddress(&p, shadow_counter));
    OK(cudaMemcpyToSymbol(shadow_counter, v, 16, 0, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(w, p, 16, cudaMemcpyDeviceToHost));
    WANT(!memcmp(v, w, 16));
    OK(cudaMemcpyFromSymbol(w, shadow_konst, 8, 8, cudaMemcpyDeviceToHost));
    WANT(w[0] == 3 && w[1] == 4);
    EXPECT(cudaErrorInvalidValue, cudaMemcpyToSymbol(shadow_counter, v, 16, 4, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(v, v, 16, 0, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidMemcpyDirection,
           cudaMemcpyToSymbol(shadow_counter, v, 4, 0, cudaMemcpyDeviceToHost));
    EXPECT(cudaErrorInvalidValue, cudaFree(p));
    unsigned *d = device_words(8), h[8];
    OK(launch_fill(d, 8, 0)); /* the kernel sees what was copied */
    OK(cudaMemcpy(h, d, 32, cudaMemcpyDeviceToHost));
    WANT(h[5] == 15);
}

static void launch_foreign(void *arg)
{
    EXPECT(cudaErrorNoKernelImageForDevice, cudaLaunchKernel(stub_foreign, one, one, NULL, 0, 0));
    EXPECT(cudaErrorNoKernelImageForDevice, cudaLaunchKernel(stub_foreign, one, one, NULL, 0, 0));
    EXPECT(cudaErrorNoKernelImageForDevice,
           cudaMemcpyToSymbol(&shadow_foreign, arg, 4, 0, cudaMemcpyHostToDevice));
}

TEST(no_image)
{
    int x = 0;
    char *text = said(launch_foreign, &x);
    WANT(count_lines(text, NULL) == 1);
    WANT(count_lines(text, "_Zforeign", "mt-cc", NULL) == 1);
    unsigned *d = device_words(4);
    OK(launch_fill(d, 4, 0)); /* the rest of the program works */
}

/* A template's kernel that a library has, too, stays the program's when that is unloaded. */
TEST(kernel_of_two_files)
{
    unsigned *d = device_words(8), h[8];
    void **library = program_again(stub_fill, "_Zfill");
    OK(launch_fill(d, 8, 0));
    __cudaUnregisterFatBinary(library);
    OK(launch_fill(d, 8, 0));
    OK(cudaMemcpy(h, d, 32, cudaMemcpyDeviceToHost));
    WANT(h[5] == h[0] + 5);
    library = program_again(stub_fill, "_Zfill");
    void **last = program_again(stub_fill, "_Zfill");
    __cudaUnregisterFatBinary(library);
    __cudaUnregisterFatBinary(last);
    OK(launch_fill(d, 8, 0));
}

static void launch_folded(void *arg)
{
    struct cudaFuncAttributes a;
    for (int i = 0; i < 2; i++)
        EXPECT(cudaErrorInvalidDeviceFunction, launch_fill(arg, 8, 0));
    EXPECT(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&a, stub_fill));
}

/* Host stubs that a linker folded: a launch would run one of the two. */
TEST(kernels_of_one_address)
{
    unsigned *d = device_words(8);
    void **other = program_again(stub_fill, "_Zother");
    char *text = said(launch_folded, d);
    WANT(count_lines(text, NULL) == 1);
    WANT(count_lines(text, "_Zfill", "_Zother", "--icf=all", "mt-cc", NULL) == 1);
    OK(cudaLaunchKernel(stub_nothing, one, one, NULL, 0, 0));
    __cudaUnregisterFatBinary(other);
    OK(launch_fill(d, 8, 0));
}

/* The same with static kernels of two files, whose names are alike. */
TEST(static_kernels_of_one_address)
{
    static const char *const names[] = {"_ZL4hidePi", "_ZN2ns4deepL4hideEPi", "_ZN12_GLOBAL__N_14hideEPi",
                                        "_Z4openPi"};
    for (int i = 0; i < 4; i++) {
        void **one_file = program_again(stub_gone, names[i]), **other = program_again(stub_gone, names[i]);
        struct cudaFuncAttributes a; /* the image has none of them */
        EXPECT(i < 3 ? cudaErrorInvalidDeviceFunction : cudaErrorNoKernelImageForDevice,
               cudaFuncGetAttributes(&a, stub_gone));
        __cudaUnregisterFatBinary(one_file);
        __cudaUnregisterFatBinary(other);
    }
}

static void launch_trap(void *arg)
{
    OK(cudaLaunchKernel(stub_trap, one, one, NULL, 0, 0));
    EXPECT(cudaErrorLaunchFailure, cudaDeviceSynchronize());
}

TEST(fault_stays)
{
    unsigned *d = device_words(4);
    void *p;
    char *text = said(launch_trap, NULL);
    WANT(count_lines(text, "trap<int>", NULL) == 1);
    EXPECT(cudaErrorLaunchFailure, cudaDeviceSynchronize());
    EXPECT(cudaErrorLaunchFailure, cudaMalloc(&p, 4));
    EXPECT(cudaErrorLaunchFailure, cudaMemcpy(d, d, 4, cudaMemcpyDeviceToDevice));
    EXPECT(cudaErrorLaunchFailure, launch_fill(d, 4, 0));
    EXPECT(cudaErrorLaunchFailure, cudaDeviceSynchronize());
    OK(cudaDeviceReset());
    d = device_words(4);
    OK(launch_fill(d, 4, 0));
    OK(cudaDeviceSynchronize());
}

static void launch_unsupported(void *arg)
{
    OK(cudaLaunchKernel(stub_unsupported, one, one, NULL, 0, 0));
    EXPECT(cudaErrorNotSupported, cudaDeviceSynchronize());
}

/* A signal that somebody sends to a program which ignores it leaves us as we were. */
TEST(ignored_signal)
{
    signal(SIGILL, SIG_IGN);
    unsigned *d = device_words(4);
    OK(launch_fill(d, 4, 0));
    OK(cudaDeviceSynchronize());
    raise(SIGILL);
    OK(cudaLaunchKernel(stub_trap, one, one, NULL, 0, 0));
    WANT(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
}

TEST(unsupported_is_not_silent)
{
    char *text = said(launch_unsupported, NULL);
    WANT(count_lines(text, "unsupported<int>", "frobnicate", "image.cu", "7", NULL) == 1);
    OK(cudaDeviceSynchronize());
}

TEST(untraced_kernel)
{
    OK(cudaLaunchKernel(stub_nothing, one, one, NULL, 0, 0));
    OK(cudaDeviceSynchronize());
    WANT(access(in_dir(dir, "MemTrace-pipe-0"), F_OK) != 0); /* nothing traced: no stream has a number */
    unsigned *d = device_words(4);
    OK(launch_fill(d, 4, 0));
    OK(cudaLaunchKernel(stub_nothing, one, one, NULL, 0, 0));
}

/* ---- how the process ends ---- */

static int launch_ends(void *how)
{
    unsigned *d;
    program_register();
    if (cudaMalloc((void **)&d, 400) || launch_fill(d, 100, 0))
        return 9;
    if (*(const char *)how == '_')
        _exit(cudaDeviceSynchronize());
    if (*(const char *)how == 'f') {
        if (fork() == 0) {
            launch_fill(d, 50, 0);
            exit(0); /* a child's end must not touch the parent's files */
        }
        wait(NULL);
    }
    return 0;
}

static void check_end(const char *how, int complete)
{
    const char *d = fresh_dir();
    struct raw r;
    assert_int_equal(in_child(launch_ends, (void *)how), 0);
    assert_int_equal(raw_read(in_dir(d, "MemTrace-pipe-0"), &r), 0);
    assert_int_equal(r.launches, 1);
    assert_int_equal(r.launch[0].records, 100);
    assert_int_equal(r.whole, r.bytes);
    char *text = slurp(in_dir(d, "MemTrace-pipe-0.meta"), NULL);
    assert_int_equal(count_lines(text, "\"ev\":\"end\"", "\"complete\":true", NULL), complete);
    assert_int_equal(count_lines(text, "\"ev\":\"header\"", NULL), 1);
    if (complete)
        assert_int_equal(
            count_lines(text, "\"ev\":\"launch\"", "\"kernel\":\"fill<int>\"", "\"records\":100", NULL), 1);
    free(text);
}

static void exit_without_destroy(void **state)
{
    check_end("exit", 1);
    check_end("_exit", 0);
    check_end("fork", 1);
}

static int launch_off(void *arg)
{
    unsigned *d, h[100];
    setenv("MEMTRACE_ENABLE", "0", 1);
    program_register();
    return cudaMalloc((void **)&d, 400) || launch_fill(d, 100, 0) ||
           cudaMemcpy(h, d, 400, cudaMemcpyDeviceToHost) || h[99] != 99 || cudaFree(d);
}

static void tracing_off(void **state)
{
    const char *d = fresh_dir();
    assert_int_equal(in_child(launch_off, NULL), 0);
    assert_int_equal(rmdir(d), 0); /* empty */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unloaded),
        cmocka_unit_test(small_files),
        cmocka_unit_test(no_worker),
        cmocka_unit_test(ignored_signal),
        cmocka_unit_test(every_entry_point),
        cmocka_unit_test(streams_are_numbered_by_first_launch),
        cmocka_unit_test(checks),
        cmocka_unit_test(attributes_and_occupancy),
        cmocka_unit_test(symbols),
        cmocka_unit_test(no_image),
        cmocka_unit_test(kernel_of_two_files),
        cmocka_unit_test(kernels_of_one_address),
        cmocka_unit_test(static_kernels_of_one_address),
        cmocka_unit_test(fault_stays),
        cmocka_unit_test(unsupported_is_not_silent),
        cmocka_unit_test(untraced_kernel),
        cmocka_unit_test(exit_without_destroy),
        cmocka_unit_test(tracing_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
