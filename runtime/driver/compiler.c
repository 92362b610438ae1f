/* Where the real NVRTC and nvJitLink are. */
#define _GNU_SOURCE
#include "compiler.h"
#include "base/report.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>

/* Our own library may have the name. */
static void *compiler_open(const char *path)
{
    void *h = *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (h && dlsym(h, "__mt_host_site")) {
        dlclose(h);
        h = NULL;
    }
    return h;
}

static void *compiler_real(struct mt_compiler *c)
{
    char path[512];
    if (!c->real)
        c->real = compiler_open(c->place);
    for (unsigned i = 0; i < sizeof c->majors / sizeof *c->majors * 2 && !c->real; i++) {
        snprintf(path, sizeof path, "%s%s.%d", i % 2 ? MEMTRACE_CUDA_ROOT "/lib64/" : "", c->file,
                 c->majors[i / 2]);
        c->real = compiler_open(path);
    }
    return c->real;
}

mt_compiler_function *mt_compiler_find(struct mt_compiler *c, const char *name)
{
    void *real = compiler_real(c);
    mt_compiler_function *f = real ? (mt_compiler_function *)dlsym(real, name) : NULL;
    if (!f && !c->said++)
        mt_report("%s: %s%s", name,
                  real ? "not in the library in use: " : "not found: set LD_LIBRARY_PATH to the folder of ",
                  c->file);
    return f;
}
