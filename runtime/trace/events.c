/* Log of events in the process other than launches: the lines common to all companion files. */
#define _GNU_SOURCE
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
#include "memtrace/record.h"
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
#include <time.h>
#include <unistd.h>

/* ---- The job of this process ---- */

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
static struct mt_job job;

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

const struct mt_job *mt_job(void)
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

void mt_source_line(const char *file)
{
    uint64_t bytes;
    XXH128_hash_t hash;
    char text[33];
    if (!*file || !sources_note(file) || sources_digest(file, &bytes, &hash) != 0)
        return;
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    mt_log_line(MT_LINE_source, &(struct mt_source_line){file, bytes, text});
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the log, the line buffer and alloc ids */
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
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

int mt_tracing(void)
{
    return mt_options()->enable && !mt_forked();
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

void mt_log_line(enum mt_line_kind kind, const void *l)
{
    if (!mt_tracing())
        return;
    pthread_mutex_lock(&lock);
    mt_line_put(&line, kind, l);
    append_locked(&line);
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

/* Starts a line. The lock is held until its end, so that the log is in the order of the sequence numbers. */
static int events_begin(uint64_t *seq)
{
    if (!mt_tracing())
        return 0;
    pthread_mutex_lock(&lock);
    *seq = mt_event_seq();
    return 1;
}

static void events_end(enum mt_line_kind kind, const void *l)
{
    mt_line_put(&line, kind, l);
    append_locked(&line);
    pthread_mutex_unlock(&lock);
}

static int events_device(int device)
{
    return device >= 0 && mt_devices_numbered() ? mt_device_number(device) : -1;
}

/* Returns the time in jobs, which orders events of several processes, else 0. */
static uint64_t events_time(void)
{
    return *mt_job()->name ? mt_now_ns() : 0;
}

uint64_t mt_event_alloc(uint64_t base, uint64_t bytes, const char *kind, const char *name, int device,
                        const struct mt_host_site *site)
{
    struct mt_alloc_line l = {.base = base, .bytes = bytes, .kind = kind};
    if (!events_begin(&l.seq))
        return 0;
    char *source_name = mt_demangle(name);
    l.id = __atomic_fetch_add(&alloc_id, 1, __ATOMIC_RELAXED);
    l.name = source_name ? source_name : name;
    l.device = events_device(device);
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
    mt_log_line(MT_LINE_name, &(struct mt_name_line){id, name});
}

void mt_event_free(uint64_t id, uint64_t base)
{
    struct mt_free_line l = {.id = id, .base = base};
    if (!events_begin(&l.seq))
        return;
    l.ns = events_time();
    events_end(MT_LINE_free, &l);
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
        .comm = comm, .rank = (uint64_t)rank, .ranks = (uint64_t)ranks, .device = events_device(device)};
    if (events_begin(&l.seq))
        events_end(MT_LINE_communicator, &l);
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

void mt_event_order(uint64_t op, uint64_t stream, uint64_t n, const uint64_t *pairs, size_t npairs)
{
    mt_log_line(MT_LINE_order, &(struct mt_order_line){op, stream, n, pairs, npairs});
}

static _Atomic uint64_t copies;

uint64_t mt_event_copies(void)
{
    return copies;
}

void mt_event_memcpy(const struct mt_memcpy_line *c, const struct mt_host_site *site)
{
    struct mt_memcpy_line l = *c;
    if (!events_begin(&l.seq))
        return;
    copies++;
    l.dst_device = events_device(c->dst_device);
    l.src_device = events_device(c->src_device);
    l.begin_ns = mt_now_ns();
    l.op = mt_event_op();
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
    l.op = mt_event_op();
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

int mt_log_spaces(void)
{
    /* code compiled at run time comes later: its option announces it */
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
    mt_log_line(MT_LINE_stream, &(struct mt_stream_line){stream, trace, why});
}

static void log_site(const struct mt_site_line *site, uint32_t op)
{
    struct mt_site_line s = *site;
    s.file = source_kept_at(s.file);
    mt_source_line(s.file);
    s.op = mt_op_text(op);
    s.space = mt_rec_space(op) == MT_IN_SHARED ? "shared" : mt_rec_space(op) == MT_IN_LOCAL ? "local" : NULL;
    if (mt_rec_space(op))
        site_spaces = 1;
    mt_log_line(MT_LINE_site, &s);
}

void mt_event_site(const struct mt_site_line *s, uint32_t op)
{
    if (!mt_tracing())
        return;
    log_site(s, op);
    site_tables++;
}

void mt_event_sites(const struct mt_image_head *head, uint32_t base)
{
    const struct mt_image_site *site = head->sites;
    for (uint32_t i = 0; i < head->nsites && mt_tracing(); i++, site++) {
        struct mt_site_line s = {.id = base + i,
                                 .line = site->line,
                                 .column = site->column,
                                 .size = site->size,
                                 .strong = (int)site->strong,
                                 .file = site->file,
                                 .function = site->function,
                                 .var = site->variable};
        log_site(&s, site->op);
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
