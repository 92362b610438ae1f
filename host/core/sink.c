/* Destination of records: buffers of entries for a compact trace (written by a worker if the engine has
 * one), or pieces of text. */
#define _GNU_SOURCE

#include "sink.h"
#include "state.h"
#include "format/container/pack.h"
#include "format/container/writer.h"
#include "output.h"
#include "format/host_text.h"
#include "format/container/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MT_QUEUE_MAX 24u /* maximum number of waiting buffers before threads wait */

/* Digests of the recorded code's source files at the program's end: `source` lines of a compact trace. A
 * page shows only files that match them. */

enum { MOST_FILES = 1024, LARGEST = 1 << 22 };

static const char *seen[MOST_FILES]; /* interned: equal names are equal pointers */
static unsigned nseen;

static int texts_new(const char *file)
{
    for (unsigned i = nseen; i-- > 0;)
        if (seen[i] == file)
            return 0;
    if (nseen == MOST_FILES)
        return 0;
    seen[nseen++] = file;
    return 1;
}

/* Computes the digest of a regular file: a FIFO or terminal by that name has no size. */
static int texts_digest(const char *file, uint64_t *bytes, uint64_t digest[2])
{
    long fd = mt_sys(__NR_open, (long)file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, 0, 0, 0);
    if (fd < 0)
        return -1;
    long size = mt_sys(__NR_lseek, fd, 0, SEEK_END, 0, 0, 0);
    void *text = size > 0 && size <= LARGEST ? mt_plat_map((size_t)size) : NULL;
    int rc = text ? mt_plat_pread((int)fd, text, (size_t)size, 0) : -1;
    if (rc == 0) {
        *bytes = (uint64_t)size;
        mt_pack_digest(text, (size_t)size, digest);
    }
    if (text)
        mt_plat_unmap(text, (size_t)size);
    mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
    return rc;
}

static void texts_line(const char *file)
{
    uint64_t bytes, digest[2];
    char text[33];
    if (texts_digest(file, &bytes, digest) != 0)
        return;
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)digest[0],
             (unsigned long long)digest[1]);
    mt_core_sink_line(MT_LINE_source, &(struct mt_source_line){file, bytes, text});
}

/* Writes lines with the source files of all sites, before the end line. */
static void core_texts(void)
{
    nseen = 0;
    for (uint32_t i = 1; i < mt_site_instructions(); i++) {
        const struct mt_core_kept_site *s = mt_site_of(i * 4);
        if (s && __atomic_load_n(&s->defined, __ATOMIC_ACQUIRE) && *s->file && texts_new(s->file))
            texts_line(s->file);
    }
}

/* Copies whose destination already held the same bytes: a lock-free tally by site, and a line in the trace
 * for each such site. */

#define SITES 4096u /* a power of two */
#define LOOKS 32u   /* a site without a place after this many probes is ignored */

static struct tally {
    uint32_t site; /* 0: free */
    uint64_t calls, bytes, same_calls, same_bytes;
} tallies[SITES];

static void copies_add(uint64_t *sum, uint64_t n)
{
    __atomic_fetch_add(sum, n, __ATOMIC_RELAXED);
}

static struct tally *copies_tally(uint32_t site)
{
    for (uint32_t i = 0, at = site * 0x9e3779b1u >> 20; i < LOOKS; i++, at++) {
        struct tally *t = &tallies[at % SITES];
        uint32_t is = 0;
        if (__atomic_compare_exchange_n(&t->site, &is, site, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
            is == site)
            return t;
    }
    return NULL;
}

void mt_core_copied(uint32_t site, uint64_t bytes, int same)
{
    struct tally *t = site && mt_on() ? copies_tally(site) : NULL;
    if (!t)
        return;
    copies_add(&t->calls, 1);
    copies_add(&t->bytes, bytes);
    if (same) {
        copies_add(&t->same_calls, 1);
        copies_add(&t->same_bytes, bytes);
    }
}

/* Writes a line for each site that copied bytes which its destination already held. */
static void core_copies(void)
{
    for (uint32_t i = 0; i < SITES; i++) {
        const struct tally *t = &tallies[i];
        if (t->same_calls)
            mt_core_sink_line(MT_LINE_copied, &(struct mt_copied_line){t->site, t->calls, t->bytes,
                                                                       t->same_calls, t->same_bytes});
    }
}

/* ---- Queue of full buffers for the compact trace ---- */

#define JOBS 16u    /* buffers in work, or done and waiting for an older one */
#define HURRY 1024u /* number of buffers not compressed after a thread had to help … */
#define DENSE(items) ((items) + (items) / 2) /* … as long as the file has no more bytes than this */
#define PATIENCE_NS 1000000000u

enum state { BUSY, DONE, TAKEN };

/* A buffer and the memory to work on it. */
struct job {
    struct job *next; /* next idle job */
    struct mt_mtc_encoder *encoder;
    struct mt_packer *packer;
    struct mt_buffer *buffer;
    uint64_t lost; /* items missing from the file if it fails */
    int hurry, error;
    enum state state; /* under q.lock */
};

static struct {
    struct mt_mtc_writer *writer;
    int level;

    struct mt_spin lock;
    struct mt_buffer *head, *tail;
    uint32_t waiting;
    struct job *idle;
    uint32_t hurry;            /* number of buffers still to hurry */
    struct job *ring[JOBS];    /* jobs by buffer number */
    uint64_t popped, appended; /* numbers of buffers; those between are in the ring */

    struct mt_spin append_lock; /* file */
    uint64_t written, dropped;  /* items */
    uint32_t writing;
} q;

/* Prepares a job. Returns 0 or ENOMEM. */
static int queue_equip(struct job *job)
{
    if (!job->encoder)
        job->encoder = mt_mtc_encoder_new();
    if (!job->packer)
        job->packer = mt_packer_new();
    return job->encoder && job->packer ? 0 : ENOMEM;
}

/* Opens the queue. The caller keeps the writer. level: as for mt_mtc_writer_open. */
static void core_queue_open(struct mt_mtc_writer *writer, int level)
{
    memset(&q, 0, sizeof q);
    q.writer = writer;
    q.level = level;
    /* The first job, with room for the last lines, exists before the program can have used up its memory. */
    struct job *job = mt_plat_map(sizeof *job);
    if (job && !queue_equip(job))
        mt_packer_reserve(job->packer, MT_BUFFER_ROOM);
    q.idle = job;
}

/* Adds a buffer, which belongs to the queue until it goes to mt_core_sink_return. */
static void core_queue_push(struct mt_buffer *b)
{
    b->next = NULL;
    mt_spin_lock(&q.lock);
    if (q.tail)
        q.tail->next = b;
    else
        q.head = b;
    q.tail = b;
    __atomic_store_n(&q.waiting, q.waiting + 1, __ATOMIC_RELAXED);
    mt_spin_unlock(&q.lock);
}

static uint32_t core_queue_waiting(void)
{
    return __atomic_load_n(&q.waiting, __ATOMIC_RELAXED);
}

/* Takes the oldest buffer with a job for it, under the lock. */
static struct job *queue_pop(int help)
{
    if (!q.head || q.popped - q.appended >= JOBS)
        return NULL;
    struct job *job = q.idle;
    if (job)
        q.idle = job->next;
    else if (!(job = mt_plat_map(sizeof *job)))
        return NULL;
    job->buffer = q.head;
    job->state = BUSY;
    q.head = q.head->next;
    if (!q.head)
        q.tail = NULL;
    __atomic_store_n(&q.waiting, q.waiting - 1, __ATOMIC_RELAXED);
    q.hurry = help ? HURRY : q.hurry ? q.hurry - 1 : 0;
    job->hurry = q.hurry != 0;
    q.ring[q.popped++ % JOBS] = job;
    return job;
}

static uint64_t core_queue_written(void);

/* Returns the compression level: level 1 is dropped if threads would have to wait for it; higher ones were
 * requested by the user. */
static int level_for(const struct job *job, size_t bytes, uint64_t items)
{
    return q.level == 1 && job->hurry &&
                   mt_mtc_writer_bytes(q.writer) + bytes <= DENSE(core_queue_written() + items)
               ? 0
               : q.level;
}

/* Makes the chunk of a job. */
static int queue_make(struct job *job)
{
    const struct mt_buffer *b = job->buffer;
    const void *payload = b->text;
    uint64_t items = 0, seq = b->seq, first = b->seq;
    size_t bytes = b->count;
    enum mt_mtc_chunk_type type = MT_MTC_HOST;
    job->lost = b->kind == MT_BUFFER_META ? 0 : b->count + b->left_out;
    if (queue_equip(job))
        return ENOMEM;
    if (b->kind == MT_BUFFER_META) {
        type = MT_MTC_META;
        items = b->seq;
        first = seq = 0;
    } else if (b->kind == MT_BUFFER_ENTRIES) {
        bytes = mt_mtc_encode(job->encoder, b->entry, b->count, &items, &seq, &payload);
    } else if (b->kind == MT_BUFFER_COUNTED) {
        bytes = mt_mtc_encode_counted(job->encoder, b->entry, b->count, &items, &seq, &payload);
    } else {
        bytes = mt_mtc_encode_timed(job->encoder, b->timed, b->count, &items, &seq, &payload);
    }
    if (!bytes)
        return ENOMEM;
    if (type == MT_MTC_HOST)
        job->lost = items;
    int level = type == MT_MTC_HOST ? level_for(job, bytes, items) : q.level;
    return mt_mtc_pack(job->packer, level, type, 0, b->thread, first, seq, items, payload, bytes);
}

static void queue_append(struct job *job)
{
    int host = job->buffer->kind != MT_BUFFER_META;
    int error = job->error ? job->error : mt_mtc_append(q.writer, job->packer);
    if (error) {
        mt_core_fail("%s: %s", mt_g.o->output,
                     error == EPIPE ? "its reader closed the FIFO" : strerror(error));
        __atomic_store_n(&q.dropped, q.dropped + job->lost, __ATOMIC_RELAXED);
    } else if (host) {
        __atomic_store_n(&q.written, q.written + job->lost, __ATOMIC_RELAXED);
    }
}

/* Returns the oldest job if it is done; NULL: not yet, and its maker will come here. */
static struct job *queue_oldest(void)
{
    mt_spin_lock(&q.lock);
    struct job *job = q.popped != q.appended ? q.ring[q.appended % JOBS] : NULL;
    if (job && job->state != DONE)
        job = NULL;
    mt_spin_unlock(&q.lock);
    return job;
}

static void queue_retire(struct job *job)
{
    struct mt_buffer *b = job->buffer;
    mt_spin_lock(&q.lock);
    __atomic_store_n(&q.appended, q.appended + 1, __ATOMIC_RELEASE);
    job->next = q.idle;
    q.idle = job;
    mt_spin_unlock(&q.lock);
    mt_core_sink_return(b);
}

/* Appends all finished jobs that are next in order. If another thread is already appending, it sees ours:
 * after leaving the file it checks again under the lock under which ours became done. */
static void queue_flush(void)
{
    while (queue_oldest() && mt_spin_try(&q.append_lock)) {
        __atomic_store_n(&q.writing, 1, __ATOMIC_RELAXED);
        for (struct job *job; (job = queue_oldest());) {
            queue_append(job);
            queue_retire(job);
        }
        __atomic_store_n(&q.writing, 0, __ATOMIC_RELAXED);
        mt_spin_unlock(&q.append_lock);
    }
}

static void queue_run(struct job *job)
{
    int error = queue_make(job);
    mt_spin_lock(&q.lock);
    int mine = job->state == BUSY;
    if (mine) {
        job->error = error;
        job->state = DONE;
    }
    mt_spin_unlock(&q.lock);
    if (mine)
        queue_flush(); /* otherwise another thread makes the chunk: job and buffer are no longer ours */
}

/* Takes the oldest buffer and works on it. Returns 0 if there is none, or too many are in work. help: the
 * caller has other work; compression is then faster and weaker for a while. */
static int core_queue_step(int help)
{
    if (!core_queue_waiting() || mt_g.forked)
        return 0;
    /* Below a signal handler that ends the program, the buffer would never be finished. */
    uint64_t mask = mt_plat_signals_off();
    mt_spin_lock(&q.lock);
    struct job *job = queue_pop(help);
    mt_spin_unlock(&q.lock);
    if (job)
        queue_run(job);
    mt_plat_signals_back(mask);
    return job != NULL;
}

/* Redoes the oldest buffer with a job of our own. Its owner may still read it, which is harmless. Returns
 * 0 or ENOMEM. */
static int take_oldest(void)
{
    struct job *own = mt_plat_map(sizeof *own);
    if (!own)
        return ENOMEM;
    mt_spin_lock(&q.lock);
    struct job *job = q.popped != q.appended ? q.ring[q.appended % JOBS] : NULL;
    int ours = job && job->state == BUSY;
    if (ours) {
        own->buffer = job->buffer;
        job->state = TAKEN;
        q.ring[q.appended % JOBS] = own;
    }
    mt_spin_unlock(&q.lock);
    if (ours)
        queue_run(own);
    else
        mt_plat_unmap(own, sizeof *own);
    return 0;
}

/* Drops all that waits: there is neither a job nor memory for one. */
static void queue_abandon(void)
{
    uint64_t dropped = 0;
    mt_core_fail("%s: %s", mt_g.o->output, strerror(ENOMEM));
    mt_spin_lock(&q.lock);
    for (; q.appended != q.popped; q.appended++)
        q.ring[q.appended % JOBS]->state = TAKEN;
    for (; q.head; q.head = q.head->next)
        dropped += q.head->kind == MT_BUFFER_META ? 0 : q.head->count + q.head->left_out;
    q.tail = NULL;
    q.waiting = 0;
    mt_spin_unlock(&q.lock);
    __atomic_store_n(&q.dropped, q.dropped + dropped, __ATOMIC_RELAXED);
}

static int core_queue_writing(void);

/* Writes everything to the file, including buffers that other threads work on. A thread without progress
 * for a second (perhaps below the signal handler that ends the program) loses its buffer. One caller at a
 * time. */
static void core_queue_finish(void)
{
    uint64_t seen = UINT64_MAX, since = 0;
    for (unsigned step = 0;; step++) {
        if (core_queue_step(0))
            continue;
        queue_flush();
        mt_spin_lock(&q.lock);
        uint64_t appended = q.appended;
        int all = appended == q.popped && !q.head;
        mt_spin_unlock(&q.lock);
        uint64_t now = mt_plat_now_ns();
        if (all)
            return;
        if (appended != seen || core_queue_writing()) {
            seen = appended;
            since = now;
        } else if (now - since > PATIENCE_NS) {
            if (take_oldest()) {
                queue_abandon();
                return;
            }
            since = now;
        }
        mt_plat_pause(step);
    }
}

/* Frees the memory that nobody can be using any more. Nobody may use the writer afterwards. */
static void core_queue_close(void)
{
    while (q.idle) {
        struct job *job = q.idle;
        q.idle = job->next;
        mt_mtc_encoder_free(job->encoder);
        mt_packer_free(job->packer);
        mt_plat_unmap(job, sizeof *job);
    }
}

/* written: items in the file. dropped: accesses and events that did not get there. */
static uint64_t core_queue_written(void)
{
    return __atomic_load_n(&q.written, __ATOMIC_RELAXED);
}

static uint64_t core_queue_dropped(void)
{
    return __atomic_load_n(&q.dropped, __ATOMIC_RELAXED);
}

/* Returns 1 while some thread writes to the file. */
static int core_queue_writing(void)
{
    return (int)__atomic_load_n(&q.writing, __ATOMIC_RELAXED);
}

/* Returns 1 if a lock of the queue stays held for `ns` although nobody writes. */
static int core_queue_stuck(uint64_t ns, int (*busy)(void))
{
    struct mt_spin *const locks[] = {&q.append_lock, &q.lock};
    for (unsigned i = 0; i < 2; i++) {
        if (mt_spin_lock_for(locks[i], ns, busy))
            return 1;
        mt_spin_unlock(locks[i]);
    }
    return 0;
}

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
    while (core_queue_step(0))
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
    if (core_queue_waiting() > HELP_AT && !s.out.fifo)
        core_queue_step(1);
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
        if (core_queue_waiting() < MT_QUEUE_MAX) {
            if (!(b = mt_plat_map(MT_BUFFER_BYTES)))
                b = take_free(0);
            break;
        }
        if ((b = take_free(0)))
            break;
        /* A FIFO's reader may be slow: the worker waits for it as long as there is one. */
        int waits = s.out.fifo && step < WORKER_GONE && __atomic_load_n(&s.running, __ATOMIC_RELAXED);
        if (waits || !core_queue_step(1))
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
        core_queue_push(m);
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
    core_queue_push(b);
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
        core_queue_push(full);
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
    return (int)__atomic_load_n(&s.writing, __ATOMIC_RELAXED) || core_queue_writing();
}

int mt_core_sink_stuck(uint64_t ns)
{
    struct mt_spin *const locks[] = {&s.meta_lock, &s.text_lock, &s.lock};
    for (unsigned i = 0; i < 3; i++) {
        if (mt_spin_lock_for(locks[i], ns, mt_core_sink_writing))
            return 1;
        mt_spin_unlock(locks[i]);
    }
    return core_queue_stuck(ns, mt_core_sink_writing);
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
    core_queue_open(s.writer, (int)mt_g.o->level);
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
        uint64_t now = mt_plat_now_ns(), left = core_queue_waiting();
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
    uint64_t lost = sum.lost + core_queue_dropped(), written = core_queue_written();
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
        core_queue_finish();
        if (s.last)
            mt_core_sink_return(s.last);
        core_texts();
        core_copies();
        end_line(killed);
        push_meta();
        core_queue_finish();
        core_queue_close();
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
