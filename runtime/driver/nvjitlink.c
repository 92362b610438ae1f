/* nvJitLink before the real one: on the CPU device a program that links device code into machine code gets
 * the PTX of its parts in one piece, which loading makes one image of. What was compiled for link-time
 * optimisation becomes PTX by the real one. On a GPU the real one alone runs. */
#define _GNU_SOURCE
#include "compiler.h"
#include "link.h"
#include "api/device/device.h"
#include "base/attach.h"
#include "base/fork.h"
#include "base/report.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILED = 6 }; /* NVJITLINK_ERROR_INTERNAL */
enum { IN_CUBIN = 1, IN_PTX, IN_LTOIR, IN_FATBIN, IN_OBJECT, IN_LIBRARY, IN_INDEX, IN_ANY = 10 };
enum {
#define MT_NVJITLINK(name) AT_##name,
#define MT_NVJITLINK_OWN(name) AT_##name,
#include "nvjitlink.def"
};
static struct {
    const char *name;
    mt_compiler_function *_Atomic real;
} rows[] = {
#undef MT_NVJITLINK
#undef MT_NVJITLINK_OWN
#define MT_NVJITLINK(name) {#name, NULL},
#define MT_NVJITLINK_OWN(name) {#name, NULL},
#include "nvjitlink.def"
};

__attribute__((visibility("default"))) char __mt_attach_nvjitlink[MT_ATTACH_PATH];
static struct mt_compiler nvjitlink = {
    .place = __mt_attach_nvjitlink, .file = "libnvJitLink.so", .majors = {13, 12}};

static long nvjitlink_fail(long a, long b, long c, long d, long e, long f)
{
    return FAILED;
}

static mt_compiler_function *nvjitlink_real(unsigned at)
{
    if (!rows[at].real)
        rows[at].real = mt_compiler_find(&nvjitlink, rows[at].name);
    return rows[at].real ? rows[at].real : nvjitlink_fail;
}

#define REAL(name, a, b, c, d, e)                                                                            \
    (int)nvjitlink_real(AT_##name)((long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

/* ---- what was added ---- */

struct job {
    struct job *next;
    void *handle, *lto; /* the real ones: the program's; another, which makes PTX of LTO-IR, or NULL */
    struct mt_linked_code *code;
    char arch[32];
    int unknown; /* something is in it that cannot be run here: the real machine code says so when it is
                    loaded */
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
static struct job *jobs;

/* NULL: none, as on a GPU. A handle belongs to one thread at a time. */
static struct job *nvjitlink_job(const void *handle)
{
    pthread_mutex_lock(&lock);
    struct job *j = jobs;
    while (j && j->handle != handle)
        j = j->next;
    pthread_mutex_unlock(&lock);
    return j;
}

static __attribute__((used)) long own_nvJitLinkCreate(void **out, uint32_t n, const char **options)
{
    int rc = REAL(nvJitLinkCreate, out, n, options, 0, 0);
    struct job *j = rc || mt_device_is_gpu() ? NULL : calloc(1, sizeof *j);
    if (!j || !(j->code = mt_link_new())) {
        free(j);
        return rc;
    }
    j->handle = *out;
    for (uint32_t i = 0; i < n; i++)
        if (!strncmp(options[i], "-arch=", 6))
            snprintf(j->arch, sizeof j->arch, "%s", options[i]);
    pthread_mutex_lock(&lock);
    j->next = jobs;
    jobs = j;
    pthread_mutex_unlock(&lock);
    return rc;
}

static __attribute__((used)) long own_nvJitLinkDestroy(void **handle)
{
    pthread_mutex_lock(&lock);
    struct job **at = &jobs, *j;
    while (*at && !(handle && (*at)->handle == *handle))
        at = &(*at)->next;
    j = *at;
    if (j)
        *at = j->next;
    pthread_mutex_unlock(&lock);
    if (j && j->lto)
        (void)REAL(nvJitLinkDestroy, &j->lto, 0, 0, 0, 0);
    if (j)
        free(j->code);
    free(j);
    return REAL(nvJitLinkDestroy, handle, 0, 0, 0, 0);
}

static int nvjitlink_kind(int type, const char *data, size_t bytes)
{
    if (type != IN_ANY)
        return type;
    if (bytes >= 4 && !memcmp(data, "\x50\xed\x55\xba", 4))
        return IN_FATBIN;
    if (bytes >= 20 && !memcmp(data, "\177ELF", 4))
        return data[18] == (char)190 ? IN_CUBIN : IN_OBJECT; /* EM_CUDA */
    return memmem(data, bytes, ".version", 8) ? IN_PTX : IN_LTOIR;
}

static int nvjitlink_add_lto(struct job *j, const void *data, size_t bytes, const char *name)
{
    const char *options[] = {j->arch, "-lto", "-ptx"};
    if (!j->lto && REAL(nvJitLinkCreate, &j->lto, 3, options, 0, 0))
        return -1;
    return REAL(nvJitLinkAddData, j->lto, IN_LTOIR, data, bytes, name) ? -1 : 0;
}

static void nvjitlink_add(struct job *j, int type, const void *data, size_t bytes, const char *name)
{
    switch (nvjitlink_kind(type, data, bytes)) {
    case IN_PTX:
        j->unknown |= mt_link_add(&j->code, MT_LINK_PTX, data, strnlen(data, bytes));
        break;
    case IN_CUBIN:
        j->unknown |= mt_link_add(&j->code, MT_LINK_CUBIN, data, bytes);
        break;
    case IN_FATBIN:
        j->unknown |= mt_link_add(&j->code, MT_LINK_FATBIN, data, bytes);
        break;
    case IN_LTOIR:
        j->unknown |= nvjitlink_add_lto(j, data, bytes, name);
        break;
    default:
        if (!j->unknown)
            mt_report("nvJitLink: %s is a host object or a library: its device code is not linked for the "
                      "CPU device",
                      name ? name : "an input");
        j->unknown = 1;
    }
}

static __attribute__((used)) long own_nvJitLinkAddData(void *handle, int type, const void *data, size_t bytes,
                                                       const char *name)
{
    int rc = REAL(nvJitLinkAddData, handle, type, data, bytes, name);
    struct job *j = rc ? NULL : nvjitlink_job(handle);
    if (j)
        nvjitlink_add(j, type, data, bytes, name);
    return rc;
}

static __attribute__((used)) long own_nvJitLinkAddFile(void *handle, int type, const char *path)
{
    size_t bytes = 0;
    int rc = REAL(nvJitLinkAddFile, handle, type, path, 0, 0);
    struct job *j = rc ? NULL : nvjitlink_job(handle);
    void *data = j ? mt_library_file(path, &bytes) : NULL;
    if (data)
        nvjitlink_add(j, type, data, bytes, path);
    else if (j)
        j->unknown = 1;
    free(data);
    return rc;
}

/* ---- what comes out ---- */

/* The PTX of what was compiled for link-time optimisation becomes one of the parts. */
static void nvjitlink_finish(struct job *j)
{
    size_t bytes = 0;
    char *ptx = NULL;
    if (!j->lto)
        return;
    if (REAL(nvJitLinkComplete, j->lto, 0, 0, 0, 0) ||
        REAL(nvJitLinkGetLinkedPtxSize, j->lto, &bytes, 0, 0, 0) || !(ptx = malloc(bytes + 1)) ||
        REAL(nvJitLinkGetLinkedPtx, j->lto, ptx, 0, 0, 0) ||
        mt_link_add(&j->code, MT_LINK_PTX, ptx, strnlen(ptx, bytes)))
        j->unknown = 1;
    free(ptx);
    (void)REAL(nvJitLinkDestroy, &j->lto, 0, 0, 0, 0);
    j->lto = NULL;
}

/* The real one's answer is taken for what is wrong with the call. */
static __attribute__((used)) long own_nvJitLinkGetLinkedCubinSize(void *handle, size_t *out)
{
    int rc = REAL(nvJitLinkGetLinkedCubinSize, handle, out, 0, 0, 0);
    struct job *j = rc ? NULL : nvjitlink_job(handle);
    if (j)
        nvjitlink_finish(j);
    if (j && !j->unknown)
        *out = j->code->bytes;
    return rc;
}

static __attribute__((used)) long own_nvJitLinkGetLinkedCubin(void *handle, void *out)
{
    size_t bytes;
    struct job *j = nvjitlink_job(handle);
    if (!j || j->unknown || !out || REAL(nvJitLinkGetLinkedCubinSize, handle, &bytes, 0, 0, 0))
        return REAL(nvJitLinkGetLinkedCubin, handle, out, 0, 0, 0);
    nvjitlink_finish(j);
    memcpy(out, j->code, j->code->bytes);
    return 0;
}

/* The libraries of CUDA call it, too: it has no version. */
static __attribute__((used)) long jit_nvJitLinkVersion(long a, long b, long c, long d, long e, long f)
{
    mt_compiler_function *real = mt_compiler_find(&nvjitlink, "nvJitLinkVersion");
    return real ? real(a, b, c, d, e, f) : FAILED;
}

static __attribute__((used)) long jit___nvJitLinkAPI(long a, long b, long c, long d, long e, long f)
{
    mt_compiler_function *real = mt_compiler_find(&nvjitlink, "__nvJitLinkAPI");
    return real ? real(a, b, c, d, e, f) : FAILED;
}

/* ---- what programs call ---- */

#define PLAIN(name, f)                                                                                       \
    MT_COMPILER_NODE(13, name, "@@libnvJitLink.so.13", f) MT_COMPILER_NODE(12, name, "@libnvJitLink.so.12", f)
#define VERSION(major, minor, name, f)                                                                       \
    MT_COMPILER_NODE(major, __##name##_##major##_##minor, "@@libnvJitLink.so." #major, f)
#define NODES(name, f)                                                                                       \
    __asm__(PLAIN(name, f) VERSION(12, 0, name, f) VERSION(12, 1, name, f) VERSION(12, 2, name, f)           \
                VERSION(12, 3, name, f) VERSION(12, 4, name, f) VERSION(12, 5, name, f)                      \
                    VERSION(12, 6, name, f) VERSION(12, 7, name, f) VERSION(12, 8, name, f)                  \
                        VERSION(12, 9, name, f) VERSION(13, 0, name, f) VERSION(13, 1, name, f)              \
                            VERSION(13, 2, name, f) VERSION(13, 3, name, f) VERSION(13, 4, name, f)          \
                                VERSION(13, 5, name, f));
__asm__(PLAIN(nvJitLinkVersion, jit_nvJitLinkVersion) PLAIN(__nvJitLinkAPI, jit___nvJitLinkAPI));
#undef MT_NVJITLINK
#undef MT_NVJITLINK_OWN
#define MT_NVJITLINK(name)                                                                                   \
    static __attribute__((used)) long jit_##name(long a, long b, long c, long d, long e, long f)             \
    {                                                                                                        \
        return nvjitlink_real(AT_##name)(a, b, c, d, e, f);                                                  \
    }                                                                                                        \
    NODES(name, jit_##name)
#define MT_NVJITLINK_OWN(name) NODES(name, own_##name)
#include "nvjitlink.def"
