/* Where the real NVRTC and nvJitLink are. */
#define _GNU_SOURCE
#include "compiler.h"
#include "api/device/device.h"
#include "base/report.h"
#include <dlfcn.h>
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

static void *compiler_real(struct mt_compiler *c)
{
    const int flags = RTLD_NOW | RTLD_LOCAL;
    char file[64];
    if (!c->real && *c->place)
        c->real = compiler_is_real(dlopen(c->place, flags));
    for (unsigned i = 0; i < sizeof c->majors / sizeof *c->majors && !c->real; i++) {
        snprintf(file, sizeof file, "%s.%d", c->file, c->majors[i]);
        if (!(c->real = compiler_is_real(dlopen(file, flags))))
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
