#include "demangle.h"
#include "source_name.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef char *demangler(const char *, char *, size_t *, int *);
static demangler *_Atomic found;

void mt_demangle_prepare(void)
{
    if (found)
        return;
    demangler *f = (demangler *)dlsym(RTLD_DEFAULT, "__cxa_demangle");
    if (!f) { /* a Python module may have loaded the library; RTLD_NOLOAD without dlclose keeps it loaded */
        void *own = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
        f = own ? (demangler *)dlsym(own, "__cxa_demangle") : NULL;
    }
    found = f;
}

char *mt_demangle(const char *name)
{
    int status;
    char *symbol = name ? mt_source_symbol(name) : NULL, *text = NULL;
    if (symbol && !strncmp(symbol, "_Z", 2) && found)
        text = found(symbol, NULL, NULL, &status);
    if (text)
        mt_source_text(text);
    else if (symbol && strcmp(symbol, name) != 0)
        return symbol;
    free(symbol);
    return text;
}

char *mt_demangle_name(const char *name)
{
    char *text = mt_demangle(name);
    if (text)
        mt_source_function(text);
    return text ? text : strdup(name);
}
