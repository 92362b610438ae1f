/* Finds programs by name, as a shell does. */
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
