/* NVIDIA's libraries that link and compile device code at run time: cuLink* on the CPU device, and NVRTC and
 * nvJitLink, which libmemtrace.so intercepts. On a GPU only the real ones run. */
#define _GNU_SOURCE
#include "api/device/device.h"
#include "base/report.h"
#include "driver.h"
#include "base/attach.h"
#include "base/fork.h"
#include "trace/events.h"
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

typedef long compiler_function(long, long, long, long, long, long);

struct compiler {
    const char *place;         /* set by the auditor: path that the program would have used, or "" */
    const char *file;          /* "libnvrtc.so" */
    compiler_function *failed; /* called instead of a missing function */
    void *_Atomic real;        /* set once it is open */
    _Atomic int said;
};

/* Sets a folder of packages that may contain NVIDIA's, from the Python hook. */
__attribute__((visibility("default"))) void __mt_python_packages(const char *folder);

/* Exports one name under its node ("@" and "@@" as for .symver) for the function `f` of this file. */
#define COMPILER_NODE(major, name, node, f)                                                                  \
    ".globl v" #major "." #name "\n.type v" #major "." #name ", @function\n.set v" #major "." #name ", " #f  \
    "\n.symver v" #major "." #name ", " #name node "\n"

enum link_kind { MT_LINK_PTX, MT_LINK_CUBIN, MT_LINK_FATBIN };

/* Returns NULL for our own library, which may have the name. */
static void *compiler_is_real(void *h)
{
    if (h && dlsym(h, "__mt_host_site")) {
        dlclose(h);
        h = NULL;
    }
    return h;
}

/* A folder of Python packages that contains NVIDIA's, or "". Code that checks whether the library is loaded
 * finds ours, and does not load the one there. */
static char compiler_packages[PATH_MAX];

void __mt_python_packages(const char *folder)
{
    snprintf(compiler_packages, sizeof compiler_packages, "%s", folder);
}

static void *compiler_packaged(const char *file, int flags)
{
    char pattern[PATH_MAX + 80];
    glob_t found = {0};
    void *h = NULL;
    if (!*compiler_packages)
        return NULL;
    snprintf(pattern, sizeof pattern, "%s/nvidia/*/lib/%s", compiler_packages, file);
    if (glob(pattern, 0, NULL, &found) == 0)
        h = compiler_is_real(dlopen(found.gl_pathv[0], flags));
    globfree(&found);
    return h;
}

static void *compiler_real(struct compiler *c)
{
    const int flags = RTLD_NOW | RTLD_LOCAL;
    char file[64];
    if (!c->real && *c->place)
        c->real = compiler_is_real(dlopen(c->place, flags));
    for (int major = 13; major > 11 && !c->real; major--) { /* without the auditor */
        snprintf(file, sizeof file, "%s.%d", c->file, major);
        if (!(c->real = compiler_packaged(file, flags)) && !(c->real = compiler_is_real(dlopen(file, flags))))
            c->real = compiler_is_real(mt_device_toolkit(file, flags));
    }
    return c->real;
}

/* Returns a function of the real library, or NULL after one report. Hold no lock. */
static compiler_function *compiler_find(struct compiler *c, const char *name)
{
    void *real = compiler_real(c);
    compiler_function *f = real ? (compiler_function *)dlsym(real, name) : NULL;
    if (!f && !c->said++)
        mt_report("%s: %s%s", name,
                  real ? "not in the library in use: " : "not found: set LD_LIBRARY_PATH to the folder of ",
                  c->file);
    return f;
}

__attribute__((visibility("default"))) char __mt_attach_nvrtc[MT_ATTACH_PATH];
__attribute__((visibility("default"))) char __mt_attach_nvjitlink[MT_ATTACH_PATH];

static long nvrtc_no_string(long a, long b, long c, long d, long e, long f)
{
    return (long)(uintptr_t)"NVRTC_ERROR_INTERNAL_ERROR";
}

static long nvrtc_fail(long a, long b, long c, long d, long e, long f)
{
    return 11; /* NVRTC_ERROR_INTERNAL_ERROR */
}

static long nvjitlink_fail(long a, long b, long c, long d, long e, long f)
{
    return 6; /* NVJITLINK_ERROR_INTERNAL */
}

static struct compiler nvrtc = {__mt_attach_nvrtc, "libnvrtc.so", nvrtc_fail, NULL, 0};
static struct compiler nvjitlink = {__mt_attach_nvjitlink, "libnvJitLink.so", nvjitlink_fail, NULL, 0};

enum {
#define COMPILER(library, name) AT_##name,
#define COMPILER_OWN COMPILER
#include "compiler.def"
};

static struct {
    const char *name;
    struct compiler *of;
    compiler_function *_Atomic real;
} rows[] = {
#define COMPILER(library, name) {#name, &library, NULL},
#define COMPILER_OWN COMPILER
#include "compiler.def"
};

static compiler_function *compiler_row(unsigned at)
{
    if (!rows[at].real)
        rows[at].real = compiler_find(rows[at].of, rows[at].name);
    return rows[at].real                  ? rows[at].real
           : at == AT_nvrtcGetErrorString ? nvrtc_no_string
                                          : rows[at].of->failed;
}

/* Missing arguments are 0. */
#define REAL(name, ...) REAL_6(AT_##name, __VA_ARGS__, 0, 0, 0, 0, 0)
#define REAL_6(at, a, b, c, d, e, f, ...)                                                                    \
    (int)compiler_row(at)((long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* ---- cuLink* on the CPU device: several pieces of device code become one image when loaded. ---- */

/* Code wrapped in a fatbin of its own, so that several can follow each other. */
struct link_fatbin {
    uint32_t magic;
    uint16_t version, header_size; /* 1; size of these four fields */
    uint64_t size;                 /* size of what follows them */
    uint16_t kind, entry_version;  /* 1 PTX, 2 machine code; 0x101 */
    uint32_t entry_header_size;    /* from `kind` on */
    uint64_t entry_size;
    uint32_t unused[12];
    unsigned char code[];
};
_Static_assert(offsetof(struct link_fatbin, code) == 16 + 64, "no gaps");

/* Returns empty code, released by free(), or NULL if out of memory. */
static struct mt_linked_code *link_new(void)
{
    struct mt_linked_code *code = calloc(1, sizeof *code);
    if (code) {
        memcpy(code->magic, MT_LINKED_MAGIC, sizeof code->magic);
        code->bytes = sizeof *code;
    }
    return code;
}

/* Adds a copy of one piece; PTX need not end with NUL. Returns 0, or -1 if out of memory, with the code
 * unchanged. */
static int link_add(struct mt_linked_code **code, enum link_kind kind, const void *data, size_t bytes)
{
    int whole = kind == MT_LINK_FATBIN;
    size_t room = ((whole ? bytes : bytes + 1) + 7) & ~(size_t)7; /* PTX ends with NUL */
    size_t more = room + (whole ? 0 : sizeof(struct link_fatbin));
    struct mt_linked_code *grown = realloc(*code, (*code)->bytes + more);
    if (!grown)
        return -1;
    *code = grown;
    struct link_fatbin *f = (void *)((char *)grown + grown->bytes);
    memset(f, 0, more);
    grown->bytes += more;
    if (!whole)
        *f = (struct link_fatbin){.magic = 0xba55ed50u,
                                  .version = 1,
                                  .header_size = 16,
                                  .size = 64 + room,
                                  .kind = kind == MT_LINK_PTX ? 1 : 2,
                                  .entry_version = 0x101,
                                  .entry_header_size = 64,
                                  .entry_size = room};
    memcpy(whole ? (void *)f : f->code, data, bytes);
    return 0;
}

/* ---- cuLink* ---- */

struct CUlinkState_st {
    struct mt_linked_code *code;
    int machine; /* contains more than PTX */
    unsigned n;  /* the program's log options, valid until the end */
    CUjit_option *options;
    void **values;
};

CUresult drv_cuLinkCreate_v2(unsigned n, CUjit_option *options, void **values, CUlinkState *out)
{
    struct CUlinkState_st *s = out ? calloc(1, sizeof *s) : NULL;
    if (!s || !(s->code = link_new())) {
        free(s);
        return out ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    s->n = n;
    s->options = options;
    s->values = values;
    *out = s;
    return CUDA_SUCCESS;
}

/* Loads the code once, which is cached, to find errors at the same call as the real linker. */
static CUresult link_try(CUlinkState s, const struct mt_linked_code *code, int machine)
{
    struct mt_module *m = NULL;
    char *why = NULL;
    enum mt_library_error e = mt_library_load(&m, &(struct mt_device_code){code, code->bytes}, 1, &why);
    if (e) /* else the log buffer is left for later messages */
        mt_driver_log(s->n, s->options, s->values, why);
    free(why);
    if (e)
        return e == MT_LIBRARY_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY
               : machine              ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                      : CUDA_ERROR_INVALID_PTX;
    mt_library_unload(m);
    return CUDA_SUCCESS;
}

static CUresult link_take(CUlinkState s, CUjitInputType type, const void *data, size_t bytes)
{
    enum link_kind kind = type == CU_JIT_INPUT_PTX     ? MT_LINK_PTX
                          : type == CU_JIT_INPUT_CUBIN ? MT_LINK_CUBIN
                                                       : MT_LINK_FATBIN;
    /* Code with functions of other pieces can only be tried with them. */
    int whole = kind == MT_LINK_PTX && !memmem(data, bytes, ".extern", 7);
    struct mt_linked_code *alone = whole ? link_new() : NULL;
    CUresult e = CUDA_SUCCESS;
    if (alone && !link_add(&alone, kind, data, bytes))
        e = link_try(s, alone, 0);
    free(alone);
    if (e)
        return e;
    s->machine |= kind != MT_LINK_PTX;
    return link_add(&s->code, kind, data, bytes) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static int link_takes(CUjitInputType type)
{
    return type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_CUBIN || type == CU_JIT_INPUT_FATBINARY;
}

CUresult drv_cuLinkAddData_v2(CUlinkState s, CUjitInputType type, void *data, size_t bytes, const char *name,
                              unsigned n, CUjit_option *options, void **values)
{
    if (!s || !data || !bytes)
        return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!link_takes(type))
        return CUDA_ERROR_NOT_SUPPORTED;
    return link_take(s, type, data, type == CU_JIT_INPUT_PTX ? strnlen(data, bytes) : bytes);
}

CUresult drv_cuLinkAddFile_v2(CUlinkState s, CUjitInputType type, const char *path, unsigned n,
                              CUjit_option *options, void **values)
{
    size_t bytes = 0;
    if (!s || !path)
        return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!link_takes(type))
        return CUDA_ERROR_NOT_SUPPORTED;
    void *data = mt_library_file(path, &bytes);
    if (!data)
        return errno == ENOENT ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_IMAGE;
    CUresult e = link_take(s, type, data, bytes);
    free(data);
    return e;
}

CUresult drv_cuLinkComplete(CUlinkState s, void **out, size_t *bytes)
{
    if (!s || !out)
        return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (s->code->bytes == sizeof *s->code)
        return CUDA_ERROR_INVALID_IMAGE;
    CUresult e = link_try(s, s->code, s->machine);
    if (e)
        return e;
    *out = s->code;
    if (bytes)
        *bytes = s->code->bytes;
    return CUDA_SUCCESS;
}

CUresult drv_cuLinkDestroy(CUlinkState s)
{
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    free(s->code);
    free(s);
    return CUDA_SUCCESS;
}

/* nvJitLink, intercepted: on the CPU device a program that links device code to machine code gets the PTX of
 * its parts in one piece, which becomes one image when loaded. LTO-IR is converted to PTX by the real
 * library. On a GPU only the real one runs. */

enum { IN_CUBIN = 1, IN_PTX, IN_LTOIR, IN_FATBIN, IN_OBJECT, IN_LIBRARY, IN_INDEX, IN_ANY = 10 };
/* ---- inputs ---- */

struct job {
    struct job *next;
    void *handle, *lto; /* real handles: the program's; another that makes PTX of LTO-IR, or NULL */
    struct mt_linked_code *code;
    char arch[32];
    int unknown; /* contains code that cannot run here; loading the real machine code will report it */
};
static pthread_mutex_t nvjitlink_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(nvjitlink_lock, MT_FORK_LEAVES);
static struct job *jobs;

/* Returns the job of a handle, or NULL if there is none, as on a GPU. A handle belongs to one thread at a
 * time. */
static struct job *nvjitlink_job(const void *handle)
{
    pthread_mutex_lock(&nvjitlink_lock);
    struct job *j = jobs;
    while (j && j->handle != handle)
        j = j->next;
    pthread_mutex_unlock(&nvjitlink_lock);
    return j;
}

static __attribute__((used)) long own_nvJitLinkCreate(void **out, uint32_t n, const char **options)
{
    int rc = REAL(nvJitLinkCreate, out, n, options);
    struct job *j = rc || mt_device_is_gpu() ? NULL : calloc(1, sizeof *j);
    if (!j || !(j->code = link_new())) {
        free(j);
        return rc;
    }
    j->handle = *out;
    for (uint32_t i = 0; i < n; i++)
        if (!strncmp(options[i], "-arch=", 6))
            snprintf(j->arch, sizeof j->arch, "%s", options[i]);
    pthread_mutex_lock(&nvjitlink_lock);
    j->next = jobs;
    jobs = j;
    pthread_mutex_unlock(&nvjitlink_lock);
    return rc;
}

static __attribute__((used)) long own_nvJitLinkDestroy(void **handle)
{
    pthread_mutex_lock(&nvjitlink_lock);
    struct job **at = &jobs, *j;
    while (*at && !(handle && (*at)->handle == *handle))
        at = &(*at)->next;
    j = *at;
    if (j)
        *at = j->next;
    pthread_mutex_unlock(&nvjitlink_lock);
    if (j && j->lto)
        (void)REAL(nvJitLinkDestroy, &j->lto);
    if (j)
        free(j->code);
    free(j);
    return REAL(nvJitLinkDestroy, handle);
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
    if (!j->lto && REAL(nvJitLinkCreate, &j->lto, 3, options))
        return -1;
    return REAL(nvJitLinkAddData, j->lto, IN_LTOIR, data, bytes, name) ? -1 : 0;
}

static void nvjitlink_add(struct job *j, int type, const void *data, size_t bytes, const char *name)
{
    switch (nvjitlink_kind(type, data, bytes)) {
    case IN_PTX:
        j->unknown |= link_add(&j->code, MT_LINK_PTX, data, strnlen(data, bytes));
        break;
    case IN_CUBIN:
        j->unknown |= link_add(&j->code, MT_LINK_CUBIN, data, bytes);
        break;
    case IN_FATBIN:
        j->unknown |= link_add(&j->code, MT_LINK_FATBIN, data, bytes);
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
    int rc = REAL(nvJitLinkAddFile, handle, type, path);
    struct job *j = rc ? NULL : nvjitlink_job(handle);
    void *data = j ? mt_library_file(path, &bytes) : NULL;
    if (data)
        nvjitlink_add(j, type, data, bytes, path);
    else if (j)
        j->unknown = 1;
    free(data);
    return rc;
}

/* ---- results ---- */

/* Adds the PTX of LTO-IR to the parts. */
static void nvjitlink_finish(struct job *j)
{
    size_t bytes = 0;
    char *ptx = NULL;
    if (!j->lto)
        return;
    if (REAL(nvJitLinkComplete, j->lto) || REAL(nvJitLinkGetLinkedPtxSize, j->lto, &bytes) ||
        !(ptx = malloc(bytes + 1)) || REAL(nvJitLinkGetLinkedPtx, j->lto, ptx) ||
        link_add(&j->code, MT_LINK_PTX, ptx, strnlen(ptx, bytes)))
        j->unknown = 1;
    free(ptx);
    (void)REAL(nvJitLinkDestroy, &j->lto);
    j->lto = NULL;
}

/* The real library's answer decides about errors of the call. */
static __attribute__((used)) long own_nvJitLinkGetLinkedCubinSize(void *handle, size_t *out)
{
    int rc = REAL(nvJitLinkGetLinkedCubinSize, handle, out);
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
    if (!j || j->unknown || !out || REAL(nvJitLinkGetLinkedCubinSize, handle, &bytes))
        return REAL(nvJitLinkGetLinkedCubin, handle, out);
    nvjitlink_finish(j);
    memcpy(out, j->code, j->code->bytes);
    return 0;
}

/* NVRTC, intercepted: on the CPU device a program that compiles for sm_90 gets PTX in place of machine code,
 * accesses have lines, and texts without a file are kept beside the trace. On a GPU only the real one runs.
 */

/* ---- programs and their texts ---- */

struct text {
    char *path, *name; /* name in `.file`; name it is kept under */
    char *bytes;
};
struct program {
    struct program *next;
    void *handle;
    struct text *texts;
    unsigned n;
    char *ptx; /* PTX for the program, with NUL */
    size_t size;
};
static pthread_mutex_t nvrtc_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(nvrtc_lock, MT_FORK_LEAVES);
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

/* Adds a text. NVRTC puts the working folder before names that are not in the file system. */
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

/* Called with nvrtc_lock held. */
static struct program **nvrtc_at(const void *handle)
{
    struct program **at = &programs;
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

static void nvrtc_forget(const void *handle)
{
    pthread_mutex_lock(&nvrtc_lock);
    struct program **at = nvrtc_at(handle), *p = *at;
    if (p)
        *at = p->next;
    pthread_mutex_unlock(&nvrtc_lock);
    nvrtc_free(p);
}

static __attribute__((used)) long own_nvrtcCreateProgram(void **out, const char *text, const char *name,
                                                         int n, const char *const *headers,
                                                         const char *const *names)
{
    int rc = REAL(nvrtcCreateProgram, out, text, name, n, headers, names);
    struct program *p = rc || !mt_tracing() ? NULL : nvrtc_new(*out, text, name, n, headers, names);
    if (p) {
        pthread_mutex_lock(&nvrtc_lock);
        p->next = programs;
        programs = p;
        pthread_mutex_unlock(&nvrtc_lock);
    }
    return rc;
}

static __attribute__((used)) long own_nvrtcDestroyProgram(void **handle)
{
    if (handle)
        nvrtc_forget(*handle);
    return REAL(nvrtcDestroyProgram, handle);
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
        return REAL(nvrtcCompileProgram, handle, n, options);
    if (n)
        memcpy(more, options, (size_t)n * sizeof *more);
    more[n] = "-lineinfo";
    int rc = REAL(nvrtcCompileProgram, handle, n + 1, more);
    free(more);
    return rc;
}

static __attribute__((used)) long own_nvrtcCompileProgram(void *handle, int n, const char *const *options)
{
    pthread_mutex_lock(&nvrtc_lock);
    struct program *p = *nvrtc_at(handle);
    if (p) {
        free(p->ptx);
        p->ptx = NULL;
    }
    pthread_mutex_unlock(&nvrtc_lock);
    if (!mt_tracing() || n < 0 || (n && !options) || nvrtc_has_lines(n, options) || mt_device_is_gpu())
        return REAL(nvrtcCompileProgram, handle, n, options);
    return nvrtc_with_lines(handle, n, options);
}

/* ---- the code ---- */

/* Returns the text named by the rest of a `.file` line, or NULL; *end is after the closing quote. */
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

/* Makes the program's PTX, with the names under which texts are kept. */
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

/* Returns the program's PTX, from malloc, with its size, or NULL with the error in *rc. */
static char *nvrtc_ptx(void *handle, size_t *size, int *rc)
{
    char *ptx = NULL;
    *rc = REAL(nvrtcGetPTXSize, handle, size);
    if (*rc || !(ptx = malloc(*size + 1)))
        return NULL;
    *rc = REAL(nvrtcGetPTX, handle, ptx);
    ptx[*size] = 0;
    if (*rc) {
        free(ptx);
        return NULL;
    }
    pthread_mutex_lock(&nvrtc_lock);
    struct program *p = *nvrtc_at(handle);
    if (p && p->n && !p->ptx)
        nvrtc_rename(p, ptx);
    char *copy = p && p->ptx ? malloc(p->size) : NULL;
    if (copy) {
        *size = p->size;
        memcpy(copy, p->ptx, p->size);
    }
    pthread_mutex_unlock(&nvrtc_lock);
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
        return REAL(nvrtcGetPTXSize, handle, out);
    return nvrtc_size(handle, out);
}

static __attribute__((used)) long own_nvrtcGetPTX(void *handle, char *out)
{
    if (!handle || !out || mt_device_is_gpu())
        return REAL(nvrtcGetPTX, handle, out);
    return nvrtc_code(handle, out);
}

/* Returns whether the result is machine code for a GPU, which is useless here; its loaders accept PTX as
 * well. */
static int nvrtc_is_machine_code(void *handle)
{
    size_t size = 0;
    return !mt_device_is_gpu() && REAL(nvrtcGetCUBINSize, handle, &size) == 0 && size > 0;
}

static __attribute__((used)) long own_nvrtcGetCUBINSize(void *handle, size_t *out)
{
    if (!handle || !out || !nvrtc_is_machine_code(handle))
        return REAL(nvrtcGetCUBINSize, handle, out);
    return nvrtc_size(handle, out);
}

static __attribute__((used)) long own_nvrtcGetCUBIN(void *handle, char *out)
{
    if (!handle || !out || !nvrtc_is_machine_code(handle))
        return REAL(nvrtcGetCUBIN, handle, out);
    return nvrtc_code(handle, out);
}

/* ---- functions called by programs ---- */

/* CUDA's own libraries call it, too: it has no version. */
static __attribute__((used)) long jit_nvJitLinkVersion(long a, long b, long c, long d, long e, long f)
{
    compiler_function *real = compiler_find(&nvjitlink, "nvJitLinkVersion");
    return real ? real(a, b, c, d, e, f) : nvjitlink_fail(a, b, c, d, e, f);
}

static __attribute__((used)) long jit___nvJitLinkAPI(long a, long b, long c, long d, long e, long f)
{
    compiler_function *real = compiler_find(&nvjitlink, "__nvJitLinkAPI");
    return real ? real(a, b, c, d, e, f) : nvjitlink_fail(a, b, c, d, e, f);
}

#define PLAIN(name, f)                                                                                       \
    COMPILER_NODE(13, name, "@@libnvJitLink.so.13", f) COMPILER_NODE(12, name, "@libnvJitLink.so.12", f)
#define VERSION(major, minor, name, f)                                                                       \
    COMPILER_NODE(major, __##name##_##major##_##minor, "@@libnvJitLink.so." #major, f)
#define nvjitlink_NODES(name, f)                                                                             \
    __asm__(PLAIN(name, f) VERSION(12, 0, name, f) VERSION(12, 1, name, f) VERSION(12, 2, name, f)           \
                VERSION(12, 3, name, f) VERSION(12, 4, name, f) VERSION(12, 5, name, f)                      \
                    VERSION(12, 6, name, f) VERSION(12, 7, name, f) VERSION(12, 8, name, f)                  \
                        VERSION(12, 9, name, f) VERSION(13, 0, name, f) VERSION(13, 1, name, f)              \
                            VERSION(13, 2, name, f) VERSION(13, 3, name, f) VERSION(13, 4, name, f)          \
                                VERSION(13, 5, name, f));
__asm__(PLAIN(nvJitLinkVersion, jit_nvJitLinkVersion) PLAIN(__nvJitLinkAPI, jit___nvJitLinkAPI));
#define nvrtc_NODES(name, f)                                                                                 \
    __asm__(COMPILER_NODE(13, name, "@@libnvrtc.so.13", f) COMPILER_NODE(12, name, "@libnvrtc.so.12", f)     \
                COMPILER_NODE(11, name, "@libnvrtc.so.11.2", f));
#define COMPILER(library, name)                                                                              \
    static __attribute__((used)) long real_##name(long a, long b, long c, long d, long e, long f)            \
    {                                                                                                        \
        return compiler_row(AT_##name)(a, b, c, d, e, f);                                                    \
    }                                                                                                        \
    library##_NODES(name, real_##name)
#define COMPILER_OWN(library, name) library##_NODES(name, own_##name)
#include "compiler.def"
