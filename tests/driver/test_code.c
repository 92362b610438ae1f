/* Device code that a program loads by the driver API: modules, libraries, linking, and errors in it. */
#include "driver.h"

void driver_bad_code(void **state)
{
    CUmodule m;
    char log[256] = "x";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    assert_int_equal(cuModuleLoad(&m, "/nowhere.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
    assert_int_equal(cuModuleLoadData(&m, "garbage"), CUDA_ERROR_INVALID_PTX);
    assert_int_equal(cuModuleLoadData(&m, ""), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(cuModuleLoadDataEx(&m, ".version 8.0\n.target sm_80\n.address_size 64\nnonsense;\n", 2,
                                        options, values),
                     CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "nonsense"));
    assert_int_equal((size_t)values[1], strlen(log));
    assert_int_equal(cuModuleUnload((CUmodule)log), CUDA_ERROR_INVALID_HANDLE);
}

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
static const char caller[] =
    HEAD ".extern .func (.param .b32 r) twice(.param .b32 x);\n"
         ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<3>;\n.reg .b64 %rd<2>;\n"
         "ld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\n"
         "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), twice, (a);\n"
         "ld.param.b32 %r2, [b]; }\nst.global.u32 [%rd1], %r2;\nret;\n}\n";
static const char callee[] =
    HEAD ".visible .func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 %r<3>;\n"
         "ld.param.b32 %r1, [x];\nadd.s32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n";

void driver_link(void **state)
{
    CUlinkState link;
    CUmodule m;
    CUfunction f;
    void *cubin;
    size_t bytes;
    int value = 21;
    CUdeviceptr p = driver_alloc(4);
    OK(cuLinkCreate(0, NULL, NULL, &link));
    OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)caller, sizeof caller, "a", 0, NULL, NULL));
    OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)callee, sizeof callee, "b", 0, NULL, NULL));
    OK(cuLinkComplete(link, &cubin, &bytes));
    void *copy = malloc(bytes); /* programs keep it, and load it later */
    memcpy(copy, cubin, bytes);
    OK(cuLinkDestroy(link));
    OK(cuModuleLoadData(&m, copy));
    free(copy);
    OK(cuModuleGetFunction(&f, m, "k"));
    OK(cuMemcpyHtoD(p, &value, 4));
    void *args[] = {&p};
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH(&value, p, 4));
    assert_int_equal(value, 42);
    OK(cuModuleUnload(m));
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemFree(p));
}

/* The same in libraries and in what is linked, and names that are not there: errors as CUDA's documentation
 * lists them. */
void driver_bad_names(void **state)
{
    CUlibrary library;
    CUkernel kernel;
    CUmodule m;
    CUfunction f;
    CUlinkState link;
    CUdeviceptr p;
    size_t bytes;
    static char bad[] = HEAD "nonsense;\n";
    char log[256] = "x";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    assert_int_equal(cuLibraryLoadData(&library, bad, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_INVALID_PTX);
    assert_int_equal(cuLibraryLoadFromFile(&library, "/nowhere.ptx", NULL, NULL, 0, NULL, NULL, 0),
                     CUDA_ERROR_FILE_NOT_FOUND);
    OK(cuLinkCreate(2, options, values, &link));
    OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)caller, sizeof caller, "a", 0, NULL, NULL));
    assert_int_equal(cuLinkAddData(link, CU_JIT_INPUT_PTX, bad, sizeof bad, "a", 0, NULL, NULL),
                     CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "nonsense"));
    OK(cuLinkDestroy(link));
    assert_int_equal(cuModuleLoadData(&m, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuModuleLoad(&m, KERNELS));
    assert_int_equal(cuModuleGetFunction(&f, m, "nope"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuModuleGetFunction(&f, m, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuModuleGetGlobal(&p, &bytes, m, "nope"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleUnload(m));
    OK(cuLibraryLoadFromFile(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    assert_int_equal(cuLibraryGetKernel(&kernel, library, "nope"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuLibraryGetGlobal(&p, &bytes, library, "nope"), CUDA_ERROR_NOT_FOUND);
    OK(cuLibraryUnload(library));
}

/* Handles of what was unloaded, and what came out of it. */
void driver_freed(void **state)
{
    CUlibrary library;
    CUkernel kernel;
    CUmodule m;
    CUfunction f, other;
    CUdeviceptr p = driver_alloc(4);
    size_t bytes;
    int count = 1, value;
    void *args[] = {&p, &count};
    OK(cuModuleLoad(&m, KERNELS));
    OK(cuModuleGetFunction(&f, m, "iota"));
    OK(cuModuleUnload(m));
    assert_int_equal(cuModuleGetFunction(&other, m, "iota"), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuModuleGetGlobal(&p, &bytes, m, "counter"), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_HANDLE);
    OK(cuLibraryLoadFromFile(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "iota"));
    OK(cuLibraryUnload(library));
    assert_int_equal(cuLibraryGetKernel(&kernel, library, "iota"), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemFree(p));
}

/* Pairs of f32 in one register, as nvcc has them for sm_100 and later: fused, rounded to zero and flushed. */
void driver_pairs(void **state)
{
    static const char text[] =
        ".version 8.6\n.target sm_100\n.address_size 64\n.visible .entry pairs(.param .u64 p)\n{\n"
        ".reg .b64 %x<9>;\nld.param.u64 %x1, [p];\nld.global.v4.b64 {%x2, %x3, %x4, %x5}, [%x1];\n"
        "fma.rn.f32x2 %x6, %x2, %x3, %x4;\nst.global.b64 [%x1], %x6;\n"
        "add.rz.ftz.f32x2 %x6, %x4, %x5;\nst.global.b64 [%x1+8], %x6;\n"
        "sub.f32x2 %x6, %x2, %x3;\nmul.rn.f32x2 %x7, %x6, %x3;\nst.global.b64 [%x1+16], %x7;\nret;\n}\n";
    float v[8] = {1 + 0x1p-12f, -3, 1 + 0x1p-12f, 0.5f, 1, 0x1p-149f, -0x1p-30f, 0x1p-149f};
    const float want[6] = {2 + 0x1p-11f, -1.5f, 1 - 0x1p-24f, 0, 0, -1.75f};
    CUmodule m;
    CUfunction f;
    CUdeviceptr p = driver_alloc(sizeof v);
    OK(cuModuleLoadData(&m, text));
    OK(cuModuleGetFunction(&f, m, "pairs"));
    OK(cuMemcpyHtoD(p, v, sizeof v));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&p}, NULL));
    OK(cuMemcpyDtoH(v, p, sizeof v));
    assert_memory_equal(v, want, sizeof want);
    OK(cuModuleUnload(m));
    OK(cuMemFree(p));
}

/* libcudadevrt's barrier of a grid, which Numba calls: after it each thread has seen all of them come. */
void driver_grid(void **state)
{
    static const char text[] =
        HEAD ".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 s);\n"
             ".extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 h, .param .b32 f);\n"
             ".visible .entry together(.param .u64 p)\n{\n.reg .b32 %r<6>;\n.reg .b64 %rd<3>;\nld.param.u64 "
             "%rd1, [p];\n"
             "{ .param .b32 s; .param .b64 h; st.param.b32 [s], 1; call (h), cudaCGGetIntrinsicHandle, (s);\n"
             "ld.param.b64 %rd2, [h]; }\natom.global.add.u32 %r1, [%rd1], 1;\n"
             "{ .param .b64 h; .param .b32 f; .param .b32 e; st.param.b64 [h], %rd2; st.param.b32 [f], 0;\n"
             "call (e), cudaCGSynchronize, (h, f); ld.param.b32 %r2, [e]; }\n"
             "ld.volatile.global.u32 %r3, [%rd1];\natom.global.add.u32 %r4, [%rd1+4], %r3;\n"
             "atom.global.or.b32 %r5, [%rd1+8], %r2;\nret;\n}\n";
    enum { CTAS = 8, THREADS = 64, ALL = CTAS * THREADS };
    unsigned seen[3];
    CUmodule m;
    CUfunction f;
    CUdeviceptr p = driver_alloc(sizeof seen);
    void *args[] = {&p};
    OK(cuModuleLoadData(&m, text));
    OK(cuModuleGetFunction(&f, m, "together"));
    OK(cuMemsetD32(p, 0, 3));
    OK(cuLaunchCooperativeKernel(f, CTAS, 1, 1, THREADS, 1, 1, 0, NULL, args));
    OK(cuMemcpyDtoH(seen, p, sizeof seen));
    assert_int_equal(seen[0], ALL);
    assert_int_equal(seen[1], ALL * ALL);
    assert_int_equal(seen[2], 0);
    OK(cuLaunchKernel(f, CTAS, 1, 1, THREADS, 1, 1, 0, NULL, args,
                      NULL)); /* no such grid: an error, no wait */
    OK(cuMemcpyDtoH(seen, p, sizeof seen));
    assert_int_not_equal(seen[2], 0);
    OK(cuModuleUnload(m));
    OK(cuMemFree(p));
}

/* A graph of cuGraphAddNode: p[0] = 5, then a loop in which a kernel counts it down, and p[1] and p[2] up by
 * a kernel and a fill, which its parameters change afterwards. */
void driver_conditional(void **state)
{
#if CUDA_VERSION >= 12030
    static const char text[] =
        HEAD ".extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);\n"
             ".visible .entry down(.param .u64 p, .param .u64 h)\n{\n.reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n"
             "ld.param.u64 %rd1, [p];\nld.param.u64 %rd2, [h];\nld.global.u32 %r1, [%rd1];\n"
             "add.s32 %r2, %r1, -1;\nst.global.u32 [%rd1], %r2;\nred.global.add.u32 [%rd1+4], 1;\n"
             "{ .param .b64 h; .param .b32 v; st.param.b64 [h], %rd2; st.param.b32 [v], %r2;\n"
             "call cudaGraphSetConditional, (h, v); }\nret;\n}\n";
    unsigned seen[3];
    CUmodule m;
    CUfunction f;
    CUgraph graph;
    CUgraphNode fill, loop, node;
    CUgraphExec exec;
    CUgraphConditionalHandle handle;
    CUdeviceptr p = driver_alloc(sizeof seen);
    OK(cuModuleLoadData(&m, text));
    OK(cuModuleGetFunction(&f, m, "down"));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphConditionalHandleCreate(&handle, graph, driver_context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams set = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                             .memset = {.dst = p, .value = 5, .elementSize = 4, .width = 1, .height = 1}};
    CUgraphNodeParams branch = {
        .type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
        .conditional = {
            .handle = handle, .type = CU_GRAPH_COND_TYPE_WHILE, .size = 1, .ctx = driver_context}};
    void *args[] = {&p, &handle};
    CUgraphNodeParams run = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                             .kernel = {f, 1, 1, 1, 1, 1, 1, 0, args, NULL, NULL, NULL}};
#if CUDA_VERSION >= 13000
#define ADD(out, g, after, n, params) cuGraphAddNode(out, g, after, NULL, n, params)
#else
#define ADD(out, g, after, n, params) cuGraphAddNode(out, g, after, n, params)
#endif
    OK(ADD(&fill, graph, NULL, 0, &set));
    OK(ADD(&loop, graph, &fill, 1, &branch));
    OK(ADD(&node, branch.conditional.phGraph_out[0], NULL, 0, &run));
    assert_int_equal(ADD(&node, graph, NULL, 0, &branch), CUDA_ERROR_INVALID_VALUE); /* the handle has one */
    CUgraphNodeParams more = set;
    more.memset.dst = p + 8;
    OK(ADD(&node, branch.conditional.phGraph_out[0], NULL, 0, &more));
    OK(cuMemsetD32(p, 0, 3));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuMemcpyDtoH(seen, p, sizeof seen));
    assert_true(seen[0] == 0 && seen[1] == 5 && seen[2] == 5);
    set.memset.value = 2;
    OK(cuGraphExecNodeSetParams(exec, fill, &set));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuMemcpyDtoH(seen, p, sizeof seen));
    assert_true(seen[0] == 0 && seen[1] == 7);
    assert_int_equal(cuGraphNodeSetParams(loop, &branch), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuGraphNodeSetParams(fill, &set));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuModuleUnload(m));
    OK(cuMemFree(p));
#endif
}

/* Newer than what LLVM 19 compiles for: programs are told what the code is, for they choose by it. */
void driver_newer(void **state)
{
    static const char text[] =
        ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";
    CUmodule m;
    CUfunction f;
    int version;
    OK(cuModuleLoadData(&m, text));
    OK(cuModuleGetFunction(&f, m, "k"));
    OK(cuFuncGetAttribute(&version, CU_FUNC_ATTRIBUTE_PTX_VERSION, f));
    assert_int_equal(version, 120);
    OK(cuModuleUnload(m));
}

/* Each load is a module of its own, with its own variables. */
static void *driver_load_one(void *bad)
{
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    size_t bytes;
    int by = 3, value = 0;
    void *args[] = {&by};
    *(int *)bad = cuCtxSetCurrent(driver_context) || cuModuleLoad(&m, KERNELS) ||
                  cuModuleGetFunction(&f, m, "count") ||
                  cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, 0, NULL, args, NULL) ||
                  cuModuleGetGlobal(&p, &bytes, m, "counter") || cuMemcpyDtoH(&value, p, 4) ||
                  value != 5 + 64 * 3 || cuModuleUnload(m);
    return NULL;
}

void driver_many_threads(void **state)
{
    enum { THREADS = 64 };
    pthread_t t[THREADS];
    int bad[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, driver_load_one, &bad[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(bad[i], 0);
    }
}

void driver_libraries(void **state)
{
    CUlibrary library;
    CUkernel kernel;
    CUfunction f;
    unsigned n = 0;
    int count = 5, value[5];
    CUdeviceptr p = driver_alloc(sizeof value);
    void *args[] = {&p, &count};
    OK(cuLibraryLoadFromFile(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "iota"));
    OK(cuLibraryGetKernelCount(&n, library));
    assert_int_equal(n, 4);
    OK(cuKernelGetFunction(&f, kernel));
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 5, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH(value, p, sizeof value));
    assert_int_equal(value[4], 4);
    OK(cuLibraryUnload(library));
    OK(cuMemFree(p));
}

void driver_runtime_libraries(void **state)
{
    cudaLibrary_t runtime_library;
    cudaKernel_t runtime_kernel;
    int count = 5, value[5];
    CUdeviceptr p = driver_alloc(sizeof value);
    void *args[] = {&p, &count};
    assert_int_equal(cudaLibraryLoadFromFile(&runtime_library, KERNELS, NULL, NULL, 0, NULL, NULL, 0),
                     cudaSuccess);
    assert_int_equal(cudaLibraryGetKernel(&runtime_kernel, runtime_library, "nope"), cudaErrorSymbolNotFound);
    assert_int_equal(cudaLibraryGetKernel(&runtime_kernel, runtime_library, "iota"), cudaSuccess);
    OK(cuMemsetD32(p, 7, 5));
    assert_int_equal(cudaLaunchKernel(runtime_kernel, (dim3){1, 1, 1}, (dim3){5, 1, 1}, args, 0, NULL),
                     cudaSuccess);
    OK(cuMemcpyDtoH(value, p, sizeof value));
    assert_int_equal(value[3], 3);
    assert_int_equal(cudaLibraryUnload(runtime_library), cudaSuccess);
    assert_int_equal(cudaGetLastError(), cudaErrorSymbolNotFound);
    OK(cuMemFree(p));
}
