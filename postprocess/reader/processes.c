/* Several processes of one job as one run. Times order the events of different processes: CLOCK_MONOTONIC is
 * common to the machine. */
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
    return p->device >= 0 ? p->device : device;
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
    size_t process;
};
MT_ORDER_1(by_id, struct mt_alloc_event, id)
MT_ORDER_FUNCTION(handle_order, struct handle, MT_ORDER_TEXT(x->text, y->text) MT_ORDER_DIFFER(x, y, opened))

struct handles {
    struct handle *list;
    size_t n, room;
};

static int handles_of(struct handles *h, const struct mt_companion *c, size_t process)
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
                                          .process = process};
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
        if (!owner || strcmp(owner->text, x->text) != 0) {
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
        if (m->processes[k].pid == c->pid && m->processes[k].start_ns == c->start_ns)
            return &m->processes[k];
    return NULL;
}

static int processes_list(struct mt_source_merge *m)
{
    m->processes = calloc(m->ninputs + 1, sizeof *m->processes);
    for (size_t i = 0; m->processes && i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        if (!process_of(m, c))
            m->processes[m->nprocesses++] =
                (struct mt_process){.pid = c->pid, .start_ns = c->start_ns, .rank = c->rank};
    }
    if (!m->processes)
        return -1;
    qsort(m->processes, m->nprocesses, sizeof *m->processes, process_order);
    for (size_t k = 0; k < m->nprocesses; k++)
        m->processes[k].tag = (uint64_t)k << MT_PROCESS_BIT;
    for (size_t i = 0; i < m->ninputs; i++)
        m->inputs[i].process = process_of(m, mt_input_companion(&m->inputs[i]));
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
        moments_settle(&t, first, p->start_ns);
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

/* Numbers devices of processes that see only one: by process, after the numbers of those that see several. */
static void processes_devices(struct mt_source_merge *m)
{
    int64_t most = -1, next;
    size_t alone = 0;
    for (size_t k = 0; k < m->nprocesses; k++)
        m->processes[k].device = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        int64_t n = processes_most(mt_input_companion(&m->inputs[i]));
        if (n >= 0)
            m->processes[m->inputs[i].process - m->processes].device = -1;
        most = n > most ? n : most;
    }
    next = most + 1;
    for (size_t k = 0; k < m->nprocesses; k++)
        if (m->processes[k].device == 0) {
            m->processes[k].device = next++;
            alone++;
        }
    if (alone && alone < m->nprocesses)
        mt_merge_note(m, 0,
                      "%zu of %zu processes saw one device, the others several: theirs are %lld to %lld",
                      alone, m->nprocesses, (long long)most + 1, (long long)next - 1);
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
    int rc = processes_list(m) == 0 ? processes_number(m) : -1;
    if (rc == 0) {
        processes_devices(m);
        processes_missing(m);
    }
    for (size_t i = 0; i < m->ninputs && rc == 0; i++)
        rc = handles_of(&h, mt_input_companion(&m->inputs[i]), (size_t)(m->inputs[i].process - m->processes));
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
    free(m->processes);
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
