#include "fake_cuda.h"
#include "trace/selection.h"
#include "format/cta_rule.h"
#include "gpu/cuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fake_stream *fake_allocation_waits_for;
int fake_unmaps_at_exit;
int fake_no_write_value, fake_capturing, fake_drop_marks;
cudaError_t fake_stream_error;
static int primary_context;
void *fake_context, *fake_primary = &primary_context;
int fake_primary_active = 1, fake_retained, fake_no_memory;

/* ---- streams ------------------------------------------------------------------------------------ */

struct work {
    void (*f)(void *);
    void *data;
    struct work *next;
};
struct fake_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct work *first, **last;
    uint64_t put, done;
    int end;
    struct fake_stream *next;
};
static struct fake_stream *all_streams; /* of programs that end with the driver */

static void *stream_thread(void *data)
{
    struct fake_stream *s = data;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->first && !s->end)
            pthread_cond_wait(&s->changed, &s->lock);
        struct work *w = s->first;
        if (!w)
            break;
        s->first = w->next;
        if (!s->first)
            s->last = &s->first;
        pthread_mutex_unlock(&s->lock);
        w->f(w->data);
        free(w);
        pthread_mutex_lock(&s->lock);
        s->done++;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

struct fake_stream *fake_stream_new(void)
{
    struct fake_stream *s = calloc(1, sizeof *s);
    s->last = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    pthread_create(&s->thread, NULL, stream_thread, s);
    if (fake_unmaps_at_exit) {
        s->next = all_streams;
        all_streams = s;
    }
    return s;
}

void fake_stream_run(struct fake_stream *s, void (*f)(void *), void *data)
{
    struct work *w = malloc(sizeof *w);
    *w = (struct work){f, data, NULL};
    pthread_mutex_lock(&s->lock);
    *s->last = w;
    s->last = &w->next;
    s->put++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void fake_stream_wait(struct fake_stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->done < s->put)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void fake_stream_free(struct fake_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->end = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    for (struct fake_stream **at = &all_streams; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    free(s);
}

/* ---- functions ---------------------------------------------------------------------------------- */

static _Thread_local int current;
static cudaError_t get_device(int *d)
{
    *d = current;
    return cudaSuccess;
}
static cudaError_t set_device(int d)
{
    current = d;
    return cudaSuccess;
}
static cudaError_t fake_cuda_attribute(int *value, enum cudaDeviceAttr a, int device)
{
    *value = 7;
    return cudaSuccess;
}
static cudaError_t device_alloc(void **p, size_t n)
{
    if (fake_allocation_waits_for)
        fake_stream_wait(fake_allocation_waits_for);
    *p = aligned_alloc(4096, (n + 4095) & ~(size_t)4095);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}

static struct pinned {
    void *at;
    size_t bytes;
} pinned[16];
static unsigned npinned;

static void shut_down(void)
{
    for (struct fake_stream *s = all_streams; s; s = s->next)
        fake_stream_wait(s);
    for (unsigned i = 0; i < npinned; i++)
        munmap(pinned[i].at, pinned[i].bytes);
    if (write(2, "the driver is gone\n", 19) != 19)
        abort();
}

/* The context is made with the first memory, and the handler with it. */
static cudaError_t host_alloc(void **p, size_t n, unsigned flags)
{
    if (fake_no_memory)
        return cudaErrorMemoryAllocation;
    if (!fake_unmaps_at_exit)
        return device_alloc(p, n);
    if (!npinned)
        atexit(shut_down);
    *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pinned[npinned++] = (struct pinned){*p, n};
    return *p == MAP_FAILED ? cudaErrorMemoryAllocation : cudaSuccess;
}
static cudaError_t fake_cuda_release(void *p)
{
    free(p);
    return cudaSuccess;
}
static cudaError_t same_pointer(void **device, void *host, unsigned flags)
{
    *device = host;
    return cudaSuccess;
}

struct copy {
    void *to;
    const void *from;
    size_t n;
};
static void run_copy(void *data)
{
    struct copy *c = data;
    memcpy(c->to, c->from, c->n);
    free(c);
}
static cudaError_t fake_cuda_copy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind,
                                  cudaStream_t stream)
{
    if (fake_stream_error)
        return fake_stream_error;
    if (fake_drop_marks)
        return cudaSuccess;
    struct copy *c = malloc(sizeof *c);
    *c = (struct copy){to, from, n};
    fake_stream_run((struct fake_stream *)stream, run_copy, c);
    return cudaSuccess;
}
struct value {
    uint32_t *to, value;
};
static void run_value(void *data)
{
    struct value *v = data;
    __atomic_store_n(v->to, v->value, __ATOMIC_RELEASE);
    free(v);
}
static int write_value(cudaStream_t stream, unsigned long long to, unsigned value, unsigned flags)
{
    if (fake_no_write_value)
        return 801;
    if (fake_drop_marks)
        return 0;
    struct value *v = malloc(sizeof *v);
    *v = (struct value){(uint32_t *)(uintptr_t)to, value};
    fake_stream_run((struct fake_stream *)stream, run_value, v);
    return 0;
}
static cudaError_t host_function(cudaStream_t stream, cudaHostFn_t f, void *data)
{
    fake_stream_run((struct fake_stream *)stream, f, data);
    return cudaSuccess;
}
static cudaError_t stream_new(cudaStream_t *s, unsigned flags)
{
    *s = (cudaStream_t)fake_stream_new();
    return cudaSuccess;
}
static cudaError_t stream_free(cudaStream_t s)
{
    fake_stream_free((struct fake_stream *)s);
    return cudaSuccess;
}
static cudaError_t stream_wait(cudaStream_t s)
{
    fake_stream_wait((struct fake_stream *)s);
    return cudaSuccess;
}
static cudaError_t wait_for_nothing(void)
{
    return fake_stream_error;
}
static cudaError_t stream_query(cudaStream_t s)
{
    return fake_stream_error;
}
static cudaError_t fake_cuda_capturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    *status = fake_capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
static cudaError_t fake_cuda_exchange(enum cudaStreamCaptureMode *mode)
{
    return cudaSuccess;
}
const char *fake_variable_names[2];
uint32_t fake_variables[2];
static int function_of(void **function, const void *symbol)
{
    *function = (void *)(uintptr_t)symbol;
    return 0;
}
static int module_of(void **module, void *function)
{
    *module = (char *)function + 1;
    return 0;
}
static int global_of(unsigned long long *address, size_t *bytes, void *module, const char *name)
{
    for (unsigned i = 0; i < 2; i++)
        if (fake_variable_names[i] && !strcmp(fake_variable_names[i], name)) {
            *address = (uintptr_t)&fake_variables[i];
            *bytes = sizeof fake_variables[i];
            return 0;
        }
    return 500;
}
static int current_context(void **context)
{
    *context = fake_context;
    return 0;
}
static int primary_state(int device, unsigned *flags, int *active)
{
    *active = fake_primary_active;
    return 0;
}
static int fake_cuda_retain(void **context, int device)
{
    *context = fake_primary;
    fake_retained++;
    return 0;
}
static int give_back(int device)
{
    fake_retained--;
    return 0;
}
static cudaError_t no_error(void)
{
    return cudaSuccess;
}
static const char *error_string(cudaError_t e)
{
    return "as the test wants it";
}

void mt_cuda_from(void *(*find)(const char *name))
{
}

const struct mt_cuda *mt_cuda(void)
{
    static struct mt_cuda table = {
        .GetDevice = get_device,
        .SetDevice = set_device,
        .DeviceGetAttribute = fake_cuda_attribute,
        .HostAlloc = host_alloc,
        .FreeHost = fake_cuda_release,
        .HostGetDevicePointer = same_pointer,
        .Malloc = device_alloc,
        .Free = fake_cuda_release,
        .MemcpyAsync = fake_cuda_copy,
        .StreamCreateWithFlags = stream_new,
        .StreamDestroy = stream_free,
        .StreamSynchronize = stream_wait,
        .DeviceSynchronize = wait_for_nothing,
        .StreamQuery = stream_query,
        .StreamIsCapturing = fake_cuda_capturing,
        .ThreadExchangeStreamCaptureMode = fake_cuda_exchange,
        .LaunchHostFunc = host_function,
        .PeekAtLastError = no_error,
        .GetLastError = no_error,
        .GetErrorString = error_string,
        .WriteValue = write_value,
        .FunctionOf = function_of,
        .ModuleOf = module_of,
        .GlobalOf = global_of,
        .CurrentContext = current_context,
        .PrimaryState = primary_state,
        .RetainPrimary = fake_cuda_retain,
        .ReleasePrimary = give_back,
    };
    if (table.ends_at_exit != fake_unmaps_at_exit) /* a test sets it before it has threads */
        table.ends_at_exit = fake_unmaps_at_exit;
    return &table;
}
