/* Raw traces read by parts: each rank reads every P-th part of a launch and sends its records to those who
 * own what they touch. What arrives is in the order of the trace, because the parts are. */
#define _GNU_SOURCE
#include "team_mpi.h"
#include "memtrace/trace.h"
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLICE = 1 << 16 /* records of a rank in a round */ };
/* In the type of a record on its way: it goes to several ranks, and its number is in the record that follows
 * it. */
#define SEVERAL (4u << 28)

struct announced {
    uint64_t cta, smid;
};

struct mt_split {
    const char *path; /* of fd */
    int fd;
    struct mt_raw_record *slice;
    uint64_t *sent;          /* by rank: number of the last record that went there and to others */
    struct mt_pairmap known; /* actors that this rank announced in the launch */
    struct announced *mine, *all;
    size_t nmine, mine_room, all_room;
    int *counts, *places;
};

void mt_split_free(struct mt_split *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    mt_pairmap_free(&s->known);
    free(s->slice);
    free(s->sent);
    free(s->mine);
    free(s->all);
    free(s->counts);
    free(s->places);
    free(s);
}

void mt_split_launch(struct mt_split *s)
{
    if (s)
        mt_pairmap_clear(&s->known);
}

static struct mt_split *split_new(unsigned ranks)
{
    struct mt_split *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->fd = -1;
    s->slice = malloc(SLICE * sizeof *s->slice);
    s->sent = calloc(ranks, sizeof *s->sent);
    s->counts = calloc(ranks, sizeof *s->counts);
    s->places = calloc(ranks, sizeof *s->places);
    if (s->slice && s->sent && s->counts && s->places)
        return s;
    mt_split_free(s);
    return NULL;
}

/* ---- one part ---- */

static int open_path(struct mt_split *s, const char *path)
{
    if (s->fd >= 0 && s->path == path)
        return 0;
    if (s->fd >= 0)
        close(s->fd);
    s->path = path;
    return (s->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 ? -1 : 0;
}

static int read_slice(struct mt_split *s, uint64_t offset, size_t n)
{
    for (size_t done = 0, bytes = n * sizeof *s->slice; done < bytes;) {
        ssize_t got = pread(s->fd, (char *)s->slice + done, bytes - done, (off_t)(offset + done));
        if (got == 0 || (got < 0 && errno != EINTR))
            return -1;
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* The actor of this record is new to the launch, as far as this rank knows. 0, or -1. */
static int announce(struct mt_split *s, const struct mt_raw_record *r)
{
    uint64_t *known = mt_pairmap_get(&s->known, r->w[2], r->w[0] >> 32, 0);
    if (!known)
        return -1;
    if (*known)
        return 0;
    *known = 1;
    if (s->nmine == s->mine_room) {
        size_t room = 2 * s->mine_room + 256;
        struct announced *more = realloc(s->mine, room * sizeof *more);
        if (!more)
            return -1;
        s->mine = more;
        s->mine_room = room;
    }
    s->mine[s->nmine++] = (struct announced){r->w[2], r->w[0] >> 32};
    return 0;
}

/* To every owner of a part of the access, with its number. */
static int send_several(struct mt_team *t, struct mt_raw_record r, uint64_t number)
{
    const struct mt_raw_record tail = {{number, 0, 0}};
    uint64_t region = r.w[1] >> MT_REGION_BITS, n = mt_rec_size(&r);
    uint64_t left = ((r.w[1] & ((1u << MT_REGION_BITS) - 1)) + n - 1) >> MT_REGION_BITS;
    r.w[0] |= SEVERAL;
    for (uint64_t i = 0; i <= left; i++) {
        unsigned to = mt_comm_owner((region + i) << MT_REGION_BITS, t->size);
        if (t->split->sent[to] == number)
            continue;
        t->split->sent[to] = number;
        if (mt_exchange_add(&t->exchange, to, &r, sizeof r) != 0 ||
            mt_exchange_add(&t->exchange, to, &tail, sizeof tail) != 0)
            return -1;
    }
    return 0;
}

/* 0; 1: there is a record that cannot be; -1: no memory. Numbers are from `number` + 1 on. */
static int route(struct mt_team *t, size_t n, uint64_t number)
{
    struct mt_split *s = t->split;
    const struct mt_raw_record *last = NULL;
    s->nmine = 0;
    for (size_t i = 0; i < n; i++) {
        const struct mt_raw_record *r = &s->slice[i];
        uint32_t meta = (uint32_t)r->w[0], size = meta & MT_RAW_MAX_SIZE;
        if (meta >= 4u << 28 || size == 0)
            return 1;
        if ((!last || last->w[2] != r->w[2] || (last->w[0] ^ r->w[0]) >> 32) && announce(s, r) != 0)
            return -1;
        last = r;
        int rc = r->w[1] >> MT_REGION_BITS == (r->w[1] + size - 1) >> MT_REGION_BITS
                     ? mt_exchange_add(&t->exchange, mt_comm_owner(r->w[1], t->size), r, sizeof *r)
                     : send_several(t, *r, number + i + 1);
        if (rc != 0)
            return -1;
    }
    return 0;
}

/* ---- together ---- */

/* Everybody learns of all actors, in order. `bad`: this rank's part is damaged. 0; 1: some part is; -1: no
 * memory. */
static int meet_all(struct mt_team *t, int bad)
{
    struct mt_split *s = t->split;
    int mine = bad ? -1 : (int)s->nmine, total = 0;
    MPI_Allgather(&mine, 1, MPI_INT, s->counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (unsigned i = 0; i < t->size; i++) {
        if (s->counts[i] < 0)
            return 1;
        s->places[i] = 2 * total;
        total += s->counts[i];
        s->counts[i] *= 2;
    }
    if (total == 0)
        return 0;
    if ((size_t)total > s->all_room) {
        free(s->all);
        s->all_room = (size_t)total * 2;
        if (!(s->all = malloc(s->all_room * sizeof *s->all)))
            return -1;
    }
    MPI_Allgatherv(s->mine, 2 * mine, MPI_UINT64_T, s->all, s->counts, s->places, MPI_UINT64_T,
                   MPI_COMM_WORLD);
    for (int i = 0; i < total; i++)
        if (mt_comm_meet(&t->comm, s->all[i].cta, (uint32_t)s->all[i].smid) != 0)
            return -1;
    return 0;
}

/* What came in, in order; numbers from `number` + 1 on. */
static int take_in(struct mt_team *t, uint64_t number)
{
    struct mt_comm *c = &t->comm;
    struct mt_raw_record *r = (struct mt_raw_record *)(void *)t->exchange.in;
    size_t n = t->exchange.received / sizeof *r, plain = 0;
    for (size_t i = 0; i < n; i++) {
        if (!((uint32_t)r[i].w[0] & SEVERAL))
            continue;
        c->records = number + plain;
        if (mt_comm_records(c, r + plain, i - plain) != 0)
            return -1;
        r[i].w[0] &= ~(uint64_t)SEVERAL;
        c->records = r[i + 1].w[0] - 1;
        if (mt_comm_records(c, &r[i], 1) != 0)
            return -1;
        plain = i + 2;
        i++;
    }
    c->records = number + plain;
    return plain < n ? mt_comm_records(c, r + plain, n - plain) : 0;
}

static int one_round(struct mt_team *t, uint64_t offset, uint64_t n)
{
    uint64_t from = n * t->rank / t->size, end = n * (t->rank + 1) / t->size, number = t->comm.records;
    int bad = read_slice(t->split, offset + from * MT_RAW_RECORD_SIZE, (size_t)(end - from)) != 0;
    if (!bad) {
        bad = route(t, (size_t)(end - from), number + from);
        if (bad < 0)
            return mt_team_fail(t, "out of memory");
    }
    int rc = meet_all(t, bad);
    if (rc > 0) {
        t->again = 1;
        return mt_team_fail(t, "a part of the trace is damaged");
    }
    if (rc < 0 || mt_exchange_all(&t->exchange) != 0)
        return mt_team_fail(t, "out of memory");
    rc = take_in(t, number);
    t->comm.records = number + n;
    return mt_team_now_and_then(t, rc);
}

int mt_team_places(struct mt_team *t, const char *path, uint64_t offset, uint64_t count)
{
    if (!t->split && !(t->split = split_new(t->size)))
        return mt_team_fail(t, "out of memory");
    if (open_path(t->split, path) != 0)
        return mt_team_fail(t, "an input cannot be opened again");
    for (uint64_t done = 0, n; done < count; done += n) {
        n = count - done < (uint64_t)t->size * SLICE ? count - done : (uint64_t)t->size * SLICE;
        if (one_round(t, offset + done * MT_RAW_RECORD_SIZE, n) != 0)
            return -1;
    }
    return 0;
}

int mt_team_again(const struct mt_team *t)
{
    return t->again;
}

/* ---- the launches ---- */

/* Of one trace; 0, or -1 when it cannot be read by parts. */
static int split_one(const char *path, struct mt_launch_ends *out)
{
    struct stat st;
    struct mt_error err;
    uint64_t *part = NULL, *all = NULL;
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
    MPI_Allreduce(&ok, &every, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!every)
        goto out;
    int mine = (int)n;
    MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        counts[size + i] = (int)total;
        total += (size_t)counts[i];
    }
    all = malloc((total + 1) * sizeof *all);
    ok = all && total < 1u << 30;
    MPI_Allreduce(&ok, &every, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!every)
        goto out;
    MPI_Allgatherv(part, mine, MPI_UINT64_T, all, counts, counts + size, MPI_UINT64_T, MPI_COMM_WORLD);
    ok = mt_raw_ends_fit(path, least, all, total, (size_t)rank, (size_t)size);
    MPI_Allreduce(&ok, &every, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (every) {
        *out = (struct mt_launch_ends){all, total};
        all = NULL;
    }
out:
    free(all);
    free(part);
    free(counts);
    return every ? 0 : -1;
}

struct mt_launch_ends *mt_team_split(const char *const *paths, size_t npaths)
{
    struct mt_launch_ends *ends = mt_team_members() > 1 ? calloc(npaths + 1, sizeof *ends) : NULL;
    int ok = ends != NULL, every;
    MPI_Allreduce(&ok, &every, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    for (size_t i = 0; every && i < npaths; i++)
        every = split_one(paths[i], &ends[i]) == 0;
    if (every)
        return ends;
    mt_team_unsplit(ends, npaths);
    return NULL;
}

void mt_team_unsplit(struct mt_launch_ends *ends, size_t npaths)
{
    for (size_t i = 0; ends && i < npaths; i++)
        free((void *)ends[i].ends);
    free(ends);
}
