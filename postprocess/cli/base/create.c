/* The file that an option -o names. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "create.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int create_is_anothers(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && st.st_uid != geteuid() && st.st_uid != 0;
}

int mt_create(const char *path, const char **why)
{
    /* O_CREAT also where it is there: Linux then looks whose file it is in a folder like /tmp. */
    int flags = O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC, fd = open(path, flags | O_NOFOLLOW, 0666);
    if (fd < 0 && errno == ELOOP && create_is_anothers(path)) {
        *why = "is a symbolic link of another user and is not followed; remove it, or name another file";
        return -1;
    }
    if (fd < 0 && errno == ELOOP)
        fd = open(path, flags, 0666);
    *why = fd < 0 ? strerror(errno) : NULL;
    return fd;
}
