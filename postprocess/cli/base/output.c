/* Where results go. A file is whole, or it is not there. */
#define _GNU_SOURCE
#include "cli.h"
#include "stop.h"
#include "base/create.h"
#include "memtrace/grow.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is read ---- */

static const char **spared;
static size_t nspared, spared_room;
static int spared_lost;

void mt_output_spare(const char *path)
{
    char *own = strdup(path);
    if (!own || mt_grow(&spared, &spared_room, nspared + 1, sizeof *spared) != 0) {
        spared_lost = 1;
        free(own);
    } else {
        spared[nspared++] = own;
    }
}

int mt_output_other(const char *path)
{
    if (spared_lost)
        return mt_cli_fail("no memory for the names of the inputs");
    for (size_t i = 0; i < nspared; i++)
        if (mt_output_is_input(path, spared[i]))
            return mt_cli_usage("the output %s is one of the inputs%s%s", path,
                                strcmp(path, spared[i]) ? ", or belongs to one: " : "",
                                strcmp(path, spared[i]) ? spared[i] : "");
    return 0;
}

/* ---- outputs that are not whole yet ---- */

static struct mt_output *volatile under_way;
static volatile sig_atomic_t any_whole;

static void output_begins(struct mt_output *o)
{
    o->next = under_way;
    under_way = o;
}

/* Nothing is to be done about it any more. A signal may come at any time: the list is right at each step. */
static void output_ends(struct mt_output *o)
{
    struct mt_output *before = under_way;
    if (before == o)
        under_way = o->next;
    while (before && before->next != o)
        before = before->next;
    if (before)
        before->next = o->next;
}

static void output_remove(const struct mt_output *o)
{
    struct stat ours, there;
    /* What somebody else has put there meanwhile stays. */
    if (o->fd != STDOUT_FILENO && fstat(o->fd, &ours) == 0 && S_ISREG(ours.st_mode) &&
        lstat(o->path, &there) == 0 && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino)
        unlink(o->path);
}

int mt_output_cut(void)
{
    for (const struct mt_output *o = under_way; o; o = o->next)
        if (o->created || o->ready)
            output_remove(o);
    return under_way || !any_whole;
}

/* ---- one of them ---- */

int mt_output_open(struct mt_output *o, const char *path)
{
    struct stat st;
    const char *why = NULL;
    int code;
    *o = (struct mt_output){.path = path, .fd = STDOUT_FILENO};
    if (!path || strcmp(path, "-") == 0) {
        output_begins(o);
        return 0;
    }
    if ((code = mt_output_other(path)) != 0)
        return code;
    o->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC, 0666);
    o->created = o->fd >= 0;
    if (o->fd < 0 && errno == EEXIST)
        o->fd = mt_create(path, &why);
    else if (o->fd < 0)
        why = strerror(errno);
    if (o->fd < 0 || fstat(o->fd, &st) != 0)
        return mt_cli_refuse("%s: cannot write: %s", path, why ? why : strerror(errno));
    output_begins(o);
    return 0;
}

int mt_output_ready(struct mt_output *o)
{
    struct stat st;
    if (o->ready)
        return 0;
    int code = o->path && o->fd != STDOUT_FILENO ? mt_output_other(o->path)
                                                 : 0; /* folders have been read meanwhile */
    if (code)
        return code;
    o->created = 0;
    o->ready = 1;
    if (o->fd == STDOUT_FILENO || (fstat(o->fd, &st) == 0 && !S_ISREG(st.st_mode)) ||
        ftruncate(o->fd, 0) == 0)
        return 0;
    return mt_output_failed(o, errno);
}

int mt_output_failed(struct mt_output *o, int error)
{
    o->cut = o->ready;
    return mt_cli_fail("%s: cannot write: %s", o->fd == STDOUT_FILENO ? "standard output" : o->path,
                       strerror(error));
}

/* stdio gives up what it has in its buffer when a signal interrupts a write into a full pipe. */
static ssize_t output_write(void *arg, const char *bytes, size_t n)
{
    int fd = (int)(intptr_t)arg;
    size_t done = 0;
    while (done < n) {
        ssize_t now = write(fd, bytes + done, n - done);
        if (now < 0 && errno != EINTR)
            return 0;
        done += now > 0 ? (size_t)now : 0;
    }
    return (ssize_t)n;
}

static int output_close(void *arg)
{
    return close((int)(intptr_t)arg);
}

FILE *mt_output_whole(int fd)
{
    cookie_io_functions_t io = {.write = output_write, .close = output_close};
    FILE *f = fopencookie((void *)(intptr_t)fd, "w", io);
    if (f && isatty(fd))
        setvbuf(f, NULL, _IOLBF, BUFSIZ);
    return f;
}

static ssize_t output_write_ready(void *arg, const char *bytes, size_t n)
{
    struct mt_output *o = arg;
    ssize_t done = mt_output_ready(o) == 0 ? output_write((void *)(intptr_t)o->fd, bytes, n) : 0;
    if (done == 0)
        o->error = errno;
    return done;
}

/* Some file systems say only now that they are full. The descriptor itself is needed to abandon the file. */
static int output_close_copy(void *arg)
{
    return close(fcntl(((struct mt_output *)arg)->fd, F_DUPFD_CLOEXEC, 0));
}

FILE *mt_output_stream(struct mt_output *o)
{
    cookie_io_functions_t io = {.write = output_write_ready, .close = output_close_copy};
    FILE *f = fopencookie(o, "w", io);
    if (!f)
        mt_output_failed(o, errno);
    else if (isatty(o->fd))
        setvbuf(f, NULL, _IOLBF, BUFSIZ);
    return f;
}

int mt_output_close(struct mt_output *o, FILE *f)
{
    int bad = ferror(f);
    bad |= fclose(f) != 0;
    return mt_output_end(o, bad, o->error ? o->error : errno);
}

int mt_output_end(struct mt_output *o, int failed, int error)
{
    if (failed)
        return mt_output_failed(o, error);
    any_whole = 1;
    output_ends(o);
    return 0;
}

int mt_output_json(struct mt_output *o, struct mt_json *j)
{
    int failed = mt_json_close(j) != 0;
    return mt_output_end(o, failed, j->error);
}

void mt_output_abandon(struct mt_output *o)
{
    output_ends(o);
    if (o->created || o->cut)
        output_remove(o);
    o->created = o->cut = 0;
}
