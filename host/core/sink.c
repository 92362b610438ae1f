/* Destination of records: buffers of entries for a compact trace (written by a worker if the engine has
 * one), or pieces of text. */
#include "state.h"
#include "format/container/writer.h"
#include "output.h"
#include "queue.h"
#include "format/host_text.h"
#include "format/container/syscall.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define HELP_AT 8u /* number of waiting buffers at which the thread that adds one works, too */
/* Free buffers that are not reused yet: the worker's core has just read them, and a write there would wait
 * for it. */
#define REST 4u
#define WORKER_GONE 8192u    /* wait steps */
#define TEXT_BYTES 65536u    /* collected before a write to a regular file */
#define TEXT_FIFO 4096u      /* collected before a write to a FIFO */
#define IDLE_NS 50000000u    /* interval between the worker's checks */
#define STUCK_NS 5000000000u /* without progress for this long: the worker is gone */
#define LINE_RESERVE (MT_BUFFER_ROOM - 8192)

static struct {
    struct mt_core_output out;
    struct mt_mtc_file file;
    struct mt_mtc_writer *writer;

    struct mt_spin lock;                /* lock of the free list */
    struct mt_buffer *free, *free_last; /* oldest first */
    unsigned nfree;

    struct mt_spin text_lock; /* lock of the text and its file */

    uint32_t running, quit, work; /* worker; `work` is its futex */
    uint32_t joins;               /* 1: it exists and was not stopped */
    void *worker;

    struct mt_spin meta_lock;
    struct mt_jsonl line;
    struct mt_buffer *meta; /* lines not yet queued */
    struct mt_buffer *last; /* for the lines at the end, if memory is exhausted */

    char *text;
    size_t text_bytes;
    uint32_t writing;
} s;

/* ---- compact trace: from the queue into the file ---- */

static int write_file(void *self, const void *data, size_t bytes)
{
    return mt_core_output_write(self, data, bytes);
}

static void sink_drain(void)
{
    while (mt_core_queue_step(0))
        ;
}

static void sink_work(void *arg)
{
    (void)arg;
    for (;;) {
        uint32_t seen = __atomic_load_n(&s.work, __ATOMIC_ACQUIRE);
        int quit = (int)__atomic_load_n(&s.quit, __ATOMIC_ACQUIRE);
        sink_drain();
        if (quit || mt_g.forked)
            break;
        if (mt_g.e->idle)
            mt_g.e->idle();
        mt_plat_wait(&s.work, seen, IDLE_NS);
    }
    __atomic_store_n(&s.running, 0, __ATOMIC_RELEASE);
}

/* Makes the worker or this thread write; both if the worker does not keep up. */
static void sink_kick(void)
{
    if (!__atomic_load_n(&s.running, __ATOMIC_ACQUIRE)) {
        sink_drain();
        return;
    }
    __atomic_add_fetch(&s.work, 1, __ATOMIC_RELEASE);
    mt_plat_wake(&s.work);
    if (mt_core_queue_waiting() > HELP_AT && !s.out.fifo)
        mt_core_queue_step(1);
}

/* ---- buffers ---- */

/* Takes the free buffer returned first, if there are more than `keep`. */
static struct mt_buffer *take_free(unsigned keep)
{
    struct mt_buffer *b = NULL;
    mt_spin_lock(&s.lock);
    if (s.nfree > keep) {
        b = s.free;
        s.free = b->next;
        s.nfree--;
    }
    mt_spin_unlock(&s.lock);
    return b;
}

struct mt_buffer *mt_core_sink_buffer(enum mt_buffer_kind kind, uint64_t thread, uint64_t seq)
{
    struct mt_buffer *b = NULL;
    for (unsigned step = 0; !b; step++) {
        if ((b = take_free(REST)))
            break;
        if (mt_core_queue_waiting() < MT_QUEUE_MAX) {
            if (!(b = mt_plat_map(MT_BUFFER_BYTES)))
                b = take_free(0);
            break;
        }
        if ((b = take_free(0)))
            break;
        /* A FIFO's reader may be slow: the worker waits for it as long as there is one. */
        int waits = s.out.fifo && step < WORKER_GONE && __atomic_load_n(&s.running, __ATOMIC_RELAXED);
        if (waits || !mt_core_queue_step(1))
            mt_plat_pause(step);
    }
    if (b) {
        b->kind = kind;
        b->thread = thread;
        b->seq = seq;
        b->count = b->left_out = 0;
    }
    return b;
}

void mt_core_sink_return(struct mt_buffer *b)
{
    if (__atomic_load_n(&mt_g.stopping, __ATOMIC_RELAXED) &&
        (b->kind == MT_BUFFER_ENTRIES || b->kind == MT_BUFFER_COUNTED))
        return; /* its thread may not have noticed yet and still append */
    b->next = NULL;
    mt_spin_lock(&s.lock);
    if (s.nfree++)
        s.free_last->next = b;
    else
        s.free = b;
    s.free_last = b;
    mt_spin_unlock(&s.lock);
}

/* Queues lines before the records that name their sites. */
static void push_meta(void)
{
    mt_spin_lock(&s.meta_lock);
    struct mt_buffer *m = s.meta;
    if (m && m->count) {
        s.meta = NULL;
        mt_core_queue_push(m);
    }
    mt_spin_unlock(&s.meta_lock);
}

void mt_core_sink_put(struct mt_buffer *b)
{
    if (!s.writer || mt_g.forked || !b->count) {
        mt_core_sink_return(b);
        return;
    }
    push_meta();
    mt_core_queue_push(b);
    sink_kick();
}

/* ---- meta lines ---- */

int mt_core_sink_line_begin(void)
{
    if (!s.writer || mt_g.forked)
        return 0;
    mt_spin_lock(&s.meta_lock);
    return 1;
}

void mt_core_sink_line_end(enum mt_line_kind kind, const void *line)
{
    struct mt_buffer *full = NULL;
    mt_line_put(&s.line, kind, line);
    if (s.meta && s.meta->count + s.line.n > LINE_RESERVE) {
        full = s.meta;
        s.meta = NULL;
    }
    if (full)
        mt_core_queue_push(full);
    if (!s.meta)
        s.meta = mt_core_sink_buffer(MT_BUFFER_META, 0, 0);
    if (s.meta && !s.line.failed && s.meta->count + s.line.n <= MT_BUFFER_ROOM) {
        memcpy(s.meta->text + s.meta->count, s.line.text, s.line.n);
        s.meta->count += s.line.n;
        s.meta->seq++; /* number of lines */
    } else {
        mt_g.incomplete = 1;
    }
    mt_spin_unlock(&s.meta_lock);
    if (full)
        sink_kick();
}

void mt_core_sink_line(enum mt_line_kind kind, const void *line)
{
    if (mt_core_sink_line_begin())
        mt_core_sink_line_end(kind, line);
}

/* Writes the program's path: the one by which it was called (gcc), if that leads to the same file
 * (gcc-12). */
static void sink_program(char *path, size_t size)
{
    const char *called = mt_g.e->called;
    char link[4096];
    struct stat a, b;
    long n = mt_g.e->program ? snprintf(path, size, "%s", mt_g.e->program) : mt_plat_program(path, size);
    path[n > 0 && (size_t)n < size ? n : 0] = 0;
    if (!called || mt_sys(__NR_stat, (long)called, (long)&a, 0, 0, 0, 0) != 0 ||
        mt_sys(__NR_stat, (long)path, (long)&b, 0, 0, 0, 0) != 0 || a.st_dev != b.st_dev ||
        a.st_ino != b.st_ino || strncmp(called, "/proc/", 6) == 0)
        return;
    while (strncmp(called, "./", 2) == 0)
        called += 2;
    n = *called == '/' ? 0 : mt_sys(__NR_readlink, (long)"/proc/self/cwd", (long)link, sizeof link, 0, 0, 0);
    if (n >= 0 && (size_t)n < sizeof link && (size_t)n + strlen(called) + 2 < size)
        snprintf(path, size, "%.*s%s%s", (int)n, link, *called == '/' ? "" : "/", called);
}

static void sink_header(void)
{
    static const char *const modes[] = {"mat", "insn", "atomic"};
    char program[4096];
    const struct mt_core_options *o = mt_g.o;
    sink_program(program, sizeof program);
    mt_core_sink_line(MT_LINE_header, &(struct mt_header_line){.tool = "memtrace " MEMTRACE_VERSION,
                                                               .pid = mt_plat_pid(),
                                                               .program = program,
                                                               .engine = mt_g.e->name,
                                                               .mode = modes[o->mode],
                                                               .start_ns = mt_plat_now_ns(),
                                                               .format = "host",
                                                               .trace = o->output,
                                                               .threshold = o->threshold,
                                                               .locks = o->locks,
                                                               .block = o->block,
                                                               .registered = o->registered,
                                                               .roi = o->roi,
                                                               .failed = o->failed});
}

/* ---- text ---- */

static void text_out(void)
{
    int had = s.out.error;
    __atomic_store_n(&s.writing, 1, __ATOMIC_RELAXED);
    int rc = s.text_bytes && !had ? mt_core_output_write(&s.out, s.text, s.text_bytes) : 0;
    __atomic_store_n(&s.writing, 0, __ATOMIC_RELAXED);
    s.text_bytes = 0;
    if (rc)
        mt_core_fail("%s: %s", mt_g.o->output, rc == EPIPE ? "its reader closed the FIFO" : strerror(rc));
}

void mt_core_sink_text_lock(void)
{
    mt_spin_lock(&s.text_lock);
}

void mt_core_sink_text_unlock(void)
{
    mt_spin_unlock(&s.text_lock);
}

void mt_core_sink_text_locked(const char *text, size_t bytes)
{
    if (!s.text || mt_g.forked)
        return;
    while (bytes) {
        size_t n = TEXT_BYTES - s.text_bytes < bytes ? TEXT_BYTES - s.text_bytes : bytes;
        if (s.text_bytes + bytes > TEXT_BYTES && s.text_bytes && bytes <= TEXT_BYTES)
            n = 0; /* keeps pieces of lines together */
        memcpy(s.text + s.text_bytes, text, n);
        s.text_bytes += n;
        text += n;
        bytes -= n;
        if (s.text_bytes >= (s.out.fifo ? TEXT_FIFO : TEXT_BYTES) || bytes)
            text_out();
    }
}

void mt_core_sink_text(const char *text, size_t bytes)
{
    mt_core_sink_text_lock();
    mt_core_sink_text_locked(text, bytes);
    mt_core_sink_text_unlock();
}

int mt_core_sink_writing(void)
{
    return (int)__atomic_load_n(&s.writing, __ATOMIC_RELAXED) || mt_core_queue_writing();
}

int mt_core_sink_stuck(uint64_t ns)
{
    struct mt_spin *const locks[] = {&s.meta_lock, &s.text_lock, &s.lock};
    for (unsigned i = 0; i < 3; i++) {
        if (mt_spin_lock_for(locks[i], ns, mt_core_sink_writing))
            return 1;
        mt_spin_unlock(locks[i]);
    }
    return mt_core_queue_stuck(ns, mt_core_sink_writing);
}

int mt_core_sink_is_fifo(void)
{
    return s.out.fifo;
}

/* ---- open, close, fork ---- */

static int open_container(char *why, unsigned size)
{
    uint64_t features = MT_MTC_HAS_HOST | (mt_g.o->mode == MT_CORE_MAT ? 0 : MT_MTC_HAS_TIMES);
    s.file = (struct mt_mtc_file){write_file, &s.out};
    s.writer = mt_mtc_writer_open(&s.file, features, (int)mt_g.o->level, why, size);
    if (!s.writer)
        return -1;
    mt_core_queue_open(s.writer, (int)mt_g.o->level);
    /* The line grows once, here, and not while the program is inside malloc. */
    char blank[8001];
    memset(blank, ' ', sizeof blank - 1);
    blank[sizeof blank - 1] = 0;
    mt_jsonl_begin(&s.line, "");
    mt_jsonl_string(&s.line, "", blank);
    s.last = mt_core_sink_buffer(MT_BUFFER_META, 0, 0);
    sink_header();
    if (mt_g.e->spawn) {
        s.running = s.joins = 1;
        if (mt_g.e->spawn(sink_work, NULL, &s.worker))
            s.running = s.joins = 0; /* the program's threads write then */
    }
    return 0;
}

int mt_core_sink_open(char *why, unsigned size)
{
    memset(&s, 0, sizeof s);
    if (mt_core_output_open(&s.out, mt_g.o->output, why, size))
        return -1;
    int rc = 0;
    if (mt_g.o->container) {
        rc = open_container(why, size);
    } else if (!(s.text = mt_plat_map(TEXT_BYTES))) {
        snprintf(why, size, "out of memory");
        rc = -1;
    }
    if (rc)
        mt_core_output_close(&s.out);
    return rc;
}

/* Lets the worker finish. If it is gone we write ourselves, unless it is in the middle of a write. */
static void stop_worker(void)
{
    if (!__atomic_exchange_n(&s.joins, 0, __ATOMIC_ACQ_REL))
        return;
    __atomic_store_n(&s.quit, 1, __ATOMIC_RELEASE);
    uint64_t seen = UINT64_MAX, since = mt_plat_now_ns();
    for (unsigned step = 64; __atomic_load_n(&s.running, __ATOMIC_ACQUIRE); step++) {
        __atomic_add_fetch(&s.work, 1, __ATOMIC_RELEASE);
        mt_plat_wake(&s.work);
        uint64_t now = mt_plat_now_ns(), left = mt_core_queue_waiting();
        if (left != seen || mt_core_sink_writing()) {
            seen = left;
            since = now;
        } else if (now - since > STUCK_NS) {
            s.running = 0;
            return;
        }
        mt_plat_pause(step);
    }
    if (mt_g.e->join)
        mt_g.e->join(s.worker);
}

void mt_core_worker_end(void)
{
    if (mt_on() && s.writer)
        stop_worker();
}

static void end_line(int killed)
{
    struct mt_sums sum = mt_threads_sum();
    uint64_t lost = sum.lost + mt_core_queue_dropped(), written = mt_core_queue_written();
    if (lost)
        mt_core_sink_line(MT_LINE_lost,
                          &(struct mt_lost_line){lost, "accesses could not be recorded or written"});
    mt_core_sink_line(MT_LINE_end, &(struct mt_end_line){.host = 1,
                                                         .records_written = written,
                                                         .records_counted = written + lost,
                                                         .left_out = sum.left,
                                                         .children = mt_g.children,
                                                         .killed = killed,
                                                         .complete = !lost && !mt_g.incomplete && !killed});
}

/* Writes the last line of mat text, which says that it is complete, or what is missing. MAT's own layout
 * has no such line. */
static void text_end(int killed)
{
    char line[MT_TEXT_LINE];
    if (mt_g.o->mode == MT_CORE_MAT && !mt_g.o->mat_files && !mt_g.incomplete && !killed)
        mt_core_sink_text_locked(line, mt_text_mat_end(line, sizeof line, mt_threads_sum().lost));
    text_out();
}

void mt_core_sink_close(int killed)
{
    if (s.writer) {
        stop_worker();
        mt_core_queue_finish();
        if (s.last)
            mt_core_sink_return(s.last);
        mt_core_texts();
        mt_core_copies();
        end_line(killed);
        push_meta();
        mt_core_queue_finish();
        mt_core_queue_close();
        mt_mtc_writer_close(s.writer);
        s.writer = NULL;
        mt_jsonl_free(&s.line);
    } else if (s.text) {
        mt_core_sink_text_lock();
        text_end(killed);
        mt_core_sink_text_unlock();
    }
    mt_core_output_close(&s.out);
}

void mt_core_sink_forked(void)
{
    mt_core_output_close(&s.out); /* a FIFO's reader must see the end when the parent closes it */
}
