/* Finds memtrace's own files. */
#include "part.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXE "/proc/self/exe"

int mt_files_self(char path[PATH_MAX], unsigned up)
{
    ssize_t n = readlink(EXE, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
    for (char *slash; up && (slash = strrchr(path, '/')); up--)
        *slash = 0;
    return n > 0 ? 0 : -1;
}

int mt_files_beside(char path[PATH_MAX], const char *format, ...)
{
    va_list args;
    int found = mt_files_self(path, 1) == 0;
    size_t n = strlen(path);
    va_start(args, format);
    if (found) {
        path[n++] = '/';
        vsnprintf(path + n, PATH_MAX - n, format, args);
    } else {
        strcpy(path, EXE);
    }
    va_end(args);
    return found ? 0 : -1;
}

int mt_files_part(const char *name, char path[PATH_MAX])
{
    static const char *const places[] = {"../lib", "../" MT_INSTALL_LIBDIR, "../..", "."};
    char try[PATH_MAX];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (mt_files_beside(try, "%s/%s", places[i], name) == 0 && realpath(try, path))
            return 0;
    mt_files_beside(path, "%s/%s", places[0], name);
    return -1;
}
