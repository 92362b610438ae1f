/* Companions that are files. */
#define _GNU_SOURCE
#include "internal.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The lines of an open file. 0, or -1 with *err. */
static int companion_lines(struct mt_companion *c, FILE *f, const char *path, struct mt_error *err)
{
    char *line = NULL;
    size_t room = 0;
    uint64_t offset = 0;
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = getline(&line, &room, f)) > 0) {
        rc = mt_companion_add(c, line, (size_t)n, offset);
        offset += (uint64_t)n;
    }
    if (rc == 0 && ferror(f)) {
        int e = errno;
        mt_error_set(err, MT_E_SYSTEM, e, offset, path, "read error at byte %llu: %s",
                     (unsigned long long)offset, strerror(e));
        rc = -1;
    } else if (rc != 0) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory for the companion");
    }
    free(line);
    return rc;
}

struct mt_companion *mt_companion_load(const char *path, struct mt_error *err)
{
    struct stat st;
    FILE *f = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || S_ISDIR(st.st_mode) || fcntl(fd, F_SETFL, 0) != 0 ||
        !(f = fdopen(fd, "r"))) {
        int e = fd >= 0 && S_ISDIR(st.st_mode) ? EISDIR : errno;
        if (fd >= 0)
            close(fd);
        mt_error_set(err, MT_E_INPUT, e, 0, path, "cannot open the companion: %s", strerror(e));
        return NULL;
    }
    struct mt_companion *c = mt_companion_new(path);
    if (!c)
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory for the companion");
    int rc = c ? companion_lines(c, f, path, err) : -1;
    fclose(f);
    if (rc != 0) {
        mt_companion_free(c);
        return NULL;
    }
    c->regular = S_ISREG(st.st_mode);
    c->own = c->regular && st.st_uid == geteuid();
    mt_companion_settle(c);
    return c;
}
