/* Opens the output file of option -o. */
#include "create.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns 1 if both paths name the same regular file; writing to a pipe or a device overwrites nothing. */
static int create_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
           (S_ISREG(x.st_mode) || S_ISDIR(x.st_mode) || S_ISBLK(x.st_mode));
}

static int create_ends(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* Returns 1 if the output lies in the folder, which stands for all traces in it. */
static int create_is_inside(const char *output, const char *folder)
{
    char above[PATH_MAX];
    const char *slash = strrchr(output, '/'), *name = slash ? slash + 1 : output;
    int n = snprintf(above, sizeof above, "%.*s.", slash ? (int)(slash - output) + 1 : 0, output);
    return (strncmp(name, "MemTrace-", 9) == 0 || create_ends(name, ".mtc")) && n < (int)sizeof above &&
           create_same(above, folder);
}

int mt_output_is_input(const char *output, const char *input)
{
    char other[PATH_MAX];
    struct stat st;
    if (create_same(output, input))
        return 1;
    if (stat(output, &st) != 0) /* no file yet, so no input */
        return 0;
    int n = create_ends(input, ".meta") ? snprintf(other, sizeof other, "%.*s", (int)strlen(input) - 5, input)
                                        : snprintf(other, sizeof other, "%s.meta", input);
    return (n < (int)sizeof other && create_same(output, other)) || create_is_inside(output, input);
}

static int create_is_anothers(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && st.st_uid != geteuid() && st.st_uid != 0;
}

int mt_create(const char *path, const char **why)
{
    /* O_CREAT even if the file exists: Linux then checks its owner in sticky folders like /tmp. */
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
