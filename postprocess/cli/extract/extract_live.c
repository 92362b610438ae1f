/* mt-extract's part in what it says to a program whose MEMTRACE_SINK started it (memtrace/live.h). */
#define _GNU_SOURCE
#include "extract_live.h"
#include "memtrace/grow.h"
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int mt_live_hold(const struct mt_output *out)
{
    struct stat st;
    if (fstat(out->fd, &st) != 0 || !S_ISREG(st.st_mode) || flock(out->fd, LOCK_EX | LOCK_NB) == 0 ||
        errno != EWOULDBLOCK)
        return 0;
    mt_cli_say("%s: is the result of another traced process that still runs; with %%p in the FILE of "
               "MEMTRACE_SINK each process has its own",
               out->path ? out->path : "standard output");
    return MT_EXIT_FAILURE;
}

int mt_live_say(int fd, char word)
{
    ssize_t n;
    while ((n = send(fd, &word, 1, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
    }
    return n == 1 ? 0 : -1;
}

static int extract_live_take(int fd, void *out, size_t bytes)
{
    for (char *p = out; bytes;) {
        ssize_t n = read(fd, p, bytes);
        if (n == 0 || (n < 0 && errno != EINTR))
            return -1;
        if (n > 0) {
            p += n;
            bytes -= (size_t)n;
        }
    }
    return 0;
}

/* A frame and the descriptor beside it, -1 if there is none. */
static int take_frame(int fd, struct mt_live_frame *f, int *trace)
{
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {f, sizeof *f};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n;
    *trace = -1;
    while ((n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(trace, CMSG_DATA(c), sizeof *trace);
    return n <= 0 ? -1 : extract_live_take(fd, (char *)f + n, sizeof *f - (size_t)n);
}

/* The traces come as their streams end; their order is that of the streams. */
static int extract_live_add(struct mt_live_traces *t, int fd, const struct mt_live_frame *f, int trace)
{
    char *path = f->bytes < PATH_MAX ? calloc(1, f->bytes + 1) : NULL;
    size_t room = t->room; /* both arrays have it */
    if (!path || mt_grow(&t->paths, &room, t->n + 1, sizeof *t->paths) != 0 ||
        mt_grow(&t->fds, &t->room, t->n + 1, sizeof *t->fds) != 0 ||
        extract_live_take(fd, path, f->bytes) != 0) {
        free(path);
        return -1;
    }
    t->paths[t->n] = path;
    t->fds[t->n++] = trace;
    return 0;
}

struct numbered {
    uint32_t stream;
    int fd;
    char *path;
};

static int by_stream(const void *a, const void *b)
{
    uint32_t x = ((const struct numbered *)a)->stream, y = ((const struct numbered *)b)->stream;
    return x < y ? -1 : x > y;
}

static void extract_live_sort(struct mt_live_traces *t, struct numbered *all)
{
    for (size_t i = 0; i < t->n; i++) {
        all[i].fd = t->fds[i];
        all[i].path = t->paths[i];
    }
    qsort(all, t->n, sizeof *all, by_stream);
    for (size_t i = 0; i < t->n; i++) {
        t->fds[i] = all[i].fd;
        t->paths[i] = all[i].path;
    }
}

int mt_live_traces(struct mt_live_traces *t, int fd)
{
    struct mt_live_frame f;
    struct numbered *all = NULL;
    size_t room = 0;
    int trace = -1;
    for (;;) {
        if (take_frame(fd, &f, &trace) != 0)
            break;
        if (f.kind == MT_LIVE_DONE) {
            extract_live_sort(t, all);
            free(all);
            return 0;
        }
        if (f.kind != MT_LIVE_TRACE || trace < 0 || mt_grow(&all, &room, t->n + 1, sizeof *all) != 0)
            break;
        all[t->n].stream = f.stream;
        if (extract_live_add(t, fd, &f, trace) != 0)
            break;
    }
    if (trace >= 0)
        close(trace);
    free(all);
    return -1;
}

void mt_live_traces_free(struct mt_live_traces *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->paths[i]);
    free(t->paths);
    free(t->fds);
}
