/* Modules that the driver loads on a GPU: where there is PTX, the real driver gets it with record calls, and
 * the functions that come out of it are known with both versions. Where it cannot be made, or the driver does
 * not take it, the program's own code goes there, and its launches are counted (counted.c). */
#include "driver.h"
#include "api/device.h"
#include "api/library.h"
#include "api/made.h"
#include "api/make.h"
#include "api/map.h"
#include "base/fork.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAL(name) ((__typeof__(&name))mt_driver_real(MT_D_##name))
#define WRAPPER 0x466243b1 /* the first word of what cuModuleLoadFatBinary may get */

struct traced {
    struct mt_module module;
    struct mt_made_code *code;
    const void *given[1];
};
static struct mt_map loaded = MT_MAP_INIT; /* by the handles of modules and libraries */
MT_FORK_TABLE(loaded);

/* The tables of the code, and the code with record calls; NULL: it is to go to the driver as it is. */
static struct traced *traced_new(const void *image)
{
    struct traced *t = image ? calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    struct mt_module *m = &t->module;
    memcpy(&t->given[0], &image, sizeof image);
    if (*(const int *)image == WRAPPER)
        memcpy(&t->given[0], (const char *)image + 8, sizeof image);
    m->fatbins = t->given;
    m->nfatbins = mt_device_code_bytes(t->given[0]) ? 1 : 0;
    m->ended = m->tried = m->loaded = m->lazy.made = 1;
    m->image = m->nfatbins ? mt_module_for_gpu(m, &t->code, &m->why) : NULL;
    m->nfatbins = 0;
    if (!m->image) {
        free(t);
        return NULL;
    }
    mt_module_bind(m, m->image, NULL);
    return t;
}

static const void *traced_fatbin(struct traced *t)
{
    return t ? mt_made_fatbin(t->code) : NULL;
}

/* The driver has taken it: *handle is its name there. Or not: nothing of it stays. */
static int traced_keep(struct traced *t, CUresult e, const void *handle)
{
    if (!t)
        return 0;
    if (!e && !mt_map_set(&loaded, handle, t))
        return 1;
    mt_made_free(t->code); /* the image stays loaded: its tables are known */
    free(t);
    return 0;
}

/* ---- functions ---- */

static void traced_know(struct traced *t, CUfunction plain, CUfunction with, const char *name)
{
    if (mt_function_find(plain))
        return;
    __cudaRegisterFunction((void **)&t->module, (const char *)plain, NULL, name, -1, NULL, NULL, NULL, NULL,
                           NULL);
    struct mt_function *f = mt_function_find(plain);
    if (f && with) {
        f->of_driver = with;
        mt_function_alias(&f->traced_key, f);
        mt_function_alias(with, f);
        f->has_traced = 1;
    }
}

static char *traced_name(const char *name)
{
    size_t n = strlen(name) + sizeof MT_TRACED_SUFFIX;
    char *with = malloc(n);
    if (with)
        snprintf(with, n, "%s%s", name, MT_TRACED_SUFFIX);
    return with;
}

CUresult GPU(cuModuleGetFunction)(CUfunction *f, CUmodule module, const char *name)
{
    CUresult e = REAL(cuModuleGetFunction)(f, module, name);
    struct traced *t = e ? NULL : mt_map_get(&loaded, module);
    char *with = t ? traced_name(name) : NULL;
    CUfunction other = NULL;
    if (with && REAL(cuModuleGetFunction)(&other, module, with))
        other = NULL;
    if (t)
        traced_know(t, *f, other, name);
    free(with);
    return e;
}

/* What a program sets for the one is for both. */
static CUfunction traced_other(CUfunction f)
{
    struct mt_function *known = mt_function_find(f);
    return known ? (CUfunction)known->of_driver : NULL;
}

CUresult GPU(cuFuncSetAttribute)(CUfunction f, CUfunction_attribute attribute, int value)
{
    CUresult e = REAL(cuFuncSetAttribute)(f, attribute, value);
    CUfunction other = e ? NULL : traced_other(f);
    if (other)
        REAL(cuFuncSetAttribute)(other, attribute, value);
    return e;
}

CUresult GPU(cuFuncSetCacheConfig)(CUfunction f, CUfunc_cache config)
{
    CUresult e = REAL(cuFuncSetCacheConfig)(f, config);
    CUfunction other = e ? NULL : traced_other(f);
    if (other)
        REAL(cuFuncSetCacheConfig)(other, config);
    return e;
}

/* ---- modules ---- */

CUresult GPU(cuModuleLoadData)(CUmodule *module, const void *image)
{
    struct traced *t = module ? traced_new(image) : NULL;
    CUresult e = t ? REAL(cuModuleLoadData)(module, traced_fatbin(t)) : CUDA_ERROR_UNKNOWN;
    return traced_keep(t, e, e ? NULL : *module) ? e : REAL(cuModuleLoadData)(module, image);
}

CUresult GPU(cuModuleLoadDataEx)(CUmodule *module, const void *image, unsigned n, CUjit_option *options,
                                 void **values)
{
    struct traced *t = module ? traced_new(image) : NULL;
    CUresult e =
        t ? REAL(cuModuleLoadDataEx)(module, traced_fatbin(t), n, options, values) : CUDA_ERROR_UNKNOWN;
    return traced_keep(t, e, e ? NULL : *module)
               ? e
               : REAL(cuModuleLoadDataEx)(module, image, n, options, values);
}

CUresult GPU(cuModuleLoadFatBinary)(CUmodule *module, const void *image)
{
    struct traced *t = module ? traced_new(image) : NULL;
    CUresult e = t ? REAL(cuModuleLoadData)(module, traced_fatbin(t)) : CUDA_ERROR_UNKNOWN;
    return traced_keep(t, e, e ? NULL : *module) ? e : REAL(cuModuleLoadFatBinary)(module, image);
}

CUresult GPU(cuModuleLoad)(CUmodule *module, const char *path)
{
    size_t bytes;
    void *data = module && path ? mt_library_file(path, &bytes) : NULL;
    struct traced *t = data ? traced_new(data) : NULL;
    CUresult e = t ? REAL(cuModuleLoadData)(module, traced_fatbin(t)) : CUDA_ERROR_UNKNOWN;
    int kept = traced_keep(t, e, e ? NULL : *module);
    free(data);
    return kept ? e : REAL(cuModuleLoad)(module, path);
}

CUresult GPU(cuModuleUnload)(CUmodule module)
{
    CUresult e = REAL(cuModuleUnload)(module);
    struct traced *t = e ? NULL : mt_map_take(&loaded, module);
    if (t)
        mt_module_forget(&t->module); /* the structure stays: launches refer to it */
    return e;
}

#if CUDA_VERSION >= 12000
/* ---- libraries ---- */

CUresult GPU(cuLibraryLoadData)(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values,
                                unsigned njit, CUlibraryOption *options, void **values, unsigned n)
{
    struct traced *t = library ? traced_new(code) : NULL;
    CUresult e =
        t ? REAL(cuLibraryLoadData)(library, traced_fatbin(t), jit, jit_values, njit, options, values, n)
          : CUDA_ERROR_UNKNOWN;
    return traced_keep(t, e, e ? NULL : *library)
               ? e
               : REAL(cuLibraryLoadData)(library, code, jit, jit_values, njit, options, values, n);
}

CUresult GPU(cuLibraryGetKernel)(CUkernel *kernel, CUlibrary library, const char *name)
{
    CUresult e = REAL(cuLibraryGetKernel)(kernel, library, name);
    struct traced *t = e ? NULL : mt_map_get(&loaded, library);
    char *with = t ? traced_name(name) : NULL;
    CUkernel other = NULL;
    CUfunction function = NULL;
    if (with && !REAL(cuLibraryGetKernel)(&other, library, with) &&
        REAL(cuKernelGetFunction)(&function, other))
        function = NULL;
    if (t)
        traced_know(t, (CUfunction)*kernel, function, name);
    free(with);
    return e;
}

CUresult GPU(cuKernelGetFunction)(CUfunction *f, CUkernel kernel)
{
    CUresult e = REAL(cuKernelGetFunction)(f, kernel);
    struct mt_function *known = e ? NULL : mt_function_find(kernel);
    if (known)
        mt_function_alias(*f, known);
    return e;
}

CUresult GPU(cuLibraryGetModule)(CUmodule *module, CUlibrary library)
{
    CUresult e = REAL(cuLibraryGetModule)(module, library);
    struct traced *t = e ? NULL : mt_map_get(&loaded, library);
    if (t)
        mt_map_set(&loaded, *module, t);
    return e;
}

CUresult GPU(cuKernelSetAttribute)(CUfunction_attribute attribute, int value, CUkernel kernel,
                                   CUdevice device)
{
    CUresult e = REAL(cuKernelSetAttribute)(attribute, value, kernel, device);
    CUfunction other = e ? NULL : traced_other((CUfunction)kernel);
    if (other)
        REAL(cuFuncSetAttribute)(other, attribute, value);
    return e;
}

CUresult GPU(cuLibraryUnload)(CUlibrary library)
{
    CUresult e = REAL(cuLibraryUnload)(library);
    struct traced *t = e ? NULL : mt_map_take(&loaded, library);
    if (t)
        mt_module_forget(&t->module);
    return e;
}
#endif
