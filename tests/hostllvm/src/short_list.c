/* Preloaded: every other list of a process's threads lacks all but the first and the newest, as the kernel
 * may leave out threads when one ends meanwhile. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int lists;

DIR *opendir(const char *path)
{
    static DIR *(*real)(const char *);
    if (!real)
        real = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
    lists += !strcmp(path, "/proc/self/task");
    return real(path);
}

struct dirent *readdir(DIR *d)
{
    static struct dirent *(*real)(DIR *);
    if (!real)
        real = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
    struct dirent *e = real(d);
    while (e && lists % 2 && atoi(e->d_name) > 0 && atoi(e->d_name) != getpid() &&
           atoi(e->d_name) != gettid())
        e = real(d);
    return e;
}
