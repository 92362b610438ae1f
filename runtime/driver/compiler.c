/* Where the real NVRTC and nvJitLink are. */
#define _GNU_SOURCE
#include "compiler.h"
#include "api/device/device.h"
#include "base/report.h"
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

/* Our own library may have the name. */
static void *compiler_is_real(void *h)
{
    if (h && dlsym(h, "__mt_host_site")) {
        dlclose(h);
        h = NULL;
    }
    return h;
}

/* A folder of Python's packages with NVIDIA's in it, or "". Who asks the process whether the library is
 * loaded finds ours, and does not load the one that is there. */
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

static void *compiler_real(struct mt_compiler *c)
{
    const int flags = RTLD_NOW | RTLD_LOCAL;
    char file[64];
    if (!c->real && *c->place)
        c->real = compiler_is_real(dlopen(c->place, flags));
    for (unsigned i = 0; i < sizeof c->majors / sizeof *c->majors && !c->real; i++) {
        snprintf(file, sizeof file, "%s.%d", c->file, c->majors[i]);
        if (!(c->real = compiler_packaged(file, flags)) && !(c->real = compiler_is_real(dlopen(file, flags))))
            c->real = compiler_is_real(mt_device_toolkit(file, flags));
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
