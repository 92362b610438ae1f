/* What happens in the process besides launches: the lines that are in every companion. */
#define _GNU_SOURCE
#include "events.h"
#include "base/demangle.h"
#include "devices.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/held.h"
#include "job.h"
#include "base/json.h"
#include "base/options.h"
#include "base/report.h"
#include "sources.h"
#include "format/image.h"
#include "memtrace/record.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LOG_MEMORY (1u << 20) /* the log's tail in memory; what is older moves to an unnamed file */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the log, the line buffer, alloc ids */
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
static char *tail;
static size_t tail_bytes;
static uint64_t spilled, dropped;
static struct mt_fd spill_file = MT_FD_NONE;
static struct mt_jsonl line;
/* The next number. Engines that see the process from outside (qemu) find it by its name. */
__attribute__((visibility("default"))) _Atomic uint64_t __mt_host_seq;
static uint64_t alloc_id; /* atomic: read without the lock */

uint64_t mt_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int mt_tracing(void)
{
    return mt_options()->enable && !mt_forked();
}

/* For libmemtrace-host.so: the number given last (0: none yet), or a new one, so that host accesses and CUDA
 * calls have one order. Its own numbers need no word to it. */
__attribute__((visibility("default"))) uint64_t __mt_sequence(int next)
{
    return next ? atomic_fetch_add(&__mt_host_seq, 1) : atomic_load(&__mt_host_seq) - 1;
}

static void (*_Atomic moved)(void);

__attribute__((visibility("default"))) void __mt_sequence_moved(void (*tell)(void))
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&__mt_host_seq, &none, 1); /* for it, 0 stands for "before all" */
    moved = tell;
}

/* ---- what copies read of the program's memory ---- */

typedef void events_tell(uint64_t address, uint64_t bytes, const char *file, uint32_t line);
static events_tell *_Atomic reads;

__attribute__((visibility("default"))) void __mt_host_reads(events_tell *tell)
{
    reads = tell;
}

/* Host tracing on machine code sees that this is called: its first two arguments and its name stay. */
__attribute__((visibility("default"), noinline)) void __mt_host_read(uint64_t address, uint64_t bytes,
                                                                     const struct mt_host_site *site)
{
    events_tell *tell = reads;
    if (tell)
        tell(address, bytes, site ? site->file : NULL, site ? site->line : 0);
}

static void events_read(const struct mt_event_copy *c, const struct mt_host_site *site)
{
    if (*c->kind != 'h')
        return;
    if (!c->height)
        __mt_host_read(c->src, c->bytes, site);
    for (uint64_t y = 0; y < c->height; y++)
        __mt_host_read(c->src + y * c->spitch, c->width, site);
}

uint64_t mt_event_next(void)
{
    return atomic_load(&__mt_host_seq);
}

uint64_t mt_event_seq(void)
{
    uint64_t given = atomic_fetch_add(&__mt_host_seq, 1);
    void (*tell)(void) = moved;
    if (tell)
        tell();
    return given;
}

/* ---- the log ---- */

/* Moves the tail to the file. 0, or -1: it stays. */
static int events_spill(void)
{
    if (spill_file.fd < 0) {
        int fd = open(mt_options()->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd < 0)
            fd = memfd_create("memtrace-log", MFD_CLOEXEC);
        if (fd < 0 || mt_fd_take(&spill_file, fd))
            return -1;
    }
    int error = mt_fd_is(&spill_file) ? 0 : EBADF; /* the program may have closed it */
    struct mt_held h = mt_hold(SIGXFSZ);
    for (size_t done = 0; done < tail_bytes && !error;) {
        ssize_t n = pwrite(spill_file.fd, tail + done, tail_bytes - done, (off_t)(spilled + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            error = n ? errno : ENOSPC;
    }
    mt_let_go(&h, error);
    if (error)
        return -1;
    spilled += tail_bytes;
    tail_bytes = 0;
    return 0;
}

static void events_lose(size_t bytes, const char *why)
{
    if (!dropped)
        mt_report("companion: %s; allocations, copies and events from here on are missing", why);
    dropped += bytes;
}

static void append_locked(const struct mt_jsonl *j)
{
    if (!tail)
        tail = malloc(LOG_MEMORY);
    if (!tail || j->failed || j->n > LOG_MEMORY)
        events_lose(j->n, "out of memory");
    else if (dropped || (tail_bytes + j->n > LOG_MEMORY && events_spill()))
        events_lose(j->n, "no space for its lines");
    else {
        memcpy(tail + tail_bytes, j->text, j->n);
        tail_bytes += j->n;
    }
}

void mt_log_line(const struct mt_jsonl *j)
{
    if (!mt_tracing())
        return;
    pthread_mutex_lock(&lock);
    append_locked(j);
    pthread_mutex_unlock(&lock);
}

uint64_t mt_log_size(void)
{
    pthread_mutex_lock(&lock);
    uint64_t n = spilled + tail_bytes;
    pthread_mutex_unlock(&lock);
    return n;
}

uint64_t mt_log_dropped(void)
{
    pthread_mutex_lock(&lock);
    uint64_t n = dropped;
    pthread_mutex_unlock(&lock);
    return n;
}

size_t mt_log_read(uint64_t from, void *out, size_t bytes)
{
    size_t n = 0;
    pthread_mutex_lock(&lock);
    if (from < spilled) {
        uint64_t there = spilled - from;
        ssize_t got;
        do
            got = !mt_fd_is(&spill_file)
                      ? 0
                      : pread(spill_file.fd, out, there < bytes ? (size_t)there : bytes, (off_t)from);
        while (got < 0 && errno == EINTR);
        n = got > 0 ? (size_t)got : 0;
    } else if (from - spilled < tail_bytes) {
        n = tail_bytes - (size_t)(from - spilled);
        n = n < bytes ? n : bytes;
        memcpy(out, tail + (from - spilled), n);
    }
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- lines ---- */

/* Between begin and end the lock is held, so that the log is in the order of the sequence numbers. */
static int events_begin(const char *ev)
{
    if (!mt_tracing())
        return 0;
    pthread_mutex_lock(&lock);
    mt_jsonl_begin(&line, ev);
    mt_jsonl_u64(&line, "seq", mt_event_seq());
    return 1;
}

static void events_end(void)
{
    mt_jsonl_end(&line);
    append_locked(&line);
    pthread_mutex_unlock(&lock);
}

void mt_site_text(struct mt_jsonl *j, const struct mt_host_site *site)
{
    const struct mt_host_code *code = mt_host_code_of(site);
    mt_jsonl_string(j, "file", site ? site->file : "");
    mt_jsonl_u64(j, "line", site ? site->line : 0);
    if (code) {
        mt_jsonl_string(j, "at", code->at[0]);
        mt_jsonl_strings(j, "callers", (const char *const *)&code->at[1], code->ncallers);
    }
}

static void put_site(const struct mt_host_site *site)
{
    mt_site_text(&line, site);
}

static void put_device(const char *key, int device)
{
    if (device >= 0 && mt_devices_numbered())
        mt_jsonl_i64(&line, key, mt_device_number(device));
}

/* Of processes of a job the times say which event comes first. */
static void put_time(void)
{
    if (*mt_job()->name)
        mt_jsonl_u64(&line, "ns", mt_now_ns());
}

uint64_t mt_event_alloc(uint64_t base, uint64_t bytes, const char *kind, const char *name, int device,
                        const struct mt_host_site *site)
{
    if (!events_begin("alloc"))
        return 0;
    uint64_t id = __atomic_fetch_add(&alloc_id, 1, __ATOMIC_RELAXED);
    char *source_name = mt_demangle(name);
    mt_jsonl_u64(&line, "id", id);
    mt_jsonl_address(&line, "base", base);
    mt_jsonl_u64(&line, "bytes", bytes);
    mt_jsonl_string(&line, "kind", kind);
    mt_jsonl_string(&line, "name", source_name ? source_name : name);
    put_device("device", device);
    put_time();
    put_site(site);
    events_end();
    free(source_name);
    return id;
}

uint64_t mt_event_allocations(void)
{
    return __atomic_load_n(&alloc_id, __ATOMIC_RELAXED);
}

void mt_event_name(uint64_t id, const char *name)
{
    struct mt_jsonl j = {0};
    mt_jsonl_begin(&j, "name");
    mt_jsonl_u64(&j, "id", id);
    mt_jsonl_string(&j, "name", name);
    mt_jsonl_end(&j);
    mt_log_line(&j);
    mt_jsonl_free(&j);
}

void mt_event_free(uint64_t id, uint64_t base)
{
    if (!events_begin("free"))
        return;
    mt_jsonl_u64(&line, "id", id);
    mt_jsonl_address(&line, "base", base);
    put_time();
    events_end();
}

void mt_event_share(uint64_t id, int opened, const void *handle, size_t size)
{
    char text[2 * 64 + 1];
    for (size_t i = 0; i < size && i < 64; i++)
        snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)handle)[i]);
    if (!events_begin(opened ? "opened" : "shared_out"))
        return;
    mt_jsonl_u64(&line, "id", id);
    mt_jsonl_string(&line, "handle", text);
    events_end();
}

void mt_event_communicator(uint64_t comm, int rank, int ranks, int device)
{
    if (!events_begin("communicator"))
        return;
    mt_jsonl_address(&line, "comm", comm);
    mt_jsonl_i64(&line, "rank", rank);
    mt_jsonl_i64(&line, "ranks", ranks);
    put_device("device", device);
    events_end();
}

static _Thread_local uint64_t operation;

uint64_t mt_event_set_op(uint64_t op)
{
    uint64_t before = operation;
    operation = op;
    return before;
}

uint64_t mt_event_op(void)
{
    return mt_options()->check ? operation : 0;
}

static void events_put_op(void)
{
    if (mt_event_op())
        mt_jsonl_u64(&line, "op", operation);
}

void mt_event_order(uint64_t op, uint64_t stream, uint64_t n, const uint64_t *pairs, size_t npairs)
{
    struct mt_jsonl j = {0};
    mt_jsonl_begin(&j, "order");
    mt_jsonl_u64(&j, "op", op);
    mt_jsonl_u64s(&j, "at", (uint64_t[]){stream, n}, 2);
    mt_jsonl_u64s(&j, "after", pairs, npairs);
    mt_jsonl_end(&j);
    mt_log_line(&j);
    mt_jsonl_free(&j);
}

static _Atomic uint64_t copies;

uint64_t mt_event_copies(void)
{
    return copies;
}

void mt_event_memcpy(const struct mt_event_copy *c, const struct mt_host_site *site)
{
    if (!events_begin("memcpy"))
        return;
    copies++;
    mt_jsonl_string(&line, "kind", c->kind);
    mt_jsonl_address(&line, "dst", c->dst);
    mt_jsonl_address(&line, "src", c->src);
    mt_jsonl_u64(&line, "bytes", c->bytes);
    if (c->height) {
        mt_jsonl_u64(&line, "width", c->width);
        mt_jsonl_u64(&line, "height", c->height);
        mt_jsonl_u64(&line, "dpitch", c->dpitch);
        mt_jsonl_u64(&line, "spitch", c->spitch);
    }
    mt_jsonl_i64(&line, "stream", c->stream);
    if (c->unchanged)
        mt_jsonl_u64(&line, "unchanged", 1);
    put_device("dst_device", c->dst_device);
    put_device("src_device", c->src_device);
    mt_jsonl_u64(&line, "begin_ns", mt_now_ns());
    events_put_op();
    put_site(site);
    events_end();
    events_read(c, site);
}

void mt_event_memset(const struct mt_event_fill *f, const struct mt_host_site *site)
{
    if (!events_begin("memset"))
        return;
    mt_jsonl_address(&line, "dst", f->dst);
    mt_jsonl_u64(&line, "value", f->value);
    mt_jsonl_u64(&line, "bytes", f->bytes);
    if (f->height) {
        mt_jsonl_u64(&line, "width", f->width);
        mt_jsonl_u64(&line, "height", f->height);
        mt_jsonl_u64(&line, "pitch", f->pitch);
    }
    mt_jsonl_i64(&line, "stream", f->stream);
    mt_jsonl_u64(&line, "begin_ns", mt_now_ns());
    events_put_op();
    put_site(site);
    events_end();
}

void mt_event_range(const struct mt_event_range *r, int still_open)
{
    if (!events_begin("range"))
        return;
    mt_jsonl_u64(&line, "begin", r->begin);
    mt_jsonl_string(&line, "name", r->name);
    mt_jsonl_string(&line, "domain", r->domain);
    mt_jsonl_string(&line, "kind", r->kind);
    mt_jsonl_u64(&line, "thread", r->thread);
    mt_jsonl_u64(&line, "begin_ns", r->begin_ns);
    mt_jsonl_u64(&line, "end_ns", mt_now_ns());
    if (still_open)
        mt_jsonl_bool(&line, "open", 1);
    events_end();
}

void mt_event_sync(const char *what, int64_t id)
{
    if (!events_begin("sync"))
        return;
    mt_jsonl_string(&line, "what", what);
    if (strcmp(what, "device"))
        mt_jsonl_i64(&line, what, id); /* "stream": N or "event": id */
    events_end();
}

void mt_event_event(const char *op, uint64_t event, int64_t stream)
{
    if (!events_begin("event"))
        return;
    mt_jsonl_string(&line, "op", op);
    mt_jsonl_u64(&line, "event", event);
    mt_jsonl_i64(&line, "stream", stream);
    events_end();
}

static const char *op_name(uint32_t op)
{
    switch (mt_rec_space(op) <= MT_IN_LOCAL ? op & 3 : op) {
#define MT_ACCESS_SYNC(name, code, text)                                                                     \
    case code:                                                                                               \
        return text;
#define MT_ACCESS_TYPE(name, code, text)                                                                     \
    case code:                                                                                               \
        return text;
#include "memtrace/record.def"
    }
    return "unknown";
}

static _Atomic uint64_t findings;

uint64_t mt_event_findings(void)
{
    return findings;
}

static void put_access(const struct mt_event_check *c)
{
    mt_jsonl_u64(&line, "site", c->site);
    mt_jsonl_string(&line, "op", op_name(c->op));
    mt_jsonl_u64(&line, "size", c->bytes);
    mt_jsonl_address(&line, "address", c->address);
}

void mt_event_check(const struct mt_event_check *c)
{
    if (!events_begin("check"))
        return;
    findings++;
    mt_jsonl_string(&line, "why", c->why);
    mt_jsonl_u64(&line, "count", c->count);
    mt_jsonl_string(&line, "kernel", c->kernel);
    mt_jsonl_u64(&line, "launch", c->launch);
    mt_jsonl_string(&line, "file", c->file);
    mt_jsonl_u64(&line, "line", c->line);
    if (c->access)
        put_access(c);
    mt_jsonl_u32x3(&line, "cta", c->cta);
    mt_jsonl_u32x3(&line, "thread", c->thread);
    mt_jsonl_string(&line, "near", c->near);
    if (c->side)
        mt_jsonl_string(&line, "side", c->side);
    if (c->side && c->alloc >= 0) {
        mt_jsonl_i64(&line, "alloc", c->alloc);
        mt_jsonl_u64(&line, "distance", c->distance);
    }
    events_end();
}

static void put_failed_words(const struct mt_event_failed *f)
{
    if (f->at && *f->at)
        mt_jsonl_string(&line, "at", f->at);
    if (f->ncallers)
        mt_jsonl_strings(&line, "callers", f->callers, f->ncallers);
    if (f->why && *f->why)
        mt_jsonl_string(&line, "why", f->why);
    if (f->freed >= 0)
        mt_jsonl_i64(&line, "freed", f->freed);
    if (!f->kernel)
        return;
    mt_jsonl_string(&line, "kernel", f->kernel);
    mt_jsonl_u64(&line, "launch", f->launch);
}

void mt_event_failed(const struct mt_event_failed *f)
{
    if (!events_begin("failed"))
        return;
    findings++;
    if (f->more) {
        mt_jsonl_u64(&line, "more", f->more);
    } else {
        mt_jsonl_string(&line, "call", f->call);
        mt_jsonl_i64(&line, "code", f->code);
        mt_jsonl_string(&line, "error", f->error);
        if (mt_host_site_there(f->site))
            put_site(f->site);
        put_failed_words(f);
        mt_jsonl_u64(&line, "count", f->count);
    }
    events_end();
}

static _Atomic uint64_t site_tables;
static _Atomic int site_spaces;

int mt_log_spaces(void)
{
    /* Code that is compiled when it is needed comes late: its option says it before. */
    const char *asked = mt_options()->spaces;
    return site_spaces || strstr(mt_options()->ptx_options, "--mt-spaces=") || strstr(asked, "shared") ||
           strstr(asked, "local");
}

uint64_t mt_log_sites(void)
{
    return site_tables;
}

void mt_event_stream(uint64_t stream, const char *trace, const char *why)
{
    struct mt_jsonl j = {0};
    mt_jsonl_begin(&j, "stream");
    mt_jsonl_u64(&j, "stream", stream);
    mt_jsonl_string(&j, "trace", trace);
    if (why)
        mt_jsonl_string(&j, "why", why);
    mt_jsonl_end(&j);
    mt_log_line(&j);
    mt_jsonl_free(&j);
}

static void put_code(struct mt_jsonl *j, const struct mt_event_site *s)
{
    mt_jsonl_string(j, "at", s->at);
    mt_jsonl_string(j, "symbol", s->symbol);
    if (s->code)
        mt_jsonl_string(j, "code", s->code);
    if (s->guess)
        mt_jsonl_bool(j, "guess", 1);
}

/* `j` is used again and again. */
static void log_site(struct mt_jsonl *j, const struct mt_event_site *s)
{
    const char *file = mt_source_kept_at(s->file);
    mt_source_line(file);
    mt_jsonl_begin(j, "site");
    mt_jsonl_u64(j, "id", s->id);
    mt_jsonl_string(j, "file", file);
    mt_jsonl_u64(j, "line", s->line);
    mt_jsonl_u64(j, "column", s->column);
    mt_jsonl_string(j, "function", s->function);
    mt_jsonl_string(j, "op", op_name(s->op));
    if (mt_rec_space(s->op) == MT_IN_SHARED || mt_rec_space(s->op) == MT_IN_LOCAL)
        mt_jsonl_string(j, "space", mt_rec_space(s->op) == MT_IN_SHARED ? "shared" : "local");
    if (mt_rec_space(s->op))
        site_spaces = 1;
    mt_jsonl_u64(j, "size", s->size);
    mt_jsonl_string(j, "var", s->variable);
    if (s->strong)
        mt_jsonl_bool(j, "strong", 1);
    if (s->at)
        put_code(j, s);
    mt_jsonl_end(j);
    mt_log_line(j);
}

void mt_event_site(const struct mt_event_site *s)
{
    struct mt_jsonl j = {0};
    if (!mt_tracing())
        return;
    log_site(&j, s);
    mt_jsonl_free(&j);
    site_tables++;
}

void mt_event_sites(const struct mt_image_head *head, uint32_t base)
{
    const struct mt_image_site *site = head->sites;
    struct mt_jsonl j = {0};
    for (uint32_t i = 0; i < head->nsites && mt_tracing(); i++, site++) {
        struct mt_event_site s = {.id = base + i,
                                  .line = site->line,
                                  .column = site->column,
                                  .op = site->op,
                                  .size = site->size,
                                  .strong = (int)site->strong,
                                  .file = site->file,
                                  .function = site->function,
                                  .variable = site->variable};
        log_site(&j, &s);
    }
    mt_jsonl_free(&j);
    site_tables++;
}
