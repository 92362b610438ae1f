/* Opens the trace's output: a regular file, a FIFO with a reader, a device, or a descriptor that the user
 * has opened. */
#define _GNU_SOURCE

#include "output.h"
#include "core.h"
#include "platform.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* ---- File descriptors of the tracer ---- */

#define LIMIT_FILES 7       /* RLIMIT_NOFILE */
#define ROOM 4              /* number of descriptors we use */
#define MOST 65536          /* limit, as the kernel's table of descriptors grows to the highest number */
#define WATCHED 2           /* the trace, and a scratch file */
#define DEATH_SIGNAL 1      /* PR_SET_PDEATHSIG */
#define WAIT_ALL 0x40000000 /* __WALL */
#ifndef F_DUPFD_CLOEXEC
#define F_DUPFD_CLOEXEC 1030
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif
#ifndef __NR_pidfd_getfd
#define __NR_pidfd_getfd 438
#endif

static struct mt_core_output *watched[WATCHED];

/* ---- numbers ---- */

/* Duplicates a file to a high number, beyond the program's limit where possible; the old one stays open. */
static long descriptor_copy(long fd)
{
    uint64_t limit[2] = {1024, 1024}, more[2]; /* soft, hard */
    mt_sys(__NR_prlimit64, 0, LIMIT_FILES, 0, (long)limit, 0, 0);
    int lift = limit[0] < limit[1] && limit[0] <= MOST;
    uint64_t from = limit[0] < MOST ? limit[0] : MOST;
    if (lift) {
        more[0] = limit[1] - limit[0] < ROOM ? limit[1] : limit[0] + ROOM;
        more[1] = limit[1];
        mt_sys(__NR_prlimit64, 0, LIMIT_FILES, (long)more, 0, 0, 0);
    } else {
        from = from > ROOM + 3 ? from - ROOM : 3;
    }
    long n = mt_sys(__NR_fcntl, fd, F_DUPFD_CLOEXEC, (long)from, 0, 0, 0);
    if (lift)
        mt_sys(__NR_prlimit64, 0, LIMIT_FILES, (long)limit, 0, 0, 0);
    return n < 0 ? mt_sys(__NR_fcntl, fd, F_DUPFD_CLOEXEC, 3, 0, 0, 0) : n;
}

/* Moves a file to such a number and closes the old one. A negative errno value is returned as it is. */
static long descriptor_up(long fd)
{
    if (fd < 0)
        return fd;
    long higher = descriptor_copy(fd);
    if (higher < 0 && fd > 2)
        return fd;
    mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
    return higher;
}

/* ---- descriptors that the program closes ---- */

/* Starts watching an open output; descriptor_leave ends that. */
static void descriptor_watch(struct mt_core_output *o)
{
    o->process = mt_plat_pid();
    for (unsigned i = 0; i < WATCHED; i++)
        if (!watched[i]) {
            watched[i] = o;
            return;
        }
}

static void descriptor_leave(struct mt_core_output *o)
{
    for (unsigned i = 0; i < WATCHED; i++)
        if (watched[i] == o)
            watched[i] = NULL;
}

/* Returns 1 if ours is in the range. Not in a child that shares our memory (vfork), which has descriptors
 * of its own. */
static int lies_in(const struct mt_core_output *o, uint32_t first, uint32_t last)
{
    return o && o->fd >= 0 && (uint32_t)o->fd >= first && (uint32_t)o->fd <= last &&
           o->process == mt_plat_pid();
}

int mt_core_descriptor(uint32_t first, uint32_t last)
{
    int lowest = -1;
    for (unsigned i = 0; i < WATCHED; i++)
        if (lies_in(watched[i], first, last) && (lowest < 0 || watched[i]->fd < lowest))
            lowest = watched[i]->fd;
    return lowest;
}

/* Starts a child that holds copies of all descriptors and does nothing. Its end does not disturb any wait.
 * Returns 0 if impossible. */
static long descriptors_keeper(void)
{
    long parent = mt_sys(__NR_getpid, 0, 0, 0, 0, 0, 0), child = mt_sys(__NR_clone, 0, 0, 0, 0, 0, 0);
    if (child)
        return child > 0 ? child : 0;
    mt_sys(__NR_prctl, DEATH_SIGNAL, SIGKILL, 0, 0, 0, 0);
    while (mt_sys(__NR_getppid, 0, 0, 0, 0, 0, 0) == parent)
        mt_plat_sleep_ns(10000000);
    for (;;)
        mt_sys(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}

static long kept_by; /* child between closing and closed; under the locks of its files */

void mt_core_descriptors_closing(uint32_t first, uint32_t last)
{
    for (unsigned i = 0; i < WATCHED; i++) {
        struct mt_core_output *o = watched[i];
        if (!lies_in(o, first, last))
            continue;
        mt_spin_lock(&o->lock);
        if (first == last) {
            long n = descriptor_copy(o->fd); /* keeps the file open while the old number goes */
            if (n >= 0)
                o->fd = (int)n;
            mt_spin_unlock(&o->lock);
        } else { /* perhaps no number survives */
            if (!kept_by)
                kept_by = descriptors_keeper();
            o->aside = 1;
        }
    }
}

static void take_back(struct mt_core_output *o, long process)
{
    long fd = mt_sys(__NR_pidfd_getfd, process, o->fd, 0, 0, 0, 0);
    if (fd >= 0)
        o->fd = (int)descriptor_up(fd); /* otherwise it is reopened, or given up, at the next write */
    o->aside = 0;
    mt_spin_unlock(&o->lock);
}

void mt_core_descriptors_closed(void)
{
    long child = kept_by, process = child ? mt_sys(__NR_pidfd_open, child, 0, 0, 0, 0, 0) : -1;
    for (unsigned i = 0; i < WATCHED; i++)
        if (watched[i] && watched[i]->aside)
            take_back(watched[i], process);
    if (!child)
        return;
    kept_by = 0;
    mt_sys(__NR_kill, child, SIGKILL, 0, 0, 0, 0);
    mt_sys(__NR_wait4, child, 0, WAIT_ALL, 0, 0, 0);
    if (process >= 0)
        mt_sys(__NR_close, process, 0, 0, 0, 0, 0);
}

/* Entries kept in an unlinked scratch file until the end, then read sorted: see output.h. */

#define MEMORY (64u << 20)
#define WAYS 64u    /* number of files into which one is split */
#define PIECE 2048u /* entries read or written at once */
#define ENTRY sizeof(struct mt_host_timed_entry)

static int core_output_scratch(struct mt_core_output *o, char *why, size_t size);

int mt_spool_open(struct mt_spool *s, char *why, unsigned size)
{
    s->entries = 0;
    s->file.fd = -1;
    return core_output_scratch(&s->file, why, size);
}

static void spool_close(struct mt_spool *s)
{
    mt_core_output_close(&s->file);
}

static int core_output_pwrite(struct mt_core_output *o, const void *data, size_t bytes, uint64_t offset);

int mt_spool_add(struct mt_spool *s, const struct mt_host_timed_entry *e, uint64_t count)
{
    int rc = core_output_pwrite(&s->file, e, count * ENTRY, s->entries * ENTRY);
    if (!rc)
        s->entries += count;
    return rc;
}

/* ---- sorting in memory ---- */

static uint32_t rank_of(const struct mt_spool_reader *r, const struct mt_host_timed_entry *e)
{
    return r->rank[e->site >> 2];
}

/* Stable merge sort by time of runs that are mostly in order already. The result is in e. */
static void sort_times(struct mt_host_timed_entry *e, struct mt_host_timed_entry *other, uint64_t n)
{
    uint64_t i = 1;
    while (i < n && e[i - 1].time <= e[i].time)
        i++;
    if (i >= n)
        return;
    sort_times(e, other, n / 2);
    sort_times(e + n / 2, other, n - n / 2);
    memcpy(other, e, n / 2 * ENTRY);
    uint64_t a = 0, b = n / 2, k = 0;
    while (a < n / 2)
        e[k++] = b < n && e[b].time < other[a].time ? e[b++] : other[a++];
}

/* Sorts `e` into `out` by rank, stable, by counting; then each rank by time. */
static int spool_sort(const struct mt_spool_reader *r, struct mt_host_timed_entry *e,
                      struct mt_host_timed_entry *out, uint64_t n, uint32_t low, uint32_t high)
{
    uint64_t bytes = ((uint64_t)high - low + 2) * sizeof(uint64_t);
    uint64_t *at = mt_plat_map(bytes);
    if (!at)
        return ENOMEM;
    for (uint64_t i = 0; i < n; i++)
        at[rank_of(r, &e[i]) - low + 1]++;
    for (uint32_t k = 0; k <= high - low; k++)
        at[k + 1] += at[k];
    for (uint64_t i = 0; i < n; i++)
        out[at[rank_of(r, &e[i]) - low]++] = e[i]; /* at[k] ends as the end of rank k */
    for (uint32_t k = 0; k <= high - low; k++) {
        uint64_t start = k ? at[k - 1] : 0;
        sort_times(out + start, e, at[k] - start);
    }
    mt_plat_unmap(at, bytes);
    return 0;
}

static int core_output_pread(struct mt_core_output *o, void *data, size_t bytes, uint64_t offset);

static int in_memory(const struct mt_spool_reader *r, struct mt_spool *s, uint32_t low, uint32_t high)
{
    uint64_t bytes = s->entries * ENTRY;
    struct mt_host_timed_entry *e = mt_plat_map(bytes), *out = mt_plat_map(bytes);
    int rc = e && out ? core_output_pread(&s->file, e, bytes, 0) : ENOMEM;
    if (!rc)
        rc = spool_sort(r, e, out, s->entries, low, high);
    for (uint64_t i = 0; !rc && i < s->entries; i++)
        r->entry(r->arg, &out[i], rank_of(r, &out[i]));
    mt_plat_unmap(e, bytes);
    mt_plat_unmap(out, bytes);
    return rc;
}

/* ---- splitting larger spools ---- */

/* A split by ranks low..high, or by times if there is only one rank: way k takes [bound[k], bound[k + 1]). */
struct split {
    const struct mt_spool_reader *r;
    int by_time;
    uint64_t bound[WAYS + 1];
    struct mt_spool part[WAYS];
    struct mt_host_timed_entry *waiting[WAYS];
    uint32_t count[WAYS];
    uint64_t low, high; /* range of keys seen */
};

static uint64_t spool_key(const struct split *p, const struct mt_host_timed_entry *e)
{
    return p->by_time ? e->time : rank_of(p->r, e);
}

static int spool_each(struct mt_spool *s, int (*visit)(struct split *, const struct mt_host_timed_entry *),
                      struct split *p)
{
    struct mt_host_timed_entry *e = mt_plat_map(PIECE * ENTRY);
    int rc = e ? 0 : ENOMEM;
    for (uint64_t i = 0; !rc && i < s->entries; i += PIECE) {
        uint64_t n = s->entries - i < PIECE ? s->entries - i : PIECE;
        rc = core_output_pread(&s->file, e, n * ENTRY, i * ENTRY);
        for (uint64_t k = 0; !rc && k < n; k++)
            rc = visit(p, &e[k]);
    }
    mt_plat_unmap(e, PIECE * ENTRY);
    return rc;
}

static int find_range(struct split *p, const struct mt_host_timed_entry *e)
{
    uint64_t k = spool_key(p, e);
    p->low = k < p->low ? k : p->low;
    p->high = k > p->high ? k : p->high;
    return 0;
}

static int spool_push(struct split *p, unsigned w)
{
    int rc = mt_spool_add(&p->part[w], p->waiting[w], p->count[w]);
    p->count[w] = 0;
    return rc;
}

static int spool_deal(struct split *p, const struct mt_host_timed_entry *e)
{
    uint64_t k = spool_key(p, e);
    unsigned w = 0;
    for (unsigned half = WAYS / 2; half; half /= 2)
        if (p->bound[w + half] <= k)
            w += half;
    p->waiting[w][p->count[w]++] = *e;
    return p->count[w] == PIECE ? spool_push(p, w) : 0;
}

static int split_open(struct split *p)
{
    char why[512];
    for (unsigned w = 0; w < WAYS; w++) {
        int rc = mt_spool_open(&p->part[w], why, sizeof why);
        if (rc)
            return rc;
        if (!(p->waiting[w] = mt_plat_map(PIECE * ENTRY)))
            return ENOMEM;
    }
    return 0;
}

static void split_close(struct split *p)
{
    for (unsigned w = 0; w < WAYS; w++) {
        spool_close(&p->part[w]);
        mt_plat_unmap(p->waiting[w], PIECE * ENTRY);
    }
    mt_plat_unmap(p, sizeof *p);
}

/* Emits entries of one key, which need no sorting. */
static int spool_emit(struct split *p, const struct mt_host_timed_entry *e)
{
    p->r->entry(p->r->arg, e, rank_of(p->r, e));
    return 0;
}

/* Splits the range into equal parts: recursion evens out crowded ones. */
static int split_fill(struct split *p, struct mt_spool *s)
{
    p->low = UINT64_MAX;
    int rc = spool_each(s, find_range, p);
    if (!rc && p->low == p->high && !p->by_time) {
        p->by_time = 1;
        p->low = UINT64_MAX;
        p->high = 0;
        rc = spool_each(s, find_range, p);
    }
    if (!rc && p->low == p->high)
        return spool_each(s, spool_emit, p); /* one execution with very many operands */
    uint64_t span = p->high - p->low, step = span / WAYS + 1;
    for (unsigned w = 0; w <= WAYS; w++)
        p->bound[w] = w && step > (UINT64_MAX - p->low) / w ? UINT64_MAX : p->low + w * step;
    if (!rc)
        rc = split_open(p);
    if (!rc)
        rc = spool_each(s, spool_deal, p);
    for (unsigned w = 0; !rc && w < WAYS; w++) {
        rc = spool_push(p, w);
        mt_plat_unmap(p->waiting[w], PIECE * ENTRY);
        p->waiting[w] = NULL;
    }
    return rc;
}

static int read_part(const struct mt_spool_reader *r, struct mt_spool *s, uint32_t low, uint32_t high);

static int in_parts(const struct mt_spool_reader *r, struct mt_spool *s)
{
    struct split *p = mt_plat_map(sizeof *p);
    if (!p)
        return ENOMEM;
    p->r = r;
    for (unsigned w = 0; w < WAYS; w++)
        p->part[w].file.fd = -1;
    int rc = split_fill(p, s);
    spool_close(s); /* frees its disk space for the parts of the parts */
    for (unsigned w = 0; !rc && w < WAYS; w++)
        rc = p->part[w].entries ? read_part(r, &p->part[w], 0, r->ranks - 1) : 0;
    split_close(p);
    return rc;
}

static int read_part(const struct mt_spool_reader *r, struct mt_spool *s, uint32_t low, uint32_t high)
{
    uint64_t memory = r->memory ? r->memory : MEMORY;
    int rc = s->entries * ENTRY <= memory ? in_memory(r, s, low, high) : in_parts(r, s);
    spool_close(s);
    return rc;
}

int mt_spool_read(struct mt_spool *s, const struct mt_spool_reader *r)
{
    if (!s->entries || !r->ranks) {
        spool_close(s);
        return 0;
    }
    return read_part(r, s, 0, r->ranks - 1);
}

/* ---- reading and writing open files ---- */

#define KERNEL_SIGSET 8 /* bytes of the kernel's signal set */
#define SLURP_MAX (64u << 20)

static char whole_path[4096]; /* path of the open file, absolute as the program may change folders; empty:
                               * unknown */

/* Stores the absolute path, to reopen it. */
static void core_output_remember(const struct mt_core_output *o)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", o->fd);
    long n = mt_sys(__NR_readlink, (long)link, (long)whole_path, sizeof whole_path - 1, 0, 0, 0);
    whole_path[n > 0 && n < (long)sizeof whole_path - 1 ? n : 0] = 0;
}

/* Returns 1 while the number still means the file. */
static int is_ours(const struct mt_core_output *o, int fd)
{
    struct stat st;
    int saved = errno;
    int same = fd >= 0 && !fstat(fd, &st) && st.st_dev == o->dev && st.st_ino == o->ino;
    errno = saved;
    return same;
}

void mt_core_output_close(struct mt_core_output *o)
{
    descriptor_leave(o);
    if (is_ours(o, o->fd))
        mt_sys(__NR_close, o->fd, 0, 0, 0, 0, 0);
    o->fd = -1;
}

/* ---- write ---- */

static int write_all(int fd, const char *p, size_t bytes)
{
    while (bytes) {
        long n = mt_sys(__NR_write, fd, (long)p, (long)bytes, 0, 0, 0);
        if (n == -EINTR || n == -EAGAIN)
            continue;
        if (n <= 0)
            return n ? (int)-n : ENOSPC;
        p += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Reopens the file at its end after the program has closed our descriptor. Returns 0 or EBADF. */
static int open_again(struct mt_core_output *o)
{
    if (o->fifo || !*whole_path)
        return EBADF;
    long fd = descriptor_up(mt_sys(__NR_open, (long)whole_path,
                                   O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, 0, 0, 0));
    if (fd < 0)
        return EBADF;
    if (!is_ours(o, (int)fd) || mt_sys(__NR_flock, fd, LOCK_EX | LOCK_NB, 0, 0, 0, 0) ||
        mt_sys(__NR_lseek, fd, 0, SEEK_END, 0, 0, 0) < 0) {
        mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
        return EBADF;
    }
    o->fd = (int)fd; /* the old number is the program's now */
    return 0;
}

/* SIGPIPE and SIGXFSZ go to the writing thread: they are blocked, and the one we caused is consumed. */
struct held {
    uint64_t mine, old, pending;
};

static struct held output_io_hold(int signo)
{
    struct held h = {.mine = 1ull << (signo - 1)};
    mt_sys(__NR_rt_sigpending, (long)&h.pending, KERNEL_SIGSET, 0, 0, 0, 0);
    mt_sys(__NR_rt_sigprocmask, SIG_BLOCK, (long)&h.mine, (long)&h.old, KERNEL_SIGSET, 0, 0);
    return h;
}

static void let_go(struct held *h, int error)
{
    if ((error == EPIPE || error == EFBIG) && !(h->pending & h->mine)) {
        long none[2] = {0, 0};
        while (mt_sys(__NR_rt_sigtimedwait, (long)&h->mine, 0, (long)none, KERNEL_SIGSET, 0, 0) == -EINTR)
            ;
    }
    mt_sys(__NR_rt_sigprocmask, SIG_SETMASK, (long)&h->old, 0, KERNEL_SIGSET, 0, 0);
}

static int write_now(struct mt_core_output *o, const void *data, size_t bytes)
{
    if (o->error || o->fd < 0)
        return o->error ? o->error : EBADF;
    if (!is_ours(o, o->fd) && (o->error = open_again(o)))
        return o->error;
    struct held h = output_io_hold(o->fifo ? SIGPIPE : SIGXFSZ);
    o->error = write_all(o->fd, data, bytes);
    let_go(&h, o->error);
    return o->error;
}

int mt_core_output_write(struct mt_core_output *o, const void *data, size_t bytes)
{
    mt_spin_lock(&o->lock);
    int rc = write_now(o, data, bytes);
    mt_spin_unlock(&o->lock);
    return rc;
}

/* ---- scratch files and small input files ---- */

static int output_io_own(struct mt_core_output *o, long fd)
{
    struct stat st;
    *o = (struct mt_core_output){.fd = (int)fd};
    if (fstat(o->fd, &st))
        return errno;
    o->dev = st.st_dev;
    o->ino = st.st_ino;
    descriptor_watch(o);
    return 0;
}

/* Opens an unlinked file in $TMPDIR or /tmp for data that does not fit into memory. Returns 0, or an errno
 * value with *why set. */
static int core_output_scratch(struct mt_core_output *o, char *why, size_t size)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];
    if (!folder || !*folder)
        folder = "/tmp";
    for (uint64_t attempt = 0; attempt < 100; attempt++) {
        snprintf(path, sizeof path, "%s/memtrace-%u-%llx", folder, mt_plat_pid(),
                 (unsigned long long)(mt_plat_now_ns() + attempt));
        long fd = descriptor_up(
            mt_sys(__NR_open, (long)path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600, 0, 0, 0));
        if (fd == -EEXIST || fd == -EINTR)
            continue;
        if (fd >= 0)
            mt_sys(__NR_unlink, (long)path, 0, 0, 0, 0, 0);
        else
            snprintf(why, size, "no scratch file in %s: %s; set TMPDIR", folder, strerror((int)-fd));
        return fd >= 0 ? output_io_own(o, fd) : (int)-fd;
    }
    snprintf(why, size, "no scratch file in %s: names are taken; set TMPDIR", folder);
    return EEXIST;
}

/* Reads or writes all `bytes` at `offset`. Returns 0 or an errno value (EIO: end of file; EBADF: the
 * program has closed the descriptor). */
static int core_output_pread(struct mt_core_output *o, void *data, size_t bytes, uint64_t offset)
{
    mt_spin_lock(&o->lock);
    int rc = is_ours(o, o->fd) ? mt_plat_pread(o->fd, data, bytes, offset) : EBADF;
    mt_spin_unlock(&o->lock);
    return rc;
}

static int pwrite_all(int fd, const char *p, size_t bytes, uint64_t offset)
{
    while (bytes) {
        long n = mt_sys(__NR_pwrite64, fd, (long)p, (long)bytes, (long)offset, 0, 0);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n ? (int)-n : ENOSPC;
        p += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

static int core_output_pwrite(struct mt_core_output *o, const void *data, size_t bytes, uint64_t offset)
{
    int rc = EBADF;
    mt_spin_lock(&o->lock);
    if (is_ours(o, o->fd)) {
        struct held h = output_io_hold(SIGXFSZ);
        rc = pwrite_all(o->fd, data, bytes, offset);
        let_go(&h, rc);
    }
    mt_spin_unlock(&o->lock);
    return rc;
}

char *mt_core_output_slurp(const char *path, size_t *bytes, char *why, size_t size)
{
    struct stat st;
    char *text = NULL;
    long fd = mt_sys(__NR_open, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    int rc = fd < 0 ? (int)-fd : fstat((int)fd, &st) ? errno : 0;
    if (!rc && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > SLURP_MAX))
        rc = EINVAL;
    if (!rc && !(text = mt_plat_map((size_t)st.st_size + 1)))
        rc = ENOMEM;
    if (!rc && st.st_size && (rc = mt_plat_pread((int)fd, text, (size_t)st.st_size, 0))) {
        mt_plat_unmap(text, (size_t)st.st_size + 1);
        text = NULL;
    }
    if (fd >= 0)
        mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
    if (rc)
        snprintf(why, size, "%s cannot be read: %s", path,
                 rc == EINVAL ? "not a small regular file" : strerror(rc));
    else
        *bytes = (size_t)st.st_size;
    return text;
}

#define WAIT_STEP_NS 5000000u
#define WAIT_WORDS 400 /* steps before a message about the wait: 2 s */
#define PATH_ROOM 4096
#define LINKS 16 /* maximum chain of symbolic links */
static char name[4096];

/* ---- open ---- */

const char *mt_core_output_name(const char *pattern)
{
    size_t n = 0;
    for (const char *p = pattern; *p; p++) {
        int pid = p[0] == '%' && p[1] == 'p', room = (int)(sizeof name - n);
        int wrote = pid ? snprintf(name + n, (size_t)room, "%u", mt_plat_pid())
                        : snprintf(name + n, (size_t)room, "%c", *p);
        if (wrote >= room)
            return NULL;
        n += (size_t)wrote;
        p += pid;
    }
    name[n] = 0;
    return name;
}

/* Adds the process id: x.mtc becomes x.1234.mtc, other names x.1234. */
static int add_pid(void)
{
    char end[8] = "";
    size_t n = strlen(name);
    if (n > 4 && !strcmp(name + n - 4, ".mtc")) {
        n -= 4;
        strcpy(end, ".mtc");
    }
    int room = (int)(sizeof name - n);
    return snprintf(name + n, (size_t)room, ".%u%s", mt_plat_pid(), end) < room ? 0 : -1;
}

static uint32_t output_user(void)
{
    return (uint32_t)mt_sys(__NR_geteuid, 0, 0, 0, 0, 0, 0);
}

static int output_refuse(const struct stat *st, const char *path, char *why, size_t size)
{
    uint32_t me = output_user();
    if (S_ISCHR(st->st_mode))
        return 0; /* /dev/null, a terminal: allowed to all with write permission */
    if (!S_ISREG(st->st_mode) && !S_ISFIFO(st->st_mode))
        snprintf(why, size, "%s is neither a regular file nor a FIFO nor a character device; give another -o",
                 path);
    else if (st->st_uid != me)
        snprintf(why, size, "%s belongs to user %u, not to us; give another -o", path, (unsigned)st->st_uid);
    else if (S_ISREG(st->st_mode) && st->st_nlink > 1)
        snprintf(why, size, "%s has %lu hard links and is not overwritten; give another -o", path,
                 (unsigned long)st->st_nlink);
    else
        return 0;
    return EPERM;
}

static int output_failed(const char *path, int error, char *why, size_t size)
{
    if (error == ENOENT)
        snprintf(why, size, "%s cannot be written: its folder does not exist; create it or give another -o",
                 path);
    else
        snprintf(why, size, "%s cannot be written: %s; give another -o", path, strerror(error));
    return error;
}

/* ---- symbolic links: the user's own are followed, others refused ---- */

/* Resolves `to`, the target of a link at `path`, into `path`. */
static int lead_on(char *path, const char *to)
{
    char *slash = strrchr(path, '/');
    size_t at = *to != '/' && slash ? (size_t)(slash + 1 - path) : 0;
    if (at + strlen(to) >= PATH_ROOM)
        return ENAMETOOLONG;
    strcpy(path + at, to);
    return 0;
}

/* Follows one step from the link at `path`. Link and owner are read from one descriptor, so that nobody
 * can exchange it in between. */
static int output_follow(char *path, char *why, size_t size)
{
    char to[PATH_ROOM];
    struct stat st;
    long fd = mt_sys(__NR_open, (long)path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0)
        return output_failed(path, (int)-fd, why, size);
    int rc = fstat((int)fd, &st) ? errno : 0;
    long n = mt_sys(__NR_readlinkat, fd, (long)"", (long)to, sizeof to - 1, 0, 0);
    mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
    if (rc || n < 0)
        return output_failed(path, rc ? rc : (int)-n, why, size);
    if (st.st_uid != output_user()) {
        snprintf(why, size,
                 "%s is a symbolic link of user %u and is not followed; remove it or give another -o", path,
                 (unsigned)st.st_uid);
        return ELOOP;
    }
    to[n] = 0;
    rc = lead_on(path, to);
    return rc ? output_failed(path, rc, why, size) : 0;
}

/* Resolves links at the end of `path`. */
static int output_resolve(const char *path, char real[PATH_ROOM], char *why, size_t size)
{
    struct stat st;
    if (snprintf(real, PATH_ROOM, "%s", path) >= PATH_ROOM)
        return output_failed(path, ENAMETOOLONG, why, size);
    for (unsigned i = 0; !lstat(real, &st); i++) {
        int rc = !S_ISLNK(st.st_mode) ? 0
                 : i == LINKS         ? output_failed(path, ELOOP, why, size)
                                      : output_follow(real, why, size);
        if (rc || !S_ISLNK(st.st_mode))
            return rc;
    }
    return 0; /* does not exist yet */
}

/* ---- descriptors that the user has opened for us ---- */

int mt_core_output_number(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (!strcmp(path, "-") || !strcmp(path, "/dev/stdout"))
        return 1;
    if (!strcmp(path, "/dev/stderr"))
        return 2;
    for (unsigned i = 0; i < 2; i++) {
        size_t n = strlen(folders[i]);
        const char *digits = path + n;
        if (!strncmp(path, folders[i], n) && *digits && strspn(digits, "0123456789") == strlen(digits) &&
            strlen(digits) < 8)
            return (int)strtol(digits, NULL, 10);
    }
    return -1;
}

/* Takes a descriptor as it is: at its present position, shared with all that hold it. */
static int take_number(struct mt_core_output *o, int number, const char *path, char *why, size_t size)
{
    struct stat st;
    long mode = mt_sys(__NR_fcntl, number, F_GETFL, 0, 0, 0, 0);
    if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY || (mode & O_PATH)) {
        snprintf(why, size, "%s: descriptor %d is not open for writing; give another -o", path, number);
        return EBADF;
    }
    long fd = descriptor_copy(number);
    if (fd < 0 || fstat((int)fd, &st))
        return output_failed(path, fd < 0 ? (int)-fd : errno, why, size);
    *o = (struct mt_core_output){.fd = (int)fd, .fifo = 1, .dev = st.st_dev, .ino = st.st_ino};
    descriptor_watch(o);
    return 0;
}

/* ---- files ---- */

/* Opens without truncating. EAGAIN: a FIFO without reader. */
static int open_once(const char *path, int *fd, char *why, size_t size)
{
    struct stat st;
    if (!lstat(path, &st)) {
        int rc = output_refuse(&st, path, why, size);
        if (rc)
            return rc;
    }
    long rc;
    do
        rc = descriptor_up(mt_sys(__NR_open, (long)path,
                                  O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_CREAT, 0600,
                                  0, 0, 0));
    while (rc == -EINTR);
    *fd = (int)rc;
    if (rc == -ENXIO)
        return EAGAIN;
    return rc < 0 ? output_failed(path, (int)-rc, why, size) : 0;
}

/* Checks the file behind the descriptor, as the path may have changed since lstat. */
static int output_adopt(struct mt_core_output *o, int fd, const char *path, char *why, size_t size)
{
    struct stat st;
    if (fstat(fd, &st))
        return output_failed(path, errno, why, size);
    int rc = output_refuse(&st, path, why, size);
    if (rc)
        return rc;
    o->fifo = !S_ISREG(st.st_mode);
    o->dev = st.st_dev;
    o->ino = st.st_ino;
    long flags = mt_sys(__NR_fcntl, fd, F_GETFL, 0, 0, 0, 0);
    mt_sys(__NR_fcntl, fd, F_SETFL, flags & ~(long)O_NONBLOCK, 0, 0, 0);
    if (o->fifo)
        return 0;
    if (mt_sys(__NR_flock, fd, LOCK_EX | LOCK_NB, 0, 0, 0, 0) == -EWOULDBLOCK) {
        snprintf(why, size, "%s is being written by another traced process; give another -o", path);
        return EBUSY;
    }
    /* Addresses are private, even if the file existed before. */
    if ((st.st_mode & 07777) != 0600)
        rc = (int)-mt_sys(__NR_fchmod, fd, 0600, 0, 0, 0, 0);
    if (!rc)
        rc = (int)-mt_sys(__NR_ftruncate, fd, 0, 0, 0, 0, 0);
    return rc ? output_failed(path, rc, why, size) : 0;
}

static int open_one(struct mt_core_output *o, const char *path, char *why, size_t size)
{
    char real[PATH_ROOM];
    int fd = -1, number = mt_core_output_number(path), rc;
    *o = (struct mt_core_output){.fd = -1};
    if (number >= 0)
        return take_number(o, number, path, why, size);
    if ((rc = output_resolve(path, real, why, size)))
        return rc;
    for (unsigned step = 0; (rc = open_once(real, &fd, why, size)) == EAGAIN; step++) {
        if (step == WAIT_WORDS)
            mt_plat_report(
                "%s is a FIFO; waiting for a reader (for example: memtrace convert --order=time %s)", path,
                path);
        mt_plat_sleep_ns(WAIT_STEP_NS);
    }
    if (rc)
        return rc;
    rc = output_adopt(o, fd, path, why, size);
    if (rc) {
        mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
        return rc;
    }
    o->fd = fd;
    core_output_remember(o);
    descriptor_watch(o);
    return 0;
}

int mt_core_output_open(struct mt_core_output *o, const char *path, char *why, size_t size)
{
    char taken[sizeof name];
    int rc = open_one(o, path, why, size);
    if (rc != EBUSY || path != name)
        return rc;
    strcpy(taken, name);
    if (add_pid())
        return rc;
    rc = open_one(o, name, why, size);
    if (!rc)
        mt_plat_report("%s is being written by another traced process; this one's trace is %s", taken, name);
    return rc;
}
