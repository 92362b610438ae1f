/* The shared memory of a communicator: who is there, and a ring of bytes from each rank to each. It is an
 * unnamed file, so that nothing is left of it when its processes have ended, however they end. */
#define _GNU_SOURCE
#include "library.h"
#include "nccl.h"
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DATA = 64 << 20, MOST = 256 << 10 /* of a ring */, PATIENCE_S = 10 };
#define MAGIC 0x6c63636e65636d74u

struct slot {
    _Atomic int32_t pid;          /* 0: not there yet */
    _Atomic int32_t gone;         /* it will do nothing more */
    _Atomic uint32_t bell, waits; /* bell: it is rung when something of this rank's has moved */
    _Atomic uint32_t splits[2];   /* so many, odd and even ones: of `split` */
    struct mt_nccl_split split[2];
};

struct ring {
    _Atomic uint64_t written, read;
    char apart[48];
};

struct mt_nccl_segment {
    uint64_t magic;
    _Atomic int32_t n; /* ranks; 0: nobody is there */
    struct slot slots[MT_NCCL_RANKS];
    struct ring rings[MT_NCCL_RANKS][MT_NCCL_RANKS]; /* from, to */
    char data[DATA];
};

/* What is in an id, behind the handle of the memory. */
static uint64_t *ring_number(const mt_nccl_id *id)
{
    return (uint64_t *)(id->bytes + MT_LIBRARY_HANDLE);
}

int mt_nccl_segment_new(mt_nccl_id *id)
{
    uint64_t number = 0;
    memset(id, 0, sizeof *id);
    while (!number)
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number && errno != EINTR)
            return mt_nccl_fail(MT_NCCL_SYSTEM, "no random number for an id: %s", strerror(errno));
    if (__mt_library_share(sizeof(struct mt_nccl_segment), id->bytes))
        return mt_nccl_fail(MT_NCCL_SYSTEM, "no shared memory for a communicator: %s", strerror(errno));
    memcpy(ring_number(id), &number, sizeof number);
    return MT_NCCL_OK;
}

/* ---- bells */

static void ring_bell(struct slot *s)
{
    atomic_fetch_add(&s->bell, 1);
    if (atomic_load(&s->waits))
        syscall(SYS_futex, &s->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void ring_bell_all(struct mt_nccl_segment *g)
{
    for (int r = 0; r < g->n && r < MT_NCCL_RANKS; r++)
        ring_bell(&g->slots[r]);
}

/* Until the bell is not `heard` any more, a second at most. */
static void ring_wait(struct slot *s, uint32_t heard)
{
    const struct timespec second = {1, 0};
    atomic_fetch_add(&s->waits, 1);
    syscall(SYS_futex, &s->bell, FUTEX_WAIT, heard, &second, NULL, 0);
    atomic_fetch_sub(&s->waits, 1);
}

void mt_nccl_wake(struct mt_nccl_comm *c)
{
    ring_bell(&c->segment->slots[c->rank]);
}

void mt_nccl_leave(struct mt_nccl_comm *c, enum mt_nccl_gone how)
{
    c->segment->slots[c->rank].gone = (int32_t)how;
    ring_bell_all(c->segment);
}

/* ---- others */

/* 1: the process is there, and no zombie. */
static int ring_lives(int pid)
{
    char path[64], text[512], *p;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    p = strrchr(text, ')');
    return p && p[1] && p[2] != 'Z' && p[2] != 'X';
}

/* Of a wait: says once, after a while, for whom; finds that they will not come. */
struct patience {
    struct mt_nccl_comm *c;
    const char *name;
    time_t since;
};

static time_t ring_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static void ring_say(struct patience *w, const char *missing)
{
    char list[256];
    int at = 0, n = 0;
    for (int r = 0; r < w->c->n && at < (int)sizeof list - 32; r++)
        if (missing[r])
            at += snprintf(list + at, sizeof list - (size_t)at, "%s%d", n++ ? ", " : "", r);
    list[at] = '\0';
    mt_lib_say(
        "%s: rank %d of %d waits for rank%s %s, which did not come in %d s (said once); it waits on, until "
        "ncclCommAbort",
        w->name, w->c->rank, w->c->n, n == 1 ? "" : "s", list, PATIENCE_S);
    w->c->said = 1;
}

/* NULL: it may still come. */
static const char *ring_gone(const struct slot *s, int late)
{
    return s->gone == MT_NCCL_ABORTED     ? "has given up"
           : s->gone == MT_NCCL_DESTROYED ? "has destroyed its communicator"
           : late && !ring_lives(s->pid)  ? "has ended"
                                          : NULL;
}

/* Nothing has moved since `heard`; for whom: missing[rank]. A status: there is nothing to wait for. */
static int ring_rest(struct patience *w, uint32_t heard, const char *missing)
{
    struct slot *slots = w->c->segment->slots, *mine = &slots[w->c->rank];
    ring_wait(mine, heard);
    if (w->c->aborted)
        return MT_NCCL_USAGE;
    for (int r = 0; r < w->c->n; r++) {
        int waits = missing[r] && slots[r].pid && &slots[r] != mine;
        const char *why = waits ? ring_gone(&slots[r], mine->bell == heard) : NULL;
        if (why && mine->bell != heard)
            return MT_NCCL_OK; /* it has left something */
        if (why)
            return mt_nccl_fail(MT_NCCL_REMOTE, "%s: rank %d of %d gets no result: rank %d %s", w->name,
                                w->c->rank, w->c->n, r, why);
    }
    if (!w->c->said && ring_now() - w->since >= PATIENCE_S)
        ring_say(w, missing);
    return MT_NCCL_OK;
}

/* ---- moving bytes */

static size_t ring_room(int n)
{
    size_t room = MOST;
    while (room * (size_t)n * (size_t)n > DATA)
        room /= 2;
    return room;
}

/* Some of an item, as much as goes. */
static size_t ring_move(struct mt_nccl_comm *c, struct mt_nccl_item *m)
{
    struct mt_nccl_segment *g = c->segment;
    int from = m->out ? c->rank : m->peer, to = m->out ? m->peer : c->rank;
    struct ring *r = &g->rings[from][to];
    size_t room = ring_room(c->n), moved = 0;
    char *data = g->data + room * (size_t)(from * c->n + to);
    uint64_t written = r->written, read = r->read;
    while (m->done < m->bytes) {
        uint64_t at = m->out ? written : read;
        size_t left = m->out ? room - (size_t)(written - read) : (size_t)(written - read), in = at % room;
        left = left < room - in ? left : room - in;
        left = left < m->bytes - m->done ? left : m->bytes - m->done;
        if (!left || left > room)
            break;
        if (m->out)
            memcpy(data + in, m->p + m->done, left);
        else
            memcpy(m->p + m->done, data + in, left);
        *(m->out ? &written : &read) += left;
        m->done += left;
        moved += left;
    }
    if (!moved)
        return 0;
    if (m->out)
        r->written = written;
    else
        r->read = read;
    ring_bell(&g->slots[m->peer]);
    return moved;
}

/* All that can move does. A status; *moved: something did; *left: items that are not done; missing: of whom.
 */
static int ring_pass(struct mt_nccl_comm *c, const char *name, struct mt_nccl_item *items, size_t n,
                     int *moved, size_t *left, char *missing)
{
    char busy[2][MT_NCCL_RANKS] = {{0}};
    memset(missing, 0, MT_NCCL_RANKS);
    *left = 0;
    for (size_t i = 0; i < n; i++) {
        struct mt_nccl_item *m = &items[i];
        if (m->done == m->bytes || busy[m->out][m->peer]) {
            *left += m->done != m->bytes;
            continue;
        }
        *moved |= ring_move(c, m) != 0;
        if (m->done != m->bytes) {
            missing[m->peer] = busy[m->out][m->peer] = 1;
            ++*left;
            continue;
        }
        if (m->same && memcmp(m->same, m->p, m->bytes) != 0)
            return mt_nccl_fail(MT_NCCL_USAGE,
                                "%s: rank %d of %d calls it, and rank %d calls another function, or with "
                                "another count, type, operation or root",
                                name, c->rank, c->n, m->peer);
    }
    return MT_NCCL_OK;
}

int mt_nccl_exchange(struct mt_nccl_comm *c, const char *name, struct mt_nccl_item *items, size_t n)
{
    struct patience w = {c, name, ring_now()};
    struct slot *mine = &c->segment->slots[c->rank];
    char missing[MT_NCCL_RANKS];
    for (;;) {
        uint32_t heard = mine->bell;
        int moved = 0, status;
        size_t left;
        if (c->aborted)
            return MT_NCCL_USAGE;
        if ((status = ring_pass(c, name, items, n, &moved, &left, missing)) || !left)
            return status;
        if (moved)
            w.since = ring_now();
        else if ((status = ring_rest(&w, heard, missing)))
            return status;
    }
}

/* ---- being there */

/* Bytes of the file that are touched are its pages: the mapping's size costs nothing. */
int mt_nccl_attach(struct mt_nccl_comm *c, const mt_nccl_id *id)
{
    int none = 0, alone = 0;
    c->segment = __mt_library_map(id->bytes);
    if (!c->segment)
        return mt_nccl_fail(
            MT_NCCL_ARGUMENT,
            "ncclCommInitRank: the id is none, or the process that made it has ended, or is another "
            "user's or on another machine");
    memcpy(&c->id, ring_number(id), sizeof c->id);
    c->handle = *id;
    if (!atomic_compare_exchange_strong(&c->segment->n, &none, c->n) && none != c->n)
        return mt_nccl_fail(MT_NCCL_USAGE,
                            "ncclCommInitRank: %d ranks, but another rank of the id has said %d", c->n, none);
    if (!atomic_compare_exchange_strong(&c->segment->slots[c->rank].pid, &alone, getpid()))
        return mt_nccl_fail(MT_NCCL_USAGE, "ncclCommInitRank: rank %d of %d is there already", c->rank, c->n);
    ring_bell_all(c->segment);
    return MT_NCCL_OK;
}

int mt_nccl_wait_all(struct mt_nccl_comm *c)
{
    struct patience w = {c, "ncclCommInitRank", ring_now()};
    struct slot *slots = c->segment->slots;
    char missing[MT_NCCL_RANKS] = {0};
    for (;;) {
        uint32_t heard = slots[c->rank].bell;
        int left = 0, status;
        for (int r = 0; r < c->n; r++)
            left += missing[r] = !slots[r].pid;
        if (!left) {
            __mt_library_unshare(c->handle.bytes);
            return MT_NCCL_OK;
        }
        if ((status = ring_rest(&w, heard, missing)))
            return status;
    }
}

void mt_nccl_detach(struct mt_nccl_comm *c)
{
    if (c->segment)
        munmap(c->segment, sizeof *c->segment);
    c->segment = NULL;
}

/* ---- splits: each rank says what it has in one of two places by turns, so that those who are late find it
 */

void mt_nccl_split_say(struct mt_nccl_comm *c, const struct mt_nccl_split *mine)
{
    struct slot *s = &c->segment->slots[c->rank];
    uint32_t now = ++c->splits;
    s->split[now % 2] = *mine;
    s->splits[now % 2] = now;
    ring_bell_all(c->segment);
}

int mt_nccl_split_hear(struct mt_nccl_comm *c, struct mt_nccl_split all[MT_NCCL_RANKS])
{
    struct patience w = {c, "ncclCommSplit", ring_now()};
    struct slot *slots = c->segment->slots;
    char missing[MT_NCCL_RANKS] = {0};
    for (uint32_t now = c->splits;;) {
        uint32_t heard = slots[c->rank].bell;
        int left = 0, status;
        for (int r = 0; r < c->n; r++)
            left += missing[r] = slots[r].splits[now % 2] != now;
        for (int r = 0; !left && r < c->n; r++)
            all[r] = slots[r].split[now % 2];
        if (!left)
            return MT_NCCL_OK;
        if ((status = ring_rest(&w, heard, missing)))
            return status;
    }
}
