/* Writes one companion, MemTrace-pipe-N.meta: JSON lines as docs/trace-format.md says. */
#define _GNU_SOURCE
#include "companion.h"
#include "events.h"
#include "devices.h"
#include "base/file.h"
#include "job.h"
#include "base/json.h"
#include "base/part.h"
#include "base/report.h"
#include "base/fork.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 65536u               /* bytes gathered before a write */
#define HELD (16u << 20)           /* bytes that may wait for a FIFO's reader */
#define FLUSH_NS 50000000u         /* at most this old in memory when a launch ends */
#define LAST_WAIT_NS 2000000000ull /* for a FIFO's reader at the end */

uint64_t mt_companion_repeats = 256u << 20;
static _Atomic uint64_t repeated;
static pthread_mutex_t first_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(first_lock, MT_FORK_LEAVES);
static struct mt_companion_writer *_Atomic first; /* has every event; NULL: none yet, or it is off */
static char first_name[256];                      /* its file name */

struct mt_companion_writer {
    pthread_mutex_t lock;
    struct mt_file file;
    int (*write)(void *self, const char *lines, size_t bytes); /* instead of the file, or NULL */
    void *self;
    char *path;
    int off, parked, waiting; /* waiting: a FIFO that nobody reads yet */
    char *out;
    size_t n, capacity;
    int shared;        /* the log is left to the first companion */
    uint64_t log_at;   /* how far the log is copied */
    uint64_t ended_at; /* log_at when `end` was written */
    int ended;
    uint64_t flushed_ns;
    struct mt_jsonl line;
};

static void turn_off(struct mt_companion_writer *c, const char *why)
{
    if (!c->off && !c->write)
        mt_report_file("%s; this companion is incomplete", why);
    pthread_mutex_lock(&first_lock);
    if (first == c)
        first = NULL;
    pthread_mutex_unlock(&first_lock);
    c->off = 1;
    c->n = 0;
    mt_file_close(&c->file);
}

/* Makes the descriptor usable: a parked file, or a FIFO whose reader may have come. 0, or EAGAIN. */
static int companion_wake(struct mt_companion_writer *c)
{
    char why[512];
    if (!c->parked && !c->waiting)
        return 0;
    int rc = mt_file_open(&c->file, c->path, c->parked ? MT_FILE_RESUME : MT_FILE_TRY, why, sizeof why);
    if (!rc)
        c->parked = c->waiting = 0;
    else if (rc != EAGAIN)
        turn_off(c, why);
    return rc;
}

/* What comes in pieces of the log may end inside a line: that waits for its rest. */
static void write_lines(struct mt_companion_writer *c)
{
    const char *last = memrchr(c->out, '\n', c->n);
    size_t whole = last ? (size_t)(last + 1 - c->out) : 0;
    if (!whole)
        return;
    if (c->write(c->self, c->out, whole)) {
        turn_off(c, "");
        return;
    }
    memmove(c->out, c->out + whole, c->n - whole);
    c->n -= whole;
    c->flushed_ns = mt_now_ns();
}

static void write_out(struct mt_companion_writer *c)
{
    size_t done;
    if (c->off || c->n == 0 || mt_forked())
        return;
    if (c->write) {
        write_lines(c);
        return;
    }
    if (companion_wake(c)) {
        if (c->n > HELD)
            turn_off(c, "a companion's FIFO has no reader and its lines fill the memory set aside");
        return;
    }
    int rc = mt_file_write(&c->file, c->out, c->n, -1, &done);
    if (rc) {
        char why[512];
        snprintf(why, sizeof why, "%s: %s", c->path,
                 rc == EPIPE ? "its reader closed the FIFO" : strerror(rc));
        turn_off(c, why);
        return;
    }
    c->n = 0;
    c->flushed_ns = mt_now_ns();
}

/* Room for `bytes` more, or NULL. */
static char *companion_room(struct mt_companion_writer *c, size_t bytes)
{
    if (c->n + bytes > CHUNK)
        write_out(c);
    if (c->n + bytes > c->capacity) {
        size_t capacity = c->n + bytes + CHUNK;
        char *p = realloc(c->out, capacity);
        if (!p) {
            turn_off(c, "a companion's lines do not fit into memory");
            return NULL;
        }
        c->out = p;
        c->capacity = capacity;
    }
    return c->off ? NULL : c->out + c->n;
}

static void put_line(struct mt_companion_writer *c, enum mt_line_kind kind, const void *line)
{
    mt_line_put(&c->line, kind, line);
    if (c->line.failed) {
        turn_off(c, "a companion's line does not fit into memory");
        return;
    }
    char *p = companion_room(c, c->line.n);
    if (p) {
        memcpy(p, c->line.text, c->line.n);
        c->n += c->line.n;
    }
}

/* When tracing began, by two clocks: the same in all companions of the process, so that readers know them for
 * one run. The second one goes on when the machine starts anew. */
static uint64_t process_start, process_wall_ms;

static uint64_t companion_once(uint64_t *start, uint64_t now)
{
    uint64_t none = 0;
    return __atomic_compare_exchange_n(start, &none, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ? now : none;
}

static uint64_t companion_wall_ms(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void put_header(struct mt_companion_writer *c, const struct mt_header_line *head)
{
    struct mt_header_line l = *head;
    char program[PATH_MAX];
    (void)mt_files_self(program, 0);
    l.tool = "memtrace " MEMTRACE_VERSION;
    l.pid = (uint64_t)getpid();
    l.program = program;
    l.start_ns = companion_once(&process_start, mt_now_ns());
    l.wall_ms = companion_once(&process_wall_ms, companion_wall_ms());
    l.job = *mt_job()->name ? mt_job()->name : NULL;
    l.rank = mt_job()->rank;
    l.ranks = mt_job()->ranks;
    put_line(c, MT_LINE_header, &l);
}

/* 1 when the process's events are not repeated in this companion any more. */
static int leave_to_first(struct mt_companion_writer *c)
{
    char name[sizeof first_name] = "";
    if (c->shared || repeated <= mt_companion_repeats)
        return c->shared;
    pthread_mutex_lock(&first_lock);
    if (first && first != c)
        memcpy(name, first_name, sizeof name);
    pthread_mutex_unlock(&first_lock);
    if (!*name)
        return 0;
    c->shared = 1;
    put_line(c, MT_LINE_shared, &(struct mt_shared_line){name});
    return 1;
}

static void catch_up(struct mt_companion_writer *c)
{
    char *p;
    size_t got;
    if (leave_to_first(c))
        return;
    while (!c->off && c->log_at < mt_log_size() && (p = companion_room(c, CHUNK / 2))) {
        got = mt_log_read(c->log_at, p, CHUNK / 2);
        if (!got) {
            turn_off(c, "a companion cannot read back the process's events");
            return;
        }
        c->n += got;
        c->log_at += got;
        repeated += first == c ? 0 : got;
    }
}

static uint64_t companion_number(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* exec leaves the process its number, and so the names of its traces: says which trace goes. */
static void companion_tell_exec(const char *path)
{
    char line[8192] = "";
    struct stat st;
    int fd =
        lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    if (fd >= 0)
        close(fd);
    line[n > 0 ? n : 0] = 0;
    if (companion_number(line, "\"pid\":") == (uint64_t)getpid() &&
        companion_number(line, "\"start_ns\":") != companion_once(&process_start, mt_now_ns()))
        mt_report(
            "%s and its trace are of the program that this process was before an exec, and are replaced; to "
            "keep them, trace it alone (MEMTRACE_ENABLE=0 for what follows), or let it set MEMTRACE_DIR",
            path);
}

struct mt_companion_writer *mt_companion_open(const char *path, const struct mt_header_line *head, char *why,
                                              size_t size)
{
    struct mt_companion_writer *c = calloc(1, sizeof *c);
    if (!c || !(c->path = strdup(path))) {
        snprintf(why, size, "%s: out of memory", path);
        free(c);
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    companion_tell_exec(path);
    int rc = mt_file_open(&c->file, path, MT_FILE_TRY, why, size);
    if (rc && rc != EAGAIN) {
        mt_companion_close(c);
        return NULL;
    }
    c->waiting = rc == EAGAIN;
    put_header(c, head);
    write_out(c);
    if (c->off) {
        snprintf(why, size, "%s: the first line cannot be written", path);
        mt_companion_close(c);
        return NULL;
    }
    pthread_mutex_lock(&first_lock);
    if (!first && !*first_name) {
        first = c;
        snprintf(first_name, sizeof first_name, "%s", strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    }
    pthread_mutex_unlock(&first_lock);
    return c;
}

struct mt_companion_writer *mt_companion_inside(const struct mt_header_line *head,
                                                int (*write)(void *self, const char *lines, size_t bytes),
                                                void *self, char *why, size_t size)
{
    struct mt_companion_writer *c = calloc(1, sizeof *c);
    if (!c) {
        snprintf(why, size, "%s: out of memory", head->trace);
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    c->file.at.fd = -1;
    c->write = write;
    c->self = self;
    put_header(c, head);
    return c;
}

/* As it is written: with the place of its call, and the device's number. */
static struct mt_launch_line companion_launch(const struct mt_launch_line *launch)
{
    struct mt_launch_line l = *launch;
    l.device = mt_devices_numbered() ? mt_device_number(l.device) : -1;
    MT_LINE_PLACE(&l, l.site);
    return l;
}

void mt_launch_log(const struct mt_launch_line *l)
{
    struct mt_launch_line line = companion_launch(l);
    mt_log_line(MT_LINE_launch, &line);
}

/* 1, with the lock held, when there is something to write to. */
static int companion_enter(struct mt_companion_writer *c)
{
    if (!c || mt_forked())
        return 0;
    pthread_mutex_lock(&c->lock);
    if (!c->off)
        return 1;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

static void companion_leave(struct mt_companion_writer *c)
{
    pthread_mutex_unlock(&c->lock);
}

void mt_companion_kernel(struct mt_companion_writer *c, uint64_t id, const char *name)
{
    if (!companion_enter(c))
        return;
    put_line(c, MT_LINE_kernel, &(struct mt_kernel_line){id, name});
    companion_leave(c);
}

void mt_companion_launch(struct mt_companion_writer *c, const struct mt_launch_line *l)
{
    if (!companion_enter(c))
        return;
    catch_up(c);
    struct mt_launch_line line = companion_launch(l);
    put_line(c, MT_LINE_launch, &line);
    if (mt_now_ns() - c->flushed_ns > FLUSH_NS)
        write_out(c);
    companion_leave(c);
}

void mt_companion_lost(struct mt_companion_writer *c, uint64_t count, const char *why)
{
    if (!companion_enter(c))
        return;
    put_line(c, MT_LINE_lost, &(struct mt_lost_line){count, why});
    companion_leave(c);
}

void mt_companion_flush(struct mt_companion_writer *c, int force)
{
    if (!companion_enter(c))
        return;
    if (force)
        catch_up(c);
    if (force || mt_now_ns() - c->flushed_ns > FLUSH_NS)
        write_out(c);
    companion_leave(c);
}

void mt_companion_end(struct mt_companion_writer *c, const struct mt_end_line *e)
{
    if (!companion_enter(c))
        return;
    catch_up(c);
    if (!c->ended || c->ended_at != c->log_at) {
        put_line(c, MT_LINE_end, e);
        c->ended = 1;
        c->ended_at = c->log_at;
    }
    write_out(c);
    companion_leave(c);
}

void mt_companion_park(struct mt_companion_writer *c)
{
    if (!companion_enter(c))
        return;
    write_out(c);
    if (!c->off && !c->waiting && !c->file.fifo) {
        mt_file_close(&c->file);
        c->parked = 1;
        free(c->out);
        c->out = NULL;
        c->n = c->capacity = 0;
    }
    companion_leave(c);
}

void mt_companion_close(struct mt_companion_writer *c)
{
    if (!c)
        return;
    for (uint64_t until = mt_now_ns() + LAST_WAIT_NS; c->waiting && c->n && !c->off && mt_now_ns() < until;) {
        write_out(c);
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    if (c->waiting && c->n && !c->off)
        mt_report("%s: nobody read this FIFO; its lines are lost", c->path);
    mt_file_close(&c->file);
    pthread_mutex_destroy(&c->lock);
    mt_jsonl_free(&c->line);
    free(c->out);
    free(c->path);
    free(c);
}
