#include "site.h"
#include <stddef.h>
#include <string.h>

static _Thread_local const struct mt_host_site *pending, *taken;

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
    if (!pending || !is_inner(site))
        pending = site;
}

const struct mt_host_site *mt_host_site_take(void)
{
    const struct mt_host_site *site = pending;
    pending = NULL;
    taken = site;
    return site;
}

const struct mt_host_site *mt_host_site_taken(void)
{
    return taken;
}
