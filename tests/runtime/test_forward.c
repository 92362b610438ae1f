/* MEMTRACE_DEVICE=gpu with a stand-in for the real runtime: every call gets there as it was made, kernels of
 * ours with their launch context, and the companion has it. */
#define _GNU_SOURCE
#include "api.h"
#include "program.h"
#include <memtrace/annotate.h>
#include "util.h"
#include <dlfcn.h>

cudaError_t cudaMemcpy_ptds(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind);
cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t s, enum cudaStreamCaptureStatus *status);

static char *fake_log;
static void **fake_context, ***fake_args;
static char *fake_launched;
static cudaError_t *fake_refusal, *fake_error;
static int *fake_cooperative;

static void expect_log(const char *expect)
{
    if (strcmp(fake_log, expect))
        fail_msg("the runtime saw\n%sinstead of\n%s", fake_log, expect);
    fake_log[0] = 0;
}

static void forward_forwards(void **state)
{
    char data[16] = "hello";
    void *p;
    int v;
    assert_int_equal(cudaRuntimeGetVersion(&v), 0);
    assert_int_equal(v, 4711);
    expect_log("__cudaRegisterFatBinary\n"
               "__cudaRegisterFunction 1 _Zunsupported\n"
               "__cudaRegisterFunction 1 _Ztrap\n"
               "__cudaRegisterFunction 1 _Znothing\n"
               "__cudaRegisterFunction 1 _Zfill\n"
               "__cudaRegisterFunction 1 _Zfill__memtrace_traced\n"
               "__cudaRegisterVar 1 konst 16 1\n"
               "__cudaRegisterVar 1 counter 16 0\n"
               "__cudaRegisterFatBinaryEnd 1\n"
               "__cudaRegisterFatBinary\n"
               "__cudaRegisterFunction 1 _Zforeign\n"
               "__cudaRegisterVar 1 foreign 4 0\n"
               "__cudaRegisterFatBinaryEnd 1\n"
               "cudaRuntimeGetVersion\n");
    assert_int_equal(cudaMalloc(&p, 16), 0);
    assert_int_equal(cudaMemcpy(p, data, 16, cudaMemcpyHostToDevice), 0);
    assert_string_equal(p, "hello");
    assert_int_equal(cudaMemcpy_ptds(p, data, 8, cudaMemcpyHostToDevice), 0);
    assert_int_equal(cudaStreamIsCapturing(0, NULL), 0);
    assert_int_equal(cudaStreamIsCapturing_ptsz(0, NULL), 0);
    assert_int_equal(cudaStreamIsCapturing(0, NULL), 0);
    assert_int_equal(cudaMalloc(&p, 100000), cudaErrorMemoryAllocation);
    assert_int_equal(cudaFree(&v), cudaErrorInvalidValue);
    expect_log("cudaMalloc 16\ncudaMemcpy 16 1\ncudaMemcpy_ptds 8 1\ncudaStreamIsCapturing 0\n"
               "cudaStreamIsCapturing_ptsz 0\ncudaStreamIsCapturing 0\ncudaMalloc 100000\ncudaFree 0\n");
    for (int i = 0; i < 2; i++) {
        cudaError_t e = cudaGraphAddMemcpyNode1D((void *)1, (void *)2, (void *)3, 4, (void *)5, (void *)6, 7,
                                                 (enum cudaMemcpyKind)8);
        assert_int_equal(e, 333);
        expect_log("cudaGraphAddMemcpyNode1D 1 2 3 4 5 6 7 8\n");
    }
    struct cudaChannelFormatDesc d = cudaCreateChannelDesc(1, 2, 3, 4, cudaChannelFormatKindFloat);
    assert_true(d.x == 4 && d.y == 3 && d.z == 2 && d.w == 1 && d.f == cudaChannelFormatKindFloat);
    assert_string_equal(cudaGetErrorName(cudaSuccess), "the fake's");
    assert_int_equal(cudaGraphCreate(NULL, 0), cudaErrorNotSupported); /* the fake has none */
}

static void forward_launches(void **state)
{
    unsigned n = 77, *out = NULL;
    void *untouched = NULL, *args[] = {&out, &n, &untouched};
    *fake_context = (void *)1;
    memtrace_stop();
    assert_int_equal(cudaLaunchKernel(stub_fill, (dim3){1, 2, 3}, (dim3){4, 5, 6}, args, 7, (cudaStream_t)8),
                     0);
    expect_log("cudaLaunchKernel 1 2 3 4 5 6 7 8 args 77\n");
    assert_null(*fake_context); /* the hidden context: not traced */
    assert_int_equal(cudaLaunchKernel(stub_foreign, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, 0), 0);
    assert_ptr_equal(*fake_args, args); /* a kernel that is not ours */
    fake_log[0] = 0;
    assert_int_equal(cudaLaunchKernel_ptsz(stub_fill, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, 0), 0);
    expect_log("cudaLaunchKernel_ptsz 0\n");
}

/* A launch that is traced has a context and runs the kernel with record calls; one that is not runs the other
 * version, whatever the entry point. */
static void check_version(const char *name, int traced)
{
    assert_string_equal(fake_launched, name);
    assert_int_equal(*fake_context != NULL, traced);
    fake_launched[0] = fake_log[0] = 0;
}

static void forward_versions(void **state)
{
    static const char *const names[] = {"_Zfill", "_Zfill__memtrace_traced"};
    unsigned n = 77, *out = NULL;
    void *untouched = NULL, *args[] = {&out, &n, &untouched};
    dim3 one = {1, 1, 1};
    cudaLaunchConfig_t config = {.gridDim = one, .blockDim = one};
    cudaKernel_t handle;
    struct cudaFuncAttributes a;
    assert_int_equal(__cudaGetKernel(&handle, stub_fill), 0);
    for (int traced = 0; traced < 2; traced++) {
        traced ? memtrace_start() : memtrace_stop();
        assert_int_equal(cudaLaunchKernel(stub_fill, one, one, args, 0, 0), 0);
        check_version(names[traced], traced);
        assert_int_equal(cudaLaunchKernelExC(&config, stub_fill, args), 0);
        check_version(names[traced], traced);
        assert_int_equal(cudaLaunchCooperativeKernel(stub_fill, one, one, args, 0, 0), 0);
        check_version(names[traced], traced);
        assert_int_equal(__cudaLaunchKernel(handle, one, one, args, 0, 0), 0);
        check_version(names[traced], traced);
    }
    /* What the runtime hands out takes the program's arguments: the driver launches it with no more. Launched
     * by the runtime, it is traced. */
    cudaFunction_t function;
    assert_int_equal(cudaGetKernel(&handle, stub_fill), 0);
    assert_string_equal((const char *)handle, "_Zfill");
    assert_int_equal(cudaGetFuncBySymbol(&function, stub_fill), 0);
    assert_string_equal((const char *)function, "_Zfill");
    assert_int_equal(cudaLaunchKernel((const void *)handle, one, one, args, 0, 0), 0);
    check_version("_Zfill__memtrace_traced", 1);
    /* There is one of `trap`, and of kernels that are not ours. */
    memtrace_stop();
    assert_int_equal(cudaLaunchKernel(stub_foreign, one, one, args, 0, 0), 0);
    assert_string_equal(fake_launched, "_Zforeign");
    memtrace_start();
    fake_log[0] = 0;
    /* Facts are those of the version without, as far as both can do it; settings are for both. */
    assert_int_equal(cudaFuncGetAttributes(&a, stub_fill), 0);
    assert_true(a.numRegs == 20 && a.maxThreadsPerBlock == 512);
    assert_int_equal(cudaFuncGetAttributes(&a, stub_foreign), 0);
    assert_true(a.numRegs == 20 && a.maxThreadsPerBlock == 1024);
    assert_int_equal(cudaFuncSetAttribute(stub_fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 5), 0);
    expect_log("cudaFuncSetAttribute _Zfill 8 5\ncudaFuncSetAttribute _Zfill__memtrace_traced 8 5\n");
}

/* All that a launch can be asked for gets there, clusters, too: it is the GPU that has them or not. */
static void forward_attributes(void **state)
{
    unsigned n = 77, *out = NULL;
    void *untouched = NULL, *args[] = {&out, &n, &untouched};
    cudaLaunchAttribute list[4] = {{.id = cudaLaunchAttributeCooperative},
                                   {.id = cudaLaunchAttributeClusterDimension},
                                   {.id = cudaLaunchAttributeProgrammaticStreamSerialization},
                                   {.id = cudaLaunchAttributePriority}};
    list[0].val.cooperative = 1;
    list[1].val.clusterDim.x = list[1].val.clusterDim.y = list[1].val.clusterDim.z = 2;
    cudaLaunchConfig_t c = {.gridDim = {8, 2, 2}, .blockDim = {1, 1, 1}, .attrs = list, .numAttrs = 4};
    fake_log[0] = 0;
    for (int traced = 0; traced < 2; traced++) {
        traced ? memtrace_start() : memtrace_stop();
        assert_int_equal(cudaLaunchKernelExC(&c, stub_fill, args), 0);
        expect_log("cudaLaunchKernelExC 2 4 6 8\n");
        check_version(traced ? "_Zfill__memtrace_traced" : "_Zfill", traced);
    }
    memtrace_stop();
    assert_int_equal(cudaMemcpyPeerAsync((void *)64, 1, (void *)128, 0, 16, (cudaStream_t)9), 0);
    expect_log("cudaMemcpyPeerAsync 1 0 16 9\n");
    memtrace_start();
}

/* Kernel nodes of graphs, too, get the hidden context. */
static void forward_nodes(void **state)
{
    unsigned n = 78, *out = NULL;
    void *untouched = (void *)1234, *args[] = {&out, &n, &untouched};
    struct cudaKernelNodeParams p = {stub_fill, {5, 1, 1}, {1, 1, 1}, 0, args, NULL};
    *fake_context = (void *)1;
    assert_int_equal(cudaGraphAddKernelNode(NULL, NULL, NULL, 9, &p), 0);
    expect_log("cudaGraphAddKernelNode 9 5 args 78\n");
    assert_null(*fake_context);
    assert_ptr_equal(p.kernelParams, args); /* the program's structure is as it was */
    p.func = stub_foreign;
    assert_int_equal(cudaGraphAddKernelNode(NULL, NULL, NULL, 9, &p), 0);
    assert_ptr_equal(*fake_args, args);
    fake_log[0] = 0;
}

/* What a graph runs when it is ready: a kernel with its context, or the version without record calls when it
 * can never be traced. The program's own graph stays as it is. */
static int never;
static void expect_in_log(const char *line)
{
    if (!strstr(fake_log, line))
        fail_msg("the runtime saw\n%swithout\n%s", fake_log, line);
    fake_log[0] = 0;
}

static void graph_versions(void **state)
{
    const char *want = never ? "_Zfill none" : "_Zfill__memtrace_traced context";
    unsigned n = 78, *out = NULL;
    char text[200];
    void *args[] = {&out, &n};
    struct cudaKernelNodeParams p = {stub_fill, {5, 1, 1}, {1, 1, 1}, 0, args, NULL};
    cudaGraphNode_t node, library;
    cudaGraphExec_t exec;
    assert_int_equal(cudaGraphAddKernelNode(&node, (cudaGraph_t)5, NULL, 0, &p), 0);
    p.func = (void *)16;
    assert_int_equal(cudaGraphAddKernelNode(&library, (cudaGraph_t)5, NULL, 0, &p), 0);
    p.func = stub_fill;
    fake_log[0] = 0;
    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, (cudaGraph_t)5, 0), 0);
    assert_int_equal(*fake_error,
                     0); /* that we ask for nodes of libraries, in vain, is not one of the program's errors */
    snprintf(text, sizeof text, "ready: %s ? none\n", want);
    expect_in_log(text);
    assert_int_equal(cudaGraphLaunch(exec, (cudaStream_t)8), 0);
    assert_int_equal(*fake_error, 0); /* nor is that a variable is not there */
    expect_in_log("in the program's graph: _Zfill none ? none\n");
    assert_int_equal(cudaGraphExecKernelNodeSetParams(exec, node, &p), 0);
    snprintf(text, sizeof text, "changed: %s\n", want);
    expect_in_log(text);
    assert_ptr_equal(p.func, stub_fill);
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
}

#if CUDART_VERSION >= 13000
/* The same by the calls that take nodes of any type. */
static void graph_any_nodes(void **state)
{
    const char *want = never ? "_Zfill none" : "_Zfill__memtrace_traced context";
    unsigned n = 78, *out = NULL;
    char text[200];
    void *args[] = {&out, &n};
    struct cudaGraphNodeParams p = {.type = cudaGraphNodeTypeKernel};
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    p.kernel.func = stub_fill;
    p.kernel.gridDim = p.kernel.blockDim = (dim3){1, 1, 1};
    p.kernel.kernelParams = args;
    assert_int_equal(cudaGraphAddNode(&node, (cudaGraph_t)5, NULL, NULL, 0, &p), 0);
    assert_int_equal(cudaGraphNodeSetParams(node, &p), 0);
    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, (cudaGraph_t)5, 0), 0);
    snprintf(text, sizeof text, " %s\n", want);
    expect_in_log(text);
    assert_int_equal(cudaGraphExecNodeSetParams(exec, node, &p), 0);
    snprintf(text, sizeof text, "changed: %s\n", want);
    expect_in_log(text);
    assert_true(p.kernel.func == (void *)stub_fill && p.kernel.kernelParams == args);
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
}
#else
#define graph_any_nodes graph_versions
#endif

/* Kernels that need too many registers with record calls run without: the program sees no error, its user
 * hears of it once per kernel, and the trace does not say that it is whole. In a program of their own, whose
 * companion is read when it has ended. */

static void refuse_plainly(void *data)
{
    unsigned n = 77, *out = NULL;
    void *args[] = {&out, &n};
    dim3 one = {1, 1, 1};
    cudaLaunchConfig_t config = {.gridDim = one, .blockDim = one};
    cudaKernel_t handle;
    assert_int_equal(__cudaGetKernel(&handle, stub_fill), 0);
    assert_int_equal(cudaLaunchKernel(stub_fill, one, one, args, 0, 0), 0);
    check_version("_Zfill", 0);
    assert_int_equal(cudaLaunchKernelExC(&config, stub_fill, args), 0);
    check_version("_Zfill", 0);
    assert_int_equal(cudaLaunchCooperativeKernel(stub_fill, one, one, args, 0, 0), 0);
    check_version("_Zfill", 0);
    assert_int_equal(__cudaLaunchKernel(handle, one, one, args, 0, 0), 0);
    check_version("_Zfill", 0);
    assert_int_equal(*fake_error, 0); /* nor does it see one later */
    *fake_refusal = cudaErrorInvalidConfiguration;
    assert_int_equal(cudaLaunchKernel(stub_fill, one, one, args, 0, 0), cudaErrorInvalidConfiguration);
    assert_int_equal(*fake_error, cudaErrorInvalidConfiguration);
    *fake_error = *fake_refusal = cudaSuccess;
    assert_int_equal(cudaLaunchKernel(stub_fill, one, one, args, 0, 0), 0);
    check_version("_Zfill__memtrace_traced", 1);
}

/* What kernel nodes of `blocks` blocks of `threads` threads run. */
static void refuse_node(unsigned blocks, unsigned threads, const char *want)
{
    unsigned n = 78, *out = NULL;
    char text[200];
    void *args[] = {&out, &n};
    struct cudaKernelNodeParams p = {stub_fill, {blocks, 1, 1}, {threads, 1, 1}, 0, args, NULL};
    struct cudaKernelNodeParams small = {stub_fill, {1, 1, 1}, {1, 1, 1}, 0, args, NULL};
    static cudaGraphNode_t node;
    cudaGraphExec_t exec;
    if (!node)
        assert_int_equal(cudaGraphAddKernelNode(&node, (cudaGraph_t)5, NULL, 0, &small), 0);
    assert_int_equal(cudaGraphKernelNodeSetParams(node, &p), 0);
    fake_log[0] = 0;
    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, (cudaGraph_t)5, 0), 0);
    snprintf(text, sizeof text, "ready: %s\n", want);
    expect_in_log(text);
    assert_int_equal(cudaGraphLaunch(exec, 0), 0);
    assert_int_equal(cudaGraphExecKernelNodeSetParams(exec, node, &small), 0);
    expect_in_log("changed: _Zfill__memtrace_traced context\n");
    assert_int_equal(cudaGraphLaunch(exec, 0), 0);
    assert_int_equal(cudaGraphExecKernelNodeSetParams(exec, node, &p), 0);
    snprintf(text, sizeof text, "changed: %s\n", want);
    expect_in_log(text);
    assert_int_equal(cudaGraphLaunch(exec, 0), 0);
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
}

static void refuse_nodes(void *data)
{
    refuse_node(1, 512, "_Zfill__memtrace_traced context");
    refuse_node(1, 513, "_Zfill none");
    refuse_node(1, 1025, "_Zfill__memtrace_traced context"); /* the other one could not, either */
    refuse_node(100, 1, "_Zfill__memtrace_traced context");
    *fake_cooperative = 1; /* there are three SMs */
    refuse_node(6, 1, "_Zfill__memtrace_traced context");
    refuse_node(7, 1, "_Zfill none");
    refuse_node(12, 1, "_Zfill none");
    refuse_node(13, 1, "_Zfill__memtrace_traced context");
}

/* A companion that has so many launches without records, and so many lines on stderr in `saw`. */
static void check_refused(const char *dir, const char *saw, const char *why, int missed, int traced)
{
    char *text = slurp(in_dir(dir, "MemTrace-pipe-0.meta"), NULL), lost[100];
    snprintf(lost, sizeof lost, "%d launches of this stream ran without records", missed);
    assert_int_equal(count_lines(saw, "is not traced: with record calls", NULL), 1);
    assert_int_equal(count_lines(saw, "kernel fill", why, NULL), 1);
    assert_int_equal(count_lines(text, "\"launch\"", "\"traced\":false", "\"status\":0", NULL), missed);
    assert_int_equal(count_lines(text, "\"launch\"", "\"traced\":true", NULL), traced);
    assert_int_equal(count_lines(text, "\"lost\"", lost, NULL), 1);
    assert_int_equal(count_lines(text, "\"end\"", "\"complete\":false", NULL), 1);
    free(text);
}

struct refusal {
    cudaError_t error;
    void (*program)(void *);
};

static int run_refused(void *data)
{
    struct refusal *r = data;
    program_register();
    *fake_refusal = r->error;
    r->program(NULL);
    return 0;
}

static void say_refused(void *data)
{
    if (in_child(run_refused, data))
        fprintf(stderr, "the child failed\n");
}

static void forward_refused(void **state)
{
    static const char *const registers = "a block of 1 threads needs more registers",
                             *const blocks = "fewer than its 1 blocks of 1 threads fit";
    struct refusal list[] = {{cudaErrorLaunchOutOfResources, refuse_plainly},
                             {cudaErrorCooperativeLaunchTooLarge, refuse_plainly},
                             {cudaSuccess, refuse_nodes}};
    for (unsigned i = 0; i < 3; i++) {
        const char *dir = fresh_dir();
        char *saw = said(say_refused, &list[i]);
        if (strstr(saw, "the child failed"))
            fail_msg("%s", saw);
        if (i < 2)
            check_refused(dir, saw, i ? blocks : registers, 4, 1);
        else
            check_refused(dir, saw, "a block of 513 threads", 6, 18);
        free(saw);
    }
}

/* With an argument: kernels that are not traced, or "refused". */
int main(int argc, char **argv)
{
    const struct CMUnitTest graph[] = {cmocka_unit_test(graph_versions), cmocka_unit_test(graph_any_nodes)};
    const struct CMUnitTest alone[] = {cmocka_unit_test(forward_refused)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_forwards),   cmocka_unit_test(forward_launches),
        cmocka_unit_test(forward_nodes),      cmocka_unit_test(forward_versions),
        cmocka_unit_test(forward_attributes), cmocka_unit_test(graph_versions),
        cmocka_unit_test(graph_any_nodes)};
    void *fake = dlopen(FAKE_CUDART, RTLD_NOW | RTLD_LOCAL);
    fresh_dir();
    setenv("MEMTRACE_DEVICE", "gpu", 1);
    setenv("MEMTRACE_CUDART", FAKE_CUDART, 1);
    if (!fake)
        return 1;
    fake_log = dlsym(fake, "fake_log");
    fake_context = dlsym(fake, "fake_context");
    fake_args = dlsym(fake, "fake_args");
    fake_launched = dlsym(fake, "fake_launched");
    fake_refusal = dlsym(fake, "fake_refusal");
    fake_error = dlsym(fake, "fake_error");
    fake_cooperative = dlsym(fake, "fake_cooperative");
    if (argc > 1 && !strcmp(argv[1], "refused"))
        return cmocka_run_group_tests(alone, NULL, NULL);
    program_register();
    never = argc > 1;
    if (never) {
        setenv("MEMTRACE_KERNELS", argv[1], 1);
        return cmocka_run_group_tests(graph, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
