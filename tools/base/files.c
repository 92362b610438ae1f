/* Files by name: programs as a shell finds them, and memtrace's own parts. */
#include "files.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int mt_files_runs(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || access(path, X_OK) != 0)
        return errno;
    return S_ISDIR(st.st_mode) ? EISDIR : 0;
}

int mt_files_executable(const char *name, char path[PATH_MAX])
{
    const char *list = getenv("PATH");
    int why, worst = ENOENT;
    if (strlen(name) >= PATH_MAX)
        return ENAMETOOLONG;
    if (strchr(name, '/')) {
        strcpy(path, name);
        return mt_files_runs(path);
    }
    for (list = list ? list : "/usr/bin:/bin"; *name; list++) {
        int n = (int)strcspn(list, ":");
        if (snprintf(path, PATH_MAX, "%.*s%s%s", n, list, n ? "/" : "./", name) < PATH_MAX) {
            if ((why = mt_files_runs(path)) == 0)
                return 0;
            if (why == EACCES)
                worst = why;
        }
        list += n;
        if (!*list)
            break;
    }
    return worst;
}

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
