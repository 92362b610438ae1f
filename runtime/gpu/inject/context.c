/* Contexts of the driver: what each has of ours, what the device is called, and the end of the process. */
#define _GNU_SOURCE
#include "trace/devices.h"
#include "base/file.h"
#include "base/report.h"
#include "base/thread.h"
#include "inject.h"
#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the list */
static struct mt_inject_context *contexts;

static struct mt_inject_context *context_find(CUcontext handle)
{
    struct mt_inject_context *c = contexts;
    while (c && c->handle != handle)
        c = c->next;
    return c;
}

struct mt_inject_context *mt_inject_context(CUcontext handle)
{
    pthread_mutex_lock(&lock);
    struct mt_inject_context *c = handle ? context_find(handle) : NULL;
    if (handle && !c && (c = calloc(1, sizeof *c))) {
        c->handle = handle;
        c->number = contexts ? contexts->number + 1 : 0;
        c->next = contexts;
        contexts = c;
    }
    pthread_mutex_unlock(&lock);
    return c;
}

static void inject_contexts(void (*f)(struct mt_inject_context *c, void *data), void *data)
{
    pthread_mutex_lock(&lock);
    struct mt_inject_context *c = contexts; /* later ones are put in front; none is freed */
    pthread_mutex_unlock(&lock);
    for (; c; c = c->next)
        f(c, data);
}

/* ---- the end of the process --------------------------------------------------------------------- */

/* The driver registered its own handler before its first context was there, so this runs before that, and the
 * rings are there still. What is launched later, by handlers that the program registered before, is not
 * traced. */
static void context_exit(void)
{
    if (mt_forked() || mt_rings_closed())
        return;
    mt_inject_drain(NULL, "the program ends");
    mt_rings_close();
}

static void context_register(void)
{
    atexit(context_exit);
}

/* At the first context, or the first one that is used. */
static void context_first(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, context_register);
}

/* ---- patches ------------------------------------------------------------------------------------ */

static char *image; /* of all patches, for all devices */

/* Beside this library. */
static void image_path(char *out, size_t size)
{
    Dl_info info;
    const char *self = dladdr((void *)&image_path, &info) && info.dli_fname ? info.dli_fname : "";
    const char *slash = strrchr(self, '/');
    snprintf(out, size, "%.*sgpu-patch.fatbin", slash ? (int)(slash + 1 - self) : 0, self);
}

static char *image_read(FILE *f)
{
    long bytes = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
    char *text = bytes > 0 && !fseek(f, 0, SEEK_SET) ? malloc((size_t)bytes) : NULL;
    if (text && fread(text, 1, (size_t)bytes, f) != (size_t)bytes) {
        free(text);
        text = NULL;
    }
    return text;
}

const void *mt_inject_image(char *why, size_t size)
{
    char path[PATH_MAX];
    image_path(path, sizeof path);
    FILE *f = fopen(path, "rbe");
    image = f ? image_read(f) : NULL;
    if (!image)
        snprintf(why, size, "%s: %s", path, f ? "cannot be read" : strerror(errno));
    if (f)
        fclose(f);
    return image;
}

/* A pc near the program's code, as far as the patches lie near it; 0: not known. */
static uint64_t context_code(CUcontext handle)
{
    uint64_t pc = 0, bytes = 0;
    return mt_sanitizer()->GetCallbackPcAndSize(handle, "mt_patch_exit", &pc, &bytes) ? 0 : pc & ~15ull;
}

int mt_inject_context_ready(struct mt_inject_context *c)
{
    char why[256] = "";
    if (!c || mt_rings_closed())
        return -1;
    if (c->tried)
        return c->rings ? 0 : -1;
    c->tried = 1;
    context_first();
    SanitizerResult r = mt_sanitizer()->AddPatches(image, c->handle);
    if (r)
        snprintf(why, sizeof why, "patches cannot be loaded there: %s", mt_sanitizer_text(r));
    else
        c->rings = mt_inject_rings(c->handle, context_code(c->handle), why, sizeof why);
    if (!c->rings)
        mt_report("kernels in a context of a GPU are not traced: %s", why);
    return c->rings ? 0 : -1;
}

/* ---- what the devices are called ---------------------------------------------------------------- */

#define DEVICES 64

static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t named = PTHREAD_COND_INITIALIZER;
static int asked, answered;
static struct {
    char name[128];
    int sms;
} devices[DEVICES]; /* written by name_ask, before `answered` */
static char system_name[128] = "NVIDIA GPU";

/* "Model:  NVIDIA H100", of the first GPU that the kernel's driver lists. */
static void name_of_file(const char *path)
{
    char line[256], *text;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "Model:", 6)) {
            text = line + 6 + strspn(line + 6, " \t");
            text[strcspn(text, "\n")] = 0;
            snprintf(system_name, sizeof system_name, "%.100s", text);
        }
    if (f)
        fclose(f);
}

/* `name` is asked for, too. Returns how many GPUs there are. */
static int name_of_system(int name)
{
    static const char folder[] = "/proc/driver/nvidia/gpus";
    char path[PATH_MAX];
    DIR *d = opendir(folder);
    struct dirent *e;
    int n = 0;
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || n++ || !name)
            continue;
        snprintf(path, sizeof path, "%s/%s/information", folder, e->d_name);
        name_of_file(path);
    }
    if (d)
        closedir(d);
    return n;
}

typedef CUresult name_attribute(int *, CUdevice_attribute, CUdevice);
typedef CUresult name_text(char *, int, CUdevice);

/* The driver may be asked in a thread of ours, where no callback is under way. */
static void *name_ask(void *unused)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    name_attribute *get = cuda ? (name_attribute *)dlsym(cuda, "cuDeviceGetAttribute") : NULL;
    name_text *text = cuda ? (name_text *)dlsym(cuda, "cuDeviceGetName") : NULL;
    for (CUdevice i = 0; get && text && i < DEVICES; i++)
        if (text(devices[i].name, sizeof devices[i].name, i) ||
            get(&devices[i].sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, i))
            break;
    pthread_mutex_lock(&naming);
    answered = 1;
    pthread_cond_broadcast(&named);
    pthread_mutex_unlock(&naming);
    return unused;
}

static void name_begin(void)
{
    pthread_mutex_lock(&naming);
    int first = !asked;
    asked = 1;
    pthread_mutex_unlock(&naming);
    if (!first)
        return;
    int n =
        name_of_system(0); /* lines of the first allocation need it, and the driver cannot be asked here */
    if (n > 1)
        mt_devices_of_gpu(n < MT_DEVICES_MAX ? n : MT_DEVICES_MAX);
    mt_base_thread_start(NULL, 0, name_ask, NULL);
}

/* 1: the driver has said it. */
static int name_wait(void)
{
    const struct timespec end = mt_base_in_ms(100);
    pthread_mutex_lock(&naming);
    while (asked && !answered && pthread_cond_clockwait(&named, &naming, CLOCK_MONOTONIC, &end) != ETIMEDOUT)
        ;
    int said = answered;
    pthread_mutex_unlock(&naming);
    return said;
}

void mt_inject_device_is(int device)
{
    static atomic_int settled;
    if (atomic_exchange(&settled, 1))
        return;
    if (name_wait() && device >= 0 && device < DEVICES && devices[device].name[0]) {
        mt_trace_device("gpu", devices[device].name, (unsigned)devices[device].sms);
        return;
    }
    name_of_system(1);
    mt_trace_device("gpu", system_name, 0);
}

/* ---- contexts that begin and end ---- */

void mt_inject_context_new(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceContextData *d = data;
    (void)cbid;
    mt_inject_context(d->context);
    context_first();
    name_begin();
}

/* What is under way ends with what came; the driver is about to take the memory. */
void mt_inject_context_ends(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_ResourceContextData *d = data;
    pthread_mutex_lock(&lock);
    struct mt_inject_context *c = context_find(d->context);
    pthread_mutex_unlock(&lock);
    (void)cbid;
    if (!c)
        return;
    if (c->rings && !mt_rings_closed()) {
        mt_inject_drain(c, "their context was destroyed");
        mt_rings_retire(c->rings);
    }
    mt_inject_streams_end(d->context);
    pthread_mutex_lock(&lock);
    c->handle = NULL;
    pthread_mutex_unlock(&lock);
}
