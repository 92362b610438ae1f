/* memtrace's own parts, by name. */
#include "part.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MT_LIBRARY_PLACE "../" MT_INSTALL_LIBDIR

int mt_files_part(const char *name, char path[PATH_MAX])
{
    static const char *const places[] = {"../lib", MT_LIBRARY_PLACE, "../..", "."};
    char self[PATH_MAX], first[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return -1;
    self[n] = 0;
    *strrchr(self, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char try[2 * PATH_MAX], *real;
        snprintf(try, sizeof try, "%s/%s/%s", self, places[i], name);
        if (i == 0)
            snprintf(first, sizeof first, "%.*s", PATH_MAX - 1, try);
        if ((real = realpath(try, NULL)) != NULL && strlen(real) < PATH_MAX) {
            strcpy(path, real);
            free(real);
            return 0;
        }
        free(real);
    }
    strcpy(path, first);
    return -1;
}
