/* NVRTC before the real one: on the CPU device a program that compiles for sm_90 gets PTX where machine code
 * would be, accesses have lines, and texts that are in no file are kept beside the trace. On a GPU the real
 * one alone runs. */
#define _GNU_SOURCE
#include "compiler.h"
#include "base/attach.h"
#include "api/device/device.h"
#include "base/fork.h"
#include "trace/events.h"
#include "trace/sources.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define FAILED 11 /* NVRTC_ERROR_INTERNAL_ERROR */

enum {
#define MT_NVRTC(name) AT_##name,
#define MT_NVRTC_OWN(name) AT_##name,
#include "nvrtc.def"
};

static struct {
    const char *name;
    mt_compiler_function *_Atomic real;
} rows[] = {
#undef MT_NVRTC
#undef MT_NVRTC_OWN
#define MT_NVRTC(name) {#name, NULL},
#define MT_NVRTC_OWN(name) {#name, NULL},
#include "nvrtc.def"
};

__attribute__((visibility("default"))) char __mt_attach_nvrtc[MT_ATTACH_PATH];
static struct mt_compiler nvrtc = {.place = __mt_attach_nvrtc, .file = "libnvrtc.so", .majors = {13, 12}};

static long nvrtc_no_string(long a, long b, long c, long d, long e, long f)
{
    return (long)(uintptr_t)"NVRTC_ERROR_INTERNAL_ERROR";
}

static long nvrtc_fail(long a, long b, long c, long d, long e, long f)
{
    return FAILED;
}

static mt_compiler_function *nvrtc_real(unsigned at)
{
    if (!rows[at].real)
        rows[at].real = mt_compiler_find(&nvrtc, rows[at].name);
    return rows[at].real ? rows[at].real : at == AT_nvrtcGetErrorString ? nvrtc_no_string : nvrtc_fail;
}

#define REAL(name, a, b, c, d, e, f)                                                                         \
    (int)nvrtc_real(AT_##name)((long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* ---- programs and their texts ---- */

struct text {
    char *path, *name; /* as `.file` has it; as it is kept */
    char *bytes;
};
struct program {
    struct program *next;
    void *handle;
    struct text *texts;
    unsigned n;
    char *ptx; /* what the program gets; with NUL */
    size_t size;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
static struct program *programs;

static void nvrtc_free(struct program *p)
{
    for (unsigned i = 0; p && i < p->n; i++) {
        free(p->texts[i].path);
        free(p->texts[i].name);
        free(p->texts[i].bytes);
    }
    if (p) {
        free(p->texts);
        free(p->ptx);
    }
    free(p);
}

/* NVRTC puts the working folder before names that are none of the file system's. */
static void nvrtc_add_text(struct program *p, const char *folder, const char *name, const char *text)
{
    struct text *t = &p->texts[p->n];
    const char *dot = strrchr(name, '.');
    if (!text || access(name, F_OK) == 0 ||
        asprintf(&t->path, "%s%s%s", *name == '/' ? "" : folder, *name == '/' ? "" : "/", name) < 0)
        return;
    if (asprintf(&t->name, "MemTrace-%016llx.%s", (unsigned long long)XXH3_64bits(text, strlen(text)),
                 dot && strcmp(dot, ".h") == 0 ? "h" : "cu") < 0) {
        free(t->path);
        return;
    }
    t->bytes = strdup(text);
    p->n++;
}

static struct program *nvrtc_new(void *handle, const char *text, const char *name, int n,
                                 const char *const *headers, const char *const *names)
{
    struct program *p = calloc(1, sizeof *p);
    char *folder = getcwd(NULL, 0);
    n = n > 0 && headers && names ? n : 0;
    if (p && folder && (p->texts = calloc((size_t)n + 1, sizeof *p->texts))) {
        p->handle = handle;
        nvrtc_add_text(p, folder, name ? name : "default_program", text);
        for (int i = 0; i < n; i++)
            if (names[i])
                nvrtc_add_text(p, folder, names[i], headers[i]);
    }
    free(folder);
    return p;
}

/* With the lock. */
static struct program **nvrtc_at(const void *handle)
{
    struct program **at = &programs;
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

static void nvrtc_forget(const void *handle)
{
    pthread_mutex_lock(&lock);
    struct program **at = nvrtc_at(handle), *p = *at;
    if (p)
        *at = p->next;
    pthread_mutex_unlock(&lock);
    nvrtc_free(p);
}

static __attribute__((used)) long own_nvrtcCreateProgram(void **out, const char *text, const char *name,
                                                         int n, const char *const *headers,
                                                         const char *const *names)
{
    int rc = REAL(nvrtcCreateProgram, out, text, name, n, headers, names);
    struct program *p = rc || !mt_tracing() ? NULL : nvrtc_new(*out, text, name, n, headers, names);
    if (p) {
        pthread_mutex_lock(&lock);
        p->next = programs;
        programs = p;
        pthread_mutex_unlock(&lock);
    }
    return rc;
}

static __attribute__((used)) long own_nvrtcDestroyProgram(void **handle)
{
    if (handle)
        nvrtc_forget(*handle);
    return REAL(nvrtcDestroyProgram, handle, 0, 0, 0, 0, 0);
}

/* ---- lines ---- */

static int nvrtc_has_lines(int n, const char *const *options)
{
    static const char *const known[] = {"-lineinfo", "--generate-line-info", "-G", "--device-debug"};
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (options[i] && strcmp(options[i], known[k]) == 0)
                return 1;
    return 0;
}

static int nvrtc_with_lines(void *handle, int n, const char *const *options)
{
    const char **more = malloc(((size_t)n + 1) * sizeof *more);
    if (!more)
        return REAL(nvrtcCompileProgram, handle, n, options, 0, 0, 0);
    if (n)
        memcpy(more, options, (size_t)n * sizeof *more);
    more[n] = "-lineinfo";
    int rc = REAL(nvrtcCompileProgram, handle, n + 1, more, 0, 0, 0);
    free(more);
    return rc;
}

static __attribute__((used)) long own_nvrtcCompileProgram(void *handle, int n, const char *const *options)
{
    pthread_mutex_lock(&lock);
    struct program *p = *nvrtc_at(handle);
    if (p) {
        free(p->ptx);
        p->ptx = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (!mt_tracing() || n < 0 || (n && !options) || nvrtc_has_lines(n, options) || mt_device_is_gpu())
        return REAL(nvrtcCompileProgram, handle, n, options, 0, 0, 0);
    return nvrtc_with_lines(handle, n, options);
}

/* ---- the code ---- */

/* The text that the rest of a `.file` line names, or NULL; *end is behind the closing quote. */
static const struct text *nvrtc_named(const struct program *p, const char *at, const char **end)
{
    char name[4096];
    size_t n = 0;
    at += strspn(at, " \t0123456789");
    if (*at++ != '"')
        return NULL;
    for (; *at && *at != '"' && *at != '\n' && n < sizeof name - 1; at++) {
        at += *at == '\\' && at[1];
        name[n++] = *at;
    }
    name[n] = 0;
    *end = at + 1;
    for (unsigned i = 0; *at == '"' && i < p->n; i++)
        if (strcmp(p->texts[i].path, name) == 0)
            return &p->texts[i];
    return NULL;
}

/* The PTX with the names of the texts that are kept. */
static void nvrtc_rename(struct program *p, const char *ptx)
{
    FILE *f = open_memstream(&p->ptx, &p->size);
    if (!f)
        return;
    for (const char *at = ptx, *next; *at; at = next) {
        const char *lf = strchr(at, '\n'), *word = at + strspn(at, " \t"), *end;
        next = lf ? lf + 1 : at + strlen(at);
        const struct text *t = strncmp(word, ".file", 5) == 0 ? nvrtc_named(p, word + 5, &end) : NULL;
        if (!t) {
            fwrite(at, 1, (size_t)(next - at), f);
            continue;
        }
        mt_source_keep(t->name, t->bytes, strlen(t->bytes));
        fprintf(f, "%.*s\"%s\"%.*s", (int)(strchr(at, '"') - at), at, t->name, (int)(next - end), end);
    }
    if (fclose(f) == 0)
        p->size++;
}

/* The program's PTX, malloc'ed, with its size; NULL with the error in *rc. */
static char *nvrtc_ptx(void *handle, size_t *size, int *rc)
{
    char *ptx = NULL;
    *rc = REAL(nvrtcGetPTXSize, handle, size, 0, 0, 0, 0);
    if (*rc || !(ptx = malloc(*size + 1)))
        return NULL;
    *rc = REAL(nvrtcGetPTX, handle, ptx, 0, 0, 0, 0);
    ptx[*size] = 0;
    if (*rc) {
        free(ptx);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    struct program *p = *nvrtc_at(handle);
    if (p && p->n && !p->ptx)
        nvrtc_rename(p, ptx);
    char *copy = p && p->ptx ? malloc(p->size) : NULL;
    if (copy) {
        *size = p->size;
        memcpy(copy, p->ptx, p->size);
    }
    pthread_mutex_unlock(&lock);
    if (!copy)
        return ptx;
    free(ptx);
    return copy;
}

static long nvrtc_size(void *handle, size_t *out)
{
    int rc;
    size_t size = 0;
    char *ptx = nvrtc_ptx(handle, &size, &rc);
    if (ptx && out)
        *out = size;
    free(ptx);
    return rc ? rc : ptx ? 0 : 1; /* NVRTC_ERROR_OUT_OF_MEMORY */
}

static long nvrtc_code(void *handle, char *out)
{
    int rc;
    size_t size = 0;
    char *ptx = nvrtc_ptx(handle, &size, &rc);
    if (ptx && out)
        memcpy(out, ptx, size);
    free(ptx);
    return rc ? rc : ptx ? 0 : 1;
}

static __attribute__((used)) long own_nvrtcGetPTXSize(void *handle, size_t *out)
{
    if (!handle || !out || mt_device_is_gpu())
        return REAL(nvrtcGetPTXSize, handle, out, 0, 0, 0, 0);
    return nvrtc_size(handle, out);
}

static __attribute__((used)) long own_nvrtcGetPTX(void *handle, char *out)
{
    if (!handle || !out || mt_device_is_gpu())
        return REAL(nvrtcGetPTX, handle, out, 0, 0, 0, 0);
    return nvrtc_code(handle, out);
}

/* A GPU's machine code is of no use here; what loads it takes PTX as well. */
static int nvrtc_is_machine_code(void *handle)
{
    size_t size = 0;
    return !mt_device_is_gpu() && REAL(nvrtcGetCUBINSize, handle, &size, 0, 0, 0, 0) == 0 && size > 0;
}

static __attribute__((used)) long own_nvrtcGetCUBINSize(void *handle, size_t *out)
{
    if (!handle || !out || !nvrtc_is_machine_code(handle))
        return REAL(nvrtcGetCUBINSize, handle, out, 0, 0, 0, 0);
    return nvrtc_size(handle, out);
}

static __attribute__((used)) long own_nvrtcGetCUBIN(void *handle, char *out)
{
    if (!handle || !out || !nvrtc_is_machine_code(handle))
        return REAL(nvrtcGetCUBIN, handle, out, 0, 0, 0, 0);
    return nvrtc_code(handle, out);
}

/* ---- what programs call ---- */

#define NODES(name, f)                                                                                       \
    __asm__(MT_COMPILER_NODE(13, name, "@@libnvrtc.so.13", f) MT_COMPILER_NODE(                              \
        12, name, "@libnvrtc.so.12", f) MT_COMPILER_NODE(11, name, "@libnvrtc.so.11.2", f));
#undef MT_NVRTC
#undef MT_NVRTC_OWN
#define MT_NVRTC(name)                                                                                       \
    static __attribute__((used)) long rtc_##name(long a, long b, long c, long d, long e, long f)             \
    {                                                                                                        \
        return nvrtc_real(AT_##name)(a, b, c, d, e, f);                                                      \
    }                                                                                                        \
    NODES(name, rtc_##name)
#define MT_NVRTC_OWN(name) NODES(name, own_##name)
#include "nvrtc.def"
