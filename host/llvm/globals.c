/* Global variables of the program, from its file and load address. */
#include "entry.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

/* Takes the first object, which is the program. */
static int globals_first(struct dl_phdr_info *info, size_t size, void *first)
{
    (void)size;
    *(struct dl_phdr_info *)first = *info;
    return 1;
}

void mt_globals_put(void)
{
    struct dl_phdr_info program = {0};
    Dl_info known = {0};
    const char *path = "/proc/self/exe";
    dl_iterate_phdr(globals_first, &program);
    /* No interpreter in the process: the dynamic linker was started with the program's name. */
    if (!getauxval(AT_BASE) && dladdr(program.dlpi_phdr, &known) && known.dli_fname)
        path = known.dli_fname;
    mt_core_globals(path, program.dlpi_addr);
}

const char *mt_globals_name(const char *symbol, char *room, unsigned size)
{
    static char *(*demangle)(const char *, char *, size_t *, int *);
    int status = -1;
    if (strncmp(symbol, "_Z", 2) != 0)
        return symbol;
    if (!demangle) /* a program with such names usually has the C++ library */
        *(void **)&demangle = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    char *plain = demangle ? demangle(symbol, NULL, NULL, &status) : NULL;
    if (plain && status == 0)
        snprintf(room, size, "%s", plain);
    free(plain);
    return status == 0 ? room : symbol;
}
