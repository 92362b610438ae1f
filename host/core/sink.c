/* Destination of records: buffers of entries for a compact trace (written by a worker if the engine has
 * one), or pieces of text. */
#define _GNU_SOURCE

#include "sink.h"
#include "platform.h"
#include "format/container/syscall.h"
#include "output.h"
#include "core.h"
#include "state.h"
#include "format/container/writer.h"
#include "format/host_text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- Platform layer of the core: system calls, time, memory, spin locks, messages ---- */

#define SPINS 64       /* pauses before yielding the processor */
#define YIELDS 4096    /* yields before sleeping */
#define SLEEP_NS 50000 /* length of each sleep */

static void (*engine_report)(const char *line);
static void (*engine_yield)(void);

long mt_sys(long number, long a, long b, long c, long d, long e, long f)
{
    return mt_base_syscall(number, a, b, c, d, e, f);
}

static uint64_t clock_ns(int which)
{
    struct timespec ts = {0, 0};
    clock_gettime(which, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t mt_plat_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

void mt_plat_sleep_ns(uint64_t ns)
{
    long ts[2] = {(long)(ns / 1000000000u), (long)(ns % 1000000000u)};
    mt_sys(__NR_nanosleep, (long)ts, 0, 0, 0, 0, 0);
}

/* the engine's, or sched_yield */
static void plat_yield(void)
{
    if (engine_yield)
        engine_yield();
    else
        mt_sys(__NR_sched_yield, 0, 0, 0, 0, 0, 0);
}

uint32_t mt_plat_pid(void)
{
    return (uint32_t)mt_sys(__NR_getpid, 0, 0, 0, 0, 0, 0);
}

/* Returns the length without NUL. */
static long plat_program(char *path, size_t size)
{
    return mt_sys(__NR_readlink, (long)"/proc/self/exe", (long)path, (long)size - 1, 0, 0, 0);
}

void *mt_plat_map(size_t bytes)
{
    long p = mt_sys(__NR_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p < 0 && p > -4096 ? NULL : (void *)p;
}

void mt_plat_unmap(void *p, size_t bytes)
{
    if (p)
        mt_sys(__NR_munmap, (long)p, (long)bytes, 0, 0, 0, 0);
}

int mt_plat_pread(int fd, void *data, size_t bytes, uint64_t offset)
{
    for (char *p = data; bytes;) {
        long n = mt_sys(__NR_pread64, fd, (long)p, (long)bytes, (long)offset, 0, 0);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n ? (int)-n : EIO;
        p += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

#define WAIT_PRIVATE 128 /* FUTEX_WAIT | FUTEX_PRIVATE_FLAG */
#define WAKE_PRIVATE 129

/* wait: sleeps while *word == value, at most `ns`. wake: wakes one sleeper. */
static void plat_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
    long ts[2] = {(long)(ns / 1000000000u), (long)(ns % 1000000000u)};
    mt_sys(__NR_futex, (long)word, WAIT_PRIVATE, (long)value, (long)ts, 0, 0);
}

/* wait: sleeps while *word == value, at most `ns`. wake: wakes one sleeper. */
static void plat_wake(uint32_t *word)
{
    mt_sys(__NR_futex, (long)word, WAKE_PRIVATE, 1, 0, 0, 0);
}

#define SET_MASK 2 /* SIG_SETMASK */
#define BIT(signal) (1ull << ((signal) - 1))

/* Blocks all signals but faults until the mask is restored. */
static uint64_t plat_signals_off(void)
{
    uint64_t before = 0, mask = ~(BIT(4) | BIT(5) | BIT(7) | BIT(8) | BIT(11) | BIT(31)); /* ILL … SYS */
    mt_sys(__NR_rt_sigprocmask, SET_MASK, (long)&mask, (long)&before, sizeof mask, 0, 0);
    return before;
}

/* Blocks all signals but faults until the mask is restored. */
static void plat_signals_back(uint64_t mask)
{
    mt_sys(__NR_rt_sigprocmask, SET_MASK, (long)&mask, 0, sizeof mask, 0, 0);
}

#define BARRIER_EXPEDITED 8 /* MEMBARRIER_CMD_PRIVATE_EXPEDITED */
#define BARRIER_REGISTER 16 /* registration that it needs */

int mt_plat_barrier(void)
{
    static int registered;
    if (!registered && mt_sys(__NR_membarrier, BARRIER_REGISTER, 0, 0, 0, 0, 0))
        return -1;
    registered = 1;
    return mt_sys(__NR_membarrier, BARRIER_EXPEDITED, 0, 0, 0, 0, 0) ? -1 : 0;
}

void mt_plat_pause(unsigned step)
{
    if (step < SPINS)
        __asm__ volatile("pause" ::: "memory");
    else if (step < SPINS + YIELDS)
        plat_yield();
    else
        mt_plat_sleep_ns(SLEEP_NS);
}

void mt_spin_wait(struct mt_spin *l)
{
    for (unsigned step = 0; !mt_spin_try(l); step++)
        mt_plat_pause(step);
}

int mt_spin_lock_for(struct mt_spin *l, uint64_t ns, int (*busy)(void))
{
    uint64_t since = 0;
    for (unsigned step = 0; !mt_spin_try(l); step++) {
        mt_plat_pause(step);
        if (step < SPINS)
            continue;
        uint64_t now = mt_plat_now_ns();
        if (!since || busy())
            since = now;
        else if (now - since > ns)
            return -1;
    }
    return 0;
}

void mt_plat_engine(void (*report)(const char *line), void (*yield)(void))
{
    engine_report = report;
    engine_yield = yield;
}

void mt_plat_report(const char *format, ...)
{
    char line[1200];
    va_list args;
    va_start(args, format);
    int n = snprintf(line, 11, "memtrace: ");
    n += vsnprintf(line + n, sizeof line - 2 - (size_t)n, format, args);
    va_end(args);
    if (n > (int)sizeof line - 3)
        n = (int)sizeof line - 3;
    line[n] = 0;
    if (engine_report) {
        engine_report(line + 10);
        return;
    }
    line[n++] = '\n';
    mt_sys(__NR_write, 2, (long)line, n, 0, 0, 0);
}

/* Opens the trace's output: a regular file, a FIFO with a reader, a device, or a descriptor that the user
 * has opened. */

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

static int sink_write_all(int fd, const char *p, size_t bytes)
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
static int sink_open_again(struct mt_core_output *o)
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
    if (!is_ours(o, o->fd) && (o->error = sink_open_again(o)))
        return o->error;
    struct held h = output_io_hold(o->fifo ? SIGPIPE : SIGXFSZ);
    o->error = sink_write_all(o->fd, data, bytes);
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
static int sink_open_once(const char *path, int *fd, char *why, size_t size)
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
    for (unsigned step = 0; (rc = sink_open_once(real, &fd, why, size)) == EAGAIN; step++) {
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
    uint64_t bytes = 0, digest[2];
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
    uint64_t mask = plat_signals_off();
    mt_spin_lock(&q.lock);
    struct job *job = queue_pop(help);
    mt_spin_unlock(&q.lock);
    if (job)
        queue_run(job);
    plat_signals_back(mask);
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

static int sink_write_trace(void *self, const void *data, size_t bytes)
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
        plat_wait(&s.work, seen, IDLE_NS);
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
    plat_wake(&s.work);
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
    long n = mt_g.e->program ? snprintf(path, size, "%s", mt_g.e->program) : plat_program(path, size);
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

static int sink_open_container(char *why, unsigned size)
{
    uint64_t features = MT_MTC_HAS_HOST | (mt_g.o->mode == MT_CORE_MAT ? 0 : MT_MTC_HAS_TIMES);
    s.file = (struct mt_mtc_file){sink_write_trace, &s.out};
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
        rc = sink_open_container(why, size);
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
        plat_wake(&s.work);
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
