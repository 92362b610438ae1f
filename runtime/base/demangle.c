#define _GNU_SOURCE
#include "demangle.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

typedef char *demangler(const char *, char *, size_t *, int *);
static demangler *_Atomic found;

void mt_demangle_prepare(void)
{
    if (found)
        return;
    demangler *f = (demangler *)dlsym(RTLD_DEFAULT, "__cxa_demangle");
    if (!f) { /* a module of Python may have brought it for itself; it stays, for our sake */
        void *own = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
        f = own ? (demangler *)dlsym(own, "__cxa_demangle") : NULL;
    }
    found = f;
}

char *mt_demangle(const char *name)
{
    int status;
    return name && !strncmp(name, "_Z", 2) && found ? found(name, NULL, NULL, &status) : NULL;
}
