/* Checks a path component by component: who owns each folder, and who can write to it. */
#include "trust.h"
#include "file.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { MOST_LINKS = 40, DEEPEST = 64, LINE = 4096 };

/* ---- one file or folder ---- */

static int trust_is_ours(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == geteuid();
}

/* Returns 1 if /etc/group has the group and lists no member: "name:x:1000:". */
static int trust_group_is_empty(gid_t gid)
{
    char line[LINE], number[32];
    FILE *f = fopen("/etc/group", "re");
    int empty = 0;
    snprintf(number, sizeof number, ":%u:\n", (unsigned)gid);
    while (f && !empty && fgets(line, sizeof line, f)) {
        char *id = strchr(line, ':');
        id = id ? strchr(id + 1, ':') : NULL;
        empty = id && !strcmp(id, number);
    }
    if (f)
        fclose(f);
    return empty;
}

/* Returns 1 for the user's private group: many systems give each user a group with the user's number and no
 * other members. */
static int trust_group_is_own(int fd, const struct stat *st)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return st->st_gid == st->st_uid && trust_group_is_empty(st->st_gid) &&
           getxattr(path, "system.posix_acl_access", NULL, 0) < 0 &&
           (errno == ENODATA || errno == EOPNOTSUPP);
}

static int trust_is_open(int fd, const struct stat *st, int above)
{
    if (S_ISLNK(st->st_mode) || (above && st->st_mode & S_ISVTX) || !(st->st_mode & 022))
        return 0;
    return st->st_mode & 02 || !trust_group_is_own(fd, st);
}

/* Checks one file or folder. Returns 0, or -1 with errno, and *why if it is refused. `name` is used in *why
 * if the system does not tell the path. */
static int trust_look(int fd, const char *name, int above, char *why, size_t size)
{
    char link[64], path[PATH_MAX];
    struct stat st;
    if (fstat(fd, &st))
        return -1;
    int ours = trust_is_ours(&st);
    if (ours && !trust_is_open(fd, &st, above))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    if (ours)
        snprintf(why, size, "others can write to %s (its mode is %04o)", n > 0 ? path : name,
                 st.st_mode & 07777);
    else
        snprintf(why, size, "%s %s user %u", n > 0 ? path : name,
                 S_ISLNK(st.st_mode) ? "is a symbolic link of" : "belongs to", (unsigned)st.st_uid);
    errno = EPERM;
    return -1;
}

/* ---- the walk ---- */

static char own[PATH_MAX]; /* folder above memtrace's lib and bin; "": unknown, or the root */

__attribute__((constructor)) static void trust_loaded(void)
{
    Dl_info info;
    char *end = NULL;
    if (!dladdr((void *)(uintptr_t)&mt_trust_open, &info) || !info.dli_fname ||
        !realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe", own))
        *own = 0;
    for (int up = 0; up < 2 && (end = strrchr(own, '/')); up++)
        *end = 0;
}

struct walk {
    char rest[PATH_MAX], name[PATH_MAX];
    unsigned links;
};

/* Begins the walk at an absolute path. */
static int trust_begin(struct walk *w, const char *path)
{
    size_t n = strlen(own);
    int inside = n && !strncmp(path, own, n) && path[n] == '/';
    if (strlen(path) >= sizeof w->rest) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(w->rest, path + (inside ? n : 0));
    return mt_fd_up(open(inside ? own : "/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

static int trust_start(struct walk *w, const char *path)
{
    char whole[PATH_MAX] = "", *folder = *path == '/' ? whole : getcwd(whole, sizeof whole);
    size_t n = strlen(whole);
    if (!folder || (size_t)snprintf(whole + n, sizeof whole - n, "/%s", path) >= sizeof whole - n) {
        errno = folder ? ENAMETOOLONG : errno;
        return -1;
    }
    return trust_begin(w, n ? whole : path);
}

/* Splits off the next component; returns 0 at the end. */
static int trust_next(struct walk *w)
{
    char *from = w->rest + strspn(w->rest, "/"), *to = from + strcspn(from, "/");
    snprintf(w->name, sizeof w->name, "%.*s", (int)(to - from), from);
    to += strspn(to, "/");
    memmove(w->rest, to, strlen(to) + 1);
    return *w->name != 0;
}

/* Inserts a link's target before the rest. Returns the folder to continue from, which may
 * be `folder`, or -1. */
static int trust_follow(struct walk *w, int folder, int link)
{
    char to[PATH_MAX], all[2 * PATH_MAX];
    ssize_t n = readlinkat(link, "", to, sizeof to - 1);
    if (n < 0 || ++w->links > MOST_LINKS) {
        errno = n < 0 ? errno : ELOOP;
        return -1;
    }
    to[n] = 0;
    if (snprintf(all, sizeof all, "%s/%s", to, w->rest) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (*to == '/')
        return trust_begin(w, all);
    strcpy(w->rest, all);
    return folder;
}

/* Walks one component further. Closes `folder` and returns the next one, or -1 with errno, and *why if it is
 * refused. */
static int trust_step(struct walk *w, int folder, int make, char *why, size_t size)
{
    const int how = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    struct stat st;
    int fd = openat(folder, w->name, how), next = -1;
    if (fd < 0 && errno == ENOENT && make && (mkdirat(folder, w->name, 0700) == 0 || errno == EEXIST))
        fd = openat(folder, w->name, how);
    fd = mt_fd_up(fd);
    if (fd >= 0 && fstat(fd, &st) == 0 && trust_look(fd, w->name, *w->rest != 0, why, size) == 0)
        next = S_ISLNK(st.st_mode) ? trust_follow(w, folder, fd) : fd;
    int saved = errno;
    if (fd >= 0 && fd != next)
        close(fd);
    if (folder != next)
        close(folder);
    errno = saved;
    return next;
}

int mt_trust_open(const char *path, enum mt_trust what, char *why, size_t size)
{
    struct walk w = {.links = 0};
    int fd = trust_start(&w, path);
    *why = 0;
    while (fd >= 0 && trust_next(&w))
        fd = trust_step(&w, fd, what == MT_TRUST_FOLDER, why, size);
    if (fd >= 0 && what == MT_TRUST_FOLDER) {
        int readable = mt_fd_up(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), saved = errno;
        close(fd);
        fd = readable;
        errno = saved;
    }
    if (fd < 0 && !*why)
        snprintf(why, size, "%s: %s", path, strerror(errno));
    return fd;
}

int mt_trust_file(const char *path, char *why, size_t size)
{
    int fd = strchr(path, '/') ? mt_trust_open(path, MT_TRUST_FILE, why, size) : -2;
    if (fd >= 0)
        close(fd);
    return fd == -1 ? -1 : 0;
}

/* ---- contents of a folder ---- */

static int trust_below(int folder, unsigned depth, char *why, size_t size);

static int trust_entry(int folder, const char *name, unsigned depth, char *why, size_t size)
{
    int fd = mt_fd_up(openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC)), rc = -1;
    struct stat st;
    if (fd < 0)
        return errno == ENOENT ? 0 : -1; /* ENOENT: another process has removed it */
    if (fstat(fd, &st) == 0) {
        if (!trust_is_ours(&st))
            rc = trust_look(fd, name, 1, why, size);
        else
            rc = S_ISDIR(st.st_mode) ? trust_below(fd, depth + 1, why, size) : 0;
    }
    close(fd);
    return rc;
}

static int trust_below(int folder, unsigned depth, char *why, size_t size)
{
    int fd = depth > DEEPEST ? -1 : mt_fd_up(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), rc = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0)
        close(fd);
    for (struct dirent *e; d && rc == 0 && (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            rc = trust_entry(folder, e->d_name, depth, why, size);
    if (d)
        closedir(d);
    return d ? rc : -1;
}

int mt_trust_contents(int folder, char *why, size_t size)
{
    snprintf(why, size, "what lies there cannot be looked through");
    return trust_below(folder, 0, why, size);
}
