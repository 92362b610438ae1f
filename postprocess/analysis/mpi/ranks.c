/* The team of team.h as the ranks of an MPI program: each rank has a shard, and rank 0 gets the results. A
 * failing rank ends all (MPI_Abort), so that none waits for it. */
#define _GNU_SOURCE

#include "ranks.h"
#include "memtrace/grow.h"
#include "memtrace/host.h"
#include "memtrace/hash.h"
#include "memtrace/order.h"
#include "turns.h"
#include "analysis/comm/session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct mt_part_input {
    const char *path; /* owned by the caller: one pointer per input */
    int fd;           /* descriptor of a raw trace, or -1 */
    struct mt_device_parts *chunks;
};

/* Zero-initialised is empty. */
struct mt_parts {
    struct mt_part_input *inputs;
    size_t count, room, last;
};

/* Accesses of a compact trace that cost as much as a record: they are parts of runs. */
enum { MT_PART_LANES = 32 };

static inline uint64_t mt_part_cost(uint64_t accesses)
{
    return accesses < MT_PART_LANES ? 1 : accesses / MT_PART_LANES;
}

enum {
    MT_ROUND_COST = 1 << 17, /* cost of a round for a rank, in records */
    MT_ROUND_MOST = 1 << 21, /* maximum cost while rounds send little: each round waits for all ranks */
    MT_ROUND_SHORT = 4,      /* maximum accesses of a run that is sent as records */
    MT_ROUND_PIECE = 1 << 13 /* records read at a time, so that they stay in the processor's cache */
};

#define MT_UNIT_KIND (12u << 28)

#define MT_UNIT_SEVERAL (4u << 28)

#define MT_UNIT_RUN (8u << 28)

#define MT_UNIT_MARK (12u << 28)

struct mt_round_event {
    enum { MT_ROUND_LAUNCH, MT_ROUND_COPY, MT_ROUND_SPAN } kind;
    union {
        struct {
            const char *kernel;
            int selected;
        } launch;
        struct mt_copy_event copy;
        struct mt_span span;
    } u;
};

struct mt_announced {
    uint64_t launch, cta, smid;
};

struct mt_rounds {
    struct mt_parts parts;
    struct mt_round_event *events; /* events of the next round */
    size_t nevents;
    uint64_t cost, accesses;     /* cost and accesses of its spans */
    uint32_t most;               /* maximum cost for a rank; the same in all ranks */
    struct mt_raw_record *slice; /* buffer of MT_ROUND_PIECE records */
    size_t held;                 /* short runs held back, as records in the slice */
    uint64_t held_number;        /* number of the first record held back */
    struct mt_turns_hint turns;
    uint64_t *sent;          /* by rank: number of the last record sent to it and to others */
    uint64_t *marked;        /* by rank: launch of the last record sent, + 1; 0: none yet */
    struct mt_pairmap known; /* actors that this rank announced in the launch */
    struct mt_announced *mine, *all;
    size_t nmine, mine_room, nall, all_room;
    int *counts, *places;
    struct mt_access_run *runs; /* received runs, to be analysed together */
    size_t nruns, taken;        /* taken: plain accesses analysed in this round */
    /* position of this rank in the round */
    uint64_t launch; /* number of the launch in this round, from 1 */
    uint64_t number; /* number of accesses so far */
    const struct mt_round_event *at;
    size_t met; /* number of actors received */
};

/* ---- statistics of each rank: processor time by phase, bytes sent and received ---- */

static const char *const stats_names[MT_RANK_PHASES] = {"start",   "launches", "sort",    "exchange",
                                                        "analyse", "further",  "results", "write"};

struct stats {
    double elapsed[MT_RANK_PHASES], busy[MT_RANK_PHASES]; /* time per phase, in seconds */
    double sent, received, accesses;
    char host[MPI_MAX_PROCESSOR_NAME];
};
static struct stats stats;
static enum mt_rank_phase stats_now;
static double stats_elapsed,
    stats_busy; /* start of the phase; processor time counts from the process's start */

static double stats_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Begins a phase; returns the previous one. */
static enum mt_rank_phase stats_phase(enum mt_rank_phase phase)
{
    enum mt_rank_phase before = stats_now;
    double elapsed = stats_clock(CLOCK_MONOTONIC), busy = stats_clock(CLOCK_PROCESS_CPUTIME_ID);
    stats.elapsed[before] += stats_elapsed > 0 ? elapsed - stats_elapsed : 0;
    stats.busy[before] += busy - stats_busy;
    stats_elapsed = elapsed;
    stats_busy = busy;
    stats_now = phase;
    return before;
}

/* Counts bytes sent to other ranks and received from them. */
static void stats_bytes(uint64_t sent, uint64_t received)
{
    stats.sent += (double)sent;
    stats.received += (double)received;
}

/* Counts accesses in this rank's part of the trace. */
static void stats_accesses(uint64_t accesses)
{
    stats.accesses += (double)accesses;
}

static void stats_line(const struct stats *s, int rank)
{
    double elapsed = 0, busy = 0;
    for (int i = 0; i < MT_RANK_PHASES; i++) {
        elapsed += s->elapsed[i];
        busy += s->busy[i];
    }
    fprintf(stderr, "%4d  %-16s %11.0f %9.2f %9.2f", rank, s->host, s->accesses, s->sent * 1e-6,
            s->received * 1e-6);
    for (int i = 0; i < MT_RANK_PHASES; i++)
        fprintf(stderr, " %8.3f", s->busy[i]);
    fprintf(stderr, " %9.3f %8.3f\n", busy, elapsed);
}

/* Prints a table to stderr in rank 0, a line per rank. Called by all ranks. */
static void stats_print(void)
{
    int rank, size, length;
    stats_phase(MT_RANK_START);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(stats.host, &length);
    struct stats *all = rank == 0 ? malloc((size_t)size * sizeof *all) : NULL;
    int ok = rank != 0 || all;
    MPI_Bcast(&ok, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!ok)
        return;
    MPI_Gather(&stats, sizeof stats, MPI_BYTE, all, sizeof stats, MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++) {
        if (i == 0) {
            fprintf(stderr, "rank  %-16s %11s %9s %9s", "host", "accesses", "MB sent", "MB got");
            for (int k = 0; k < MT_RANK_PHASES; k++)
                fprintf(stderr, " %8s", stats_names[k]);
            fprintf(stderr, " %9s %8s\n", "processor", "elapsed");
        }
        stats_line(&all[i], i);
    }
    free(all);
}

/* ---- parts of traces, for ranks that share the reading ---- */

static void parts_free(struct mt_parts *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->inputs[i].fd >= 0)
            close(p->inputs[i].fd);
        mt_device_parts_close(p->inputs[i].chunks);
    }
    free(p->inputs);
    memset(p, 0, sizeof *p);
}

/* Returns NULL without memory. */
static struct mt_part_input *parts_input_of(struct mt_parts *p, const char *path)
{
    for (size_t i = 0; i < p->count; i++) {
        p->last = p->last < p->count && p->inputs[p->last].path == path ? p->last : i;
        if (p->inputs[p->last].path == path)
            return &p->inputs[p->last];
    }
    if (mt_grow(&p->inputs, &p->room, p->count + 1, sizeof *p->inputs) != 0)
        return NULL;
    p->last = p->count;
    p->inputs[p->count] = (struct mt_part_input){.path = path, .fd = -1};
    return &p->inputs[p->count++];
}

/* Reads n records at byte `offset` of a raw trace. Returns 0, or -1 if they cannot be read. */
static int parts_records(struct mt_parts *p, const char *path, uint64_t offset, struct mt_raw_record *out,
                         size_t n)
{
    struct mt_part_input *in = parts_input_of(p, path);
    if (!in || (in->fd < 0 && (in->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0))
        return -1;
    for (size_t done = 0, bytes = n * sizeof *out; done < bytes;) {
        ssize_t got = pread(in->fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (got == 0 || (got < 0 && errno != EINTR))
            return -1;
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* Returns the compact trace; NULL if it cannot be read. */
static struct mt_device_parts *parts_chunks(struct mt_parts *p, const char *path)
{
    struct mt_part_input *in = parts_input_of(p, path);
    struct mt_error err;
    if (in && !in->chunks)
        in->chunks = mt_device_parts_open(path, &err);
    return in ? in->chunks : NULL;
}

/* ---- launches of the inputs, found jointly: each rank examines part of a raw trace; or by index ---- */

/* Returns 1 if `ok` is not 0 in all ranks. */
static int split_all(int ok)
{
    int every;
    MPI_Allreduce(&ok, &every, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return every;
}

static int split_same(uint64_t value)
{
    uint64_t range[2] = {value, ~value}, least[2];
    MPI_Allreduce(range, least, 2, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    return least[0] == value && least[1] == ~value;
}

/* Lists the launches of a compact trace. Returns 0, or -1 if it cannot be read in parts. */
static int split_container(const char *path, struct mt_launch_ends *out)
{
    struct mt_error err;
    struct mt_device_parts *p = mt_device_parts_open(path, &err);
    int ok = split_all(p != NULL), equal = split_same(p ? mt_device_parts_digest(p) : 0);
    mt_device_parts_close(p);
    *out = (struct mt_launch_ends){.chunks = 1};
    return ok && split_all(equal) ? 0 : -1;
}

/* Lists the launches of a raw trace. */
static int split_raw(const char *path, struct mt_launch_ends *out)
{
    struct stat st;
    struct mt_error err;
    uint64_t *part = NULL, *ends = NULL;
    size_t n = 0, total = 0;
    int rank, size, ok, every;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    uint64_t bytes = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0, least;
    MPI_Allreduce(&bytes, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    uint64_t from = (uint64_t)((__uint128_t)least * (unsigned)rank / (unsigned)size),
             to = (uint64_t)((__uint128_t)least * ((unsigned)rank + 1) / (unsigned)size);
    int *counts = calloc((size_t)size, 2 * sizeof *counts);
    ok = counts && bytes == least && least > 0 && mt_raw_ends(path, from, to, &part, &n, &err) == 0 &&
         n < 1u << 30;
    if (!(every = split_all(ok)))
        goto out;
    int mine = (int)n;
    MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        counts[size + i] = (int)total;
        total += (size_t)counts[i];
    }
    ends = malloc((total + 1) * sizeof *ends);
    if (!(every = split_all(ends && total < 1u << 30)))
        goto out;
    MPI_Allgatherv(part, mine, MPI_UINT64_T, ends, counts, counts + size, MPI_UINT64_T, MPI_COMM_WORLD);
    if ((every = split_all(mt_raw_ends_fit(path, least, ends, total, (size_t)rank, (size_t)size)))) {
        *out = (struct mt_launch_ends){.ends = ends, .count = total};
        ends = NULL;
    }
out:
    free(ends);
    free(part);
    free(counts);
    return every ? 0 : -1;
}

static void ranks_unsplit(struct mt_launch_ends *ends, size_t npaths);
static int ranks_members(void);

static struct mt_launch_ends *ranks_split(const char *const *paths, size_t npaths)
{
    stats_phase(MT_RANK_LAUNCHES);
    struct mt_launch_ends *ends = ranks_members() > 1 ? calloc(npaths + 1, sizeof *ends) : NULL;
    int every = split_all(ends != NULL);
    for (size_t i = 0; every && i < npaths; i++) {
        int container = mt_is_container(paths[i]);
        every = split_all(split_same((uint64_t)container)) &&
                (container ? split_container(paths[i], &ends[i]) : split_raw(paths[i], &ends[i])) == 0;
    }
    stats_phase(MT_RANK_START);
    if (every)
        return ends;
    ranks_unsplit(ends, npaths);
    return NULL;
}

static void ranks_unsplit(struct mt_launch_ends *ends, size_t npaths)
{
    for (size_t i = 0; ends && i < npaths; i++)
        free((void *)ends[i].ends);
    free(ends);
}

/* ---- inputs of ranks on different machines ---- */

/* Identity of a trace. */
struct join_trace {
    uint64_t pid, start_ns, stream, host, job;
    uint64_t member, at; /* rank that has it, and position there */
};
MT_ORDER_FUNCTION(join_order, struct join_trace,
                  MT_ORDER_DIFFER(x, y, pid) MT_ORDER_DIFFER(x, y, start_ns) MT_ORDER_DIFFER(x, y, stream)
                      MT_ORDER_DIFFER(x, y, host) MT_ORDER_DIFFER(x, y, job) MT_ORDER_DIFFER(x, y, member)
                          MT_ORDER_DIFFER(x, y, at))
MT_ORDER_2(join_place, struct join_trace, member, at)
MT_ORDER_2(join_host, struct join_trace, host, member)

static uint64_t join_hash(const char *text)
{
    return mt_hash_bytes(MT_HASH_BEGIN, text, strlen(text)) | 1;
}

/* Returns 1 if the trace is one of a job. */
static int join_look(const char *path, struct join_trace *out)
{
    char *meta = NULL;
    struct mt_companion *c = asprintf(&meta, "%s.meta", path) < 0 ? NULL : mt_companion_head(meta);
    int known = c && c->has_header && *c->job;
    if (known)
        *out = (struct join_trace){.pid = c->pid,
                                   .start_ns = c->start_ns,
                                   .stream = c->stream,
                                   .host = join_hash(c->host),
                                   .job = join_hash(c->job)};
    mt_companion_free(c);
    free(meta);
    return known;
}

/* Gathers data of all ranks. Returns them one after the other, and *bytes; NULL: no memory in some rank. */
static char *join_gather(const void *mine, size_t n, int *counts, size_t *bytes)
{
    int size = ranks_members(), own = n < INT_MAX ? (int)n : -1;
    *bytes = 0;
    MPI_Allgather(&own, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        counts[size + i] = (int)*bytes;
        *bytes += (size_t)counts[i];
        if (counts[i] < 0 || *bytes > INT_MAX)
            return NULL; /* in all ranks */
    }
    char *all = malloc(*bytes + 1);
    if (!split_all(all != NULL)) {
        free(all);
        return NULL;
    }
    MPI_Allgatherv(mine, own, MPI_BYTE, all, counts, counts + size, MPI_BYTE, MPI_COMM_WORLD);
    return all;
}

/* Keeps one of each trace. Returns their number, in the order of ranks; 0: all ranks have the same, or they
 * are not of one job; -1: a machine's traces are in several ranks. */
static ssize_t join_choose(struct join_trace *t, size_t n)
{
    size_t kept = 0, ranks = (size_t)ranks_members(), most = 0, same = 1;
    qsort(t, n, sizeof *t, join_order);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && t[k].pid == t[i].pid && t[k].start_ns == t[i].start_ns &&
                        t[k].stream == t[i].stream && t[k].host == t[i].host;)
            k++;
        same &= k - i == ranks;
        most |= t[i].job != t[0].job;
        t[kept++] = t[i];
    }
    if (same || most)
        return 0;
    qsort(t, kept, sizeof *t, join_host);
    for (size_t i = 1; i < kept; i++)
        if (t[i].host == t[i - 1].host && t[i].member != t[i - 1].member)
            return -1;
    qsort(t, kept, sizeof *t, join_place);
    return (ssize_t)kept;
}

/* Passes on a companion file: `fd` of its rank, to a copy in *copy elsewhere. Returns 0 or -1, in all ranks.
 */
static int join_copy(int fd, int from, int *copy)
{
    enum { COPY_PIECE = 1 << 20 };
    int rank, ok = 1, n = 1;
    char *piece = malloc(COPY_PIECE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    *copy = rank == from ? -1 : memfd_create("companion", MFD_CLOEXEC);
    for (ok = split_all(piece && (rank == from ? fd : *copy) >= 0); ok && n > 0;) {
        if (rank == from)
            n = (int)read(fd, piece, COPY_PIECE);
        MPI_Bcast(&n, 1, MPI_INT, from, MPI_COMM_WORLD);
        if (n > 0)
            MPI_Bcast(piece, n, MPI_BYTE, from, MPI_COMM_WORLD);
        if (rank != from && n > 0)
            ok &= write(*copy, piece, (size_t)n) == n;
    }
    free(piece);
    return split_all(ok && n == 0) ? 0 : -1;
}

static void ranks_unjoin(struct mt_joined *j)
{
    for (size_t i = 0; i < j->n; i++) {
        if (j->copies[i] >= 0)
            close(j->copies[i]);
        free((char *)j->paths[i]);
        free((char *)j->companions[i]);
    }
    free((void *)j->paths);
    free((void *)j->companions);
    free(j->absent);
    free(j->member);
    free(j->copies);
    memset(j, 0, sizeof *j);
}

/* Fills an entry: the path is the k-th of those that its rank named. */
static int join_entry(struct mt_joined *j, size_t i, const struct join_trace *t, const char *path)
{
    int rank, mine;
    char *meta = NULL;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    mine = (int)t->member == rank;
    j->member[i] = (unsigned)t->member;
    j->absent[i] = (unsigned char)!mine;
    j->paths[i] = strdup(path);
    int fd = mine && asprintf(&meta, "%s.meta", path) >= 0 ? open(meta, O_RDONLY | O_CLOEXEC) : -1;
    int rc = join_copy(fd, (int)t->member, &j->copies[i]);
    if (fd >= 0)
        close(fd);
    if (rc == 0 && !mine && asprintf(&meta, "/proc/self/fd/%d", j->copies[i]) < 0)
        meta = NULL;
    j->companions[i] = meta;
    return split_all(rc == 0 && j->paths[i] && meta) ? 0 : -1;
}

static int join_fill(struct mt_joined *j, const struct join_trace *t, size_t n, const char *const *first)
{
    j->paths = calloc(n, sizeof *j->paths);
    j->companions = calloc(n, sizeof *j->companions);
    j->absent = calloc(n, 1);
    j->member = calloc(n, sizeof *j->member);
    j->copies = malloc(n * sizeof *j->copies);
    int ok = split_all(j->paths && j->companions && j->absent && j->member && j->copies);
    for (size_t i = 0; ok && i < n; i++) {
        const char *path = first[t[i].member];
        for (uint64_t k = 0; k < t[i].at; k++)
            path += strlen(path) + 1;
        j->n = i + 1;
        ok = join_entry(j, i, &t[i], path) == 0;
    }
    return ok ? 0 : -1;
}

static int ranks_join(const char *const *paths, size_t npaths, struct mt_joined *out)
{
    int size = ranks_members(), rank, rc = -1;
    size_t bytes = 0, length = 0, known = 0;
    struct join_trace *mine = calloc(npaths + 1, sizeof *mine), *all = NULL;
    int *counts = calloc((size_t)size, 2 * sizeof *counts);
    const char **first = calloc((size_t)size, sizeof *first);
    char *names = NULL, *every = NULL;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    *out = (struct mt_joined){0};
    for (size_t i = 0; mine && i < npaths; i++) {
        known += (size_t)join_look(paths[i], &mine[i]);
        mine[i].member = (uint64_t)rank;
        mine[i].at = i;
        length += strlen(paths[i]) + 1;
    }
    names = malloc(length + 1);
    if (!split_all(mine && counts && first && names))
        goto out;
    if (!split_all(known == npaths)) {
        rc = 0;
        goto out;
    }
    for (size_t i = 0, at = 0; i < npaths; at += strlen(paths[i++]) + 1)
        strcpy(names + at, paths[i]);
    if (!(every = join_gather(names, length, counts, &bytes)))
        goto out;
    for (int i = 0; i < size; i++)
        first[i] = every + counts[size + i];
    if (!(all = (struct join_trace *)(void *)join_gather(mine, npaths * sizeof *mine, counts, &bytes)))
        goto out;
    ssize_t n = join_choose(all, bytes / sizeof *all);
    rc = n <= 0 ? (int)n : join_fill(out, all, (size_t)n, first) == 0 ? 1 : -1;
    if (n < 0 && rank == 0)
        fprintf(stderr, "memtrace extract: traces of one machine are named by several ranks, which must be "
                        "one for each machine\n");
out:
    free(mine);
    free(all);
    free(counts);
    free((void *)first);
    free(names);
    free(every);
    return rc;
}

static int ranks_any(int mine, const char *why, char *out, size_t size)
{
    struct {
        int ok, rank;
    } is = {!mine, 0}, first;
    MPI_Comm_rank(MPI_COMM_WORLD, &is.rank);
    MPI_Allreduce(&is, &first, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    snprintf(out, size, "%s", why);
    MPI_Bcast(out, (int)size, MPI_BYTE, first.rank, MPI_COMM_WORLD);
    return !first.ok;
}

/* ---- exchange of bytes: all-to-all, and between two ranks ---- */

static int exchange_init(struct mt_exchange *x, unsigned rank, unsigned ranks)
{
    x->ranks = ranks;
    x->rank = rank;
    x->out = calloc(ranks, sizeof *x->out);
    x->counts = calloc(ranks, 2 * sizeof *x->counts);
    x->stretches = malloc(MT_PAGE_BYTES * sizeof *x->stretches);
    return x->out && x->counts && x->stretches ? 0 : -1;
}

static void exchange_free(struct mt_exchange *x)
{
    for (unsigned i = 0; x->out && i < x->ranks; i++)
        free(x->out[i].data);
    free(x->out);
    free(x->in.data);
    free(x->own.data);
    free(x->counts);
    free(x->stretches);
    memset(x, 0, sizeof *x);
}

static void exchange_clear(struct mt_exchange *x)
{
    for (unsigned i = 0; i < x->ranks; i++)
        x->out[i].used = 0;
}

/* Exchanges the sizes and makes room. Returns 0 or -1. */
static int exchange_announce(struct mt_exchange *x)
{
    int *sent = x->counts, *got = x->counts + x->ranks;
    size_t total = 0;
    for (unsigned i = 0; i < x->ranks; i++) {
        if (x->out[i].used > INT_MAX)
            return -1; /* the caller ends all ranks, here and below */
        sent[i] = i == x->rank ? 0 : (int)x->out[i].used;
    }
    MPI_Alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
    for (unsigned i = 0; i < x->ranks; i++)
        total += (size_t)got[i];
    x->in.used = total;
    if (total > x->in.room) { /* the old contents are not needed: no realloc */
        free(x->in.data);
        x->in.data = malloc(total + total / 4);
        x->in.room = x->in.data ? total + total / 4 : 0;
    }
    return total > 0 && !x->in.data ? -1 : 0;
}

/* Sends one message per pair of ranks, all concurrently, without MPI_Alltoallv's copy into one buffer. */
static int exchange_all(struct mt_exchange *x)
{
    int *sent = x->counts, *got = x->counts + x->ranks, n = 0;
    enum mt_rank_phase before = stats_phase(MT_RANK_EXCHANGE);
    MPI_Request *requests = exchange_announce(x) ? NULL : malloc(2 * x->ranks * sizeof(MPI_Request));
    if (!requests)
        return -1;
    size_t at = 0;
    for (unsigned i = 0; i < x->ranks; at += (size_t)got[i++])
        if (got[i] > 0)
            MPI_Irecv(x->in.data + at, got[i], MPI_BYTE, (int)i, 1, MPI_COMM_WORLD, &requests[n++]);
    for (unsigned i = 0; i < x->ranks; i++)
        if (sent[i] > 0) {
            MPI_Isend(x->out[i].data, sent[i], MPI_BYTE, (int)i, 1, MPI_COMM_WORLD, &requests[n++]);
            stats_bytes((uint64_t)sent[i], 0);
        }
    struct mt_exchange_bytes own = x->own;
    x->own = x->out[x->rank];
    x->out[x->rank] = own;
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    free((void *)requests);
    stats_bytes(0, x->in.used);
    stats_phase(before);
    exchange_clear(x);
    return 0;
}

/* Returns the *bytes bytes from this rank, valid until the next exchange. Call it once per rank in order,
 * from rank 0, with *at 0 before. */
static char *exchange_part(const struct mt_exchange *x, unsigned from, size_t *at, size_t *bytes)
{
    if (from == x->rank) {
        *bytes = x->own.used;
        return x->own.data;
    }
    char *part = x->in.data ? x->in.data + *at : NULL;
    *bytes = (size_t)x->counts[x->ranks + from];
    *at += *bytes;
    return part;
}

enum { PIECE = 1 << 30 };

/* Sends n elements of `size` bytes to a rank, which receives the number first. */
static int exchange_to(unsigned to, const void *data, size_t n, size_t size)
{
    uint64_t count = n;
    MPI_Send(&count, 1, MPI_UINT64_T, (int)to, 2, MPI_COMM_WORLD);
    for (size_t done = 0, bytes = n * size; done < bytes; done += PIECE)
        MPI_Send((const char *)data + done, (int)(bytes - done < PIECE ? bytes - done : PIECE), MPI_BYTE,
                 (int)to, 3, MPI_COMM_WORLD);
    stats_bytes(n * size, 0);
    return 0;
}

static size_t exchange_announced(unsigned from)
{
    uint64_t count;
    MPI_Recv(&count, 1, MPI_UINT64_T, (int)from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return count;
}

static void exchange_from(unsigned from, void *data, size_t n, size_t size)
{
    for (size_t done = 0, bytes = n * size; done < bytes; done += PIECE)
        MPI_Recv((char *)data + done, (int)(bytes - done < PIECE ? bytes - done : PIECE), MPI_BYTE, (int)from,
                 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    stats_bytes(0, n * size);
}

/* ---- work of each rank on its own part of the trace; results are reduced in a tree to rank 0 ---- */

/* Part of a trace: accesses [lo, hi); of a compact trace the chunks that begin there. */
struct share {
    struct mt_ranks *team;
    const struct mt_share *to;
    struct mt_access_run *runs; /* buffer of MT_ROUND_PIECE runs */
    uint64_t lo, hi, total;
    int last; /* 1: last rank, which gets launches without accesses at the end */
};

static int share_mine(const struct share *s, uint64_t at)
{
    return at >= s->lo && (at < s->hi || (s->last && at == s->total));
}

static uint64_t share_accesses_of(struct mt_parts *p, const struct mt_span *span)
{
    struct mt_device_parts *chunks = span->chunks ? parts_chunks(p, span->path) : NULL;
    uint64_t n = span->chunks ? 0 : span->count;
    for (uint64_t i = 0; chunks && i < span->count; i++)
        n += mt_device_parts_accesses(chunks, (size_t)(span->offset + i));
    return n;
}

static int share_runs(const struct share *s, const struct mt_access_run *runs, size_t n)
{
    int begun = s->to->of->runs(s->to->self, runs, n), done = s->to->of->wait(s->to->self);
    return begun ? begun : done;
}

/* Begins a launch, which may have no runs here. */
static int share_launch(const struct share *s, size_t number, int begins)
{
    struct mt_run_launch l = s->to->launches[number];
    l.begins = begins;
    int rc = s->to->of->launch(s->to->self, &l);
    return rc ? rc : share_runs(s, NULL, 0);
}

static int ranks_wants_stop(void);

/* Feeds the records of the raw span that begins at access `at`. Returns 0, 1 if stopped, or -1. */
static int share_records(const struct share *s, const struct mt_span *span, size_t number, uint64_t at)
{
    struct mt_rounds *r = s->team->rounds;
    uint64_t from = s->lo > at ? s->lo - at : 0, end = s->hi > at ? s->hi - at : 0;
    end = end < span->count ? end : span->count;
    if (!share_mine(s, at) && from >= end)
        return 0;
    if (share_launch(s, number, share_mine(s, at)) != 0)
        return -1;
    for (uint64_t n; from < end; from += n) {
        n = end - from < MT_ROUND_PIECE ? end - from : MT_ROUND_PIECE;
        if (ranks_wants_stop())
            return 1;
        if (parts_records(&r->parts, span->path, span->offset + from * MT_RAW_RECORD_SIZE, r->slice,
                          (size_t)n) != 0)
            return -1;
        size_t taken, runs = mt_runs_from_records(r->slice, (size_t)n, s->runs, MT_ROUND_PIECE, &taken);
        if (share_runs(s, s->runs, runs) != 0)
            return -1;
    }
    return 0;
}

static int share_chunk(const struct share *s, struct mt_device_parts *p, size_t chunk)
{
    const struct mt_access_run *runs;
    struct mt_error err;
    size_t n;
    int rc = mt_device_parts_seek(p, chunk, &err);
    while (rc == 0 && (rc = mt_device_parts_next(p, &runs, &n, &err)) > 0)
        rc = share_runs(s, runs, n);
    return rc;
}

static int share_chunks(const struct share *s, const struct mt_span *span, size_t number, uint64_t at)
{
    struct mt_device_parts *p = parts_chunks(&s->team->rounds->parts, span->path);
    int begun = share_mine(s, at), rc = begun ? share_launch(s, number, 1) : 0;
    for (uint64_t i = 0; p && i < span->count && rc == 0; i++) {
        size_t chunk = (size_t)(span->offset + i);
        if (share_mine(s, at)) {
            rc = begun ? 0 : share_launch(s, number, 0);
            begun = 1;
            if (rc == 0)
                rc = ranks_wants_stop() ? 1 : share_chunk(s, p, chunk);
        }
        at += mt_device_parts_accesses(p, chunk);
    }
    return p ? rc : -1;
}

static int ranks_fail(struct mt_ranks *t, const char *why);

static int ranks_share(struct mt_team *team, const struct mt_span *spans, const struct mt_share *share)
{
    struct mt_ranks *t = mt_ranks_of(team);
    struct share s = {.team = t, .to = share, .last = t->rank + 1 == t->size};
    const size_t n = share->n;
    uint64_t *accesses = malloc((n + 1) * sizeof *accesses), at = 0;
    s.runs = malloc((MT_ROUND_PIECE) * sizeof *s.runs);
    int rc = accesses && s.runs ? 0 : -1, worst[2], own[2];
    stats_phase(MT_RANK_FURTHER);
    for (size_t i = 0; i < n && rc == 0; i++)
        s.total += accesses[i] = share_accesses_of(&t->rounds->parts, &spans[i]);
    s.lo = (uint64_t)((__uint128_t)s.total * t->rank / t->size);
    s.hi = (uint64_t)((__uint128_t)s.total * (t->rank + 1) / t->size);
    for (size_t i = 0; i < n && rc == 0; at += accesses[i++])
        rc = (spans[i].chunks ? share_chunks : share_records)(&s, &spans[i], i, at);
    free(accesses);
    free(s.runs);
    own[0] = rc < 0;
    own[1] = rc > 0;
    MPI_Allreduce(own, worst, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    t->stopped |= worst[1];
    if (worst[0])
        return ranks_fail(t, rc < 0 ? "no memory for the further analyses, or an input cannot be read again"
                                    : "another rank failed");
    return worst[1];
}

/* Reduces the results: in each step every second remaining rank sends everything to the one before it. */
static int ranks_fold(struct mt_team *team, const struct mt_share *share)
{
    struct mt_ranks *t = mt_ranks_of(team);
    for (unsigned step = 1; step < t->size; step *= 2) {
        if (t->rank & step) {
            size_t n;
            char *data = share->pack(share, &n);
            int rc = data ? exchange_to(t->rank - step, data, n, 1) : -1;
            free(data);
            return rc ? ranks_fail(t, "out of memory") : 0;
        }
        if (t->rank + step >= t->size)
            continue;
        size_t n = exchange_announced(t->rank + step);
        char *data = malloc(n + 1);
        if (!data)
            return ranks_fail(t, "out of memory");
        exchange_from(t->rank + step, data, n, 1);
        int rc = share->merge(share, data, n);
        free(data);
        if (rc != 0)
            return ranks_fail(t, "out of memory");
    }
    return 0;
}

/* ---- routing of accesses to the owners of their bytes ---- */

/* ---- sending ---- */

/* Announces an access's actor if this rank has not done so in the launch. Returns 0 or -1. */
static int route_announce(struct mt_rounds *s, uint64_t cta, uint64_t smid)
{
    uint64_t *known = mt_pairmap_get(&s->known, cta, smid, 0);
    if (!known)
        return -1;
    if (*known)
        return 0;
    *known = 1;
    if (mt_grow(&s->mine, &s->mine_room, s->nmine + 1, sizeof *s->mine) != 0)
        return -1;
    s->mine[s->nmine++] = (struct mt_announced){s->launch, cta, smid};
    return 0;
}

/* Tells the receiver the current launch. */
static inline int route_mark(struct mt_ranks *t, unsigned to)
{
    struct mt_rounds *s = t->rounds;
    const struct mt_raw_record mark = {{MT_UNIT_MARK, s->launch, 0}};
    if (s->marked[to] == s->launch + 1)
        return 0;
    s->marked[to] = s->launch + 1;
    return mt_exchange_add(&t->exchange, to, &mark, sizeof mark);
}

static int route_send_units(struct mt_ranks *t, unsigned to, const struct mt_raw_record *units, size_t n)
{
    return route_mark(t, to) != 0 ? -1 : mt_exchange_add(&t->exchange, to, units, n * sizeof *units);
}

/* Sends an access, with its number, to every owner of a part of it. */
static int route_send_several(struct mt_ranks *t, struct mt_raw_record r, uint64_t number)
{
    uint64_t region = r.w[1] >> MT_REGION_BITS, n = mt_rec_size(&r);
    uint64_t left = ((r.w[1] & ((1u << MT_REGION_BITS) - 1)) + n - 1) >> MT_REGION_BITS;
    struct mt_raw_record units[2] = {r, {{number, 0, 0}}};
    units[0].w[0] |= MT_UNIT_SEVERAL;
    for (uint64_t i = 0; i <= left; i++) {
        unsigned to = mt_comm_owner((region + i) << MT_REGION_BITS, t->size);
        if (t->rounds->sent[to] == number)
            continue;
        t->rounds->sent[to] = number;
        if (route_send_units(t, to, units, 2) != 0)
            return -1;
    }
    return 0;
}

static int route_crosses(uint64_t address, uint32_t size)
{
    return address >> MT_REGION_BITS != (address + size - 1) >> MT_REGION_BITS;
}

/* Sends the record with this number. */
static int route_send_record(struct mt_ranks *t, const struct mt_raw_record *r, uint64_t number)
{
    return route_crosses(r->w[1], (uint32_t)r->w[0] & MT_RAW_MAX_SIZE)
               ? route_send_several(t, *r, number)
               : route_send_units(t, mt_comm_owner(r->w[1], t->size), r, 1);
}

static struct mt_raw_record route_record_of(const struct mt_access_run *r, uint64_t address)
{
    return (struct mt_raw_record){{(uint64_t)r->smid << 32 | r->meta, address, r->cta}};
}

/* Sends `count` accesses of the run, evenly spaced or at `given` addresses, to one rank. */
static int route_send_run(struct mt_ranks *t, unsigned to, const struct mt_access_run *r, uint64_t base,
                          uint32_t count, const uint64_t *given)
{
    struct mt_raw_record units[2 + (MT_MTC_MAX_LANES + 2) / 3];
    size_t n = given ? count : 0, length = 2 + (n + 2) / 3;
    units[0] = route_record_of(r, base);
    if (count == 1)
        return route_send_units(t, to, units, 1);
    units[0].w[0] |= MT_UNIT_RUN;
    units[length - 1] = (struct mt_raw_record){{0}}; /* no uninitialised byte is sent */
    units[1] = (struct mt_raw_record){{(uint64_t)r->stride, count, n}};
    if (given)
        memcpy(&units[2], given, n * sizeof *given);
    return route_send_units(t, to, units, length);
}

/* Sends accesses [i, end) of a run with given addresses, none of which spans regions. */
static int route_send_gather(struct mt_ranks *t, const struct mt_access_run *r, uint32_t i, uint32_t end)
{
    unsigned owner[MT_MTC_MAX_LANES];
    uint64_t mine[MT_MTC_MAX_LANES];
    uint32_t left = 0;
    for (uint32_t k = i; k < end; k++) {
        owner[k - i] = mt_comm_owner(r->addresses[k], t->size);
        left |= 1u << (k - i);
    }
    while (left) {
        uint32_t first = (uint32_t)__builtin_ctz(left), n = 0;
        for (uint32_t rest = left; rest; rest &= rest - 1) {
            uint32_t k = (uint32_t)__builtin_ctz(rest);
            if (owner[k] != owner[first])
                continue;
            mine[n++] = r->addresses[i + k];
            left &= ~(1u << k);
        }
        if (route_send_run(t, owner[first], r, mine[0], n, mine) != 0)
            return -1;
    }
    return 0;
}

/* Sends accesses [i, end) of an evenly spaced run, none of which spans regions. */
static int route_send_row(struct mt_ranks *t, const struct mt_access_run *r, uint32_t i, uint32_t end)
{
    while (i < end) {
        uint64_t base = r->base + i * (uint64_t)r->stride;
        unsigned owner = mt_comm_owner(base, t->size);
        uint32_t from = i;
        for (i++; i < end && mt_comm_owner(r->base + i * (uint64_t)r->stride, t->size) == owner; i++)
            ;
        if (route_send_run(t, owner, r, base, i - from, NULL) != 0)
            return -1;
    }
    return 0;
}

/* Returns 1 if all bytes of the run are in one region, by a quick check. */
static int route_in_one_region(const struct mt_access_run *r)
{
    uint64_t step = r->stride < 0 ? 0 - (uint64_t)r->stride : (uint64_t)r->stride;
    if (r->addresses || (r->count > 1 && step >= 1u << MT_REGION_BITS))
        return 0;
    uint64_t reach = r->count > 1 ? step * (r->count - 1) : 0;
    if (reach >= 1u << MT_REGION_BITS)
        return 0;
    return !route_crosses(r->stride < 0 ? r->base - reach : r->base,
                          (uint32_t)reach + (r->meta & MT_RAW_MAX_SIZE));
}

/* Sends a run whose first access has this number. */
static int route_run(struct mt_ranks *t, const struct mt_access_run *r, uint64_t number)
{
    if (route_in_one_region(r))
        return route_send_run(t, mt_comm_owner(r->base, t->size), r, r->base, r->count, NULL);
    for (uint32_t i = 0, end; i < r->count; i = end) {
        uint64_t address = r->addresses ? r->addresses[i] : r->base + i * (uint64_t)r->stride;
        end = i + 1;
        if (route_crosses(address, r->meta & MT_RAW_MAX_SIZE)) {
            if (route_send_several(t, route_record_of(r, address), number + i) != 0)
                return -1;
            continue;
        }
        while (end < r->count &&
               !route_crosses(r->addresses ? r->addresses[end] : r->base + end * (uint64_t)r->stride,
                              r->meta & MT_RAW_MAX_SIZE))
            end++;
        if ((r->addresses ? route_send_gather(t, r, i, end) : route_send_row(t, r, i, end)) != 0)
            return -1;
    }
    return 0;
}

/* ---- this rank's part ---- */

/* Sends rows that take turns, each to its owner; those of one owner keep turns. first[]: their first
 * accesses. */
static int route_send_turns(struct mt_ranks *t, const struct mt_turns *rows,
                            const struct mt_raw_record *first)
{
    unsigned left = (1u << rows->period) - 1;
    while (left) {
        struct mt_raw_record units[2 * MT_TURNS_PERIOD];
        unsigned to = mt_comm_owner(first[__builtin_ctz(left)].w[1], t->size), n = 0;
        for (unsigned rest = left; rest; rest &= rest - 1) {
            unsigned i = (unsigned)__builtin_ctz(rest);
            if (mt_comm_owner(first[i].w[1], t->size) != to)
                continue;
            left &= ~(1u << i);
            units[2 * n] = first[i];
            units[2 * n].w[0] |= MT_UNIT_RUN;
            units[2 * n++ + 1] = (struct mt_raw_record){{(uint64_t)rows->stride[i], rows->count, 0}};
        }
        units[1].w[1] |= (uint64_t)n << 32 | (uint64_t)rows->block << 40;
        if (route_send_units(t, to, units, 2 * n) != 0)
            return -1;
    }
    return 0;
}

/* Sends records with numbers from `number` on. Returns 0, 1 if one is invalid, or -1 without memory. */
static int route_piece(struct mt_ranks *t, const struct mt_raw_record *r, size_t n, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    const struct mt_raw_record *last = NULL;
    struct mt_turns rows;
    for (size_t i = 0, length; i < n; i += length) {
        if ((!last || last->w[2] != r[i].w[2] || (last->w[0] ^ r[i].w[0]) >> 32) &&
            route_announce(s, r[i].w[2], r[i].w[0] >> 32) != 0)
            return -1;
        last = &r[i];
        length = mt_turns_records(&s->turns, &rows, last, n - i, MT_REGION_BITS);
        for (size_t k = i; k < i + (length ? rows.period : 1); k++) {
            uint32_t meta = (uint32_t)r[k].w[0];
            if (meta >= 4u << 28 || !(meta & MT_RAW_MAX_SIZE))
                return 1;
        }
        if ((length ? route_send_turns(t, &rows, last) : route_send_record(t, last, number + i)) != 0)
            return -1;
        length += length == 0;
    }
    return 0;
}

/* Sends records of a raw trace. */
static int route_records(struct mt_ranks *t, const struct mt_span *span, uint64_t from, size_t n,
                         uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    int rc = 0;
    stats_accesses(n);
    for (size_t done = 0, piece; done < n && rc == 0; done += piece) {
        piece = n - done < MT_ROUND_PIECE ? n - done : MT_ROUND_PIECE;
        if (parts_records(&s->parts, span->path, span->offset + (from + done) * MT_RAW_RECORD_SIZE, s->slice,
                          piece) != 0)
            return 1;
        rc = route_piece(t, s->slice, piece, number + done);
    }
    return rc;
}

/* Sends the records held back, with the rows found in them. */
static int route_release(struct mt_ranks *t)
{
    struct mt_rounds *s = t->rounds;
    size_t n = s->held;
    s->held = 0;
    return n ? route_piece(t, s->slice, n, s->held_number) : 0;
}

/* Holds back a short run as records: with their neighbours they may form rows, as when threads load a few
 * adjacent elements. */
static int route_hold(struct mt_ranks *t, const struct mt_access_run *r, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    int rc = s->held + MT_ROUND_SHORT > MT_ROUND_PIECE ? route_release(t) : 0;
    s->held_number = s->held ? s->held_number : number;
    for (uint32_t i = 0; i < r->count; i++)
        s->slice[s->held++] = route_record_of(r, r->base + i * (uint64_t)r->stride);
    return rc;
}

/* Sends r[0], which has this number, and those of the next n that belong to it; *length is their number. */
static int route_runs(struct mt_ranks *t, const struct mt_access_run *r, size_t n, size_t *length,
                      uint64_t number)
{
    struct mt_turns rows;
    struct mt_raw_record first[MT_TURNS_PERIOD];
    *length = mt_turns_runs(&t->rounds->turns, &rows, r, n, MT_REGION_BITS);
    if (*length == 0) {
        *length = 1;
        if (!r->addresses && r->count <= MT_ROUND_SHORT)
            return route_hold(t, r, number);
        int rc = route_release(t);
        return rc ? rc : route_run(t, r, number);
    }
    if (route_release(t) != 0)
        return -1;
    for (unsigned i = 0; i < rows.period; i++)
        first[i] = route_record_of(&r[i], r[i].base);
    return route_send_turns(t, &rows, first);
}

/* Sends the runs of a chunk. */
static int route_chunk(struct mt_ranks *t, struct mt_device_parts *p, size_t chunk, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    const struct mt_access_run *runs, *last = NULL;
    struct mt_access_run before;
    uint64_t end = number + mt_device_parts_accesses(p, chunk);
    struct mt_error err;
    size_t n;
    int rc = mt_device_parts_seek(p, chunk, &err);
    stats_accesses(end - number);
    while (rc == 0 && (rc = mt_device_parts_next(p, &runs, &n, &err)) > 0) {
        for (size_t i = 0, length; i < n; i += length) {
            if ((!last || last->cta != runs[i].cta || last->smid != runs[i].smid) &&
                route_announce(s, runs[i].cta, runs[i].smid) != 0)
                return -1;
            last = &runs[i];
            if (route_runs(t, last, n - i, &length, number) != 0)
                return -1;
            for (size_t k = 0; k < length; k++)
                number += last[k].count;
        }
        before = *last; /* the next runs overwrite it */
        last = &before;
        rc = 0;
    }
    return rc != 0 || number != end ? 1 : route_release(t);
}

/* Sends the part of a span with costs [lo, hi); the span begins at cost *pos. Advances *pos and s->number. */
static int route_span(struct mt_ranks *t, const struct mt_span *span, uint64_t *pos, uint64_t lo, uint64_t hi)
{
    struct mt_rounds *s = t->rounds;
    int rc = 0;
    if (!span->chunks) {
        uint64_t from = lo > *pos ? lo - *pos : 0, end = hi > *pos ? hi - *pos : 0;
        end = end < span->count ? end : span->count;
        if (from < end)
            rc = route_records(t, span, from, (size_t)(end - from), s->number + from + 1);
        *pos += span->count;
        s->number += span->count;
        return rc;
    }
    struct mt_device_parts *p = parts_chunks(&s->parts, span->path);
    for (uint64_t i = 0; p && i < span->count && rc == 0; i++) {
        size_t chunk = (size_t)(span->offset + i);
        uint64_t accesses = mt_device_parts_accesses(p, chunk);
        if (*pos >= lo && *pos < hi)
            rc = route_chunk(t, p, chunk, s->number + 1);
        *pos += mt_part_cost(accesses);
        s->number += accesses;
    }
    return p ? rc : 1;
}

/* Sends the accesses of this rank's part to their owners and fills `mine`. Returns 0, 1 if the part is
 * damaged, or -1 without memory. */
static int rounds_route(struct mt_ranks *t)
{
    struct mt_rounds *s = t->rounds;
    uint64_t pos = 0, lo = s->cost * t->rank / t->size, hi = s->cost * (t->rank + 1) / t->size;
    int rc = 0;
    s->nmine = 0;
    s->launch = 0;
    s->number = t->comm.records;
    memset(s->marked, 0, t->size * sizeof *s->marked);
    for (size_t i = 0; i < s->nevents && rc == 0; i++) {
        if (s->events[i].kind == MT_ROUND_LAUNCH) {
            s->launch++;
            mt_pairmap_clear(&s->known);
        } else if (s->events[i].kind == MT_ROUND_SPAN) {
            rc = route_span(t, &s->events[i].u.span, &pos, lo, hi);
        }
    }
    return rc;
}

/* ---- rounds ----
 * Traces are read in parts. Launches, copies and spans are gathered until they suffice for a round. In a
 * round each of P ranks reads one P-th of them and sends accesses to the owners of their bytes. Accesses
 * arrive in the order of the trace, because the parts are consecutive. */

enum { EVENTS = 1 << 16, RUNS = 4096 };

static void rounds_free(struct mt_rounds *s)
{
    if (!s)
        return;
    parts_free(&s->parts);
    mt_pairmap_free(&s->known);
    free(s->events);
    free(s->slice);
    free(s->sent);
    free(s->marked);
    free(s->mine);
    free(s->all);
    free(s->counts);
    free(s->places);
    free(s->runs);
    free(s);
}

static int ranks_by_parts(struct mt_team *team)
{
    struct mt_ranks *t = mt_ranks_of(team);
    struct mt_rounds *s = t->rounds = calloc(1, sizeof *s);
    if (!s)
        return ranks_fail(t, "out of memory");
    s->events = malloc(EVENTS * sizeof *s->events);
    s->slice = malloc(MT_ROUND_PIECE * sizeof *s->slice);
    s->sent = calloc(t->size, sizeof *s->sent);
    s->marked = calloc(t->size, sizeof *s->marked);
    s->counts = calloc(t->size, 3 * sizeof *s->counts);
    s->most = MT_ROUND_COST;
    s->places = calloc(t->size, sizeof *s->places);
    s->runs = malloc(RUNS * sizeof *s->runs);
    return s->events && s->slice && s->sent && s->marked && s->counts && s->places && s->runs
               ? 0
               : ranks_fail(t, "out of memory");
}

/* ---- joint steps ---- */

/* Returns the amount that this rank sends in the round, in percent of the intended one. */
static int rounds_full(const struct mt_ranks *t)
{
    uint64_t bytes = 0, percent;
    for (unsigned i = 0; i < t->size; i++)
        bytes += t->exchange.out[i].used;
    percent = bytes * 100 / ((uint64_t)MT_ROUND_COST * MT_RAW_RECORD_SIZE);
    return percent < 10000 ? (int)percent : 10000;
}

/* Exchanges all actors, in order, and whether to stop. `bad`: this rank's part is damaged. Returns 0, 1 if
 * any part is damaged, or -1 without memory. */
static int rounds_meet_all(struct mt_ranks *t, int bad)
{
    struct mt_rounds *s = t->rounds;
    int mine[3] = {bad ? -1 : (int)s->nmine, ranks_wants_stop(), rounds_full(t)}, total = 0, full = 0;
    MPI_Allgather(mine, 3, MPI_INT, s->counts, 3, MPI_INT, MPI_COMM_WORLD);
    for (unsigned i = 0; i < t->size; i++) {
        int n = s->counts[3 * i];
        if (n < 0)
            return 1;
        t->stopped |= s->counts[3 * i + 1];
        full = s->counts[3 * i + 2] > full ? s->counts[3 * i + 2] : full;
        s->places[i] = 3 * total;
        s->counts[i] = 3 * n; /* entry i was read already */
        total += n;
    }
    if (full < 25 && s->most < MT_ROUND_MOST)
        s->most *= 2;
    else if (full > 100 && s->most > MT_ROUND_COST)
        s->most /= 2;
    s->nall = (size_t)total;
    s->met = 0;
    if (total == 0)
        return 0;
    if (s->nall > s->all_room) {
        free(s->all);
        s->all_room = s->nall * 2;
        if (!(s->all = malloc(s->all_room * sizeof *s->all))) {
            s->all_room = 0;
            return -1;
        }
    }
    MPI_Allgatherv(s->mine, 3 * mine[0], MPI_UINT64_T, s->all, s->counts, s->places, MPI_UINT64_T,
                   MPI_COMM_WORLD);
    return 0;
}

/* Feeds launches, copies and actors up to this launch of the round, whose accesses come next. */
static int rounds_go_on(struct mt_ranks *t, uint64_t launch)
{
    struct mt_rounds *s = t->rounds;
    struct mt_comm *c = &t->comm;
    for (;;) {
        for (; s->met < s->nall && s->all[s->met].launch == s->launch; s->met++)
            if (mt_comm_meet(c, s->all[s->met].cta, (uint32_t)s->all[s->met].smid) != 0)
                return -1;
        while (s->at < s->events + s->nevents && s->at->kind != MT_ROUND_LAUNCH && s->launch < launch) {
            if (s->at->kind == MT_ROUND_COPY && mt_comm_copy(c, &s->at->u.copy) != 0)
                return -1;
            s->at++;
        }
        if (s->launch >= launch || s->at == s->events + s->nevents)
            return 0;
        if (mt_comm_launch(c, s->at->u.launch.kernel, s->at->u.launch.selected) != 0)
            return -1;
        s->launch++;
        s->at++;
    }
}

static int rounds_hand_on_runs(struct mt_ranks *t, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    size_t n = s->nruns;
    uint64_t accesses = 0;
    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        accesses += s->runs[i].count;
    s->nruns = 0;
    t->comm.records = number + s->taken;
    s->taken += accesses;
    return mt_comm_runs(&t->comm, s->runs, n);
}

static int rounds_hand_on_records(struct mt_ranks *t, const struct mt_raw_record *r, size_t n,
                                  uint64_t number)
{
    if (n == 0)
        return 0;
    t->comm.records = number + t->rounds->taken;
    t->rounds->taken += n;
    return mt_comm_records(&t->comm, r, n);
}

static struct mt_access_run rounds_run_of(const struct mt_raw_record *r)
{
    size_t given = (size_t)r[1].w[2];
    return (struct mt_access_run){.base = r->w[1],
                                  .stride = (int64_t)r[1].w[0],
                                  .addresses = given ? r[2].w : NULL,
                                  .cta = r->w[2],
                                  .smid = (uint32_t)(r->w[0] >> 32),
                                  .meta = (uint32_t)r->w[0] & ~MT_UNIT_KIND,
                                  .count = (uint32_t)r[1].w[1]};
}

/* Feeds runs together. */
static int rounds_take_runs(struct mt_ranks *t, const struct mt_access_run *runs, unsigned n, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    if (s->nruns + n > RUNS && rounds_hand_on_runs(t, number) != 0)
        return -1;
    memcpy(&s->runs[s->nruns], runs, n * sizeof *runs);
    s->nruns += n;
    return 0;
}

/* Feeds rows that take turns, as in the trace: `block` accesses of each at a time. */
static int rounds_take_turns(struct mt_ranks *t, const struct mt_access_run *rows, unsigned period,
                             uint32_t block, uint64_t number)
{
    struct mt_access_run runs[MT_TURNS_PERIOD];
    for (uint32_t done = 0; done < rows->count; done += block) {
        for (unsigned i = 0; i < period; i++) {
            runs[i] = rows[i];
            runs[i].base += done * (uint64_t)rows[i].stride;
            runs[i].count = block;
        }
        if (rounds_take_runs(t, runs, period, number) != 0)
            return -1;
    }
    return 0;
}

/* Feeds the unit r, of any kind but ONE; *length is its length in units. Feeds everything held back, except
 * runs if it is a run itself. */
static int rounds_take_unit(struct mt_ranks *t, struct mt_raw_record *r, size_t *length, uint64_t number)
{
    uint32_t kind = (uint32_t)r->w[0] & MT_UNIT_KIND;
    *length = 1;
    if (kind != MT_UNIT_RUN && rounds_hand_on_runs(t, number) != 0)
        return -1;
    r->w[0] &= ~(uint64_t)MT_UNIT_KIND;
    if (kind == MT_UNIT_MARK)
        return rounds_go_on(t, r->w[1]);
    if (kind == MT_UNIT_SEVERAL) {
        *length = 2;
        t->comm.records = r[1].w[0] - 1;
        return mt_comm_records(&t->comm, r, 1);
    }
    struct mt_access_run runs[MT_TURNS_PERIOD];
    unsigned n = r[1].w[1] >> 32 & 255;
    runs[0] = rounds_run_of(r);
    *length = 2 + ((size_t)r[1].w[2] + 2) / 3;
    if (n <= 1)
        return rounds_take_runs(t, runs, 1, number);
    for (unsigned i = 1; i < n; i++)
        runs[i] = rounds_run_of(r + 2 * i);
    *length = 2 * n;
    return mt_turns_apart(runs, n) ? rounds_take_runs(t, runs, n, number)
                                   : rounds_take_turns(t, runs, n, (uint32_t)(r[1].w[1] >> 40), number);
}

/* Feeds the units of one rank; `number` as in rounds_take_in. */
static int rounds_take_part(struct mt_ranks *t, struct mt_raw_record *r, size_t n, uint64_t number)
{
    size_t first = 0;
    for (size_t i = 0, length; i < n; i += length) {
        length = 1;
        if (!((uint32_t)r[i].w[0] & MT_UNIT_KIND)) {
            if (t->rounds->nruns && rounds_hand_on_runs(t, number) != 0)
                return -1;
            continue;
        }
        if (rounds_hand_on_records(t, r + first, i - first, number) != 0 ||
            rounds_take_unit(t, &r[i], &length, number) != 0)
            return -1;
        first = i + length;
    }
    return rounds_hand_on_records(t, r + first, n - first, number);
}

/* Feeds everything received, in order; plain accesses get the numbers from `number` + 1 on. */
static int rounds_take_in(struct mt_ranks *t, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    size_t at = 0, bytes;
    s->taken = s->nruns = 0;
    s->launch = 0;
    s->at = s->events;
    int rc = rounds_go_on(t, 0);
    for (unsigned i = 0; i < t->size && rc == 0; i++) {
        char *part = exchange_part(&t->exchange, i, &at, &bytes);
        rc = rounds_take_part(t, (struct mt_raw_record *)(void *)part, bytes / MT_RAW_RECORD_SIZE, number);
    }
    if (rc != 0 || rounds_hand_on_runs(t, number) != 0)
        return -1;
    return rounds_go_on(t, UINT64_MAX);
}

static int ranks_now_and_then(struct mt_ranks *t, int rc);

/* Analyses the gathered events, jointly. */
static int rounds_flush(struct mt_ranks *t)
{
    struct mt_rounds *s = t->rounds;
    uint64_t number = t->comm.records, accesses = s->accesses;
    if (s->nevents == 0)
        return 0;
    enum mt_rank_phase before = stats_phase(MT_RANK_SORT);
    int bad = rounds_route(t);
    stats_phase(MT_RANK_EXCHANGE);
    if (bad < 0)
        return ranks_fail(t, "out of memory");
    int rc = rounds_meet_all(t, bad);
    if (rc > 0) {
        t->again = 1;
        return ranks_fail(t, "a part of the trace is damaged");
    }
    if (rc < 0 || exchange_all(&t->exchange) != 0)
        return ranks_fail(t, "out of memory");
    stats_phase(MT_RANK_ANALYSE);
    rc = rounds_take_in(t, number);
    stats_phase(before);
    t->comm.records = number + accesses;
    s->nevents = 0;
    s->cost = s->accesses = 0;
    return ranks_now_and_then(t, rc);
}

/* ---- input ---- */

static int rounds_add(struct mt_ranks *t, const struct mt_round_event *e)
{
    struct mt_rounds *s = t->rounds;
    if (s->nevents == EVENTS && rounds_flush(t) != 0)
        return -1;
    s->events[s->nevents++] = *e;
    return 0;
}

/* Functions for input while spans are fed, called alike in all ranks. A flush analyses everything gathered;
 * it must precede joint operations. Return 0 or -1. */
static int rounds_launch(struct mt_ranks *t, const char *kernel, int selected)
{
    return rounds_add(t, &(struct mt_round_event){.kind = MT_ROUND_LAUNCH, .u.launch = {kernel, selected}});
}

static int rounds_copy(struct mt_ranks *t, const struct mt_copy_event *e)
{
    return rounds_add(t, &(struct mt_round_event){.kind = MT_ROUND_COPY, .u.copy = *e});
}

/* Splits off as much of `rest` as the round has room for, as a span of *cost and *accesses. Returns 0 if
 * there is no room. */
static uint64_t rounds_cut(struct mt_ranks *t, const struct mt_span *rest, uint64_t *cost, uint64_t *accesses)
{
    struct mt_rounds *s = t->rounds;
    uint64_t most = (uint64_t)s->most * t->size, room = s->cost < most ? most - s->cost : 0, n = 0;
    if (!rest->chunks) {
        *cost = *accesses = rest->count < room ? rest->count : room;
        return *cost;
    }
    struct mt_device_parts *p = parts_chunks(&s->parts, rest->path);
    for (*cost = *accesses = 0; p && n < rest->count && *cost < room; n++) {
        uint64_t a = mt_device_parts_accesses(p, (size_t)(rest->offset + n));
        *accesses += a;
        *cost += mt_part_cost(a);
    }
    return n;
}

static int ranks_span(struct mt_team *team, const struct mt_span *span)
{
    struct mt_ranks *t = mt_ranks_of(team);
    struct mt_rounds *s = t->rounds;
    if (span->chunks && !parts_chunks(&s->parts, span->path))
        return ranks_fail(t, "an input cannot be opened again");
    for (struct mt_span rest = *span; rest.count > 0;) {
        uint64_t cost, accesses, n = rounds_cut(t, &rest, &cost, &accesses);
        if (n == 0) {
            if (rounds_flush(t) != 0)
                return -1;
            if (t->stopped)
                return 0;
            continue;
        }
        struct mt_round_event e = {.kind = MT_ROUND_SPAN, .u.span = rest};
        e.u.span.count = n;
        if (rounds_add(t, &e) != 0)
            return -1;
        s->cost += cost;
        s->accesses += accesses;
        t->comm.reported += span->selected ? accesses : 0;
        rest.count -= n;
        rest.offset += rest.chunks ? n : n * MT_RAW_RECORD_SIZE;
    }
    return 0;
}

enum { SETTLE_EVERY = 256 /* in batches */, SETTLE_AT = 1 << 18 /* maximum notes of a rank */ };

/* ---- the process ---- */

static volatile sig_atomic_t *stop_flag;

static int ranks_reports(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == 0;
}

static void ranks_begin(int *argc, char ***argv, volatile sig_atomic_t *stop)
{
    /* Each rank has a thread that reads, and there may be more ranks than processors: waiting ranks yield. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    stats_phase(MT_RANK_START);
    MPI_Init(argc, argv);
    stop_flag = stop;
    if (!ranks_reports() && !freopen("/dev/null", "w", stdout))
        fclose(stdout);
}

/* Returns 1 if this rank's user has asked to stop. */
static int ranks_wants_stop(void)
{
    return __atomic_load_n(stop_flag, __ATOMIC_RELAXED) != 0;
}

static int ranks_stopped(const struct mt_team *team)
{
    const struct mt_ranks *t = (const void *)team;
    if (t->stopped)
        __atomic_store_n(stop_flag, 1, __ATOMIC_RELAXED);
    return t->stopped;
}

static int ranks_again(const struct mt_team *team)
{
    const struct mt_ranks *t = (const void *)team;
    return t->again;
}

static int ranks_members(void)
{
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

static int ranks_agree(int code)
{
    struct {
        int ok, rank;
    } mine = {code == 0, 0}, first;
    MPI_Comm_rank(MPI_COMM_WORLD, &mine.rank);
    MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    if (first.ok)
        return 0;
    if (first.rank == mine.rank && mine.rank != 0) /* rank 0 reported nothing and is fine */
        fprintf(stderr,
                "memtrace extract: rank %d cannot begin (exit code %d): are the inputs on its machine?\n",
                mine.rank, code);
    MPI_Bcast(&code, 1, MPI_INT, first.rank, MPI_COMM_WORLD);
    return code;
}

static int ranks_end(int code, int together)
{
    if (!together)
        MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
    return code;
}

static int ranks_all_as_one(int rc)
{
    int any;
    rc = rc != 0;
    MPI_Allreduce(&rc, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any ? -1 : 0;
}

/* ---- the team ---- */

static void ranks_free(void *self)
{
    struct mt_ranks *t = self;
    exchange_free(&t->exchange);
    rounds_free(t->rounds);
    free(t->apart);
    mt_comm_free(&t->comm);
    free(t);
}

static int ranks_fail(struct mt_ranks *t, const char *why)
{
    if (!t->why)
        t->why = why;
    return -1;
}

static const char *ranks_why(const struct mt_team *team)
{
    const struct mt_ranks *t = (const void *)team;
    return t->why ? t->why : t->comm.why ? t->comm.why : "out of memory";
}

static uint64_t ranks_count(const struct mt_team *team)
{
    const struct mt_ranks *t = (const void *)team;
    return t->comm.records + t->comm.host_accesses;
}

/* ---- accesses that span shards ---- */

/* Sends all notes on an access to the same rank. */
static int ranks_add_crossings(struct mt_ranks *t)
{
    struct mt_comm *c = &t->comm, *self = c;
    struct mt_exchange *x = &t->exchange;
    exchange_clear(x);
    for (size_t i = 0; i < c->ncrossings; i++)
        if (mt_exchange_add(x, (unsigned)(c->crossings[i].record % t->size), &c->crossings[i],
                            sizeof *c->crossings) != 0)
            return ranks_fail(t, "out of memory");
    c->ncrossings = 0;
    if (exchange_all(x) != 0)
        return ranks_fail(t, "out of memory");
    size_t at = 0, bytes;
    for (unsigned from = 0; from < t->size; from++) {
        const char *part = exchange_part(x, from, &at, &bytes);
        for (size_t i = 0; i < bytes / sizeof(struct mt_crossing); i++) {
            struct mt_crossing n;
            memcpy(&n, part + i * sizeof n, sizeof n);
            mt_comm_cross(c, n.record, n.src, n.dst);
        }
    }
    return mt_comm_add_crossings(&self, 1);
}

static const char ranks_no_part[] =
    "interrupted: of traces on several machines there are no results of a part";

/* Runs periodic work after each batch, in all ranks. Returns rc, or -1. */
static int ranks_now_and_then(struct mt_ranks *t, int rc)
{
    if (rc == 0 && t->apart && ranks_wants_stop())
        return ranks_fail(t, ranks_no_part);
    if (rc != 0 || t->apart || ++t->batches % SETTLE_EVERY != 0)
        return rc;
    uint64_t most[2], mine[2] = {t->comm.ncrossings, (uint64_t)ranks_wants_stop()};
    MPI_Allreduce(mine, most, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    t->stopped |= most[1] != 0;
    return most[0] > SETTLE_AT ? ranks_add_crossings(t) : 0;
}

/* Numbers of mt_actor and mt_host_actor that are summed, from `load` on. */
enum {
    PIECE_LAUNCHES = 1 << 24,
    MT_RANK_PROCESS_BIT = 48 /* of addresses: the process's number (mt_source_processes) */
};
enum { ACTORS_AT_A_TIME = 1 << 14, ACTOR_NUMBERS = 3 + MT_SENDER_KINDS, HOST_NUMBERS = 4 };

/* Sums `numbers` numbers of n actors (or host actors), which are `step` bytes apart from `first` on. */
static void ranks_sum_up(struct mt_ranks *t, void *first, size_t numbers, size_t n, size_t step)
{
    static uint64_t mine[ACTORS_AT_A_TIME * ACTOR_NUMBERS], sum[ACTORS_AT_A_TIME * ACTOR_NUMBERS];
    for (size_t i = 0, k; i < n; i += k) {
        k = n - i < ACTORS_AT_A_TIME ? n - i : ACTORS_AT_A_TIME;
        for (size_t a = 0; a < k; a++)
            memcpy(mine + numbers * a, (char *)first + (i + a) * step, numbers * sizeof *mine);
        MPI_Reduce(mine, sum, (int)(numbers * k), MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        for (size_t a = 0; t->rank == 0 && a < k; a++)
            memcpy((char *)first + (i + a) * step, sum + numbers * a, numbers * sizeof *mine);
    }
}

/* ---- traces of several machines, each read where it is: ranks feed the same launches and copies, and own
 * the memory of their processes ---- */

static int ranks_apart(struct mt_team *team, const struct mt_joined *j, const struct mt_source *source)
{
    struct mt_ranks *t = mt_ranks_of(team);
    t->nprocesses = mt_source_processes(source);
    t->apart = calloc(t->nprocesses, sizeof *t->apart);
    for (size_t i = 0; t->apart && i < j->n; i++)
        t->apart[mt_source_process(source, i)] = j->member[i];
    mt_comm_shard(&t->comm, 0, 1);
    return t->apart ? 0 : ranks_fail(t, "out of memory");
}

static void ranks_apart_count(struct mt_ranks *t, uint64_t accesses)
{
    if (t->apart)
        stats_accesses(accesses);
    t->comm.reported += t->apart && t->selected ? accesses : 0;
}

static int ranks_apart_copy(struct mt_ranks *t, const struct mt_copy_event *e)
{
    uint32_t nobody; /* host actors have the same numbers in all ranks */
    uint64_t process = e->dst >> MT_RANK_PROCESS_BIT;
    int mine = process < t->nprocesses && t->apart[process] == t->rank;
    return mine ? mt_comm_copy(&t->comm, e) : mt_comm_nobody(&t->comm, e, &nobody);
}

static uint32_t ranks_apart_id(const uint32_t *now, uint32_t id)
{
    return id & MT_ENTRY_HOST ? id : now[id];
}

/* Makes the actors those of all ranks, n in all: counts[i] of launch i. Those of other ranks are zeros. */
static void ranks_apart_renumber(struct mt_comm *c, const uint32_t *counts, struct mt_actor *all, size_t n,
                                 uint32_t *now)
{
    uint32_t at = 1;
    for (size_t i = 0; i < c->nlaunches; at += counts[i++]) {
        struct mt_comm_launch *l = &c->launches[i];
        for (uint32_t k = l->first; k < l->end; k++) {
            now[k] = at + (k - l->first);
            all[now[k]] = c->actors[k];
            all[now[k]].instance = now[c->actors[k].instance];
        }
        l->first = at;
        l->end = at + counts[i];
    }
    for (size_t i = 0; i < c->ntransfers; i++) {
        c->transfers[i].src = ranks_apart_id(now, c->transfers[i].src);
        c->transfers[i].dst = ranks_apart_id(now, c->transfers[i].dst);
    }
    free(c->actors);
    c->actors = all;
    c->nactors = c->actor_room = n;
}

/* Gives all actors the numbers that they have when one process reads all traces: by launch. A launch has
 * actors in one rank only. */
static int ranks_apart_number(struct mt_ranks *t)
{
    struct mt_comm *c = &t->comm;
    uint32_t *counts = malloc((c->nlaunches + 1) * sizeof *counts),
             *now = malloc((c->nactors + 1) * sizeof *now);
    size_t n = 1;
    int ok = split_all(counts && now);
    for (size_t i = 0; ok && i < c->nlaunches; i++)
        counts[i] = c->launches[i].end - c->launches[i].first;
    for (size_t i = 0, k; ok && i < c->nlaunches; i += k) {
        k = c->nlaunches - i < PIECE_LAUNCHES ? c->nlaunches - i : PIECE_LAUNCHES;
        MPI_Allreduce(MPI_IN_PLACE, counts + i, (int)k, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
    }
    for (size_t i = 0; ok && i < c->nlaunches; i++)
        n += counts[i];
    struct mt_actor *all = ok && n < MT_ENTRY_HOST ? calloc(n, sizeof *all) : NULL;
    if ((ok = split_all(all != NULL)))
        ranks_apart_renumber(c, counts, all, n, now);
    else
        free(all);
    free(counts);
    free(now);
    return ok ? 0 : ranks_fail(t, "out of memory");
}

/* Brings together what the ranks counted, each for its own traces. */
static int ranks_apart_finish(struct mt_ranks *t)
{
    struct mt_comm *c = &t->comm;
    uint64_t mine[2] = {c->records, c->reported};
    if (!split_all(!ranks_wants_stop()))
        return ranks_fail(t, ranks_no_part);
    if (!split_same(c->nlaunches) || !split_same(c->nhosts))
        return ranks_fail(t,
                          "the ranks know of different launches: a trace is damaged, or of a killed program; "
                          "read all of them on one machine");
    if (ranks_apart_number(t) != 0)
        return -1;
    _Static_assert(offsetof(struct mt_actor, load) == 3 * sizeof(uint64_t), "cta, smid, launch, instance");
    ranks_sum_up(t, &c->actors[0], 3, c->nactors, sizeof *c->actors);
    MPI_Allreduce(MPI_IN_PLACE, mine, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    c->records = mine[0];
    c->reported = mine[1];
    return 0;
}

/* ---- feeding: alike in every rank ---- */

static int ranks_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_ranks *t = self;
    t->selected = l->selected;
    if (t->rounds)
        return rounds_launch(t, l->kernel, l->selected);
    return mt_comm_launch(&t->comm, l->kernel, l->selected);
}

static int ranks_records(void *self, const struct mt_raw_record *r, size_t count)
{
    struct mt_ranks *t = self;
    ranks_apart_count(t, count);
    return ranks_now_and_then(t, mt_comm_records(&t->comm, r, count));
}

static int ranks_runs(void *self, const struct mt_access_run *runs, size_t count)
{
    struct mt_ranks *t = self;
    for (size_t i = 0; t->apart && i < count; i++)
        ranks_apart_count(t, runs[i].count);
    return ranks_now_and_then(t, mt_comm_runs(&t->comm, runs, count));
}

static int ranks_host(void *self, const struct mt_item *item)
{
    struct mt_ranks *t = self;
    return ranks_now_and_then(t, mt_comm_host(&t->comm, item->host, mt_team_host_count(item)));
}

/* ---- copies between shards ---- */

struct moved {
    uint64_t to, start;
    uint32_t entry, length;
};

/* Sends the writers of `bytes` bytes, inside one page, to the owners of the copy. */
static int ranks_send_page(struct mt_ranks *t, uint64_t dst, uint64_t src, unsigned bytes, uint32_t nobody)
{
    if (!mt_comm_owns(&t->comm, src))
        return 0;
    size_t n = mt_shadow_stretches(t->comm.shadow, src, bytes, t->exchange.stretches);
    for (size_t i = 0; i < n; i++) {
        const struct mt_stretch *s = &t->exchange.stretches[i];
        for (uint32_t rest = s->length, part; rest > 0; rest -= part, dst += part) {
            uint64_t room = (1ull << MT_REGION_BITS) - (dst & ((1ull << MT_REGION_BITS) - 1));
            part = rest < room ? rest : (uint32_t)room;
            struct moved m = {dst, s->start, s->entry ? s->entry : nobody, part};
            if (mt_exchange_add(&t->exchange, mt_comm_owner(dst, t->size), &m, sizeof m) != 0)
                return -1;
        }
    }
    return 0;
}

/* Applies the writers received, in all ranks. */
static int ranks_write_moved(struct mt_ranks *t)
{
    struct mt_exchange *x = &t->exchange;
    if (exchange_all(x) != 0)
        return -1;
    size_t at = 0, bytes;
    for (unsigned from = 0; from < t->size; from++) {
        const char *part = exchange_part(x, from, &at, &bytes);
        for (size_t i = 0; i < bytes / sizeof(struct moved); i++) {
            struct moved m;
            memcpy(&m, part + i * sizeof m, sizeof m);
            mt_shadow_fill(t->comm.shadow, m.to, m.length, m.entry, m.start);
        }
    }
    return t->comm.shadow->failed ? -1 : 0;
}

enum { MOVE_PAGES = 256 }; /* pages of the source processed at a time */

/* Copies a row, from its end if the copy would otherwise overwrite its source. */
static int ranks_move_row(struct mt_ranks *t, uint64_t dst, uint64_t src, uint64_t length, uint32_t nobody,
                          int flush)
{
    int backward = dst - src < length;
    for (uint64_t done = 0; done < length;) {
        uint64_t left = length - done, at = backward ? src + left - 1 : src + done;
        uint64_t in_page = at & (MT_PAGE_BYTES - 1), bytes = backward ? in_page + 1 : MT_PAGE_BYTES - in_page;
        if (bytes > left)
            bytes = left;
        uint64_t offset = backward ? left - bytes : done;
        if (ranks_send_page(t, dst + offset, src + offset, (unsigned)bytes, nobody) != 0)
            return -1;
        done += bytes;
        t->moved += bytes;
        if (((flush && done == length) || t->moved >= MOVE_PAGES * MT_PAGE_BYTES) &&
            (t->moved = 0, ranks_write_moved(t)) != 0)
            return -1;
    }
    return 0;
}

/* Returns 1 if the rows of source and copy do not overlap, so that their order does not matter. */
static int ranks_rows_apart(const struct mt_copy_event *e)
{
    uint64_t src = (e->height - 1) * e->spitch + e->width, dst = (e->height - 1) * e->dpitch + e->width;
    return e->height < 1ull << 32 && e->width < 1ull << 48 && e->spitch < 1ull << 24 &&
           e->dpitch < 1ull << 24 && e->dst - e->src >= src && e->src - e->dst >= dst;
}

static int ranks_copy(void *self, const struct mt_copy_event *e)
{
    struct mt_ranks *t = self;
    uint32_t nobody;
    if (mt_team_stays(e))
        return 0;
    if (t->apart)
        return ranks_apart_copy(t, e);
    if (t->rounds && !mt_comm_moves(&t->comm, e))
        return rounds_copy(t, e);
    if ((t->rounds && rounds_flush(t) != 0) || mt_comm_copy(&t->comm, e) != 0)
        return -1;
    if (!mt_comm_moves(&t->comm, e) || e->height == 0 || e->width == 0)
        return 0;
    if (mt_comm_nobody(&t->comm, e, &nobody) != 0)
        return -1;
    exchange_clear(&t->exchange);
    t->moved = 0;
    for (uint64_t row = 0; row < e->height; row++) {
        uint64_t dst = e->dst + row * e->dpitch, src = e->src + row * e->spitch;
        if ((dst != src || nobody != 0) &&
            ranks_move_row(t, dst, src, e->width, nobody, !ranks_rows_apart(e)) != 0)
            return ranks_fail(t, "out of memory");
    }
    return ranks_write_moved(t) != 0 ? ranks_fail(t, "out of memory") : 0;
}

/* ---- transfer of results to rank 0 ---- */

static int ranks_gather_transfers(struct mt_ranks *t)
{
    struct mt_comm *c = &t->comm;
    if (t->rank > 0)
        return exchange_to(0, c->transfers, c->ntransfers, sizeof *c->transfers) |
               exchange_to(0, c->crossed, c->ncrossed, sizeof *c->crossed);
    for (unsigned from = 1; from < t->size; from++)
        for (int part = 0; part < 2; part++) {
            size_t n = exchange_announced(from);
            if (mt_grow(&c->transfers, &c->transfer_room, c->ntransfers + n + 1, sizeof *c->transfers) != 0)
                return ranks_fail(t, "out of memory");
            exchange_from(from, c->transfers + c->ntransfers, n, sizeof *c->transfers);
            c->ntransfers += n;
        }
    return mt_comm_merged(c);
}

static int ranks_gather_keys(struct mt_ranks *t)
{
    enum { WORDS = 1 + MT_KEY_WORDS };
    struct mt_keyset *keys = &t->comm.keys;
    uint64_t(*pages)[WORDS] = NULL;
    int rc = 0;
    if (t->rank > 0) {
        size_t n = 0;
        const struct mt_hash_slot *page;
        pages = malloc((keys->pages.count + 1) * sizeof *pages);
        for (size_t i = 0; pages && (page = mt_hash_next(&keys->pages, &i)); n++) {
            pages[n][0] = page->key;
            memcpy(&pages[n][1], ((const struct mt_keypage *)page->value)->bits,
                   MT_KEY_WORDS * sizeof(uint64_t));
        }
        rc = pages ? exchange_to(0, pages, n, sizeof *pages) : ranks_fail(t, "out of memory");
    }
    for (unsigned from = 1; t->rank == 0 && from < t->size && rc == 0; from++) {
        size_t n = exchange_announced(from);
        pages = malloc((n + 1) * sizeof *pages);
        if (!pages)
            return ranks_fail(t, "out of memory");
        exchange_from(from, pages, n, sizeof *pages);
        for (size_t i = 0; i < n && rc == 0; i++) {
            struct mt_keypage *p = mt_keyset_make(keys, pages[i][0]);
            for (size_t w = 0; p && w < MT_KEY_WORDS; w++)
                p->bits[w] |= pages[i][1 + w];
            rc = p ? 0 : ranks_fail(t, "out of memory");
        }
        free(pages);
        pages = NULL;
    }
    free(pages);
    return rc;
}

static int ranks_gather_readers(struct mt_ranks *t)
{
    struct mt_readers *r = &t->comm.readers;
    if (!t->comm.options.readers)
        return 0;
    if (t->rank > 0) /* ranks that lost their readers have sent none of element 0 */
        return exchange_to(0, r->sets, r->lost ? 0 : r->n, sizeof *r->sets);
    for (unsigned from = 1; from < t->size; from++) {
        size_t n = exchange_announced(from);
        struct mt_read_set *sets = malloc((n + 1) * sizeof *sets);
        if (!sets)
            return ranks_fail(t, "out of memory");
        exchange_from(from, sets, n, sizeof *sets);
        mt_readers_add(r, n ? sets + 1 : NULL, n - 1);
        free(sets);
    }
    return 0;
}

static int ranks_finish(void *self)
{
    struct mt_ranks *t = mt_ranks_of(self);
    struct mt_comm *c = &t->comm;
    if (t->rounds && rounds_flush(t) != 0)
        return -1;
    stats_phase(MT_RANK_RESULTS);
    if (t->apart && ranks_apart_finish(t) != 0)
        return -1;
    if (ranks_all_as_one(t->why || c->why ? -1 : ranks_add_crossings(t)) != 0)
        return ranks_fail(t, c->why ? c->why : "another rank failed");
    if (!split_same(c->nactors) || !split_same(c->nhosts) || !split_same(c->nlaunches) ||
        !split_same(c->records))
        return ranks_fail(t,
                          "the ranks read different traces: an input changed, or is another file elsewhere");
    ranks_sum_up(t, &c->actors[0].load, ACTOR_NUMBERS, c->nactors, sizeof *c->actors);
    if (c->nhosts > 0)
        ranks_sum_up(t, &c->hosts[0].load, HOST_NUMBERS, c->nhosts, sizeof *c->hosts);
    uint64_t unknown = c->unknown;
    MPI_Reduce(&unknown, &c->unknown, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    int rc = ranks_gather_transfers(t) != 0 || ranks_gather_keys(t) != 0 || ranks_gather_readers(t) != 0;
    stats_phase(MT_RANK_WRITE);
    t->team.comm = rc ? NULL : c;
    return rc ? -1 : 0;
}

/* ---- table of functions ---- */

static const struct mt_team_kind ranks_kind = {.fed = {.needs = MT_NEEDS_ALL,
                                                       .launch = ranks_launch,
                                                       .records = ranks_records,
                                                       .runs = ranks_runs,
                                                       .copy = ranks_copy,
                                                       .host = ranks_host,
                                                       .finish = ranks_finish,
                                                       .free = ranks_free},
                                               .count = ranks_count,
                                               .why = ranks_why};

static struct mt_team *ranks_team(const struct mt_comm_options *options)
{
    struct mt_ranks *t = calloc(1, sizeof *t);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!t || exchange_init(&t->exchange, (unsigned)rank, (unsigned)size) != 0 ||
        mt_comm_init(&t->comm, options) != 0) {
        if (t)
            ranks_free(t);
        return NULL;
    }
    t->rank = (unsigned)rank;
    t->size = (unsigned)size;
    mt_comm_shard(&t->comm, t->rank, t->size);
    t->team.kind = &ranks_kind;
    return &t->team;
}

const struct mt_session mt_ranks_session = {
    .begin = ranks_begin,
    .end = ranks_end,
    .reports = ranks_reports,
    .members = ranks_members,
    .agree = ranks_agree,
    .split = ranks_split,
    .unsplit = ranks_unsplit,
    .team = ranks_team,
    .by_parts = ranks_by_parts,
    .join = ranks_join,
    .unjoin = ranks_unjoin,
    .apart = ranks_apart,
    .any = ranks_any,
    .span = ranks_span,
    .again = ranks_again,
    .stopped = ranks_stopped,
    .share = ranks_share,
    .fold = ranks_fold,
    .stats = stats_print,
};
