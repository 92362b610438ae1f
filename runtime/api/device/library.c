/* Libraries of device code loaded by the program itself, on the CPU device. */
#define _GNU_SOURCE
#include "device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "trace/devices.h"
#include "base/fork.h"
#include "base/report.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Loaded libraries. */
struct library {
    struct mt_module module; /* first, so that a library is its module */
    struct library *next;
    const void *code[]; /* copies owned by the library */
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_MODULES);
static struct library *libraries;

int mt_library_is(const struct mt_module *m)
{
    pthread_mutex_lock(&lock);
    const struct library *l = libraries;
    while (l && &l->module != m)
        l = l->next;
    pthread_mutex_unlock(&lock);
    return l != NULL;
}

static void library_free(struct library *l)
{
    for (size_t i = 0; l && i < l->module.nfatbins; i++)
        free((void *)(uintptr_t)l->code[i]);
    free(l);
}

/* Copies the code, which may be freed after the call. */
static struct library *library_new(const struct mt_device_code *code, size_t n)
{
    struct library *l = calloc(1, sizeof *l + n * sizeof *l->code);
    if (!l)
        return NULL;
    l->module.fatbins = l->code;
    for (size_t i = 0; i < n; i++) {
        char *copy = malloc(code[i].bytes + 1);
        if (!copy) {
            library_free(l);
            return NULL;
        }
        memcpy(copy, code[i].data, code[i].bytes);
        copy[code[i].bytes] = '\0'; /* PTX ends with NUL */
        l->code[l->module.nfatbins++] = copy;
    }
    l->module.state = MT_MODULE_LOADED;
    l->module.made.state = MT_MADE_SETTLED;
    l->module.foreign = 1;
    return l;
}

/* A kernel is known by the address of its row, as a registered one by that of its host stub. */
static void library_list_kernels(struct mt_module *m)
{
    for (const struct mt_image *i = m->image; i; i = i->peer)
        for (uint32_t k = 0; k < i->head->nkernels; k++) {
            const struct mt_image_kernel *kernel = &((const struct mt_image_kernel *)i->head->kernels)[k];
            __cudaRegisterFunction((void **)m, (const char *)kernel, NULL, kernel->name, -1, NULL, NULL, NULL,
                                   NULL, NULL);
        }
    for (const struct mt_made_kernel *k = NULL;
         m->later && (k = mt_made_kernel_next(m->later, m->later_end, k));)
        __cudaRegisterFunction((void **)m, mt_made_kernel_name(k), NULL, mt_made_kernel_name(k), -1, NULL,
                               NULL, NULL, NULL, NULL);
}

static enum mt_library_error library_load(struct mt_module **out, const struct mt_device_code *code, size_t n,
                                          char **why)
{
    const char *said = NULL;
    int text = 0;
    for (size_t i = 0; i < n; i++) {
        if (!code[i].bytes)
            return MT_LIBRARY_IMAGE;
        text |= memcmp(code[i].data, "\x50\xed\x55\xba", code[i].bytes < 4 ? code[i].bytes : 4) &&
                memcmp(code[i].data, "\177ELF", code[i].bytes < 4 ? code[i].bytes : 4);
    }
    struct library *l = library_new(code, n);
    if (!l)
        return MT_LIBRARY_MEMORY;
    struct mt_module *m = &l->module;
    struct mt_made_code *made =
        mt_image_carried(m->fatbins, n) ? NULL : mt_made_ask(m, mt_made_name(m), NULL, NULL);
    struct mt_image *image =
        made ? mt_made_load(made, NULL, NULL, &said) : mt_image_load_all(m->fatbins, n, NULL, &said);
    m->later = mt_made_kernels(made, &m->later_end);
    mt_made_free(made);
    if (!image) {
        mt_report("device code that the program loads cannot run on the CPU device: %s",
                  said ? said : "no memory");
        *why = said ? strdup(said) : NULL;
        library_free(l);
        return text ? MT_LIBRARY_PTX : MT_LIBRARY_NO_BINARY;
    }
    mt_module_bind(m, image, NULL);
    library_list_kernels(m);
    pthread_mutex_lock(&lock);
    l->next = libraries;
    libraries = l;
    pthread_mutex_unlock(&lock);
    *out = m;
    return MT_LIBRARY_OK;
}

/* Splits linked code into its fatbins. Returns 0 if it is damaged or out of memory. */
static size_t library_unlink(const struct mt_device_code *linked, struct mt_device_code **out)
{
    const char *begin = linked->data;
    size_t n = 0, at = sizeof(struct mt_linked_code);
    while (at + 16 < linked->bytes) {
        struct mt_device_code *grown = realloc(*out, (n + 1) * sizeof *grown);
        size_t bytes = mt_device_code_bytes(begin + at);
        if (!grown || bytes < 16 || bytes > linked->bytes - at)
            return 0;
        *out = grown;
        grown[n++] = (struct mt_device_code){begin + at, bytes};
        at = (at + bytes + 7) & ~(size_t)7;
    }
    return n;
}

enum mt_library_error mt_library_load(struct mt_module **out, const struct mt_device_code *code, size_t n,
                                      char **why)
{
    struct mt_device_code *parts = NULL;
    *why = NULL;
    if (n != 1 || code->bytes < sizeof(struct mt_linked_code) || strncmp(code->data, MT_LINKED_MAGIC, 8))
        return library_load(out, code, n, why);
    size_t nparts = library_unlink(code, &parts);
    enum mt_library_error e = nparts ? library_load(out, parts, nparts, why) : MT_LIBRARY_IMAGE;
    free(parts);
    return e;
}

/* The structure is kept: launched kernels refer to it. */
void mt_library_unload(struct mt_module *m)
{
    pthread_mutex_lock(&lock);
    struct library **at = &libraries;
    while (*at && &(*at)->module != m)
        at = &(*at)->next;
    int found = *at != NULL;
    if (found)
        *at = (*at)->next;
    pthread_mutex_unlock(&lock);
    if (!found)
        return;
    mt_module_forget(m);
    for (size_t i = 0; i < m->nfatbins; i++)
        free((void *)(uintptr_t)m->fatbins[i]);
    m->nfatbins = 0;
}

struct mt_function *mt_library_kernel(struct mt_module *m, const char *name)
{
    struct mt_function *f = m->functions;
    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    return f;
}

int mt_library_variable(struct mt_module *m, const char *name, void **address, size_t *bytes)
{
    struct mt_image *on = mt_module_image_on(m->image, mt_device_current());
    const struct mt_image_var *v = on ? mt_image_find_var(on, name) : NULL;
    if (!v)
        return 0;
    if (address)
        *address = (void *)(uintptr_t)v->address;
    if (bytes)
        *bytes = v->size;
    return 1;
}

/* Returns the number of kernels, and stores up to `room` of them. */
static unsigned library_kernels(struct mt_module *m, struct mt_function **out, unsigned room)
{
    unsigned n = 0;
    for (struct mt_function *f = m->functions; f; f = f->next, n++)
        if (n < room)
            out[n] = f;
    return n;
}

void *mt_library_file(const char *path, size_t *bytes)
{
    struct stat st;
    char *data = NULL;
    size_t at = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || !(data = malloc((size_t)st.st_size + 1)))
        goto out;
    while (at < (size_t)st.st_size) {
        ssize_t got = read(fd, data + at, (size_t)st.st_size - at);
        if (got <= 0)
            break;
        at += (size_t)got;
    }
    data[at] = '\0';
    *bytes = at;
out:
    if (fd >= 0)
        close(fd);
    return data;
}

/* ---- functions of the runtime API ---- */

#if CUDART_VERSION >= 12080
static cudaError_t library_result(enum mt_library_error e)
{
    static const cudaError_t errors[] = {cudaSuccess, cudaErrorMemoryAllocation, cudaErrorInvalidKernelImage,
                                         cudaErrorInvalidPtx, cudaErrorNoKernelImageForDevice};
    return e ? mt_fail(errors[e]) : cudaSuccess;
}

cudaError_t impl_cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jit,
                                     void **values, unsigned njit, enum cudaLibraryOption *options,
                                     void **option_values, unsigned n)
{
    struct mt_module *m;
    char *why = NULL;
    if (!library || !code)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = library_result(
        mt_library_load(&m, &(struct mt_device_code){code, mt_device_code_bytes(code)}, 1, &why));
    free(why);
    if (!e)
        *library = (cudaLibrary_t)m;
    return e;
}

cudaError_t impl_cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path, enum cudaJitOption *jit,
                                         void **values, unsigned njit, enum cudaLibraryOption *options,
                                         void **option_values, unsigned n)
{
    struct mt_module *m;
    char *why = NULL;
    size_t bytes = 0;
    if (!library || !path)
        return mt_fail(cudaErrorInvalidValue);
    void *data = mt_library_file(path, &bytes);
    if (!data)
        return mt_fail(errno == ENOENT ? cudaErrorFileNotFound : cudaErrorInvalidKernelImage);
    cudaError_t e = library_result(mt_library_load(&m, &(struct mt_device_code){data, bytes}, 1, &why));
    free(why);
    free(data);
    if (!e)
        *library = (cudaLibrary_t)m;
    return e;
}

cudaError_t impl_cudaLibraryUnload(cudaLibrary_t library)
{
    if (!mt_library_is((struct mt_module *)library))
        return mt_fail(cudaErrorInvalidResourceHandle);
    cudaError_t e = cudaDeviceSynchronize();
    mt_library_unload((struct mt_module *)library);
    return e;
}

cudaError_t impl_cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    if (!kernel || !name)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_library_is((struct mt_module *)library))
        return mt_fail(cudaErrorInvalidResourceHandle);
    struct mt_function *f = mt_library_kernel((struct mt_module *)library, name);
    if (!f)
        return mt_fail(cudaErrorSymbolNotFound);
    *kernel = mt_function_handle(f);
    return cudaSuccess;
}

static cudaError_t library_global(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
    if (!name || (!address && !bytes))
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_library_is((struct mt_module *)library))
        return mt_fail(cudaErrorInvalidResourceHandle);
    return mt_library_variable((struct mt_module *)library, name, address, bytes)
               ? cudaSuccess
               : mt_fail(cudaErrorSymbolNotFound);
}

cudaError_t impl_cudaLibraryGetGlobal(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
    return library_global(address, bytes, library, name);
}

cudaError_t impl_cudaLibraryGetManaged(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
    return library_global(address, bytes, library, name);
}

cudaError_t impl_cudaLibraryGetUnifiedFunction(void **function, cudaLibrary_t library, const char *symbol)
{
    return mt_fail(cudaErrorSymbolNotFound);
}

cudaError_t impl_cudaLibraryGetKernelCount(unsigned *count, cudaLibrary_t library)
{
    if (!count)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_library_is((struct mt_module *)library))
        return mt_fail(cudaErrorInvalidResourceHandle);
    *count = library_kernels((struct mt_module *)library, NULL, 0);
    return cudaSuccess;
}

cudaError_t impl_cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned room, cudaLibrary_t library)
{
    if (!kernels || !room)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_library_is((struct mt_module *)library))
        return mt_fail(cudaErrorInvalidResourceHandle);
    library_kernels((struct mt_module *)library, (struct mt_function **)kernels, room);
    return cudaSuccess;
}

cudaError_t impl_cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute a, int value,
                                                 int device)
{
    return device != 0 ? mt_fail(cudaErrorInvalidDevice) : cudaFuncSetAttribute(kernel, a, value);
}
#endif
