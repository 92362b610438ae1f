/* Several processes of one job as one run. Times order the events of different processes: CLOCK_MONOTONIC is
 * common to a machine, and the clocks of several machines are put in order by what their ranks exchanged. */
#define _GNU_SOURCE
#include "reader/base/processes.h"
#include "memtrace/device.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"

enum {
    OPENED = 1024,
    STREAMS = 1000
}; /* maximum number of opened allocations of a process; distance between
    * stream numbers of processes */

/* ---- machines ---- */

enum { MOST_NS_BITS = 58 }; /* of times that are compared between machines: nine years */
#define MOST_NS ((int64_t)1 << MOST_NS_BITS)

static int64_t process_wall(const struct mt_companion *c)
{
    uint64_t wall = c->wall_ms * 1000000;
    return c->wall_ms < INT64_MAX / 2000000 && c->start_ns < (uint64_t)MOST_NS ? (int64_t)(wall - c->start_ns)
                                                                               : 0;
}

/* Lists the machines of the processes, which are sorted by rank. */
static void machines_list(struct mt_source_merge *m)
{
    for (size_t i = 0; i < m->nprocesses; i++) {
        struct mt_process *p = &m->processes[i];
        while (p->host < m->nmachines && strcmp(m->machines[p->host].name, p->machine) != 0)
            p->host++;
        if (p->host == m->nmachines)
            m->machines[m->nmachines++] = (struct mt_job_host){.name = p->machine, .wall = p->wall};
    }
}

/* ---- clocks ----
 * A call of NCCL cannot end before the ranks that it has data of have begun it: each pair of calls that
 * belong together bounds the difference between the clocks of two machines. */

/* A rank's call. Those of one communicator, or of one sender and receiver, are matched by their number. */
struct exchange {
    const struct mt_collective *call;
    uint64_t comm, from, to; /* from, to: of a message; of collectives both UINT64_MAX */
    uint64_t role;           /* rank, or of a message 0 for the sender, 1 for the receiver */
    uint64_t begin, end, process, seq, number;
    size_t host;
};

MT_ORDER_FUNCTION(exchange_by_end, struct exchange,
                  MT_ORDER_DIFFER(x, y, comm) MT_ORDER_DIFFER(x, y, from) MT_ORDER_DIFFER(x, y, to)
                      MT_ORDER_DIFFER(x, y, role) MT_ORDER_DIFFER(x, y, end) MT_ORDER_DIFFER(x, y, process)
                          MT_ORDER_DIFFER(x, y, seq))
MT_ORDER_FUNCTION(exchange_by_number, struct exchange,
                  MT_ORDER_DIFFER(x, y, comm) MT_ORDER_DIFFER(x, y, from) MT_ORDER_DIFFER(x, y, to)
                      MT_ORDER_DIFFER(x, y, number) MT_ORDER_DIFFER(x, y, role))

#define UNBOUNDED ((int64_t)1 << 62)

struct clocks {
    struct exchange *list;
    size_t n, room;
    size_t used, odd; /* matched between machines; of which something differs from rank to rank */
    size_t hosts;
    int64_t *most;          /* [a * hosts + b]: upper bound of shift of a minus shift of b */
    int64_t *sent, *heard;  /* of the exchange under way, by machine: last begin, first end */
    int64_t apart, unknown; /* widest choice left for a shift; 1: some machine had no bounds */
    int failed;
};

static void clocks_take(struct clocks *k, const struct mt_companion *c, uint64_t process, size_t host)
{
    for (size_t i = 0; i < c->nlaunches && !k->failed; i++) {
        const struct mt_launch_event *e = &c->launches[i];
        const struct mt_collective *call = e->collective;
        int sends = call && strcmp(call->op, "send") == 0, message = sends || (call && call->peer >= 0);
        if (!call || e->status || (e->traced && !e->records) || e->end_ns < e->begin_ns ||
            e->end_ns >= (uint64_t)MOST_NS)
            continue; /* without records: given up */
        if ((k->failed = mt_grow(&k->list, &k->room, k->n + 1, sizeof *k->list) != 0))
            return;
        uint64_t peer = (uint64_t)call->peer, none = UINT64_MAX;
        k->list[k->n++] = (struct exchange){.call = call,
                                            .comm = call->comm,
                                            .from = !message ? none
                                                    : sends  ? call->rank
                                                             : peer,
                                            .to = !message ? none
                                                  : sends  ? peer
                                                           : call->rank,
                                            .role = message ? !sends : call->rank,
                                            .begin = e->begin_ns,
                                            .end = e->end_ns,
                                            .process = process,
                                            .seq = e->seq,
                                            .host = host};
    }
}

/* Numbers the calls of each rank of a communicator, which end in their order. */
static void clocks_number(struct clocks *k)
{
    uint64_t number = 0;
    k->n = mt_order_once(k->list, k->n, sizeof *k->list, exchange_by_end);
    for (size_t i = 0; i < k->n; i++) {
        const struct exchange *x = &k->list[i], *y = i ? x - 1 : x;
        int next = i && x->comm == y->comm && x->from == y->from && x->to == y->to && x->role == y->role;
        k->list[i].number = number = next ? number + 1 : 0;
    }
    if (k->n)
        qsort(k->list, k->n, sizeof *k->list, exchange_by_number);
}

/* Returns 1 if the others' data comes from this call (way 0), or if it ends with data of others (way 1). */
static int exchange_is(const struct exchange *x, int way)
{
    static const char *const rooted[2][2] = {{"broadcast", "scatter"}, {"reduce", "gather"}};
    int root = x->call->root >= 0 && (uint64_t)x->call->root == x->call->rank;
    if (x->from != UINT64_MAX)
        return x->role == (uint64_t)way;
    for (int form = 0; form < 2; form++)
        if (strcmp(x->call->op, rooted[form][0]) == 0 || strcmp(x->call->op, rooted[form][1]) == 0)
            return way == form ? root : !root;
    return 1;
}

/* Returns 1 if the ranks of an exchange, whose `n` calls are given, differ in what they call. */
static int exchange_is_odd(const struct exchange *x, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (x[i].from == UINT64_MAX &&
            (strcmp(x[i].call->op, x->call->op) != 0 || x[i].call->root != x->call->root))
            return 1;
    return 0;
}

/* Takes the bounds of one exchange, whose `n` calls are given. */
static void clocks_bound(struct clocks *k, const struct exchange *x, size_t n)
{
    if (exchange_is_odd(x, n)) {
        k->odd++;
        return;
    }
    for (size_t h = 0; h < k->hosts; h++)
        k->sent[h] = -1, k->heard[h] = UNBOUNDED;
    for (size_t i = 0; i < n; i++) {
        int64_t begin = (int64_t)x[i].begin, end = (int64_t)x[i].end, *sent = &k->sent[x[i].host],
                *heard = &k->heard[x[i].host];
        *sent = exchange_is(&x[i], 0) && begin > *sent ? begin : *sent;
        *heard = exchange_is(&x[i], 1) && end < *heard ? end : *heard;
    }
    int used = 0;
    for (size_t a = 0; a < k->hosts; a++)
        for (size_t b = 0; b < k->hosts && k->sent[a] >= 0; b++) {
            int64_t *most = &k->most[a * k->hosts + b];
            if (a == b || k->heard[b] == UNBOUNDED)
                continue;
            *most = k->heard[b] - k->sent[a] < *most ? k->heard[b] - k->sent[a] : *most;
            used = 1;
        }
    k->used += (size_t)used;
}

/* Returns the end of the exchange that begins at call i. */
static size_t exchange_end(const struct clocks *k, size_t i)
{
    const struct exchange *x = &k->list[i], *y = x + 1;
    while (y < k->list + k->n && x->comm == y->comm && x->from == y->from && x->to == y->to &&
           x->number == y->number)
        y++;
    return (size_t)(y - k->list);
}

static void clocks_bound_all(struct clocks *k)
{
    for (size_t i = 0, end; i < k->n; i = end) {
        end = exchange_end(k, i);
        clocks_bound(k, &k->list[i], end - i);
    }
}

/* Makes the bounds those that follow from all of them (shortest paths). Returns 0 if they contradict. */
static int clocks_close(const struct clocks *k, int64_t *most)
{
    size_t n = k->hosts;
    for (size_t via = 0; via < n; via++)
        for (size_t a = 0; a < n; a++)
            for (size_t b = 0; b < n && most[a * n + via] < UNBOUNDED; b++) {
                int64_t *one = &most[a * n + b], to = most[via * n + b];
                int64_t sum = to < UNBOUNDED ? most[a * n + via] + to : UNBOUNDED;
                sum = sum < -UNBOUNDED ? -UNBOUNDED : sum;
                *one = sum < *one ? sum : *one;
                if (a == b && *one < 0)
                    return 0;
            }
    return 1;
}

/* Closes the bounds. Clocks that run at different rates make them contradict: then all are widened. Returns
 * by how many ns, or -1 without memory. */
static int64_t clocks_agree(struct clocks *k)
{
    size_t bytes = k->hosts * k->hosts * sizeof *k->most;
    int64_t *most = malloc(bytes), wider = 0;
    for (int ok = 0; most && !ok; wider = wider ? 4 * wider : 1024) {
        memcpy(most, k->most, bytes);
        for (size_t i = 0; i < k->hosts * k->hosts; i++)
            most[i] += most[i] < UNBOUNDED && i / k->hosts != i % k->hosts ? wider : 0;
        if ((ok = clocks_close(k, most)))
            break;
    }
    if (!most)
        return -1;
    free(k->most);
    k->most = most;
    return wider;
}

/* Chooses the shifts, one machine after the other: the middle of what the bounds leave; the real time where
 * they leave all. */
static void clocks_choose(struct clocks *k, struct mt_job_host *hosts)
{
    for (size_t a = 1; a < k->hosts; a++) {
        int64_t wall = hosts[a].wall && hosts->wall ? hosts[a].wall - hosts->wall : 0, low = -UNBOUNDED,
                high = UNBOUNDED;
        for (size_t b = 0; b < a; b++) {
            int64_t up = k->most[a * k->hosts + b], down = k->most[b * k->hosts + a];
            high = up < UNBOUNDED && hosts[b].shift + up < high ? hosts[b].shift + up : high;
            low = down < UNBOUNDED && hosts[b].shift - down > low ? hosts[b].shift - down : low;
        }
        int both = low > -UNBOUNDED && high < UNBOUNDED;
        int64_t shift = both ? low + (high - low) / 2 : wall < low ? low : wall > high ? high : wall;
        hosts[a].shift = shift > 4 * MOST_NS ? 4 * MOST_NS : shift < -4 * MOST_NS ? -4 * MOST_NS : shift;
        k->apart = both && (high - low + 1) / 2 > k->apart ? (high - low + 1) / 2 : k->apart;
        k->unknown |= !both;
    }
}

/* ---- clocks of different rates: no constant shifts fit. Then times of a machine are put off from a call on
 * that would end before another machine has begun it. */

static int64_t clock_more(const struct mt_job_host *h, int64_t at)
{
    size_t after = MT_FIRST(i, h->nsteps, h->steps[i].at > at);
    return after ? h->steps[after - 1].more : 0;
}

/* Returns a time of the machine by the first machine's clock; 0 stays 0. */
static uint64_t clock_time(const struct mt_job_host *h, uint64_t ns)
{
    if (!ns || ns >= (uint64_t)UNBOUNDED)
        return ns;
    int64_t t = (int64_t)ns + h->shift;
    t += clock_more(h, t);
    return t > 0 ? (uint64_t)t : 1;
}

/* Puts times from the given one on off, by `more` at least. Returns 0, or -1 without memory. */
static int clock_put_off(struct mt_job_host *h, uint64_t ns, int64_t more)
{
    int64_t at = (int64_t)ns + h->shift;
    if (mt_grow(&h->steps, &h->step_room, h->nsteps + 1, sizeof *h->steps) != 0)
        return -1;
    more += clock_more(h, at);
    size_t first = MT_FIRST(i, h->nsteps, h->steps[i].at >= at), rest = first;
    while (rest < h->nsteps && h->steps[rest].more <= more)
        rest++;
    memmove(&h->steps[first + 1], &h->steps[rest], (h->nsteps - rest) * sizeof *h->steps);
    h->steps[first] = (struct mt_clock_step){at, more};
    h->nsteps = first + 1 + h->nsteps - rest;
    return 0;
}

/* Makes one exchange end where it has begun everywhere. Returns 1 if times changed, -1 without memory. */
static int clocks_order(struct mt_job_host *hosts, const struct exchange *x, size_t n)
{
    uint64_t begun = 0;
    int changed = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t begin = exchange_is(&x[i], 0) ? clock_time(&hosts[x[i].host], x[i].begin) : 0;
        begun = begin > begun ? begin : begun;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t end = clock_time(&hosts[x[i].host], x[i].end);
        if (!exchange_is(&x[i], 1) || end >= begun)
            continue;
        if (clock_put_off(&hosts[x[i].host], x[i].end, (int64_t)(begun - end)) != 0)
            return -1;
        changed = 1;
    }
    return changed;
}

struct exchanged {
    uint64_t begun;
    size_t first, n;
};
MT_ORDER_2(exchanged_order, struct exchanged, begun, first)

/* Puts all exchanges in order, by time; what is put off can put off others. Returns 0, or -1 without memory.
 */
static int clocks_order_all(const struct clocks *k, struct mt_job_host *hosts)
{
    enum { PASSES = 32 };
    struct exchanged *list = malloc((k->n + 1) * sizeof *list);
    size_t n = 0;
    int changed = list ? 1 : -1;
    for (size_t i = 0, end; list && i < k->n; i = end) {
        struct exchanged x = {0, i, (end = exchange_end(k, i)) - i};
        for (size_t c = i; c < end; c++) {
            uint64_t begin = clock_time(&hosts[k->list[c].host], k->list[c].begin);
            x.begun = begin > x.begun ? begin : x.begun;
        }
        if (!exchange_is_odd(&k->list[i], x.n))
            list[n++] = x;
    }
    if (n)
        qsort(list, n, sizeof *list, exchanged_order);
    for (int pass = 0; changed > 0 && pass < PASSES; pass++) {
        changed = 0;
        for (size_t i = 0; changed >= 0 && i < n; i++) {
            int c = clocks_order(hosts, &k->list[list[i].first], list[i].n);
            changed = c < 0 ? c : changed | c;
        }
    }
    free(list);
    return changed < 0 ? -1 : 0;
}

static void clocks_say(struct mt_source_merge *m, const struct clocks *k, int64_t wider)
{
    char within[64], twice[128] = "";
    snprintf(within, sizeof within, "%.3f ms", (double)k->apart / 1e6);
    if (wider)
        snprintf(twice, sizeof twice,
                 "; the clocks run at different rates, up to %.3f ms apart: times are put off where needed",
                 (double)wider / 1e6);
    if (!k->used)
        mt_merge_note(m, 0,
                      "the %zu machines exchanged nothing that orders their clocks: operations of different "
                      "machines are in the order of CLOCK_REALTIME",
                      k->hosts);
    else
        mt_merge_note(m, 0,
                      "clocks of %zu machines are put in order by %zu calls of NCCL between them: times of "
                      "different machines are known to within %s%s%s",
                      k->hosts, k->used, within,
                      k->unknown ? ", and by CLOCK_REALTIME where no calls go both ways" : "", twice);
    if (k->odd)
        mt_merge_note(m, 0, "%zu calls of NCCL differ from rank to rank: they order no clocks", k->odd);
}

static int clocks_read(struct mt_source_merge *m, struct clocks *k)
{
    size_t n = k->hosts * k->hosts;
    k->most = malloc(n * sizeof *k->most);
    k->sent = malloc(2 * k->hosts * sizeof *k->sent);
    if (!k->most || !k->sent)
        return -1;
    k->heard = k->sent + k->hosts;
    for (size_t i = 0; i < n; i++)
        k->most[i] = i / k->hosts == i % k->hosts ? 0 : UNBOUNDED;
    for (size_t i = 0; i < m->ninputs; i++)
        clocks_take(k, mt_input_companion(&m->inputs[i]), (uint64_t)(m->inputs[i].process - m->processes),
                    m->inputs[i].process->host);
    if (k->failed)
        return -1;
    clocks_number(k);
    clocks_bound_all(k);
    return 0;
}

/* Finds the shifts of all machines. Cost: events times machines, and the cube of the machines. */
static int clocks_align(struct mt_source_merge *m)
{
    struct clocks k = {.hosts = m->nmachines};
    int64_t wider = -1;
    if (k.hosts < 2)
        return 0;
    if (clocks_read(m, &k) == 0 && (wider = clocks_agree(&k)) >= 0) {
        clocks_choose(&k, m->machines);
        if (wider && clocks_order_all(&k, m->machines) != 0)
            wider = -1;
        clocks_say(m, &k, wider);
    }
    free(k.list);
    free(k.most);
    free(k.sent);
    return wider < 0 ? -1 : 0;
}

/* Makes all times of a companion those of the first machine's clock. */
static void clocks_shift(struct mt_companion *c, const struct mt_job_host *h)
{
    for (size_t i = 0; i < c->nlaunches; i++) {
        c->launches[i].begin_ns = clock_time(h, c->launches[i].begin_ns);
        c->launches[i].end_ns = clock_time(h, c->launches[i].end_ns);
    }
    for (size_t i = 0; i < c->ncopies; i++)
        c->copies[i].begin_ns = clock_time(h, c->copies[i].begin_ns);
    for (size_t i = 0; i < c->nallocs; i++) {
        c->allocs[i].ns = clock_time(h, c->allocs[i].ns);
        c->allocs[i].free_ns = clock_time(h, c->allocs[i].free_ns);
    }
    for (size_t i = 0; i < c->nranges; i++) {
        c->ranges[i].begin_ns = clock_time(h, c->ranges[i].begin_ns);
        c->ranges[i].end_ns = clock_time(h, c->ranges[i].end_ns);
    }
}

static void processes_shift(struct mt_source_merge *m)
{
    for (size_t i = 0; i < m->ninputs; i++) {
        struct mt_input *in = &m->inputs[i];
        const struct mt_job_host *h = &m->machines[in->process->host];
        if (in->companion)
            clocks_shift(in->companion, h);
        if (in->beside && in->beside != in->companion)
            clocks_shift(in->beside, h);
    }
}

/* ---- sequence numbers ---- */

/* An event of a process: its number there, and its start time; 0: not known. */
struct moment {
    uint64_t ns, process, seq;
};
MT_ORDER_2(moment_by_seq, struct moment, seq, ns)
MT_ORDER_3(moment_by_time, struct moment, ns, process, seq)

struct moments {
    struct moment *list;
    size_t n, room;
    uint64_t process;
    int failed;
};

static void moments_add(struct moments *t, uint64_t seq, uint64_t ns)
{
    if (seq >= MT_SEQ_PROGRAM || t->failed)
        return;
    t->failed = mt_grow(&t->list, &t->room, t->n + 1, sizeof *t->list) != 0;
    if (!t->failed)
        t->list[t->n++] = (struct moment){ns, t->process, seq};
}

static void moments_of(struct moments *t, const struct mt_companion *c)
{
    for (size_t i = 0; i < c->nlaunches; i++)
        moments_add(t, c->launches[i].seq, c->launches[i].begin_ns);
    for (size_t i = 0; i < c->ncopies; i++)
        moments_add(t, c->copies[i].seq, c->copies[i].begin_ns);
    for (size_t i = 0; i < c->nallocs; i++) {
        moments_add(t, c->allocs[i].seq, c->allocs[i].ns);
        moments_add(t, c->allocs[i].free_seq, c->allocs[i].free_ns);
    }
    for (size_t i = 0; i < c->nranges; i++) {
        moments_add(t, c->ranges[i].begin, c->ranges[i].begin_ns);
        moments_add(t, c->ranges[i].seq, c->ranges[i].end_ns);
    }
    for (size_t i = 0; i < c->nchecks; i++)
        moments_add(t, c->checks[i].seq, 0);
    for (size_t i = 0; i < c->nfailed; i++)
        moments_add(t, c->failed[i].seq, 0);
}

/* Sorts the events of a process, from `first` on, by number, each once, and makes times ascend. An event
 * without time gets the previous event's time. */
static void moments_settle(struct moments *t, size_t first, uint64_t start_ns)
{
    size_t kept = first;
    uint64_t now = start_ns;
    if (t->n > first)
        qsort(t->list + first, t->n - first, sizeof *t->list, moment_by_seq);
    for (size_t i = first; i < t->n; i++) {
        now = t->list[i].ns > now ? t->list[i].ns : now;
        t->list[i].ns = now;
        if (kept > first && t->list[kept - 1].seq == t->list[i].seq)
            t->list[kept - 1].ns = now;
        else
            t->list[kept++] = t->list[i];
    }
    t->n = kept;
}

uint64_t mt_process_seq(const struct mt_process *p, uint64_t seq)
{
    if (!p || seq >= MT_SEQ_PROGRAM)
        return seq;
    size_t n = MT_FIRST(i, p->n, p->was[i] > seq);
    return n ? p->is[n - 1] : 0;
}

/* ---- companion files ---- */

static uint64_t process_id(const struct mt_process *p, const uint64_t *ids, uint64_t id)
{
    return id == MT_SEQ_NONE ? id : id + ids[p->tag >> MT_PROCESS_BIT];
}

static int64_t process_device(const struct mt_process *p, int64_t device)
{
    return p->device >= 0 ? p->device : device >= 0 ? p->first + device : device;
}

/* Returns NULL if the address is in the process's own memory. */
static const struct mt_opened *process_opened(const struct mt_process *p, uint64_t address, uint64_t seq)
{
    for (size_t i = 0; i < p->nopened; i++) {
        const struct mt_opened *o = &p->opened[i];
        if (address >= o->from && address < o->to && seq >= o->first && seq < o->end)
            return o;
    }
    return NULL;
}

static uint64_t process_address(const struct mt_process *p, uint64_t address, uint64_t seq)
{
    const struct mt_opened *o = process_opened(p, address, seq);
    return o ? address + o->shift : address ? address | p->tag : 0;
}

/* Translates one side of a copy, and the device of its memory. */
static void process_side(const struct mt_process *p, uint64_t *address, int64_t *device, int of_device,
                         uint64_t seq)
{
    const struct mt_opened *o = process_opened(p, *address, seq);
    if (of_device)
        *device = o ? o->device : process_device(p, *device);
    *address = process_address(p, *address, seq);
}

static void process_copies(const struct mt_process *p, struct mt_companion *c)
{
    for (size_t i = 0; i < c->ncopies; i++) {
        struct mt_copy_event *e = &c->copies[i];
        int to = e->kind != MT_COPY_D2H && e->kind != MT_COPY_H2H,
            from = e->kind == MT_COPY_D2H || e->kind == MT_COPY_D2D;
        e->seq = mt_process_seq(p, e->seq);
        process_side(p, &e->dst, &e->dst_device, to, e->seq);
        process_side(p, &e->src, &e->src_device, from, e->seq);
        e->stream += e->stream >= 0 ? (int64_t)(p->tag >> MT_PROCESS_BIT) * STREAMS : 0;
        e->op += e->op ? p->tag : 0;
    }
}

static void process_launches(const struct mt_process *p, struct mt_companion *c)
{
    for (size_t i = 0; i < c->nlaunches; i++) {
        struct mt_launch_event *e = &c->launches[i];
        e->seq = mt_process_seq(p, e->seq);
        e->device = process_device(p, e->device);
        e->op += e->op ? p->tag : 0;
        if (e->stream < MT_SEQ_PROGRAM)
            e->stream += (p->tag >> MT_PROCESS_BIT) * STREAMS;
    }
    for (size_t i = 0; i < c->ncommunicators; i++)
        c->communicators[i].device = process_device(p, c->communicators[i].device);
    for (size_t i = 0; i < c->norders; i++) {
        struct mt_order_event *e = &c->orders[i];
        e->op += p->tag;
        e->stream += p->tag;
        for (size_t k = 0; k < e->nafter; k++)
            e->after[k].stream += p->tag;
        for (size_t k = 0; k < e->nbefore; k++)
            e->before[k].stream += p->tag;
    }
}

static void process_findings(const struct mt_process *p, struct mt_companion *c, const uint64_t *ids)
{
    for (size_t i = 0; i < c->nchecks; i++) {
        struct mt_check_event *e = &c->checks[i];
        e->seq = mt_process_seq(p, e->seq);
        e->launch = mt_process_seq(p, e->launch);
        e->address = process_address(p, e->address, e->seq);
        e->alloc = process_id(p, ids, e->alloc);
    }
    for (size_t i = 0; i < c->nfailed; i++) {
        struct mt_failed_event *e = &c->failed[i];
        e->seq = mt_process_seq(p, e->seq);
        e->launch = mt_process_seq(p, e->launch);
        e->freed = process_id(p, ids, e->freed);
    }
    for (size_t i = 0; i < c->nranges; i++) {
        c->ranges[i].seq = mt_process_seq(p, c->ranges[i].seq);
        c->ranges[i].begin = mt_process_seq(p, c->ranges[i].begin);
    }
}

/* Translates numbers and addresses; memory of another process gets its address there. */
static void process_allocs(const struct mt_process *p, struct mt_companion *c, const uint64_t *ids)
{
    for (size_t i = 0; i < c->nallocs; i++) {
        struct mt_alloc_event *a = &c->allocs[i];
        int of_host = strcmp(a->kind, "host") == 0 || strcmp(a->kind, "managed") == 0;
        a->seq = mt_process_seq(p, a->seq);
        a->free_seq = mt_process_seq(p, a->free_seq);
        a->id = process_id(p, ids, a->id);
        a->device = of_host ? a->device : process_device(p, a->device);
        if (strcmp(a->kind, "ipc") == 0)
            a->bytes = 0;
        a->base |= p->tag;
    }
    for (size_t i = 0; i < c->nshares; i++)
        c->shares[i].id = process_id(p, ids, c->shares[i].id);
    c->stream += (p->tag >> MT_PROCESS_BIT) * STREAMS;
    for (size_t i = 0; i < c->nstreams; i++)
        c->streams[i].stream += (p->tag >> MT_PROCESS_BIT) * STREAMS;
}

/* ---- memory of other processes ---- */

/* Allocation that is shared or opened by a handle; used before numbers are translated. */
struct handle {
    const char *text;
    uint64_t opened; /* sorts after the entries that share the handle */
    uint64_t base, bytes, first, end;
    int64_t device;
    size_t process, host;
};
MT_ORDER_1(by_id, struct mt_alloc_event, id)
MT_ORDER_FUNCTION(handle_order, struct handle,
                  MT_ORDER_DIFFER(x, y, host) MT_ORDER_TEXT(x->text, y->text) MT_ORDER_DIFFER(x, y, opened))

struct handles {
    struct handle *list;
    size_t n, room;
};

static int handles_of(struct handles *h, const struct mt_companion *c, size_t process, size_t host)
{
    for (size_t i = 0; i < c->nshares; i++) {
        const struct mt_share_event *s = &c->shares[i];
        const struct mt_alloc_event key = {.id = s->id},
                                    *a = c->nallocs ? bsearch(&key, c->allocs, c->nallocs, sizeof key, by_id)
                                                    : NULL;
        if (!a)
            continue;
        if (mt_grow(&h->list, &h->room, h->n + 1, sizeof *h->list) != 0)
            return -1;
        h->list[h->n++] = (struct handle){.text = s->handle,
                                          .opened = (uint64_t)s->opened,
                                          .base = a->base,
                                          .bytes = a->bytes,
                                          .first = a->seq,
                                          .end = a->free_seq,
                                          .device = a->device,
                                          .process = process,
                                          .host = host};
    }
    return 0;
}

/* Links opened memory to the process that owns it; numbers are still per process. */
static int handles_join(struct mt_source_merge *m, struct handles *h)
{
    const struct handle *owner = NULL;
    size_t lost = 0;
    if (h->n)
        qsort(h->list, h->n, sizeof *h->list, handle_order);
    for (size_t i = 0; i < h->n; i++) {
        const struct handle *x = &h->list[i];
        if (!x->opened)
            owner = x;
        if (!x->opened)
            continue;
        if (!owner || owner->host != x->host || strcmp(owner->text, x->text) != 0) {
            lost++;
            continue;
        }
        if (owner->process == x->process)
            continue;
        struct mt_process *p = &m->processes[x->process];
        if (p->nopened == OPENED) { /* each access is compared with all entries */
            mt_merge_note(
                m, 1, "process %llu: more than %d openings of others' memory, the rest is taken as its own",
                (unsigned long long)p->pid, OPENED);
            continue;
        }
        struct mt_opened *more = realloc(p->opened, (p->nopened + 1) * sizeof *more);
        if (!more)
            return -1;
        const struct mt_process *of = &m->processes[owner->process];
        p->opened = more;
        p->opened[p->nopened++] = (struct mt_opened){.from = x->base,
                                                     .to = x->base + (x->bytes ? x->bytes : owner->bytes),
                                                     .first = mt_process_seq(p, x->first),
                                                     .end = mt_process_seq(p, x->end),
                                                     .shift = (owner->base | of->tag) - x->base,
                                                     .device = process_device(of, owner->device)};
    }
    if (lost)
        mt_merge_note(
            m, 1,
            "memory of other processes was opened %zu times of which no trace here says that it was "
            "given away: it is taken as the opener's own",
            lost);
    return 0;
}

/* ---- joining ---- */

MT_ORDER_3(process_order, struct mt_process, rank, start_ns, pid)

static struct mt_process *process_of(const struct mt_source_merge *m, const struct mt_companion *c)
{
    for (size_t k = 0; c && k < m->nprocesses; k++)
        if (m->processes[k].pid == c->pid && m->processes[k].start_ns == c->start_ns &&
            strcmp(m->processes[k].machine, c->host) == 0)
            return &m->processes[k];
    return NULL;
}

static int processes_list(struct mt_source_merge *m)
{
    m->processes = calloc(m->ninputs + 1, sizeof *m->processes);
    m->machines = calloc(m->ninputs + 1, sizeof *m->machines);
    for (size_t i = 0; m->processes && i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        if (!process_of(m, c))
            m->processes[m->nprocesses++] = (struct mt_process){.pid = c->pid,
                                                                .start_ns = c->start_ns,
                                                                .rank = c->rank,
                                                                .machine = c->host,
                                                                .wall = process_wall(c)};
    }
    if (!m->processes || !m->machines)
        return -1;
    qsort(m->processes, m->nprocesses, sizeof *m->processes, process_order);
    for (size_t k = 0; k < m->nprocesses; k++)
        m->processes[k].tag = (uint64_t)k << MT_PROCESS_BIT;
    for (size_t i = 0; i < m->ninputs; i++)
        m->inputs[i].process = process_of(m, mt_input_companion(&m->inputs[i]));
    machines_list(m);
    return 0;
}

/* Numbers all events: the k-th event overall gets the job's number k. */
static int processes_number(struct mt_source_merge *m)
{
    struct moments t = {.n = 0};
    int rc = 0;
    for (size_t k = 0; k < m->nprocesses && !t.failed; k++) {
        struct mt_process *p = &m->processes[k];
        size_t first = t.n;
        t.process = k;
        for (size_t i = 0; i < m->ninputs; i++)
            if (m->inputs[i].process == p)
                moments_of(&t, mt_input_companion(&m->inputs[i]));
        moments_settle(&t, first, clock_time(&m->machines[p->host], p->start_ns));
        p->was = malloc((t.n - first + 1) * sizeof *p->was);
        p->is = malloc((t.n - first + 1) * sizeof *p->is);
        t.failed |= !p->was || !p->is;
    }
    if (t.n && !t.failed)
        qsort(t.list, t.n, sizeof *t.list, moment_by_time);
    for (size_t i = 0; i < t.n && !t.failed; i++) {
        struct mt_process *p = &m->processes[t.list[i].process];
        p->was[p->n] = t.list[i].seq;
        p->is[p->n++] = i + 1;
    }
    rc = t.failed ? -1 : 0;
    free(t.list);
    return rc;
}

/* Counts, for each process, the allocations of the processes before it. */
static uint64_t *processes_ids(const struct mt_source_merge *m)
{
    uint64_t *ids = calloc(m->nprocesses + 1, sizeof *ids), sum = 0;
    for (size_t i = 0; ids && i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        uint64_t *most = &ids[m->inputs[i].process - m->processes];
        if (c->nallocs && c->allocs[c->nallocs - 1].id < UINT32_MAX && c->allocs[c->nallocs - 1].id >= *most)
            *most = c->allocs[c->nallocs - 1].id + 1;
    }
    for (size_t k = 0; ids && k < m->nprocesses; k++) {
        uint64_t n = ids[k];
        ids[k] = sum;
        sum += n;
    }
    return ids;
}

static void processes_rewrite(const struct mt_process *p, struct mt_companion *c, const uint64_t *ids)
{
    if (!c)
        return;
    process_copies(p, c);
    process_launches(p, c);
    process_findings(p, c, ids);
    process_allocs(p, c, ids);
}

/* Returns the highest device number of launches and allocations; -1: none. */
static int64_t processes_most(const struct mt_companion *c)
{
    int64_t most = -1;
    for (size_t i = 0; i < c->nlaunches; i++)
        most = c->launches[i].device > most ? c->launches[i].device : most;
    for (size_t i = 0; i < c->nallocs; i++)
        most = c->allocs[i].device > most ? c->allocs[i].device : most;
    return most;
}

/* Numbers the devices of a machine from `first` on: those of processes that see several as they do, then one
 * for each process that sees only one. Returns the number after the last. */
static int64_t processes_devices(struct mt_source_merge *m, size_t host, int64_t first)
{
    int64_t most = -1, next;
    size_t alone = 0, all = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        struct mt_process *p = &m->processes[m->inputs[i].process - m->processes];
        int64_t n = p->host == host ? processes_most(mt_input_companion(&m->inputs[i])) : -1;
        if (n >= 0)
            p->device = -1;
        most = n > most ? n : most;
    }
    next = first + most + 1;
    for (size_t k = 0; k < m->nprocesses; k++) {
        struct mt_process *p = &m->processes[k];
        if (p->host != host)
            continue;
        all++;
        p->first = first;
        if (p->device == 0) {
            p->device = next++;
            alone++;
        }
    }
    if (alone && alone < all)
        mt_merge_note(m, 0,
                      "%zu of %zu processes saw one device, the others several: theirs are %lld to %lld",
                      alone, all, (long long)(first + most + 1), (long long)next - 1);
    return next;
}

static void machines_devices(struct mt_source_merge *m)
{
    int64_t next = 0;
    for (size_t h = 0; h < m->nmachines; h++) {
        m->machines[h].first = next;
        next = processes_devices(m, h, next);
    }
}

/* Notes ranks without any input. */
static void processes_missing(struct mt_source_merge *m)
{
    uint64_t ranks = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        ranks = c->ranks > ranks ? c->ranks : ranks;
    }
    if (m->nprocesses < ranks)
        mt_merge_note(m, 1,
                      "traces of %zu of the job's %llu processes are here: what the others did is missing",
                      m->nprocesses, (unsigned long long)ranks);
}

int mt_processes_join(struct mt_source_merge *m, const char *job)
{
    struct handles h = {.n = 0};
    uint64_t *ids = NULL;
    int rc = processes_list(m) == 0 ? clocks_align(m) : -1;
    if (rc == 0) {
        processes_shift(m);
        rc = processes_number(m);
    }
    if (rc == 0) {
        machines_devices(m);
        processes_missing(m);
    }
    for (size_t i = 0; i < m->ninputs && rc == 0; i++)
        rc = handles_of(&h, mt_input_companion(&m->inputs[i]), (size_t)(m->inputs[i].process - m->processes),
                        m->inputs[i].process->host);
    rc = rc ? rc : handles_join(m, &h);
    ids = rc ? NULL : processes_ids(m);
    for (size_t i = 0; ids && i < m->ninputs; i++) {
        struct mt_input *in = &m->inputs[i];
        processes_rewrite(in->process, in->companion, ids);
        if (in->beside != in->companion)
            processes_rewrite(in->process, in->beside, ids);
    }
    if (ids)
        mt_merge_note(
            m, 0,
            "%zu processes of job %s are one run: addresses have the process's number (by rank) from "
            "bit %d on, streams are %d apart, order is by time",
            m->nprocesses, job, MT_PROCESS_BIT, STREAMS);
    rc = ids ? 0 : -1;
    free(h.list);
    free(ids);
    return rc;
}

void mt_processes_free(struct mt_source_merge *m)
{
    for (size_t k = 0; k < m->nprocesses; k++) {
        free(m->processes[k].was);
        free(m->processes[k].is);
        free(m->processes[k].opened);
    }
    for (size_t k = 0; k < m->nmachines; k++)
        free(m->machines[k].steps);
    free(m->processes);
    free(m->machines);
}

/* ---- accesses ---- */

void mt_process_item(const struct mt_process *p, struct mt_item *item)
{
    const uint64_t seq = item->launch ? item->launch->seq : MT_SEQ_NONE - 1;
    if (!p || (item->kind != MT_ITEM_BATCH && item->kind != MT_ITEM_RUNS))
        return;
    /* Both are owned by the source and not shared yet. */
    struct mt_raw_record *records = (struct mt_raw_record *)item->records;
    struct mt_access_run *runs = (struct mt_access_run *)item->runs;
    for (size_t i = 0; records && i < item->count; i++)
        records[i].w[1] = process_address(p, records[i].w[1], seq);
    for (size_t i = 0; runs && i < item->count; i++) {
        uint64_t *each = (uint64_t *)runs[i].addresses;
        runs[i].base = process_address(p, runs[i].base, seq);
        for (uint32_t k = 0; each && k < runs[i].count; k++)
            each[k] = process_address(p, each[k], seq);
    }
}
