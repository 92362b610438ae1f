/* Source place of a CUDA call in host code, as the pass emits it (docs/design/pass.md,
 * "Host side of the pass"). */
#define _GNU_SOURCE
#include "site.h"
#include "python.h"
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static _Thread_local const struct mt_host_site *pending, *taken;
static const struct mt_host_site *(*_Atomic ask)(void);
const char mt_host_code_name[] = "code";

#ifdef DLFO_STRUCT_HAS_EH_DBASE /* the C library has it from 2.35 on */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));
#endif

int mt_host_site_there(const struct mt_host_site *site)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
    struct dl_find_object found;
    return site && (!_dl_find_object || !_dl_find_object((void *)(uintptr_t)site, &found));
#else
    return site != NULL;
#endif
}

static int ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && !memcmp(s + n - m, tail, m);
}

/* A place inside CUDA's own C++ wrappers (cudaMalloc<T> in cuda_runtime.h), or inside a kernel's host stub,
 * says less than the user's line that led there. */
static int is_inner(const struct mt_host_site *site)
{
    if (ends_with(site->file, "/cuda_runtime.h"))
        return 1;
    return strstr(pending->name, "__device_stub__") && !strncmp(site->name, "cudaLaunchKernel", 16);
}

__attribute__((visibility("default"))) void __mt_host_site(const struct mt_host_site *site)
{
    if (!mt_host_site_there(pending) || !is_inner(site))
        pending = site;
}

const struct mt_host_site *mt_host_site_take(void)
{
    const struct mt_host_site *site = mt_host_site_there(pending) ? pending : mt_python_site();
    const struct mt_host_site *(*code)(void) = site ? NULL : ask;
    pending = NULL;
    site = code ? code() : site;
    taken = site;
    return site;
}

void mt_host_site_ask(const struct mt_host_site *(*code)(void))
{
    ask = code;
}

const struct mt_host_code *mt_host_code_of(const struct mt_host_site *site)
{
    return site && site->name == mt_host_code_name ? (const struct mt_host_code *)site : NULL;
}

const struct mt_host_site *mt_host_site_pending(void)
{
    return mt_host_site_there(pending) ? pending : NULL;
}

const struct mt_host_site *mt_host_site_taken(void)
{
    return taken;
}
