/* The log of events other than launches, which are common to all companion files; and the trace of one CUDA
 * stream: its companion file, its output (raw or compact), and both together. */
#define _GNU_SOURCE

#include "trace.h"
#include "events.h"
#include "base/options.h"
#include "base/fork.h"
#include "base/held.h"
#include "base/json.h"
#include "base/report.h"
#include "base/source_name.h"
#include "devices.h"
#include "base/file.h"
#include "format/image.h"
#include "format/container/region.h"
#include "memtrace/record.h"
#include "base/part.h"
#include "memtrace/sample.h"
#include "memtrace/device.h"
#include "format/container/writer.h"
#include "base/attach.h"
#include "selection.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* ---- the job of this process: processes started together by mpirun, srun or torchrun ---- */

/* Variables that launchers set for their processes: rank, number of ranks, and name of the job (one or two
 * parts). */
static const struct launcher {
    const char *rank, *ranks, *name[2];
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"PMIX_NAMESPACE", NULL}},
    {"PMI_RANK", "PMI_SIZE", {"PMI_JOBID", NULL}},
    {"SLURM_PROCID", "SLURM_NTASKS", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"RANK", "WORLD_SIZE", {"TORCHELASTIC_RUN_ID", "MASTER_PORT"}},
};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct job {
    char name[128]; /* "": no job, or unknown */
    unsigned rank, ranks;
} job;

/* Returns 0, or -1 if it is not a number. */
static int job_number(const char *name, unsigned *out)
{
    const char *text = name ? getenv(name) : NULL;
    char *end;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    if (!text || *text < '0' || *text > '9' || *end || n >= 1u << 20)
        return -1;
    *out = (unsigned)n;
    return 0;
}

static void job_find(void)
{
    const struct launcher *l = NULL;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && !l; i++)
        if (job_number(launchers[i].rank, &job.rank) == 0 &&
            job_number(launchers[i].ranks, &job.ranks) == 0 && job.ranks > 1 && job.rank < job.ranks)
            l = &launchers[i];
    if (!l)
        job.rank = job.ranks = 0;
    const char *given = mt_options()->job, *first = l ? getenv(l->name[0]) : NULL,
               *second = l && l->name[1] ? getenv(l->name[1]) : NULL;
    if (*given)
        snprintf(job.name, sizeof job.name, "%s", given);
    else if (l && (first || second))
        snprintf(job.name, sizeof job.name, "%s%s%s", first ? first : "", first && second ? "." : "",
                 second ? second : "");
    else if (l) /* the parent process has started the others */
        snprintf(job.name, sizeof job.name, "of %ld", (long)getppid());
}

/* Returns the name of MEMTRACE_JOB, else the launcher's; looked up once. */
static const struct job *job_known(void)
{
    pthread_once(&once, job_find);
    return &job;
}

/* Contents of a program's source files while it ran: `source` lines of companion files. */

#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include <xxhash.h>

enum { MOST_FILES = 256, LARGEST = 16 << 20 }; /* PTX can be this long */

static char *seen[MOST_FILES];
static unsigned nseen;
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(noting, MT_FORK_LEAVES);

/* Returns 1 if the name is new. */
static int sources_note(const char *file)
{
    int found = 0;
    pthread_mutex_lock(&noting);
    for (unsigned i = nseen; i-- > 0 && !found;) /* sites of one file are adjacent */
        found = strcmp(seen[i], file) == 0;
    if (nseen == MOST_FILES || (!found && !(seen[nseen] = strdup(file))))
        found = 1;
    nseen += !found;
    pthread_mutex_unlock(&noting);
    return !found;
}

/* Hashes a file; does not wait for a FIFO or terminal of that name. Returns 0 or -1. */
static int sources_digest(const char *file, uint64_t *bytes, XXH128_hash_t *hash)
{
    struct stat st;
    int fd = mt_fd_up(open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)), rc = -1;
    char *copy = NULL;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= LARGEST &&
        (copy = malloc((size_t)st.st_size)))
        rc = pread(fd, copy, (size_t)st.st_size, 0) == (ssize_t)st.st_size ? 0 : -1;
    if (rc == 0) {
        *bytes = (uint64_t)st.st_size;
        *hash = XXH3_128bits(copy, (size_t)st.st_size);
    }
    free(copy);
    close(fd);
    return rc;
}

static void log_line(enum mt_line_kind kind, const void *l);

void mt_source_line(const char *file)
{
    uint64_t bytes;
    XXH128_hash_t hash;
    char text[33];
    if (!*file || !sources_note(file) || sources_digest(file, &bytes, &hash) != 0)
        return;
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    log_line(MT_LINE_source, &(struct mt_source_line){file, bytes, text});
}

/* ---- texts without a file ----------------------------------------------------------------------- */

static struct {
    char *name, *path;
} kept[MOST_FILES];
static _Atomic unsigned nkept; /* readers take no lock */
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(keeping, MT_FORK_LEAVES);

/* Returns the path of the text kept under this name, or the name itself. */
static const char *source_kept_at(const char *name)
{
    for (unsigned i = nkept; i-- > 0;)
        if (!strcmp(kept[i].name, name))
            return kept[i].path;
    return name;
}

static int sources_put(int fd, const char *text, size_t bytes)
{
    int error = 0;
    struct mt_held h = mt_hold(SIGXFSZ);
    for (size_t done = 0; done < bytes && !error;) {
        ssize_t n = pwrite(fd, text + done, bytes - done, (off_t)done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            error = n ? errno : ENOSPC;
    }
    mt_let_go(&h, error);
    return error;
}

/* Writes to a temporary name first, so that readers find a complete file. Returns 0 or an errno value. */
static int sources_write(const char *path, const char *text, size_t bytes)
{
    char temporary[PATH_MAX + 128];
    struct timespec t; /* makes the name unpredictable */
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(temporary, sizeof temporary, "%s.%ld-%ld", path, (long)getpid(), t.tv_nsec);
    int fd = mt_fd_up(open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd < 0)
        return errno;
    int error = sources_put(fd, text, bytes);
    close(fd);
    if (!error && rename(temporary, path))
        error = errno;
    if (error)
        unlink(temporary);
    return error;
}

static int sources_is_there(const char *path, const void *text, size_t n)
{
    uint64_t bytes;
    XXH128_hash_t hash;
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           sources_digest(path, &bytes, &hash) == 0 && bytes == n &&
           XXH128_isEqual(hash, XXH3_128bits(text, n));
}

static const char nobody[] = "accesses have lines of a text that nobody has";

/* Writes a text and keeps its path. Returns 0, or -1 after reporting the reason and its consequence. */
static int sources_file(const char *folder, const char *name, const void *text, size_t bytes,
                        char path[PATH_MAX], const char *so)
{
    char whole[PATH_MAX];
    if (!realpath(folder, whole)) /* trace files will report it */
        return -1;
    if (snprintf(path, PATH_MAX, "%s/%s", whole, name) >= PATH_MAX)
        return -1;
    int error = sources_is_there(path, text, bytes) ? 0 : sources_write(path, text, bytes);
    if (error)
        mt_note("%s cannot be written: %s; %s; set MEMTRACE_DIR to another folder", path, strerror(error),
                so);
    return error ? -1 : 0;
}

static void sources_keep(const char *name, const void *text, size_t bytes)
{
    char path[PATH_MAX];
    if (nkept == MOST_FILES || !bytes || source_kept_at(name) != name ||
        sources_file(mt_options()->dir, name, text, bytes, path, nobody))
        return;
    kept[nkept].name = strdup(name);
    kept[nkept].path = strdup(path);
    if (kept[nkept].name && kept[nkept].path)
        nkept++;
}

/* Writes a source text without a file, for the Python hook, to `folder`, or to MEMTRACE_DIR if NULL. Returns
 * 0 or -1. */
__attribute__((visibility("default"))) int __mt_source_file(const char *folder, const char *text,
                                                            size_t bytes, char *path, size_t size)
{
    char name[64];
    XXH128_hash_t hash = XXH3_128bits(text, bytes);
    snprintf(name, sizeof name, "MemTrace-%016llx.cu", (unsigned long long)hash.high64);
    pthread_mutex_lock(&keeping);
    int rc = size < PATH_MAX
                 ? -1
                 : sources_file(folder ? folder : mt_options()->dir, name, text, bytes, path, nobody);
    pthread_mutex_unlock(&keeping);
    return rc;
}

void mt_source_keep(const char *name, const void *text, size_t bytes)
{
    pthread_mutex_lock(&keeping);
    sources_keep(name, text, bytes);
    pthread_mutex_unlock(&keeping);
}

int mt_source_put(const char *name, const void *data, size_t bytes)
{
    char path[PATH_MAX];
    pthread_mutex_lock(&keeping);
    int rc = sources_file(mt_options()->dir, name, data, bytes, path, "the machine code is not kept");
    pthread_mutex_unlock(&keeping);
    return rc;
}

#define LOG_MEMORY (1u << 20) /* bytes of the log kept in memory; older parts move to an unnamed file */

static pthread_mutex_t events_lock =
    PTHREAD_MUTEX_INITIALIZER; /* protects the log, the line buffer and alloc ids */
MT_FORK_LOCK(events_lock, MT_FORK_LEAVES);
static char *tail;
static size_t tail_bytes;
static uint64_t spilled, dropped;
static struct mt_fd spill_file = MT_FD_NONE;
static struct mt_jsonl line;
/* The next number. Engines outside of the process (qemu) find it by its name. */
__attribute__((visibility("default"))) _Atomic uint64_t __mt_host_seq;
static uint64_t alloc_id; /* atomic: read without the lock */

uint64_t mt_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int elsewhere; /* another library traces this process; set before its first trace */

void mt_tracing_elsewhere(void)
{
    elsewhere = 1;
}

int mt_tracing(void)
{
    return mt_options()->enable && !elsewhere && !mt_forked();
}

/* Returns the number given last (0: none yet), or a new one, for libmemtrace-host.so, so that host accesses
 * and CUDA calls have one order. */
__attribute__((visibility("default"))) uint64_t __mt_sequence(int next)
{
    return next ? atomic_fetch_add(&__mt_host_seq, 1) : atomic_load(&__mt_host_seq) - 1;
}

static void (*_Atomic moved)(void);

__attribute__((visibility("default"))) void __mt_sequence_moved(void (*tell)(void))
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&__mt_host_seq, &none, 1); /* there, 0 stands for "before all" */
    moved = tell;
}

/* ---- program memory read by copies ---- */

typedef void events_tell(uint64_t address, uint64_t bytes, const char *file, uint32_t line);
static events_tell *_Atomic reads;

__attribute__((visibility("default"))) void __mt_host_reads(events_tell *tell)
{
    reads = tell;
}

/* Host tracing on machine code intercepts this function: keep its name and first two arguments. */
__attribute__((visibility("default"), noinline)) void __mt_host_read(uint64_t address, uint64_t bytes,
                                                                     const struct mt_host_site *site)
{
    events_tell *tell = reads;
    if (tell)
        tell(address, bytes, site ? site->file : NULL, site ? site->line : 0);
}

static void events_read(const struct mt_memcpy_line *c, const struct mt_host_site *site)
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

/* Moves the tail to the file. Returns 0, or -1 if it stays in memory. */
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

/* Appends a line to the log. */
static void log_line(enum mt_line_kind kind, const void *l)
{
    if (!mt_tracing())
        return;
    pthread_mutex_lock(&events_lock);
    mt_line_put(&line, kind, l);
    append_locked(&line);
    pthread_mutex_unlock(&events_lock);
}

uint64_t mt_log_size(void)
{
    pthread_mutex_lock(&events_lock);
    uint64_t n = spilled + tail_bytes;
    pthread_mutex_unlock(&events_lock);
    return n;
}

/* Returns the bytes lost to the log because memory or disk ran out. */
static uint64_t log_dropped(void)
{
    pthread_mutex_lock(&events_lock);
    uint64_t n = dropped;
    pthread_mutex_unlock(&events_lock);
    return n;
}

size_t mt_log_read(uint64_t from, void *out, size_t bytes)
{
    size_t n = 0;
    pthread_mutex_lock(&events_lock);
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
    pthread_mutex_unlock(&events_lock);
    return n;
}

/* ---- lines ---- */

/* Starts a line. The lock is held until its end, so that the log is in the order of the sequence numbers. */
static int events_begin(uint64_t *seq)
{
    if (!mt_tracing())
        return 0;
    pthread_mutex_lock(&events_lock);
    *seq = mt_event_seq();
    return 1;
}

static void events_end(enum mt_line_kind kind, const void *l)
{
    mt_line_put(&line, kind, l);
    append_locked(&line);
    pthread_mutex_unlock(&events_lock);
}

int mt_event_in_job(void)
{
    return *job_known()->name != 0;
}

/* Returns the time in jobs, which orders events of several processes, else 0. */
static uint64_t events_time(void)
{
    return *job_known()->name ? mt_now_ns() : 0;
}

uint64_t mt_event_alloc(uint64_t base, uint64_t bytes, const char *kind, const char *name, int device,
                        const struct mt_host_site *site, int64_t from)
{
    struct mt_alloc_line l = {.base = base, .bytes = bytes, .kind = kind, .from = (uint64_t)(from + 1)};
    if (!events_begin(&l.seq))
        return 0;
    char *source_name = mt_demangle(name);
    l.id = __atomic_fetch_add(&alloc_id, 1, __ATOMIC_RELAXED);
    l.name = source_name ? source_name : name;
    l.device = mt_device_number(device);
    l.ns = events_time();
    MT_LINE_PLACE(&l, site);
    events_end(MT_LINE_alloc, &l);
    free(source_name);
    return l.id;
}

uint64_t mt_event_allocations(void)
{
    return __atomic_load_n(&alloc_id, __ATOMIC_RELAXED);
}

void mt_event_name(uint64_t id, const char *name)
{
    log_line(MT_LINE_name, &(struct mt_name_line){id, name});
}

void mt_event_free(uint64_t id, uint64_t base)
{
    struct mt_free_line l = {.id = id, .base = base};
    if (!events_begin(&l.seq))
        return;
    l.ns = events_time();
    events_end(MT_LINE_free, &l);
}

static _Thread_local uint64_t operation;

uint64_t mt_event_set_op(uint64_t op)
{
    uint64_t before = operation;
    operation = op;
    return before;
}

/* Returns the operation of this thread's lines, or 0. */
static uint64_t event_op(void)
{
    return mt_options()->check ? operation : 0;
}

void mt_event_ordered(int64_t id, int freed, const struct mt_host_site *site)
{
    struct mt_ordered_line l = {.id = (uint64_t)id, .op = event_op(), .freed = freed};
    if (id < 0 || !l.op || !events_begin(&l.seq))
        return;
    MT_LINE_PLACE(&l, site);
    events_end(MT_LINE_ordered, &l);
}

void mt_event_touch(const struct mt_touch_line *t, const struct mt_host_site *site)
{
    struct mt_touch_line l = *t;
    if (!events_begin(&l.seq))
        return;
    MT_LINE_PLACE(&l, site);
    events_end(MT_LINE_touch, &l);
}

void mt_event_unwatched(const char *why, uint64_t times, uint64_t of)
{
    log_line(MT_LINE_unwatched, &(struct mt_unwatched_line){why, times, of});
}

void mt_event_share(uint64_t id, int opened, const void *handle, size_t size)
{
    char text[2 * 64 + 1];
    struct mt_shared_out_line out = {.id = id, .handle = text};
    for (size_t i = 0; i < size && i < 64; i++)
        snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)handle)[i]);
    if (!events_begin(&out.seq))
        return;
    if (opened)
        events_end(MT_LINE_opened, &(struct mt_opened_line){out.seq, id, text});
    else
        events_end(MT_LINE_shared_out, &out);
}

void mt_event_communicator(uint64_t comm, int rank, int ranks, int device)
{
    struct mt_communicator_line l = {
        .comm = comm, .rank = (uint64_t)rank, .ranks = (uint64_t)ranks, .device = mt_device_number(device)};
    if (events_begin(&l.seq))
        events_end(MT_LINE_communicator, &l);
}

void mt_event_order(const struct mt_order_line *l)
{
    log_line(MT_LINE_order, l);
}

static _Atomic uint64_t copies;

void mt_event_memcpy(const struct mt_memcpy_line *c, const struct mt_host_site *site)
{
    struct mt_memcpy_line l = *c;
    if (!events_begin(&l.seq))
        return;
    copies++;
    l.dst_device = mt_device_number(c->dst_device);
    l.src_device = mt_device_number(c->src_device);
    l.begin_ns = mt_now_ns();
    l.op = event_op();
    MT_LINE_PLACE(&l, site);
    events_end(MT_LINE_memcpy, &l);
    events_read(c, site);
}

void mt_event_memset(const struct mt_memset_line *f, const struct mt_host_site *site)
{
    struct mt_memset_line l = *f;
    if (!events_begin(&l.seq))
        return;
    l.begin_ns = mt_now_ns();
    l.op = event_op();
    MT_LINE_PLACE(&l, site);
    events_end(MT_LINE_memset, &l);
}

void mt_event_range(const struct mt_range_line *r, int still_open)
{
    struct mt_range_line l = *r;
    if (!events_begin(&l.seq))
        return;
    l.end_ns = mt_now_ns();
    l.open = still_open;
    events_end(MT_LINE_range, &l);
}

void mt_event_sync(const char *what, int64_t id)
{
    struct mt_sync_line l = {.what = what, .stream = id, .event = id};
    if (events_begin(&l.seq))
        events_end(MT_LINE_sync, &l);
}

void mt_event_tally(const struct mt_tally_line *line)
{
    struct mt_tally_line l = *line;
    if (events_begin(&l.seq))
        events_end(MT_LINE_tally, &l);
}

void mt_event_event(const char *op, uint64_t event, int64_t stream)
{
    struct mt_event_line l = {.op = op, .event = event, .stream = stream};
    if (events_begin(&l.seq))
        events_end(MT_LINE_event, &l);
}

const char *mt_op_text(uint32_t op)
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

void mt_event_check(const struct mt_check_line *c)
{
    struct mt_check_line l = *c;
    if (!events_begin(&l.seq))
        return;
    findings++;
    events_end(MT_LINE_check, &l);
}

void mt_event_failed(const struct mt_failed_line *f)
{
    struct mt_failed_line l = *f;
    if (!events_begin(&l.seq))
        return;
    findings++;
    l.callers.list = NULL;
    if (mt_host_site_there(f->site))
        MT_LINE_PLACE(&l, f->site);
    if (f->at && *f->at)
        l.at = f->at;
    if (f->callers.n)
        l.callers = f->callers;
    events_end(MT_LINE_failed, &l);
}

static _Atomic uint64_t site_tables;
static _Atomic int site_spaces;

/* Returns 1 if some sites are barriers, or of shared or local memory. */
static int log_spaces(void)
{
    /* code compiled at run time comes later: its option announces it */
    const char *asked = mt_options()->spaces;
    return site_spaces || strstr(mt_options()->ptx_options, "--mt-spaces=") || strstr(asked, "shared") ||
           strstr(asked, "local");
}

void mt_event_stream(uint64_t stream, const char *trace, const char *why)
{
    log_line(MT_LINE_stream, &(struct mt_stream_line){stream, trace, why});
}

static void log_site(const struct mt_site_line *site, uint32_t op)
{
    struct mt_site_line s = *site;
    s.file = source_kept_at(s.file);
    mt_source_line(s.file);
    s.op = op == MT_SYNC_ARRIVE && s.scope ? "fence" : mt_op_text(op);
    s.space = mt_rec_space(op) == MT_IN_SHARED ? "shared" : mt_rec_space(op) == MT_IN_LOCAL ? "local" : NULL;
    if (mt_rec_space(op))
        site_spaces = 1;
    log_line(MT_LINE_site, &s);
}

void mt_event_site(const struct mt_site_line *s, uint32_t op)
{
    if (!mt_tracing())
        return;
    log_site(s, op);
    site_tables++;
}

static int trace_is_strong(const struct mt_image_site *s)
{
    return s->order && mt_rec_space(s->op) <= MT_IN_LOCAL && (s->op & 3) <= MT_STORE;
}

enum { MOST_INLINED = 16 };

/* Divides a site's function, "name\nFILE:LINE in FUNCTION\n…". `text` is a copy of it. Returns the number of
 * lines after the name. */
static size_t trace_inlined(char *text, const char *list[MOST_INLINED])
{
    size_t n = 0;
    for (char *s = text; (s = strchr(s, '\n')) && n < MOST_INLINED; n++) {
        *s++ = 0;
        list[n] = s;
    }
    return n;
}

void mt_event_sites(const struct mt_image_head *head, uint32_t base)
{
    const struct mt_image_site *site = head->sites;
    for (uint32_t i = 0; i < head->nsites && mt_tracing(); i++, site++) {
        char *text = strchr(site->function, '\n') ? strdup(site->function) : NULL;
        const char *inlined[MOST_INLINED];
        const size_t n = text ? trace_inlined(text, inlined) : 0;
        struct mt_site_line s = {.id = base + i,
                                 .line = site->line,
                                 .column = site->column,
                                 .size = site->size,
                                 .strong = trace_is_strong(site),
                                 .scope = (enum mt_scope)site->scope,
                                 .order = (enum mt_order_kind)site->order,
                                 .overwrites = (int)site->overwrites,
                                 .file = site->file,
                                 .function = text ? text : site->function,
                                 .inlined = {inlined, n},
                                 .var = site->variable};
        log_site(&s, site->op);
        free(text);
    }
    site_tables++;
}

/* ---- Lines of copies and fills of several planes ---- */

/* Returns 0 if the rows are contiguous and form one block. */
static int planes_have_gaps(const struct mt_planes *p, const struct mt_planes_size *size)
{
    return size->height > 1 && p->pitch != size->width;
}

static int planes_are_empty(const struct mt_planes_size *size)
{
    return !mt_tracing() || !size->width || !size->height;
}

void mt_planes_copied(struct mt_planes dst, struct mt_planes src, struct mt_planes_size size,
                      const struct mt_memcpy_line *what, const struct mt_host_site *site)
{
    struct mt_memcpy_line c = *what;
    c.bytes = size.width * size.height;
    c.dst_device = dst.device;
    c.src_device = src.device;
    if (planes_are_empty(&size))
        return;
    if (planes_have_gaps(&dst, &size) || planes_have_gaps(&src, &size)) {
        c.width = size.width;
        c.height = size.height;
        c.dpitch = dst.pitch;
        c.spitch = src.pitch;
    }
    for (uint64_t z = 0; z < size.depth; z++) {
        c.dst = dst.at + z * dst.slice;
        c.src = src.at + z * src.slice;
        mt_event_memcpy(&c, site);
    }
}

void mt_planes_filled(struct mt_planes dst, struct mt_planes_size size, uint64_t value, int64_t stream,
                      const struct mt_host_site *site)
{
    struct mt_memset_line f = {.value = value, .bytes = size.width * size.height, .stream = stream};
    if (planes_are_empty(&size))
        return;
    if (planes_have_gaps(&dst, &size)) {
        f.width = size.width;
        f.height = size.height;
        f.pitch = dst.pitch;
    }
    for (uint64_t z = 0; z < size.depth; z++) {
        f.dst = dst.at + z * dst.slice;
        mt_event_memset(&f, site);
    }
}

/* ---- companion files, MemTrace-pipe-N.meta: JSON lines (docs/trace-format.md). Lines of the process's log
 * (events.h) are copied in before each own line, so a companion that begins late has them all. Regular file
 * or FIFO; a FIFO without reader blocks nothing: lines wait in memory for a reader. Many threads may call
 * functions on one companion. When writing fails, the reason is reported once and the companion is off. A
 * compact trace contains the same lines, too, for readers of a FIFO or of a file moved alone. The companion
 * file continues after the stream has ended (later frees), and tells how the trace ended if the trace itself
 * could not take its last lines. ---- */

#define CHUNK 65536u               /* bytes gathered before a write */
#define HELD (16u << 20)           /* most bytes waiting for a FIFO's reader */
#define FLUSH_NS 50000000u         /* longest time in memory after the end of a launch */
#define LAST_WAIT_NS 2000000000ull /* longest wait for a FIFO's reader at the end */

uint64_t mt_companion_repeats = 4u << 20;
static _Atomic uint64_t repeated, companions; /* bytes; companions that were opened */
static pthread_mutex_t first_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(first_lock, MT_FORK_LEAVES);
static struct mt_companion_writer *_Atomic first; /* companion with all events; NULL: none yet, or off */
static char first_name[256];                      /* its file name */

struct mt_companion_writer {
    pthread_mutex_t lock;
    struct mt_file file;
    int (*write)(void *self, const char *lines, size_t bytes); /* replaces the file, or NULL */
    void *self;
    char *path;
    int off, parked, waiting; /* waiting: a FIFO without reader so far */
    char *out;
    size_t n, capacity;
    int shared;        /* the first companion holds the log */
    uint64_t log_at;   /* position up to which the log is copied */
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

/* Makes the descriptor usable: of a parked file, or of a FIFO whose reader may have come. Returns 0 or
 * EAGAIN. */
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

/* Writes whole lines; an incomplete line at the end of a piece of the log waits for its rest. */
static void companion_write_lines(struct mt_companion_writer *c)
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

static void companion_write_out(struct mt_companion_writer *c)
{
    size_t done;
    if (c->off || c->n == 0 || mt_forked())
        return;
    if (c->write) {
        companion_write_lines(c);
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

/* Returns room for `bytes` more, or NULL. */
static char *companion_room(struct mt_companion_writer *c, size_t bytes)
{
    if (c->n + bytes > CHUNK)
        companion_write_out(c);
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

static void companion_put_line(struct mt_companion_writer *c, enum mt_line_kind kind, const void *line)
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

/* Start of tracing by two clocks, equal in all companions of the process, which identifies a run. The second
 * clock continues over reboots. */
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
    struct utsname machine;
    (void)mt_files_self(program, 0);
    l.tool = "memtrace " MEMTRACE_VERSION;
    l.pid = (uint64_t)getpid();
    l.program = program;
    l.start_ns = companion_once(&process_start, mt_now_ns());
    l.wall_ms = companion_once(&process_wall_ms, companion_wall_ms());
    l.job = *job_known()->name ? job_known()->name : NULL;
    l.rank = job_known()->rank;
    l.ranks = job_known()->ranks;
    l.host = uname(&machine) == 0 ? machine.nodename : "";
    companion_put_line(c, MT_LINE_header, &l);
}

/* Returns 1 if the process's events are no longer repeated in this companion: many streams may repeat fewer
 * bytes in all, as with each stream there are events of its own, and files would grow with the square of
 * their number. */
static int leave_to_first(struct mt_companion_writer *c)
{
    enum { FEW = 2 };
    const uint64_t all = companions;
    char name[sizeof first_name] = "";
    if (c->shared || repeated <= (all > FEW ? mt_companion_repeats / all * FEW : mt_companion_repeats))
        return c->shared;
    pthread_mutex_lock(&first_lock);
    if (first && first != c)
        memcpy(name, first_name, sizeof name);
    pthread_mutex_unlock(&first_lock);
    if (!*name)
        return 0;
    c->shared = 1;
    companion_put_line(c, MT_LINE_shared, &(struct mt_shared_line){name});
    return 1;
}

static void companion_catch_up(struct mt_companion_writer *c)
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

/* Reports which trace is lost: after exec the process keeps its number, and so the names of its traces. */
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

static void companion_close(struct mt_companion_writer *c)
{
    if (!c)
        return;
    for (uint64_t until = mt_now_ns() + LAST_WAIT_NS; c->waiting && c->n && !c->off && mt_now_ns() < until;) {
        companion_write_out(c);
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

/* Opens a companion. head: keys `device` to `workers`, `trace`, `format` and `stream`. Returns NULL with *why
 * set to a sentence for the user. */
static struct mt_companion_writer *companion_file_open(const char *path, const struct mt_header_line *head,
                                                       char *why, size_t size)
{
    struct mt_companion_writer *c = calloc(1, sizeof *c);
    if (!c || !(c->path = strdup(path))) {
        snprintf(why, size, "%.400s: out of memory", path);
        free(c);
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    companion_tell_exec(path);
    int rc = mt_file_open(&c->file, path, MT_FILE_TRY, why, size);
    if (rc && rc != EAGAIN) {
        companion_close(c);
        return NULL;
    }
    c->waiting = rc == EAGAIN;
    companions++;
    put_header(c, head);
    companion_write_out(c);
    if (c->off) {
        snprintf(why, size, "%.400s: the first line cannot be written", path);
        companion_close(c);
        return NULL;
    }
    pthread_mutex_lock(&first_lock);
    if (!first && !*first_name) {
        first = c;
        snprintf(first_name, sizeof first_name, "%.255s", strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    }
    pthread_mutex_unlock(&first_lock);
    return c;
}

/* Opens a companion inside a compact trace: `write` gets whole lines and returns 0 or an errno value, which
 * turns the companion off silently. One call at a time. */
static struct mt_companion_writer *companion_inside(const struct mt_header_line *head,
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
    companions++;
    put_header(c, head);
    return c;
}

/* Returns the launch line as written: with the place of its call, and the device's number. */
static struct mt_launch_line companion_launch_line(const struct mt_launch_line *launch)
{
    struct mt_launch_line l = *launch;
    l.device = mt_device_number(l.device);
    MT_LINE_PLACE(&l, l.site);
    return l;
}

/* Adds a launch line to the log, for all companions. */
static void launch_log(const struct mt_launch_line *l)
{
    struct mt_launch_line line = companion_launch_line(l);
    log_line(MT_LINE_launch, &line);
}

/* Returns 1, with the lock held, if the companion can be written to. */
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

/* Writes a `kernel` line: the name of a kernel id in the chunks of a compact trace. */
static void companion_kernel(struct mt_companion_writer *c, uint64_t id, const char *name)
{
    if (!companion_enter(c))
        return;
    companion_put_line(c, MT_LINE_kernel, &(struct mt_kernel_line){id, name});
    companion_leave(c);
}

/* Writes a launch line. */
static void companion_put_launch(struct mt_companion_writer *c, const struct mt_launch_line *l)
{
    if (!companion_enter(c))
        return;
    companion_catch_up(c);
    struct mt_launch_line line = companion_launch_line(l);
    companion_put_line(c, MT_LINE_launch, &line);
    if (mt_now_ns() - c->flushed_ns > FLUSH_NS)
        companion_write_out(c);
    companion_leave(c);
}

/* Writes a `lost` line. */
static void companion_put_lost(struct mt_companion_writer *c, uint64_t count, const char *why)
{
    if (!companion_enter(c))
        return;
    companion_put_line(c, MT_LINE_lost, &(struct mt_lost_line){count, why});
    companion_leave(c);
}

/* Writes the lines that wait in memory. force 0: only if the last write is a while ago; 1: with the log. */
static void companion_flush(struct mt_companion_writer *c, int force)
{
    if (!companion_enter(c))
        return;
    if (force)
        companion_catch_up(c);
    if (force || mt_now_ns() - c->flushed_ns > FLUSH_NS)
        companion_write_out(c);
    companion_leave(c);
}

/* Copies the rest of the log and writes an `end` line, unless nothing was added since the last one. */
static void companion_file_end(struct mt_companion_writer *c, const struct mt_end_line *e)
{
    if (!companion_enter(c))
        return;
    companion_catch_up(c);
    if (!c->ended || c->ended_at != c->log_at) {
        companion_put_line(c, MT_LINE_end, e);
        c->ended = 1;
        c->ended_at = c->log_at;
    }
    companion_write_out(c);
    companion_leave(c);
}

/* Closes the descriptor (regular files); a later flush opens the same file again. */
static void companion_park(struct mt_companion_writer *c)
{
    if (!companion_enter(c))
        return;
    companion_write_out(c);
    if (!c->off && !c->waiting && !c->file.fifo) {
        mt_file_close(&c->file);
        c->parked = 1;
        free(c->out);
        c->out = NULL;
        c->n = c->capacity = 0;
    }
    companion_leave(c);
}

/* ---- raw traces ---- */

#include <xxhash.h>

struct mt_sink {
    struct mt_file file;
    char *path;
    pthread_mutex_t lock;    /* FIFO: serialises blocks; protects the failure state */
    _Atomic uint64_t offset; /* regular file: offset of the next block */
    _Atomic int off;
    uint64_t fail_offset; /* first byte missing in the file, when off */
    uint64_t launch;      /* offset of the current launch's name */
    uint64_t first;       /* offset of the current launch's first record */
    uint64_t kept;        /* records of the launch that ended last */
    struct mt_sample sample;
    int in_launch, opened;
    char error[256];
};

static void sink_fail(struct mt_sink *s, uint64_t at, int error)
{
    pthread_mutex_lock(&s->lock);
    int first = !s->off;
    if (at < s->fail_offset)
        s->fail_offset = at;
    if (first)
        snprintf(s->error, sizeof s->error, "%s after %llu bytes", mt_file_reason(error),
                 (unsigned long long)at);
    s->off = 1;
    pthread_mutex_unlock(&s->lock);
    if (first && s->opened &&
        error != EBADF) /* now, as the kernel may run for hours; not in a forked child */
        mt_report_file("%s: %s; the trace of this stream ends here and is incomplete", s->path, s->error);
}

/* Writes a block: in regular files blocks reserve their offset and are written in parallel, in FIFOs one
 * after the other. Returns the offset. */
static uint64_t sink_put(struct mt_sink *s, const void *data, size_t bytes)
{
    size_t done;
    if (s->file.fifo)
        pthread_mutex_lock(&s->lock);
    uint64_t at = atomic_fetch_add(&s->offset, bytes);
    int off = s->off;
    int rc = off ? 0 : mt_file_write(&s->file, data, bytes, s->file.fifo ? -1 : (int64_t)at, &done);
    if (s->file.fifo)
        pthread_mutex_unlock(&s->lock);
    if (off || rc)
        sink_fail(s, off ? at : at + done, rc);
    return at;
}

static void sink_close(void *self)
{
    struct mt_sink *s = self;
    mt_file_close(&s->file);
    pthread_mutex_destroy(&s->lock);
    free(s->path);
    free(s);
}

struct mt_sink *mt_sink_open(const char *path, char *why, size_t size)
{
    static const unsigned char header = MT_RAW_RECORD_SIZE;
    struct mt_sink *s = calloc(1, sizeof *s);
    if (!s || !(s->path = strdup(path))) {
        snprintf(why, size, "%.400s: out of memory", path);
        free(s);
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->fail_offset = UINT64_MAX;
    if (mt_file_open(&s->file, path, MT_FILE_WAIT, why, size)) {
        sink_close(s);
        return NULL;
    }
    sink_put(s, &header, 1);
    if (s->off) {
        snprintf(why, size, "%s: %s", path, s->error);
        sink_close(s);
        return NULL;
    }
    s->opened = 1;
    return s;
}

/* Cuts the file back to whole records and reports the reason once. */
static void sink_stop(struct mt_sink *s)
{
    uint64_t keep = s->fail_offset;
    if (s->in_launch && keep >= s->first)
        keep -= (keep - s->first) % MT_RAW_RECORD_SIZE;
    else
        keep = s->launch;
    int rc = s->file.fifo ? 0 : mt_file_cut(&s->file, keep);
    if (rc == EBADF) /* a forked child */
        return;
    s->fail_offset = keep;
    if (rc)
        mt_report("%s: cannot be cut to its last whole record: %s", s->path, strerror(rc));
    mt_file_close(&s->file);
}

/* Writes the launch's name, with LF replaced by a space. */
static int sink_begin(void *self, const struct mt_launch_line *l)
{
    struct mt_sink *s = self;
    const char *kernel = l->kernel;
    size_t n = strlen(kernel);
    if (s->off)
        return -1;
    char *line = malloc(n + 1);
    if (!line) {
        sink_fail(s, s->offset, ENOMEM);
        s->launch = s->offset;
        sink_stop(s);
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        line[i] = kernel[i] == '\n' ? ' ' : kernel[i];
    line[n] = '\n';
    s->launch = s->offset;
    sink_put(s, line, n + 1);
    free(line);
    if (s->off) {
        sink_stop(s);
        return -1;
    }
    s->first = s->offset;
    s->in_launch = 1;
    return 0;
}

static void sink_append(void *self, const void *records, size_t count)
{
    struct mt_sink *s = self;
    if (s->off)
        return;
    uint64_t at = sink_put(s, records, count * MT_RAW_RECORD_SIZE);
    mt_sample_add(&s->sample, (at - s->first) / MT_RAW_RECORD_SIZE, records, count);
}

static uint64_t sink_end(void *self, uint64_t *bytes)
{
    static const struct mt_raw_record eot;
    struct mt_sink *s = self;
    *bytes = 0;
    if (!s->in_launch)
        return 0;
    uint64_t came = (s->offset - s->first) / MT_RAW_RECORD_SIZE, kept = came;
    if (!s->off)
        sink_put(s, &eot, sizeof eot);
    if (s->off) {
        sink_stop(s);
        kept = s->fail_offset > s->first ? (s->fail_offset - s->first) / MT_RAW_RECORD_SIZE : 0;
    }
    s->in_launch = 0;
    s->kept = kept;
    *bytes = kept * MT_RAW_RECORD_SIZE;
    return kept;
}

static int sink_sample(const void *self, uint64_t *hash)
{
    const struct mt_sink *s = self;
    *hash = XXH3_64bits(s->sample.at, mt_sample_bytes(s->kept));
    return s->kept && !s->off;
}

static int sink_on(const void *self)
{
    return !((const struct mt_sink *)self)->off;
}

static const char *sink_error(const void *self)
{
    return ((const struct mt_sink *)self)->error;
}

const struct mt_output_ops mt_sink_ops = {
    .begin = sink_begin,
    .append = sink_append,
    .end = sink_end,
    .sample = sink_sample,
    .on = sink_on,
    .error = sink_error,
    .close = sink_close,
};

/* Writer of one compact trace, MemTrace-pipe-N.mtc: chunks with the accesses of a stream's launches as runs
 * of warps, and meta chunks with the companion's lines. */

#define CHUNK_RUNS 8192u /* runs of a chunk; the encoder's state for them fits the cache */
#define CHUNK_RUNS_GPU                                                                                       \
    65536u /* the warps of a whole GPU take turns: each needs some before it is predicted */

struct mt_compact {
    struct mt_file file;
    char *path;
    struct mt_mtc_writer *writer;
    struct mt_companion_writer *inside; /* companion in the meta chunks */
    uint64_t stream;
    size_t chunk;  /* runs of a chunk */
    uint64_t good; /* bytes in the file, all in whole chunks; under the writer's lock */
    _Atomic int off;
    int closing; /* index and tail are being written */
    char error[256];

    char **kernels; /* kernels with a line; ids are 1, 2, … */
    size_t nkernels;
    int spaces;     /* the head announces accesses to shared or local memory */
    uint64_t sites; /* log_sites at the last meta lines */

    /* The current launch. Each thread that appends runs fills a chunk of its own. */
    pthread_mutex_t lock; /* protects `open`, and the order of chunks */
    uint64_t key, seq;
    int begun;          /* its first chunk is written */
    _Atomic int single; /* its runs are accesses of one thread each */
    struct encoder *open;
    _Atomic uint64_t kept; /* accesses in the file */
    uint64_t before;       /* size of the file before the launch */
};

/* ---- encoders: one per thread that ever wrote at the same time ---- */

struct encoder {
    struct mt_mtc_device_encoder *e;
    pthread_t owner; /* while it is open */
    struct encoder *next;
};
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(idle_lock, MT_FORK_LEAVES);
static struct encoder *idle;

static struct encoder *take_encoder(void)
{
    pthread_mutex_lock(&idle_lock);
    struct encoder *x = idle;
    if (x)
        idle = x->next;
    pthread_mutex_unlock(&idle_lock);
    if (x || !(x = calloc(1, sizeof *x)))
        return x;
    x->e = mt_mtc_device_encoder_new();
    if (x->e)
        return x;
    free(x);
    return NULL;
}

static void give_encoder(struct encoder *x)
{
    pthread_mutex_lock(&idle_lock);
    x->next = idle;
    idle = x;
    pthread_mutex_unlock(&idle_lock);
}

/* ---- the file ---- */

static void compact_fail(struct mt_compact *c, const char *why, uint64_t bytes)
{
    if (atomic_exchange(&c->off, 1))
        return;
    snprintf(c->error, sizeof c->error, "%s after %llu bytes", why, (unsigned long long)bytes);
    if (c->closing) /* all chunks are in the file: readers find them without the index */
        mt_report_file("%s: %s; the trace is whole, but for its index: reading it takes longer", c->path,
                       c->error);
    else if (c->inside && !mt_forked()) /* now, as the kernel may run for hours */
        mt_report_file("%s: %s; the trace of this stream ends here and is incomplete", c->path, c->error);
}

/* Called by the writer, one call at a time. */
static int sink_write_file(void *self, const void *data, size_t bytes)
{
    struct mt_compact *c = self;
    size_t done;
    int rc = mt_file_write(&c->file, data, bytes, c->file.fifo ? -1 : (int64_t)c->good, &done);
    if (!rc) {
        c->good += bytes;
        return 0;
    }
    compact_fail(c, mt_file_reason(rc), c->good + done);
    if (!c->file.fifo && rc != EBADF)
        mt_file_cut(&c->file, c->good);
    return rc;
}

static int compact_write_lines(void *self, const char *lines, size_t bytes)
{
    struct mt_compact *c = self;
    uint64_t n = 0;
    for (const char *p = lines, *end = lines + bytes; p < end && (p = memchr(p, '\n', (size_t)(end - p)));
         p++)
        n++;
    return mt_mtc_write(c->writer, MT_MTC_META, 0, 0, 0, 0, n, lines, bytes);
}

static void write_chunk(struct mt_compact *c, unsigned flags, const void *payload, size_t bytes,
                        uint64_t items)
{
    flags |= c->single ? MT_MTC_SINGLE : 0;
    int rc = mt_mtc_write(c->writer, MT_MTC_DEVICE, flags, c->key, c->seq, c->seq, items, payload, bytes);
    if (!rc)
        c->kept += items;
    else
        compact_fail(c, mt_file_reason(rc), mt_mtc_writer_bytes(c->writer));
}

/* Writes index and tail. */
static void compact_close(void *self)
{
    struct mt_compact *c = self;
    companion_close(c->inside);
    c->closing = c->inside && !c->off && !mt_forked();
    if (mt_mtc_writer_close(c->writer) && c->inside)
        compact_fail(c, strerror(ENOMEM), c->good);
    mt_file_close(&c->file);
    pthread_mutex_destroy(&c->lock);
    for (size_t i = 0; i < c->nkernels; i++)
        free(c->kernels[i]);
    free(c->kernels);
    for (struct encoder *x; (x = c->open);) { /* encoders of a launch that did not end */
        c->open = x->next;
        give_encoder(x);
    }
    free(c->path);
    free(c);
}

/* Opens `path` (a FIFO waits for its reader) and writes the head; level: zstd's, 0: stored. Returns NULL with
 * *why set to a sentence for the user. */
static struct mt_compact *compact_open(const char *path, const struct mt_header_line *head, int level,
                                       char *why, size_t size)
{
    struct mt_compact *c = calloc(1, sizeof *c);
    if (!c || !(c->path = strdup(path))) {
        snprintf(why, size, "%.400s: out of memory", path);
        free(c);
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    c->stream = head->stream;
    c->chunk = strcmp(head->device, "gpu") ? CHUNK_RUNS : CHUNK_RUNS_GPU;
    c->file.at.fd = -1;
    if (mt_file_open(&c->file, path, MT_FILE_WAIT, why, size))
        goto fail;
    struct mt_mtc_file file = {sink_write_file, c};
    c->spaces = log_spaces();
    uint64_t features = c->spaces ? MT_MTC_HAS_SPACES | MT_MTC_HAS_COPIES : 0;
    if (c->spaces && !head->sanitizer) /* of a GPU's machine code, fences are not reported */
        features |= MT_MTC_HAS_FENCES;
    if (strcmp(head->device, "gpu") != 0)
        features |= MT_MTC_HAS_BLOCKS;
    c->writer = mt_mtc_writer_open(&file, MT_MTC_HAS_DEVICE | features, level, why, size);
    if (!c->writer) {
        snprintf(why, size, "%s: %s", path, *c->error ? c->error : "no memory for a compact trace");
        goto fail;
    }
    c->inside = companion_inside(head, compact_write_lines, c, why, size);
    if (c->inside)
        return c;
fail:
    compact_close(c);
    return NULL;
}

/* ---- launches ---- */

/* Returns the kernel's number in this file, or 0 if out of memory. Sites and names precede the chunks that
 * need them. */
static uint32_t compact_kernel(struct mt_compact *c, const char *name)
{
    size_t i = 0;
    while (i < c->nkernels && strcmp(c->kernels[i], name))
        i++;
    if (i < c->nkernels)
        return (uint32_t)i + 1;
    char **more = realloc(c->kernels, (i + 1) * sizeof *more);
    if (!more)
        return 0;
    c->kernels = more;
    if (!(more[i] = strdup(name)))
        return 0;
    c->nkernels++;
    companion_kernel(c->inside, i + 1, name);
    c->sites = UINT64_MAX; /* forces the sites to be written */
    return (uint32_t)i + 1;
}

/* Writes the new sites. */
static void compact_sites(struct mt_compact *c)
{
    uint64_t sites = site_tables;
    if (c->off || c->sites == sites)
        return;
    companion_flush(c->inside, 1);
    c->sites = sites;
}

static int compact_begin(void *self, const struct mt_launch_line *l)
{
    struct mt_compact *c = self;
    c->before = mt_mtc_writer_bytes(c->writer);
    uint32_t kernel = c->off ? 0 : compact_kernel(c, l->kernel);
    if (!c->off && !kernel)
        compact_fail(c, strerror(ENOMEM), c->good);
    compact_sites(c);
    if (!c->off && !c->spaces && log_spaces())
        compact_fail(c,
                     "code that records shared or local memory was loaded after this trace began: load it "
                     "before the first traced launch",
                     c->good);
    if (c->off)
        return -1;
    c->key = MT_MTC_DEVICE_KEY(c->stream, kernel);
    c->seq = l->seq;
    c->begun = 0;
    c->single = 0;
    c->kept = 0;
    return 0;
}

/* Writes the contents of the encoder; `last` of the launch. */
static void compact_put(struct mt_compact *c, struct encoder *x, unsigned last)
{
    const void *payload;
    uint64_t items;
    size_t bytes = mt_mtc_device_end(x->e, &items, &payload);
    pthread_mutex_lock(&c->lock);
    compact_sites(c); /* sites of machine code are found while the kernel runs */
    unsigned first = c->begun ? 0 : MT_MTC_BEGIN;
    c->begun = 1;
    if (first || last) /* others need not wait for the compression */
        write_chunk(c, first | last, payload, bytes, items);
    pthread_mutex_unlock(&c->lock);
    if (!first && !last)
        write_chunk(c, 0, payload, bytes, items);
}

/* Returns the calling thread's encoder, with a chunk begun if new, or NULL with *why set. */
static struct encoder *compact_encoder(struct mt_compact *c, const char **why)
{
    pthread_mutex_lock(&c->lock);
    struct encoder *x = c->open;
    while (x && !pthread_equal(x->owner, pthread_self()))
        x = x->next;
    pthread_mutex_unlock(&c->lock);
    if (x)
        return x;
    x = take_encoder();
    *why = x ? mt_mtc_device_begin(x->e, c->chunk) : strerror(ENOMEM);
    if (*why) {
        if (x)
            give_encoder(x);
        return NULL;
    }
    x->owner = pthread_self();
    pthread_mutex_lock(&c->lock);
    x->next = c->open;
    c->open = x;
    pthread_mutex_unlock(&c->lock);
    return x;
}

static uint64_t compact_append(void *self, const struct mt_access_run *runs, size_t count, int single)
{
    struct mt_compact *c = self;
    const char *why = NULL;
    if (c->off)
        return mt_region_accesses(runs, count);
    c->single = single;
    struct encoder *x = compact_encoder(c, &why);
    struct mt_mtc_place at = {0};
    if (x)
        mt_mtc_device_add(x->e, runs, count, &at, &why);
    while (!why && x && at.run < count) {
        compact_put(c, x, 0);
        why = mt_mtc_device_begin(x->e, count > c->chunk ? count : c->chunk);
        if (!why && !mt_mtc_device_add(x->e, runs, count, &at, &why) && !why)
            why = "too many runs for a chunk";
    }
    if (why)
        compact_fail(c, why, c->good);
    return why ? mt_region_accesses(runs, count) : at.accesses;
}

/* Writes the contents of the calling thread's encoder. */
static void compact_fence(void *self)
{
    struct mt_compact *c = self;
    pthread_mutex_lock(&c->lock);
    struct encoder **at = &c->open, *x;
    while (*at && !pthread_equal((*at)->owner, pthread_self()))
        at = &(*at)->next;
    if ((x = *at))
        *at = x->next;
    pthread_mutex_unlock(&c->lock);
    if (!x)
        return;
    if (!c->off)
        compact_put(c, x, 0);
    give_encoder(x);
}

static uint64_t compact_end(void *self, uint64_t *bytes)
{
    static const struct mt_mtc_columns nothing;
    struct mt_compact *c = self;
    if (!c->off && !c->open)
        write_chunk(c, MT_MTC_END | (c->begun ? 0 : MT_MTC_BEGIN), &nothing, sizeof nothing, 0);
    for (struct encoder *x; (x = c->open);) {
        c->open = x->next;
        if (!c->off)
            compact_put(c, x, c->open ? 0 : MT_MTC_END);
        give_encoder(x);
    }
    *bytes = mt_mtc_writer_bytes(c->writer) - c->before;
    return c->kept;
}

static int compact_on(const void *self)
{
    return !((const struct mt_compact *)self)->off;
}

static const char *compact_error(const void *self)
{
    return ((const struct mt_compact *)self)->error;
}

static const struct mt_output_ops compact_ops = {
    .spaces = 1,
    .begin = compact_begin,
    .append_runs = compact_append,
    .fence = compact_fence,
    .end = compact_end,
    .on = compact_on,
    .error = compact_error,
    .close = compact_close,
};

struct mt_trace {
    uint64_t n;
    const struct mt_output_ops *ops;
    void *out;                             /* argument of ops; NULL: could not be opened, or closed */
    struct mt_companion_writer *companion; /* companion file, and the companion in a compact trace, or NULL */
    struct mt_companion_writer *inside;
    char name[NAME_MAX + 1]; /* name of its file */
    int refused;             /* could never be opened: its launches are in all other companions */
    struct mt_trace *next;
    _Atomic int busy;            /* a launch is under way */
    uint64_t others;             /* accesses to non-global memory, written in addition */
    _Atomic uint64_t others_now; /* accesses to non-global memory in the current launch */
    uint64_t written, counted, lost, launches, dropped; /* dropped: launches that never ran */
    uint64_t disagree;                                  /* launches whose records and counters differ */
    _Atomic uint64_t missed;                            /* launches that ran without records */
    char why[512];                                      /* reason of a loss */
    int told;                                           /* the lost line is written */
    int closed, whole;                                  /* closed; closed without any loss */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
MT_FORK_LOCK(lock, MT_FORK_TRACES);
static struct mt_trace *traces;
static uint64_t count;
static struct mt_header_line head = {.device = "cpu", .device_name = ""};

void mt_trace_device(const char *kind, const char *name, unsigned sms)
{
    head.device = kind;
    head.device_name = name;
    head.sms = sms;
}

void mt_trace_sanitizer(const char *version, const char *refused)
{
    head.sanitizer = version;
    head.refused = refused;
}

void mt_trace_only(const char *results)
{
    head.only = results;
}

void mt_trace_workers(unsigned n)
{
    head.workers = n;
}

int mt_trace_path(const char *dir, const char *pattern, uint64_t n, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "%s/", dir);
    for (; *pattern && at < size; pattern++) {
        if (*pattern == '?')
            at += (size_t)snprintf(out + at, size - at, "%llu", (unsigned long long)n);
        else if (pattern[0] == '%' && pattern[1] == 'p' && pattern++)
            at += (size_t)snprintf(out + at, size - at, "%ld", (long)getpid());
        else if (pattern[0] == '%' && pattern[1] == 'r' && pattern++)
            at += (size_t)snprintf(out + at, size - at, "%u", job_known()->rank);
        else
            out[at++] = *pattern;
    }
    if (at >= size)
        return -1;
    out[at] = 0;
    return 0;
}

/* Returns the file name pattern; the default one has no room for several processes. */
static const char *trace_pattern(void)
{
    const char *pattern = mt_options()->pattern;
    if (!*job_known()->name || strcmp(pattern, "MemTrace-pipe-?") != 0)
        return pattern;
    return job_known()->ranks > 1 ? "MemTrace-rank%r-pipe-?" : "MemTrace-%p-pipe-?";
}

/* ---- raw or compact ---- */

#define SUFFIX ".mtc"

int mt_trace_compact(void)
{
    return mt_options()->format == MT_FORMAT_COMPACT && !head.only;
}

static int trace_is_on(const struct mt_trace *t)
{
    return t->out && t->ops->on(t->out);
}

static const char *trace_error(const struct mt_trace *t)
{
    return t->out ? t->ops->error(t->out) : "";
}

/* Returns the number of records of the launch. */
static uint64_t trace_end_launch(struct mt_trace *t, struct mt_launch_line *l)
{
    uint64_t bytes, written = t->ops->end(t->out, &bytes);
    l->sampled = t->ops->sample && t->ops->sample(t->out, &l->sample);
    mt_selection_wrote(bytes);
    return written;
}

static void trace_close_output(struct mt_trace *t)
{
    void *out = t->out;
    if (!out || !t->ops->close)
        return;
    t->out = t->inside = NULL;
    t->ops->close(out);
}

static int has_suffix(const char *path)
{
    size_t n = strlen(path);
    return n >= strlen(SUFFIX) && !strcmp(path + n - strlen(SUFFIX), SUFFIX);
}

static void trace_refuse(struct mt_trace *t)
{
    mt_report_file("%s; stream %llu is not traced", *t->why ? t->why : "no memory", (unsigned long long)t->n);
}

static void open_compact(struct mt_trace *t, struct mt_compact *c)
{
    t->out = c;
    t->ops = &compact_ops;
    t->inside = c ? c->inside : NULL;
}

/* Reports a missing folder once instead of twice per stream. The folder is not created: a misspelt name in
 * another's program would become one, and a sandbox may kill the process. */
static int trace_no_folder(struct mt_trace *t, const char *path)
{
    static int said;
    char folder[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    int there = stat(folder, &st) == 0;
    if (there ? S_ISDIR(st.st_mode) : errno != ENOENT)
        return 0;
    snprintf(t->why, sizeof t->why,
             there ? "%.200s is no folder; set MEMTRACE_DIR"
                   : "%.200s does not exist; create this folder, or set MEMTRACE_DIR",
             folder);
    if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        mt_report_file("%s; nothing is traced", t->why);
    return 1;
}

static void open_files(struct mt_trace *t)
{
    char path[PATH_MAX - 8], meta[PATH_MAX];
    const struct mt_options *o = mt_options();
    int compact = mt_trace_compact();
    if (mt_trace_path(o->dir, trace_pattern(), t->n, path, sizeof path - strlen(SUFFIX))) {
        snprintf(t->why, sizeof t->why, "the path from MEMTRACE_DIR and MEMTRACE_PATTERN is too long");
        trace_refuse(t);
        return;
    }
    if (compact && !has_suffix(path))
        strcat(path, SUFFIX);
    snprintf(meta, sizeof meta, "%s.meta", path);
    snprintf(t->name, sizeof t->name, "%s", strrchr(path, '/') + 1);
    struct mt_header_line h = head;
    h.trace = t->name;
    h.stream = t->n;
    h.format = compact ? "compact" : "raw";
    if (trace_no_folder(t, path))
        return;
    t->companion = companion_file_open(meta, &h, t->why, sizeof t->why);
    if (!t->companion)
        mt_report_file("%s; stream %llu has no companion", t->why, (unsigned long long)t->n);
    if (compact) {
        open_compact(t, compact_open(path, &h, (int)o->level, t->why, sizeof t->why));
    } else {
        t->out = mt_sink_open(path, t->why, sizeof t->why);
        t->ops = &mt_sink_ops;
    }
    if (!t->out)
        trace_refuse(t);
    else
        mt_say("stream %llu is traced into %s", (unsigned long long)t->n, path);
}

struct mt_trace *mt_trace_open(void)
{
    if (!mt_tracing())
        return NULL;
    struct mt_trace *t = calloc(1, sizeof *t);
    if (!t) {
        mt_report("out of memory: a stream is not traced");
        return NULL;
    }
    pthread_mutex_lock(&lock);
    t->n = count++;
    pthread_mutex_unlock(&lock);
    open_files(t); /* may wait for a FIFO's reader, while others continue */
    t->refused = !t->out;
    mt_event_stream(t->n, t->name, t->refused ? *t->why ? t->why : "no memory" : NULL);
    pthread_mutex_lock(&lock);
    t->next = traces;
    traces = t;
    pthread_mutex_unlock(&lock);
    return t;
}

int64_t mt_trace_number(const struct mt_trace *t)
{
    return t ? (int64_t)t->n : -1;
}

void mt_trace_open_launch(struct mt_trace *t, struct mt_launch_line *l)
{
    l->stream = mt_trace_number(t);
    l->traced = 0;
    if (!t || mt_forked())
        return;
    t->busy = 1;
    l->traced = 1; /* announced before the launch, as in a live trace */
    l->traced = t->out && !t->ops->begin(t->out, l);
}

void mt_trace_begin(struct mt_trace *t, struct mt_launch_line *l)
{
    l->seq = mt_event_seq();
    l->op = event_op();
    l->begin_ns = mt_now_ns();
    mt_trace_open_launch(t, l);
}

void mt_trace_append(void *trace, const void *records, size_t n)
{
    struct mt_trace *t = trace;
    if (t->out && t->ops->append)
        t->ops->append(t->out, records, n);
}

void mt_trace_fence(void *trace)
{
    struct mt_trace *t = trace;
    if (t->out && t->ops->fence)
        t->ops->fence(t->out);
}

/* Appends to an output that takes only accesses of global memory. */
static uint64_t trace_append_global(struct mt_trace *t, const struct mt_access_run *runs, size_t n,
                                    int single)
{
    uint64_t sum = 0;
    for (size_t i = 0, from; i < n; i++) {
        for (from = i; i < n && !mt_rec_space(runs[i].meta >> 28);)
            i += mt_region_units(&runs[i]);
        if (i > from)
            sum += t->ops->append_runs(t->out, runs + from, i - from, single);
    }
    return sum;
}

uint64_t mt_trace_append_runs(void *trace, const struct mt_access_run *runs, size_t n, int single)
{
    struct mt_trace *t = trace;
    uint64_t others = 0;
    if (!t->out || !t->ops->append_runs)
        return mt_region_accesses(runs, n);
    for (size_t i = 0; log_spaces() && i < n; i += mt_region_units(&runs[i]))
        others += mt_rec_space(runs[i].meta >> 28) ? runs[i].count : 0;
    if (others)
        atomic_fetch_add(&t->others_now, others);
    if (others && !t->ops->spaces)
        return trace_append_global(t, runs, n, single) + others;
    return t->ops->append_runs(t->out, runs, n, single);
}

/* Returns whether the records of a launch agree with the program's own count. Accesses without a record may
 * have been counted. A failed launch may have stopped anywhere. */
static int counts_agree(const struct mt_launch_line *l)
{
    if (!l->counted || l->no_records || !l->traced || l->status)
        return 1;
    for (unsigned i = 0; i < sizeof l->counts / sizeof *l->counts; i++)
        if (l->untraced ? l->counts[i] < l->recorded[i] : l->counts[i] != l->recorded[i])
            return 0;
    return 1;
}

static void check_counts(struct mt_trace *t, const struct mt_launch_line *l)
{
    const uint64_t *c = l->counts, *r = l->recorded;
    if (counts_agree(l))
        return;
    t->disagree++;
    if (!t->why[0])
        snprintf(t->why, sizeof t->why, "kernel %s: its records are not what its counters say",
                 mt_short(l->kernel).text);
    mt_report("kernel %s: accesses/bytes of loads, stores, atomics: records %llu/%llu, %llu/%llu, %llu/%llu, "
              "counters %llu/%llu, %llu/%llu, %llu/%llu; the trace is incomplete",
              mt_short(l->kernel).text, (unsigned long long)r[0], (unsigned long long)r[1],
              (unsigned long long)r[2], (unsigned long long)r[3], (unsigned long long)r[4],
              (unsigned long long)r[5], (unsigned long long)c[0], (unsigned long long)c[1],
              (unsigned long long)c[2], (unsigned long long)c[3], (unsigned long long)c[4],
              (unsigned long long)c[5]);
}

void mt_trace_end(struct mt_trace *t, struct mt_launch_line *l)
{
    if (!mt_tracing())
        return;
    l->end_ns = mt_now_ns();
    if (!t || t->refused) { /* for all companions */
        launch_log(l);
        if (t) {
            t->counted += l->records;
            t->lost += l->records;
            t->launches++;
            t->busy = 0;
        }
        return;
    }
    uint64_t written = l->traced ? trace_end_launch(t, l) : 0, others = atomic_exchange(&t->others_now, 0);
    l->records -= others < l->records ? others : l->records;
    if (l->traced && t->ops->spaces) {
        written -= others < written ? others : written;
        l->others = others;
        t->others += others;
    }
    t->written += written;
    t->counted += l->records;
    t->launches++;
    if (l->records != written) {
        t->lost += l->records > written ? l->records - written : 0;
        if (!t->why[0] || t->out)
            snprintf(t->why, sizeof t->why, "%s",
                     *trace_error(t) ? trace_error(t) : "the device counted other records than arrived");
    }
    check_counts(t, l);
    companion_put_launch(t->companion, l);
    companion_put_launch(t->inside, l);
    t->busy = 0;
}

void mt_trace_drop(struct mt_trace *t, uint64_t launches)
{
    if (t)
        t->dropped += launches;
}

void mt_trace_miss(struct mt_trace *t, const char *why)
{
    if (!t)
        return;
    t->missed++;
    if (why && !t->why[0])
        snprintf(t->why, sizeof t->why, "%s", why);
}

static char missed_why[256];
static _Atomic int missed; /* 1: being written, 2: missed_why is valid */

void mt_trace_miss_anywhere(const char *why)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&missed, &none, 1))
        return;
    snprintf(missed_why, sizeof missed_why, "%s", why);
    missed = 2;
}

/* Written by libmemtrace-attach.so. */
__attribute__((visibility("default"))) struct mt_attach_left __mt_attach_left;

/* Returns 1 if some CUDA code of the process is not traced at all, with the reason in `why`. */
static int trace_left_code(char *why, size_t size)
{
    unsigned n = __atomic_load_n(&__mt_attach_left.count, __ATOMIC_ACQUIRE);
    char more[40] = "";
    if (n > 1)
        snprintf(more, sizeof more, ", and %u more files", n - 1);
    if (n)
        snprintf(why, size,
                 "%s%s: the CUDA runtime in it could not be taken over: its CUDA calls are not traced",
                 __mt_attach_left.path, more);
    else if (missed == 2)
        snprintf(why, size, "%s", missed_why);
    return n || missed == 2;
}

/* Ends the companion before the trace is closed, so that readers of the whole trace find it complete. The
 * lines inside a compact trace come first, as the companion file tells whether they could be written. */
static void end_companion(struct mt_trace *t)
{
    int whole = t->closed ? t->whole
                          : trace_is_on(t) && t->written == t->counted && !t->busy && !t->dropped &&
                                !t->disagree && !t->missed;
    char left[512];
    if (whole && (!t->closed || head.only) && trace_left_code(left, sizeof left)) {
        memcpy(t->why, left, sizeof t->why);
        whole = 0;
    }
    t->whole = whole;
    if (t->dropped)
        snprintf(t->why, sizeof t->why, "the program ended before %llu launches of this stream did",
                 (unsigned long long)t->dropped);
    else if (t->busy)
        snprintf(t->why, sizeof t->why, "the program ended during a launch");
    else if (t->missed && !t->why[0])
        snprintf(t->why, sizeof t->why, "%llu launches of this stream ran without records",
                 (unsigned long long)t->missed);
    if (!t->told && !whole) {
        if (t->out && !trace_is_on(t))
            snprintf(t->why, sizeof t->why, "%s", trace_error(t));
        companion_put_lost(t->companion, t->lost, t->why);
        companion_put_lost(t->inside, t->lost, t->why);
        if (t->companion)
            t->companion->ended = 0; /* what it said before does not hold */
        t->told = 1;
    }
    struct mt_end_line e = {.records_written = t->written,
                            .records_counted = t->counted,
                            .others_written = t->others,
                            .launches = t->launches,
                            .complete = whole && !log_dropped()};
    companion_file_end(t->inside, &e);
    if (t->inside && whole && !trace_is_on(t)) { /* these lines no longer fitted */
        t->whole = e.complete = 0;
        companion_put_lost(t->companion, t->lost, trace_error(t));
        t->told = 1;
    }
    companion_file_end(t->companion, &e);
}

void mt_trace_close(struct mt_trace *t)
{
    if (!t || mt_forked())
        return;
    pthread_mutex_lock(&lock); /* another thread may be in mt_trace_flush or mt_trace_finish */
    end_companion(t);
    companion_park(t->companion);
    t->closed = 1;
    trace_close_output(t);
    pthread_mutex_unlock(&lock);
}

static void flush_lines(struct mt_trace *t, int all)
{
    companion_flush(t->companion, all);
    companion_flush(t->inside, all);
}

void mt_trace_flush(int all)
{
    if (!mt_tracing())
        return;
    pthread_mutex_lock(&lock);
    for (struct mt_trace *t = traces; t; t = t->next)
        flush_lines(t, all);
    pthread_mutex_unlock(&lock);
}

void mt_trace_needed(void)
{
    if (mt_tracing() && (mt_event_findings() || mt_options()->check) &&
        !__atomic_load_n(&count, __ATOMIC_RELAXED))
        mt_trace_open();
}

_Atomic int mt_trace_bare;

void mt_trace_finish(void)
{
    if (!mt_tracing())
        return;
    /* check results belong in a companion, as do copies of a program without kernels */
    if (!count &&
        ((mt_options()->check && mt_log_size()) || (copies && !mt_trace_bare && !mt_selection_left_out)))
        mt_trace_open();
    pthread_mutex_lock(&lock);
    for (struct mt_trace *t = traces; t; t = t->next) {
        end_companion(t);
        if (t->busy)
            continue; /* a thread is still writing; the process is about to end */
        companion_close(t->companion);
        t->companion = NULL;
        trace_close_output(t);
    }
    if (mt_selection_nccl())
        mt_note("launches of NCCL's kernels are not traced: %llu (MEMTRACE_KERNELS=. traces them, too)",
                (unsigned long long)mt_selection_nccl());
    else if (!count && mt_selection_left_out)
        mt_note("no launch is traced: %llu were left out (MEMTRACE_KERNELS, MEMTRACE_LAUNCHES or "
                "MEMTRACE_FROM_START)",
                (unsigned long long)mt_selection_left_out);
    pthread_mutex_unlock(&lock);
}
