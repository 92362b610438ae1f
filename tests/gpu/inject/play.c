/* play INJECTION CUBIN: the callbacks that a driver would make while a program runs, one after the other. */
#include "api_test.h"
#include "device.h"
#include <generated_cuda_meta.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *cubin_path;
static CUcontext context = (CUcontext)(void *)0x1000;
static int gpu;
static CUmodule module = (CUmodule)(void *)0x2000;
static const char *kernel = API_KERNEL;
static const CUstream stream = (CUstream)(void *)0x3000;

static void *handle_of(const void *s)
{
    return (char *)(s ? (void *)(uintptr_t)s : (void *)context) + 1000;
}

static void call(Sanitizer_CallbackDomain domain, Sanitizer_CallbackId id, const void *data)
{
    if (api_callback && api_enabled && api_asked >> domain & 1 && !getenv("API_SILENT"))
        api_callback(NULL, domain, id, data);
}

#define RESOURCE(name, data) call(SANITIZER_CB_DOMAIN_RESOURCE, SANITIZER_CBID_RESOURCE_##name, data)
#define DRIVER(name, site, status)                                                                           \
    driver(SANITIZER_CBID_DRIVER_API_##name, #name, SANITIZER_API_##site, status)

static void driver(Sanitizer_CallbackId id, const char *name, Sanitizer_ApiCallbackSite site, int status)
{
    static const cuLaunchKernel_params launch = {.sharedMemBytes = 48};
    const Sanitizer_CallbackData d = {.callbackSite = site,
                                      .functionName = name,
                                      .functionParams = &launch,
                                      .functionReturnValue = &status,
                                      .context = context};
    call(SANITIZER_CB_DOMAIN_DRIVER_API, id, &d);
}

static void load(const char *path)
{
    static char cubin[1 << 20];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(cubin, 1, sizeof cubin, f) : 0;
    if (f)
        fclose(f);
    const Sanitizer_ResourceModuleData m = {
        .context = context, .module = module, .cubinSize = n, .pCubin = cubin};
    RESOURCE(MODULE_LOADED, &m);
}

static Sanitizer_LaunchData launch_of(CUstream s)
{
    return (Sanitizer_LaunchData){.context = context,
                                  .stream = s,
                                  .hStream = handle_of(s),
                                  .module = module,
                                  .device = gpu,
                                  .functionName = kernel,
                                  .gridDim_x = 2,
                                  .gridDim_y = 1,
                                  .gridDim_z = 1,
                                  .blockDim_x = 32,
                                  .blockDim_y = 1,
                                  .blockDim_z = 1,
                                  .hApiStream = handle_of(s),
                                  .apiContext = context};
}

/* Two blocks of a warp; each warp stores once, 0x40 bytes into the kernel. */
static void run(const void *data, int exits)
{
    const uint32_t ctas = strcmp(kernel, "cancels") ? 2 : 1; /* it does the other's work */
    api_touch(1);
    if ((uintptr_t)data & MT_CONTEXT_POLLS) /* it has waited */
        device_note(data, 0, 7);
    for (uint32_t cta = 0; cta < ctas && data; cta++) {
        uint64_t code = device_code(data);
        if (device_totals(data))
            device_count(data, 32, API_PC + 0x40);
        else
            device_store(data, cta, 32, 0x10000 + cta * 128, mt_packet_site_of(API_PC + 0x40, code));
        if (exits)
            device_exit(data, cta, 32, 64);
    }
    api_touch(0);
}

static void launch(CUstream s, int status)
{
    Sanitizer_LaunchData l = launch_of(s);
    DRIVER(cuLaunchKernel, ENTER, 0);
    api_data = NULL;
    call(SANITIZER_CB_DOMAIN_LAUNCH, SANITIZER_CBID_LAUNCH_BEGIN, &l);
    call(SANITIZER_CB_DOMAIN_LAUNCH, SANITIZER_CBID_LAUNCH_END, &l);
    if (!status)
        run(api_data, !getenv("API_NO_EXITS"));
    DRIVER(cuLaunchKernel, EXIT, status);
}

static void launch_graph(CUstream s, uint32_t upload)
{
    Sanitizer_GraphNodeLaunchData n = {.nodeType = CU_GRAPH_NODE_TYPE_KERNEL, .isGraphUpload = upload};
    n.launchData = launch_of(s);
    n.launchData.hStream = handle_of((void *)0x9000); /* where the driver runs it */
    DRIVER(cuGraphLaunch, ENTER, 0);
    api_data = NULL;
    call(SANITIZER_CB_DOMAIN_GRAPHS, SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN, &n);
    if (!upload)
        run(api_data, !getenv("API_NO_EXITS"));
    DRIVER(cuGraphLaunch, EXIT, 0);
}

static void synchronize(int status)
{
    const Sanitizer_SynchronizeData d = {.context = context};
    DRIVER(cuCtxSynchronize, ENTER, 0);
    if (!status)
        call(SANITIZER_CB_DOMAIN_SYNCHRONIZE, SANITIZER_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED, &d);
    DRIVER(cuCtxSynchronize, EXIT, status);
}

static void synchronize_stream(CUstream s)
{
    const Sanitizer_SynchronizeData d = {.context = context, .stream = s, .hStream = handle_of(s)};
    DRIVER(cuStreamSynchronize, ENTER, 0);
    call(SANITIZER_CB_DOMAIN_SYNCHRONIZE, SANITIZER_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED, &d);
    DRIVER(cuStreamSynchronize, EXIT, 0);
}

/* The data of a stream, as versions of the API before 13.1 have it and from then on. */
static const void *stream_data(CUstream s)
{
    static _Thread_local void *data[4];
    void *older[] = {context, s, handle_of(s), NULL}, *newer[] = {context, NULL, s, handle_of(s)};
    memcpy(data, getenv("API_GREEN") ? newer : older, sizeof data);
    return data;
}

/* A copy within the GPU waits for nothing: the launch before it runs on. */
static void play_copies(void)
{
    Sanitizer_LaunchData l = launch_of(NULL);
    DRIVER(cuLaunchKernel, ENTER, 0);
    call(SANITIZER_CB_DOMAIN_LAUNCH, SANITIZER_CBID_LAUNCH_BEGIN, &l);
    DRIVER(cuLaunchKernel, EXIT, 0);
    DRIVER(cuMemcpy, ENTER, 0);
    DRIVER(cuMemcpy, EXIT, 0);
    run(api_data, 1);
    launch(NULL, 0);
    DRIVER(cuMemcpyDtoH_v2, ENTER, 0);
    DRIVER(cuMemcpyDtoH_v2, EXIT, 0);
}

/* CTA 0 stores a line that CTA 1 loads after a flag, and CTA 1 one for CTA 0, 100 times. */
static void play_flags(void)
{
    Sanitizer_LaunchData l = launch_of(NULL);
    DRIVER(cuLaunchKernel, ENTER, 0);
    call(SANITIZER_CB_DOMAIN_LAUNCH, SANITIZER_CBID_LAUNCH_BEGIN, &l);
    DRIVER(cuLaunchKernel, EXIT, 0);
    for (uint32_t i = 0; i < 200; i++)
        device_pass(api_data, i % 2, 1 - i % 2, 0x10000 + i * 128,
                    mt_packet_site_of(API_PC + 0x40, device_code(api_data)));
    for (uint32_t cta = 0; cta < 2; cta++)
        device_exit(api_data, cta, 32, 64);
    synchronize(0);
}

/* A child is not traced, and leaves its parent's files alone. */
static void play_fork(void)
{
    int status = 1;
    launch(NULL, 0);
    pid_t child = fork();
    launch(NULL, 0);
    synchronize(0);
    if (!child)
        exit(0);
    waitpid(child, &status, 0);
    if (status)
        abort();
}

static void play(void)
{
    RESOURCE(STREAM_CREATED, stream_data(stream));
    launch(NULL, 0);
    launch(stream, 0);
    launch(stream, 701);
    launch_graph(stream, 1);
    launch_graph(stream, 0);
    synchronize(0);
    RESOURCE(STREAM_DESTROY_STARTING, stream_data(stream));
    launch(NULL, 0);
    if (!getenv("API_EXIT"))
        synchronize(0);
}

/* The kernel faults: its second warp never ends. */
static void play_fault(void)
{
    Sanitizer_LaunchData l = launch_of(NULL);
    DRIVER(cuLaunchKernel, ENTER, 0);
    call(SANITIZER_CB_DOMAIN_LAUNCH, SANITIZER_CBID_LAUNCH_BEGIN, &l);
    DRIVER(cuLaunchKernel, EXIT, 0);
    device_store(api_data, 0, 32, 0x10000, MT_SITE_UNKNOWN);
    device_exit(api_data, 0, 32, 64);
    synchronize(700);
}

static void *play_thread(void *s)
{
    RESOURCE(STREAM_CREATED, stream_data(s));
    for (int i = 0; i < 200; i++) {
        launch(s, 0);
        if (i % 10 == 9)
            synchronize_stream(s);
    }
    RESOURCE(STREAM_DESTROY_STARTING, stream_data(s));
    return NULL;
}

static void play_threads(void)
{
    pthread_t t[4];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, play_thread, (void *)(0x5000 + 0x1000 * i));
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static void allocate(uint64_t address, int device, uint32_t flags)
{
    const Sanitizer_ResourceMemoryData m = {
        .address = address, .size = 4096, .context = context, .device = device, .flags = flags};
    RESOURCE(DEVICE_MEMORY_ALLOC, &m);
}

/* Another GPU, whose code lies at the same pcs; then its context goes, and a third one has its address. What
 * the second one has goes to the first one. */
static void play_gpus(void)
{
    const Sanitizer_ResourceContextData other = {.context = (CUcontext)(void *)0x1100};
    allocate(0x10000, 0, 0);
    launch(NULL, 0);
    for (int i = 0; i < 2; i++) {
        gpu = i + 1;
        context = other.context;
        module = (CUmodule)(void *)(uintptr_t)(0x2200 + 0x100 * i);
        RESOURCE(CONTEXT_CREATION_FINISHED, &other);
        load(cubin_path);
        allocate(0x20000 + 0x10000 * (unsigned)i, gpu, 0);
        launch(NULL, 0);
        RESOURCE(CONTEXT_DESTROY_STARTING, &other);
    }
    gpu = 0;
    context = (CUcontext)(void *)0x1000;
    module = (CUmodule)(void *)0x2000;
    allocate(0x40000, 0, SANITIZER_MEMORY_FLAG_MANAGED);
    const Sanitizer_MemcpyData copy = {.apiContext = context,
                                       .srcAddress = 0x20000,
                                       .dstAddress = 0x10000,
                                       .size = 256,
                                       .width = 256,
                                       .direction = SANITIZER_MEMCPY_DIRECTION_DEVICE_TO_DEVICE};
    call(SANITIZER_CB_DOMAIN_MEMCPY, SANITIZER_CBID_MEMCPY_STARTING, &copy);
    launch(NULL, 0);
    synchronize(0);
}

/* A graph of API_NODES kernels, none of which begins before the last one was told of. */
static void play_graph(void)
{
    unsigned n = (unsigned)atoi(getenv("API_NODES"));
    const void **data = calloc(n, sizeof *data);
    Sanitizer_GraphNodeLaunchData node = {.nodeType = CU_GRAPH_NODE_TYPE_KERNEL,
                                          .launchData = launch_of(stream)};
    RESOURCE(STREAM_CREATED, stream_data(stream));
    DRIVER(cuGraphLaunch, ENTER, 0);
    for (unsigned i = 0; i < n; i++) {
        api_data = NULL;
        call(SANITIZER_CB_DOMAIN_GRAPHS, SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN, &node);
        data[i] = api_data;
        if (getenv("API_AT_ONCE")) {
            run(data[i], 1);
            data[i] = NULL;
        }
    }
    DRIVER(cuGraphLaunch, EXIT, 0);
    for (unsigned i = 0; i < n; i++)
        run(data[i], 1);
    free(data);
    synchronize(0);
}

/* Launches the kernels named in API_KERNELS, which exist in name only. */
static void play_kernels(void)
{
    char *names = strdup(getenv("API_KERNELS")), *rest = names;
    while ((kernel = strsep(&rest, " ")))
        launch(NULL, 0);
    synchronize(0);
    free(names);
}

/* An event of the default stream, which has no callback of its creation; what the data has before the stream
 * depends on the version. */
static void play_order(void)
{
    void *event = (void *)0x7700, *handle = handle_of(NULL);
    void *older[] = {event, context, NULL, handle}, *newer[] = {event, context, NULL, NULL, handle};
    const void *data = getenv("API_GREEN") ? (void *)newer : (void *)older;
    launch(NULL, 0);
    call(SANITIZER_CB_DOMAIN_EVENTS, SANITIZER_CBID_EVENTS_CREATED, data);
    call(SANITIZER_CB_DOMAIN_EVENTS, SANITIZER_CBID_EVENTS_RECORD, data);
    synchronize(0);
}

/* Two copies of a batch, with the numbers of newer versions, and a reduction by a stream. */
static void play_batches(void)
{
    const Sanitizer_BatchMemopData reduction = {.context = context,
                                                .hStream = handle_of(NULL),
                                                .address = 0x10000,
                                                .type = SANITIZER_BATCH_MEMOP_TYPE_64B};
    allocate(0x10000, 0, 0);
    allocate(0x20000, 0, 0);
    launch(NULL, 0);
    for (uint64_t i = 0; i < 2; i++) {
        const Sanitizer_MemcpyData copy = {.apiContext = context,
                                           .hApiStream = handle_of(NULL),
                                           .srcAddress = 0x20000 + 256 * i,
                                           .dstAddress = 0x10000 + 512 * i,
                                           .size = 100 + i,
                                           .width = 100 + i,
                                           .direction = SANITIZER_MEMCPY_DIRECTION_DEVICE_TO_DEVICE};
        call(SANITIZER_CB_DOMAIN_MEMCPY, 2, &copy);
        call(SANITIZER_CB_DOMAIN_MEMCPY, 3, &copy.apiContext);
    }
    call(SANITIZER_CB_DOMAIN_BATCH_MEMOP, 3, &reduction);
    synchronize(0);
}

static void play_as(const char *name)
{
    static const struct {
        const char *name;
        void (*f)(void);
    } plays[] = {{"threads", play_threads}, {"fault", play_fault},     {"copies", play_copies},
                 {"flags", play_flags},     {"fork", play_fork},       {"gpus", play_gpus},
                 {"graph", play_graph},     {"kernels", play_kernels}, {"order", play_order},
                 {"batches", play_batches}};
    void (*f)(void) = play;
    for (size_t i = 0; name && i < sizeof plays / sizeof *plays; i++)
        f = strcmp(plays[i].name, name) ? f : plays[i].f;
    f();
}

/* As the driver does; API_PRELOADED: the dynamic linker has loaded the library. */
static int play_enter(const char *path)
{
    void *library = getenv("API_PRELOADED") ? NULL : dlopen(path, RTLD_NOW);
    int (*start)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (getenv("API_PRELOADED") || (start && start() == 1))
        return 0;
    fprintf(stderr, "play: %s\n", dlerror());
    return -1;
}

int main(int argc, char **argv)
{
    if (argc != 3 || play_enter(argv[1]))
        return 1;
    api_patch_result = getenv("API_NO_PATCH") ? SANITIZER_ERROR_UNKNOWN : SANITIZER_SUCCESS;
    const Sanitizer_ResourceContextData c = {.context = context};
    RESOURCE(CONTEXT_CREATION_FINISHED, &c);
    cubin_path = argv[2];
    load(cubin_path);
    play_as(getenv("API_PLAY"));
    if (getenv("API_DESTROY"))
        RESOURCE(CONTEXT_DESTROY_STARTING, &c);
    printf("patched %u\n", api_patched);
    return 0;
}
