/* MEMTRACE_DEVICE=gpu with a stand-in for the real runtime: kernels that run without records are launched as
 * they are and counted; and runtimes that the driver is too old for. */
#define _GNU_SOURCE
#include "api.h"
#include "program.h"
#include "util.h"
#include <cuda.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

static void **fake_context, ***fake_args;
static char *fake_launched;

/* ---- programs whose tables are not there --------------------------------------------------------- */

/* Kernels get the arguments that they take, and launches without records are counted. `name`: what runs,
 * NULL: nothing. */
struct table {
    const char *image, *name, *says;
    int code, traced;
};

/* A graph with one kernel, launched twice; then with a kernel of another file,
 * and with the first one again. */
static void launch_graph(void)
{
    unsigned n = 77, *out = NULL;
    void *args[] = {&out, &n};
    struct cudaKernelNodeParams p = {stub_fill, {1, 1, 1}, {1, 1, 1}, 0, args, NULL}, other = p;
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    int bad = cudaGraphAddKernelNode(&node, (cudaGraph_t)5, NULL, 0, &p) ||
              cudaGraphInstantiateWithFlags(&exec, (cudaGraph_t)5, 0);
    other.func = stub_foreign;
    for (unsigned i = 0; i < 4 && !bad; i++)
        bad = (i > 1 && cudaGraphExecKernelNodeSetParams(exec, node, i == 2 ? &other : &p)) ||
              cudaGraphLaunch(exec, 0);
    if (bad || cudaGraphExecDestroy(exec))
        fprintf(stderr, "wrong: a graph is not launched\n");
}

static int launch_one(void *data)
{
    const struct table *t = data;
    unsigned n = 77, *out = NULL;
    void *args[] = {&out, &n, (void *)16}; /* after the last one there is no argument */
    dim3 one = {1, 1, 1};
    cudaKernel_t handle;
    program_image = t->image;
    program_register();
    int code = (int)cudaLaunchKernel(stub_fill, one, one, args, 0, 0);
    int given = !code && strstr(t->name, "traced") ? *fake_args != args && *fake_context : *fake_args == args;
    if (code != t->code || (!code && (strcmp(fake_launched, t->name) || !given)))
        fprintf(stderr, "wrong: %d, %s, %d\n", code, fake_launched, given);
    if (!code && (cudaGetKernel(&handle, stub_fill) || strcmp((const char *)handle, "_Zfill")))
        fprintf(stderr, "wrong: %s is handed out\n", (const char *)handle);
    if (!code)
        launch_graph();
    return 0;
}

static void say_launched(void *data)
{
    if (in_child(launch_one, data))
        fprintf(stderr, "wrong: the child failed\n");
}

/* Of five launches one is that of a kernel of another file. */
static void check_counted(const char *dir, const struct table *t)
{
    char *text = slurp(in_dir(dir, "MemTrace-pipe-0.meta"), NULL), lost[100];
    const char *name = t->traced ? "\"kernel\":\"fill<int>\"" : "\"kernel\":\"_Zfill\"";
    snprintf(lost, sizeof lost, "%d launches of this stream ran without records", t->traced ? 1 : 5);
    assert_non_null(text);
    assert_int_equal(count_lines(text, "\"launch\"", name, t->traced ? "\"traced\":true" : "\"traced\":false",
                                 "\"status\":0", NULL),
                     4);
    assert_int_equal(count_lines(text, "\"launch\"", "\"kernel\":\"other::add<4>\"", "\"traced\":false",
                                 "\"signature\":\"void other::add<4>(int (*)(int), int*)\"", NULL),
                     1);
    assert_int_equal(count_lines(text, "\"lost\"", lost, NULL), 1);
    assert_int_equal(count_lines(text, "\"end\"", "\"complete\":false", NULL), 1);
    free(text);
}

static void tables_run(void **state)
{
    struct table list[] = {
        {"", "_Zfill", "_Zfill and others of its file run on the GPU without a trace: it has no CPU image", 0,
         0},
        {IMAGES "/image-young.so", "_Zfill",
         "run on the GPU without a trace: its CPU image was made by another", 0, 0},
        {IMAGES "/image-old.so", NULL,
         "cannot run: its CPU image was made by an older version of memtrace: compile the program again", 98,
         0},
        {IMAGES "/image-fast.so", "_Zfill__memtrace_traced", "", 0, 1},
    };
    dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL); /* as C++ programs have it, for names */
    program_foreign = "_ZN5other3addILi4EEEvPFiiEPi";
    for (unsigned i = 0; i < sizeof list / sizeof *list; i++) {
        const char *dir = fresh_dir();
        char *saw = said(say_launched, &list[i]);
        if (strstr(saw, "wrong") || !strstr(saw, list[i].says))
            fail_msg("%s: %s", list[i].image, saw);
        if (!list[i].code)
            check_counted(dir, &list[i]);
        free(saw);
    }
}

/* ---- no memory for one argument more ---------------------------------------------------------------- */

static size_t no_memory_of; /* bytes that malloc does not have */
void *__libc_malloc(size_t n);
__attribute__((visibility("default"))) void *malloc(size_t n)
{
    return n && n == no_memory_of ? NULL : __libc_malloc(n);
}

static int launch_wide(void *unused)
{
    int values[70] = {0}, bad = 0;
    void *args[70];
    dim3 one = {1, 1, 1};
    for (unsigned i = 0; i < 70; i++)
        args[i] = &values[i & ~1u];
    program_wide = 1;
    program_register();
    bad |=
        cudaLaunchKernel(stub_wide, one, one, args, 0, 0) || strcmp(fake_launched, "_Zwide__memtrace_traced");
    no_memory_of = 71 * sizeof *args;
    bad |= cudaLaunchKernel(stub_wide, one, one, args, 0, 0) || strcmp(fake_launched, "_Zwide") ||
           *fake_args != args;
    no_memory_of = 0;
    if (bad)
        fprintf(stderr, "wrong: %s\n", fake_launched);
    return bad;
}

static void say_wide(void *unused)
{
    in_child(launch_wide, NULL);
}

/* It runs without records, which is said and counted. */
static void no_memory(void **state)
{
    const char *dir = fresh_dir();
    char *saw = said(say_wide, NULL), *text = slurp(in_dir(dir, "MemTrace-pipe-0.meta"), NULL);
    if (strstr(saw, "wrong") || !strstr(saw, "out of memory: kernel wide<int> is not traced"))
        fail_msg("%s", saw);
    assert_int_equal(count_lines(text, "\"launch\"", "\"traced\":false", "\"status\":0", NULL), 1);
    assert_int_equal(count_lines(text, "\"end\"", "\"complete\":false", NULL), 1);
    free(saw);
    free(text);
}

/* ---- a runtime that the driver is too old for ------------------------------------------------------ */

static int run_somewhere(void *data)
{
    unsigned n = 4, *out = NULL, got[4] = {0};
    void *args[] = {&out, &n};
    int count = 0;
    program_register();
    if (cudaGetDeviceCount(&count))
        fprintf(stderr, "no device\n");
    else if (cudaMalloc((void **)&out, sizeof got) ||
             cudaLaunchKernel(stub_fill, (dim3){1, 1, 1}, (dim3){4, 1, 1}, args, 0, 0) ||
             cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost) || got[3] != 3)
        fprintf(stderr, "it did not run\n");
    else
        fprintf(stderr, "it ran on %d\n", count);
    return 0;
}

static void say_somewhere(void *data)
{
    if (in_child(run_somewhere, data))
        fprintf(stderr, "the child failed\n");
}

static void old_driver(void **state)
{
    static const char *const list[][4] = {
        {"auto", "35",
         "the driver, for CUDA 12.4, is older than the CUDA runtime, which is 4.71; running on the CPU",
         "it ran on 1"},
        {"gpu", "35", "the driver, for CUDA 12.4, is older than the CUDA runtime, which is 4.71\n",
         "no device"},
        {"auto", "803", "the CUDA runtime does not work (the fake's); running on the CPU device",
         "it ran on 1"}};
    for (unsigned i = 0; i < 3; i++) {
        fresh_dir();
        setenv("MEMTRACE_DEVICE", list[i][0], 1);
        setenv("FAKE_COUNT_ERROR", list[i][1], 1);
        char *saw = said(say_somewhere, NULL);
        if (!strstr(saw, list[i][2]) || !strstr(saw, list[i][3]))
            fail_msg("%s", saw);
        free(saw);
    }
}

/* The runtime lies where others can put another one. */
static void foreign_runtime(void **state)
{
    const char *dir = fresh_dir();
    char *saw;
    setenv("MEMTRACE_DEVICE", "auto", 1);
    setenv("MEMTRACE_CUDART", in_dir(dir, "libcudart.so"), 1);
    assert_int_equal(symlink(FAKE_CUDART, in_dir(dir, "libcudart.so")), 0);
    unsetenv("FAKE_COUNT_ERROR");
    assert_null(strstr(saw = said(say_somewhere, NULL), "is not used"));
    free(saw);
    assert_int_equal(chmod(dir, 0777), 0);
    saw = said(say_somewhere, NULL);
    if (!strstr(saw, "is not used: others can write to") || !strstr(saw, "it ran on 1"))
        fail_msg("%s", saw);
    free(saw);
    setenv("MEMTRACE_CUDART", FAKE_CUDART, 1);
}

/* ---- launches by the driver API ---------------------------------------------------------------------- */

__typeof__(cuLaunchKernel) cuLaunchKernel_ptsz;

static int launch_driver(void *unused)
{
    void *fake = dlopen(FAKE_CUDART, RTLD_NOW);
    int *launches = dlsym(fake, "fake_driver_launches"), *streams = dlsym(fake, "fake_driver_streams");
    CUfunction kernel = (CUfunction)launches;
    int n = 9, bad = 0;
    void *args[] = {&n};
    for (int i = 0; i < 3 && !bad; i++)
        bad = cuLaunchKernel(kernel, 2, 3, 4, 5, 6, 7, 8, NULL, args, NULL);
    bad = bad || cuLaunchKernel((CUfunction)&n, 2, 3, 4, 5, 6, 7, 8, NULL, args, NULL) != 700;
    bad = bad || cuLaunchKernel_ptsz(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
    if (bad || *launches != 4 || streams[0] != 4 || streams[1] != 1)
        fprintf(stderr, "wrong: %d launches of the driver\n", bad ? -1 : *launches);
    return bad;
}

static void say_driver(void *unused)
{
    if (in_child(launch_driver, NULL))
        fprintf(stderr, "wrong: the child failed\n");
}

static void driver_counted(void **state)
{
    const char *dir = fresh_dir();
    setenv("MEMTRACE_DEVICE", "gpu", 1);
    unsetenv("FAKE_COUNT_ERROR");
    char *saw = said(say_driver, NULL);
    if (strstr(saw, "wrong") ||
        !strstr(saw, "named and others of its file run on the GPU without a trace: it was not registered"))
        fail_msg("%s", saw);
    char *text = slurp(in_dir(dir, "MemTrace-pipe-0.meta"), NULL);
    assert_int_equal(count_lines(text, "\"launch\"", "\"mangled\":\"_Z5named\"",
                                 "\"grid\":[2,3,4],\"block\":[5,6,7]", "\"traced\":false", "\"status\":0",
                                 NULL),
                     3);
    assert_int_equal(count_lines(text, "\"launch\"", "\"status\":700", NULL), 1);
    assert_int_equal(count_lines(text, "\"end\"", "\"complete\":false", NULL), 1);
    free(saw);
    free(text);
}

/* "tables" or "driver". */
int main(int argc, char **argv)
{
    const struct CMUnitTest without[] = {cmocka_unit_test(tables_run), cmocka_unit_test(no_memory)};
    const struct CMUnitTest driver[] = {cmocka_unit_test(driver_counted), cmocka_unit_test(old_driver),
                                        cmocka_unit_test(foreign_runtime)};
    void *fake = dlopen(FAKE_CUDART, RTLD_NOW | RTLD_LOCAL);
    setenv("MEMTRACE_DEVICE", "gpu", 1);
    setenv("MEMTRACE_CUDART", FAKE_CUDART, 1);
    if (!fake || argc < 2)
        return 1;
    fake_context = dlsym(fake, "fake_context");
    fake_args = dlsym(fake, "fake_args");
    fake_launched = dlsym(fake, "fake_launched");
    return strcmp(argv[1], "driver") ? cmocka_run_group_tests(without, NULL, NULL)
                                     : cmocka_run_group_tests(driver, NULL, NULL);
}
