/* MEMTRACE_SINK=extract:FILE: traces go to an mt-extract that runs beside the program, and touch no disk. */
#define _GNU_SOURCE
#include "live.h"
#include "companion.h"
#include "events.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/held.h"
#include "base/json.h"
#include "live_child.h"
#include "base/options.h"
#include "base/report.h"
#include "memtrace/device.h"
#include "memtrace/live.h"
#include "memtrace/record.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELD_MAX (64u << 20) /* bytes of runs that wait in memory */
#define FRAME_MAX (1u << 20) /* bytes of runs in a frame, one more run apart */

struct block {
    struct block *next;
    size_t bytes;
    char data[];
};

struct launch {
    struct launch *next;
    struct mt_live *stream;
    uint64_t seq;
    int begun, announced, ended;
    _Atomic uint64_t records;
    struct block *first, **last; /* what waits: payloads of frames; */
    struct mt_fd file;           /* and after it what waits in this file, each after its length */
    uint64_t file_at, file_end;
    struct mt_jsonl line; /* of what is known when it begins */
};

struct mt_live {
    uint32_t number;
    struct mt_companion_writer *companion;
    struct launch *launch; /* under way */
};

/* `out` is held while frames that belong together are sent; `lock`, for the list, only for moments. `out`
 * comes first. */
static pthread_mutex_t out = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static struct launch *first, **last = &first;
static uint64_t held;
static struct mt_fd peer = MT_FD_NONE; /* the socket to mt-extract */
static char wanted;                    /* what mt-extract said first */
static uint32_t streams;
static struct mt_live *log_stream; /* its companion has the process's events */
static _Atomic int off;
static char error[256];

/* ---- sending: with `out` held ------------------------------------------------------------------- */

static void live_fail(const char *why, int e)
{
    if (off)
        return;
    snprintf(error, sizeof error, "%s%s%s", why, e ? ": " : "", e ? strerror(e) : "");
    off = 1;
    mt_report("MEMTRACE_SINK: %s; there will be no result", error);
}

static void send_all(const void *data, size_t bytes)
{
    const char *p = data;
    if (!off && !mt_fd_is(&peer))
        live_fail("the program closed the descriptor of mt-extract's socket", 0);
    while (bytes && !off) {
        ssize_t n = send(peer.fd, p, bytes, MSG_NOSIGNAL);
        if (n > 0) {
            p += n;
            bytes -= (size_t)n;
        } else if (n < 0 && errno != EINTR) {
            live_fail(errno == EPIPE || errno == ECONNRESET ? "mt-extract has ended"
                                                            : "mt-extract cannot be reached",
                      errno == EPIPE || errno == ECONNRESET ? 0 : errno);
        }
    }
}

static void send_frame(enum mt_live_kind kind, uint32_t stream, uint64_t seq, const void *data, size_t bytes)
{
    struct mt_live_frame f = {kind, stream, bytes, seq};
    send_all(&f, sizeof f);
    send_all(data, bytes);
}

static void send_lines(struct mt_live *s)
{
    size_t bytes = 0;
    char *text = s && s->companion ? mt_companion_take(s->companion, &bytes) : NULL;
    if (bytes)
        send_frame(MT_LIVE_LINES, s->number, 0, text, bytes);
    free(text);
}

static int read_back(struct launch *l, void *to, size_t bytes, uint64_t at)
{
    ssize_t n = mt_fd_is(&l->file) ? pread(l->file.fd, to, bytes, (off_t)at) : 0;
    if (n == (ssize_t)bytes)
        return 0;
    live_fail("accesses that waited in a file cannot be read back", n < 0 ? errno : 0);
    return -1;
}

static void send_file(struct launch *l, uint64_t from, uint64_t to)
{
    while (from < to && !off) {
        uint64_t bytes = 0;
        if (read_back(l, &bytes, sizeof bytes, from))
            return;
        void *payload = malloc(bytes);
        if (!payload)
            live_fail("no memory", 0);
        else if (!read_back(l, payload, bytes, from + sizeof bytes))
            send_frame(MT_LIVE_RUNS, l->stream->number, 0, payload, bytes);
        free(payload);
        from += sizeof bytes + bytes;
    }
}

/* ---- the order of launches ---------------------------------------------------------------------- */

static void live_announce(struct launch *l)
{
    send_lines(log_stream);
    if (l->stream != log_stream)
        send_lines(l->stream);
    send_frame(MT_LIVE_LAUNCH, l->stream->number, l->seq, l->line.text, l->line.n);
}

static void live_drop(struct launch *l)
{
    mt_fd_close(&l->file);
    mt_jsonl_free(&l->line);
    free(l);
}

/* One step for the first launch; 0 when there is nothing to do before something happens. */
static int live_step(void)
{
    pthread_mutex_lock(&lock);
    struct launch *l = first;
    if (!l || !l->begun) {
        pthread_mutex_unlock(&lock);
        return 0;
    }
    int new = !l->announced, ended = l->ended;
    struct block *b = new ? NULL : l->first;
    uint64_t from = l->file_at, to = new || b ? from : l->file_end;
    if (b) {
        l->first = NULL;
        l->last = &l->first;
    }
    l->file_at = to;
    if (!new && !b && from == to &&ended) {
        first = l->next;
        last = first ? last : &first;
    } else
        ended = 0;
    pthread_mutex_unlock(&lock);
    if (new)
        live_announce(l);
    for (struct block *next; b; b = next) {
        next = b->next;
        send_frame(MT_LIVE_RUNS, l->stream->number, 0, b->data, b->bytes);
        pthread_mutex_lock(&lock);
        held -= b->bytes;
        pthread_mutex_unlock(&lock);
        free(b);
        new = 1;
    }
    if (from < to)
        send_file(l, from, to);
    if (ended) {
        send_frame(MT_LIVE_END, l->stream->number, 0, NULL, 0);
        live_drop(l);
        return 1;
    }
    pthread_mutex_lock(&lock);
    l->announced = 1;
    pthread_mutex_unlock(&lock);
    return new || from < to;
}

static void live_advance(void)
{
    pthread_mutex_lock(&out);
    while (live_step()) {
    }
    pthread_mutex_unlock(&out);
}

static struct launch *live_add(struct mt_live *s, uint64_t seq)
{
    struct launch *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->stream = s;
    l->seq = seq;
    l->last = &l->first;
    l->file.fd = -1;
    *last = l;
    last = &l->next;
    return l;
}

/* Launches are sent in the order of these numbers; live_begin follows at once. */
static uint64_t live_number(void *self)
{
    struct mt_live *s = self;
    pthread_mutex_lock(&lock);
    uint64_t seq = mt_event_seq();
    s->launch = off ? NULL : live_add(s, seq);
    pthread_mutex_unlock(&lock);
    return seq;
}

static int live_begin(void *self, const struct mt_launch_line *l)
{
    struct mt_live *s = self;
    struct launch *x = s->launch;
    if (off && !x)
        return -1;
    pthread_mutex_lock(&lock);
    if (!x || x->seq != l->seq) /* it had its number before */
        x = s->launch = live_add(s, l->seq);
    if (x) {
        mt_launch_text(&x->line, l);
        mt_jsonl_end(&x->line);
        x->begun = 1;
    }
    pthread_mutex_unlock(&lock);
    if (!x || x->line.failed)
        live_fail("no memory for a launch", 0);
    live_advance();
    return off ? -1 : 0;
}

/* ---- accesses ----------------------------------------------------------------------------------- */

static int live_spill(struct launch *l, const void *payload, uint64_t bytes)
{
    const char *dir = mt_environment_get("TMPDIR");
    off_t at = (off_t)l->file_end;
    if (l->file.fd < 0 &&
        mt_fd_take(&l->file, open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)))
        return -1;
    struct mt_held h = mt_hold(SIGXFSZ);
    ssize_t n = mt_fd_is(&l->file) ? pwrite(l->file.fd, &bytes, sizeof bytes, at) : -1;
    n = n == (ssize_t)sizeof bytes ? pwrite(l->file.fd, payload, bytes, at + (off_t)sizeof bytes) : -1;
    mt_let_go(&h, n < 0 ? errno : 0);
    if (n != (ssize_t)bytes)
        return -1;
    l->file_end += sizeof bytes + bytes;
    return 0;
}

/* With the lock: accesses of a launch that is not at the front, or whose earlier ones still wait. */
static int live_hold(struct launch *l, const void *payload, size_t bytes)
{
    if (l->file_at < l->file_end || held + bytes > HELD_MAX)
        return live_spill(l, payload, bytes);
    struct block *b = malloc(sizeof *b + bytes);
    if (!b)
        return live_spill(l, payload, bytes);
    b->next = NULL;
    b->bytes = bytes;
    memcpy(b->data, payload, bytes);
    *l->last = b;
    l->last = &b->next;
    held += bytes;
    return 0;
}

static void live_put(struct mt_live *s, struct launch *l, const void *payload, size_t bytes)
{
    int waits, lost = 0;
    pthread_mutex_lock(&lock);
    waits = l != first || !l->announced || l->first || l->file_at < l->file_end;
    if (waits)
        lost = live_hold(l, payload, bytes);
    pthread_mutex_unlock(&lock);
    if (lost) {
        live_fail("accesses that wait for an earlier launch fit neither into memory nor into TMPDIR", errno);
        return;
    }
    if (waits)
        return;
    pthread_mutex_lock(&out);
    send_frame(MT_LIVE_RUNS, s->number, 0, payload, bytes);
    pthread_mutex_unlock(&out);
}

static size_t bytes_of(const struct mt_access_run *r)
{
    return sizeof(struct mt_live_run) + (r->row || r->addresses ? r->count * sizeof *r->addresses : 0);
}

static char *put_run(char *to, const struct mt_access_run *run)
{
    uint64_t room[MT_RUN_ROWS];
    const struct mt_access_run lanes = mt_run_without_rows(run, room), *r = &lanes;
    struct mt_live_run w = {.base = r->base,
                            .stride = r->stride,
                            .cta = r->cta,
                            .smid = r->smid,
                            .meta = r->meta,
                            .count = r->count,
                            .mask = r->mask,
                            .warp = r->warp,
                            .site = r->site,
                            .addresses = r->addresses ? r->count : 0};
    memcpy(to, &w, sizeof w);
    if (r->addresses)
        memcpy(to + sizeof w, r->addresses, r->count * sizeof *r->addresses);
    return to + bytes_of(r);
}

static void live_append(void *self, const struct mt_access_run *runs, size_t count, uint64_t accesses)
{
    struct mt_live *s = self;
    struct launch *l = s->launch;
    if (!l || off)
        return;
    for (size_t i = 0, end; i < count && !off; i = end) {
        size_t bytes = 0;
        for (end = i; end < count && bytes < FRAME_MAX; end++)
            bytes += bytes_of(&runs[end]);
        char *payload = malloc(bytes), *at = payload;
        if (!payload) {
            live_fail("no memory for accesses", 0);
            return;
        }
        for (size_t k = i; k < end; k++)
            at = put_run(at, &runs[k]);
        live_put(s, l, payload, bytes);
        free(payload);
    }
    l->records += accesses;
}

/* What is sent, or waits to be. */
static uint64_t live_end(void *self, uint64_t *bytes)
{
    struct mt_live *s = self;
    *bytes = 0;
    struct launch *l = s->launch;
    if (!l)
        return 0;
    uint64_t n = off ? 0 : l->records;
    s->launch = NULL;
    pthread_mutex_lock(&lock);
    l->ended = 1;
    pthread_mutex_unlock(&lock);
    live_advance();
    n = off ? 0 : n;
    *bytes = n * MT_RAW_RECORD_SIZE;
    return n;
}

/* ---- streams ------------------------------------------------------------------------------------ */

static void in_child(void)
{
    mt_fd_close(&peer); /* mt-extract must see the end when our parent ends */
}

/* With `out` held: mt-extract runs, and has said what it wants. */
static int live_start(char *why, size_t size)
{
    static int tried;
    ssize_t n = -1;
    if (!tried) {
        tried = 1;
        pthread_atfork(NULL, NULL, in_child);
        mt_fork_counts();
        int child = mt_live_child(error, sizeof error);
        off = child < 0 || mt_fd_take(&peer, child);
        if (child >= 0 && off)
            snprintf(error, sizeof error, "mt-extract's socket: %s", strerror(errno));
        if (!off) {
            while ((n = recv(peer.fd, &wanted, 1, 0)) < 0 && errno == EINTR) {
            }
            off = n != 1;
            if (off)
                snprintf(error, sizeof error, "mt-extract has ended: it takes no traces");
        }
    }
    if (off)
        snprintf(why, size, "%s", error);
    return off ? -1 : 0;
}

int mt_live_start(int *whole, char *why, size_t size)
{
    pthread_mutex_lock(&out);
    int rc = live_start(why, size);
    *whole = wanted == MT_LIVE_WANTS_TRACES;
    pthread_mutex_unlock(&out);
    return rc;
}

struct mt_live *mt_live_open(const char *path, char *why, size_t size)
{
    struct mt_live *s = calloc(1, sizeof *s);
    pthread_mutex_lock(&out);
    if (!s || off) {
        snprintf(why, size, "%s", s ? error : "no memory");
        free(s);
        s = NULL;
    } else {
        s->number = streams++;
        log_stream = log_stream ? log_stream : s;
        send_frame(MT_LIVE_STREAM, s->number, 0, path, strlen(path));
    }
    pthread_mutex_unlock(&out);
    return s;
}

void mt_live_give(uint32_t number, const char *path, int trace)
{
    struct mt_live_frame f = {MT_LIVE_TRACE, number, strlen(path), 0};
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {&f, sizeof f};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof trace);
    memcpy(CMSG_DATA(c), &trace, sizeof trace);
    pthread_mutex_lock(&out);
    ssize_t n = -1;
    if (!off && !mt_fd_is(&peer))
        live_fail("the program closed the descriptor of mt-extract's socket", 0);
    while (!off && (n = sendmsg(peer.fd, &m, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
    }
    if (!off && n < 0)
        live_fail("a trace cannot be given to mt-extract", errno);
    send_all((char *)&f + (n < 0 ? 0 : n), sizeof f - (size_t)(n < 0 ? 0 : n));
    send_all(path, strlen(path));
    pthread_mutex_unlock(&out);
}

void mt_live_lines_of(struct mt_live *s, struct mt_companion_writer *c)
{
    pthread_mutex_lock(&out);
    s->companion = c;
    pthread_mutex_unlock(&out);
}

static int live_on(const void *self)
{
    return !off;
}

static const char *live_error(const void *self)
{
    return error;
}

/* The stream's last lines. The companion is not looked at afterwards. */
static void live_last(void *self, int busy)
{
    struct mt_live *s = self;
    pthread_mutex_lock(&out);
    send_lines(s);
    s->companion = NULL;
    pthread_mutex_unlock(&out);
}

const struct mt_output_ops mt_live_ops = {
    .number = live_number,
    .begin = live_begin,
    .append_runs = live_append,
    .end = live_end,
    .on = live_on,
    .error = live_error,
    .last = live_last,
};

void mt_live_finish(void)
{
    char c;
    pthread_mutex_lock(&out);
    if (peer.fd >= 0)
        send_frame(MT_LIVE_DONE, 0, 0, NULL, 0);
    if (mt_fd_is(&peer)) {
        shutdown(peer.fd, SHUT_WR);
        int written = 0;
        ssize_t n;
        while ((n = recv(peer.fd, &c, 1, 0)) > 0 || (n < 0 && errno == EINTR))
            written |= n > 0;
        if (!written && !off)
            mt_report("MEMTRACE_SINK: mt-extract has written no result");
        mt_fd_close(&peer);
        off = 1;
    }
    pthread_mutex_unlock(&out);
}
