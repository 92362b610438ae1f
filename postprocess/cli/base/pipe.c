/* What comes through a pipe: looked at without taking it, so that its reader finds all of it. */
#define _GNU_SOURCE
#include "pipe.h"
#include "cli.h"
#include "reader/base/internal.h" /* mt_spool_create */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 4096 };

static int is_pipe(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int open_pipe(const char *path)
{
    struct stat st;
    int fd = -1;
    if (strcmp(path, "-") == 0)
        fd = is_pipe(STDIN_FILENO) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : -1;
    else if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode)) {
        mt_cli_waits(path);
        fd = open(path, O_RDONLY | O_CLOEXEC); /* waits for the writer */
    }
    if (fd >= 0 && !is_pipe(fd)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Copies what is in the pipe `fd`, up to HEAD - 1 bytes, and leaves it there. */
static size_t copy_head(int fd, const int copy[2], char *out)
{
    ssize_t n = tee(fd, copy[1], HEAD - 1, SPLICE_F_NONBLOCK), got, have = 0;
    while (have < n && (got = read(copy[0], out + have, (size_t)(n - have))) > 0)
        have += got;
    out[have] = 0;
    return (size_t)have;
}

/* The first bytes, as soon as they say what this is; fewer at the end of the input. */
static size_t wait_for_head(int fd, char *out)
{
    static const struct timespec while_it_grows = {.tv_nsec = 5000000};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int copy[2];
    size_t n = 0;
    if (pipe2(copy, O_CLOEXEC) != 0)
        return 0;
    while (!mt_cli_stop) {
        if (poll(&p, 1, 200) <= 0)
            continue;
        int over = (p.revents & POLLHUP) != 0; /* of before: what came meanwhile is copied */
        n = copy_head(fd, copy, out);
        if (over || !(p.revents & POLLIN) || mt_kind_is_clear(out, n))
            break;
        nanosleep(&while_it_grows, NULL);
    }
    close(copy[0]);
    close(copy[1]);
    return n;
}

int mt_pipe_look(const char *path, enum mt_kind *kind)
{
    char head[HEAD];
    int fd = open_pipe(path);
    if (fd >= 0)
        *kind = mt_kind_of_head(head, wait_for_head(fd, head));
    return fd;
}

int mt_pipe_spool(int fd)
{
    struct mt_error err;
    struct mt_stop stop = {.user = &mt_cli_stop};
    uint64_t read = 0;
    int spool = mt_spool_create(&err);
    if (spool >= 0 && mt_spool_fill(&fd, &spool, 1, &stop, &read, &err) == 0)
        return spool;
    mt_cli_say("%s", err.message);
    if (spool >= 0)
        close(spool);
    return -1;
}
