/* mt_source: opens the inputs, chooses order and spooling, runs the merge in its pool. */
#define _GNU_SOURCE

#include "reader/base/internal.h"
#include "memtrace/order.h"
#include "reader/base/processes.h"
#include "reader/base/pool.h"
#include "run.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- events of memory besides accesses: copies, fills and allocations of all inputs in one order ---- */

MT_ORDER_3(by_seq, struct mt_copy_event, seq, kind, dst)

MT_ORDER_1(by_id, struct mt_alloc_event, id)

MT_ORDER_POINTED_2(by_release, struct mt_alloc_event, free_seq, id)

/* Event of new memory: earlier contents of a reallocated address are not communicated to its readers. */
static struct mt_copy_event events_new(const struct mt_alloc_event *a, uint64_t from)
{
    return (struct mt_copy_event){.seq = a->seq,
                                  .kind = MT_COPY_NEW,
                                  .dst = a->base + from,
                                  .width = a->bytes - from,
                                  .height = a->bytes > from};
}

/* Returns 0 if use of the memory before its first access is unknown (symbols, malloc in kernels). */
static int events_is_new(const struct mt_alloc_event *a)
{
    return strcmp(a->kind, "symbol") != 0 && strcmp(a->kind, "device") != 0;
}

/* Adds the allocations of a companion. */
static void device_memory(struct mt_source_merge *m, const struct mt_companion *c)
{
    for (size_t k = 0; k < c->nallocs; k++)
        if (events_is_new(&c->allocs[k]))
            m->copies[m->ncopies++] = events_new(&c->allocs[k], 0);
}

/* Returns the allocation that a realloc released: freed with the same number, or just before. */
static const struct mt_alloc_event *given_up(const struct mt_alloc_event *const *freed, size_t n,
                                             const struct mt_alloc_event *a)
{
    size_t at = MT_FIRST(i, n, freed[i]->free_seq > a->seq);
    while (at-- > 0 && freed[at]->free_seq + 1 >= a->seq)
        if (freed[at] != a && freed[at]->id < a->id)
            return freed[at];
    return NULL;
}

/* Adds the allocations of host code. A realloc moves its bytes. Memory of the program break is left out:
 * malloc hands it out again and reports that itself. Returns 0, or -1 without memory. */
static int host_memory(struct mt_source_merge *m, const struct mt_companion *c)
{
    const struct mt_alloc_event **freed = malloc((c->nallocs + 1) * sizeof *freed);
    size_t n = 0;
    if (!freed)
        return -1;
    for (size_t k = 0; k < c->nallocs; k++)
        if (c->allocs[k].free_seq != MT_SEQ_NONE)
            freed[n++] = &c->allocs[k];
    qsort(freed, n, sizeof *freed, by_release);
    for (size_t k = 0; k < c->nallocs; k++) {
        const struct mt_alloc_event *a = &c->allocs[k];
        const struct mt_alloc_event *old = strcmp(a->kind, "realloc") == 0 ? given_up(freed, n, a) : NULL;
        uint64_t kept = !old ? 0 : old->bytes < a->bytes ? old->bytes : a->bytes;
        if (strcmp(a->kind, "brk") == 0)
            continue;
        if (kept && (m->threads || old->base != a->base))
            m->copies[m->ncopies++] = (struct mt_copy_event){.seq = a->seq,
                                                             .kind = MT_COPY_D2D,
                                                             .dst = a->base,
                                                             .src = old->base,
                                                             .width = kept,
                                                             .height = 1};
        m->copies[m->ncopies++] = events_new(a, kept);
    }
    free(freed);
    return 0;
}

static int same_event(const struct mt_copy_event *a, const struct mt_copy_event *b)
{
    return a->seq == b->seq && a->kind == b->kind && a->dst == b->dst;
}

/* Removes duplicates: events of no stream are in every companion file. */
static void drop_doubles(struct mt_source_merge *m, struct mt_alloc_event *allocs, size_t *nallocs)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ncopies; i++)
        if (n == 0 || !same_event(&m->copies[n - 1], &m->copies[i]))
            m->copies[n++] = m->copies[i];
    m->ncopies = n;
    n = 0;
    for (size_t i = 0; i < *nallocs; i++) {
        struct mt_alloc_event *last = n ? &allocs[n - 1] : NULL;
        if (!last || last->id != allocs[i].id)
            allocs[n++] = allocs[i];
        else {
            if (allocs[i].free_seq < last->free_seq)
                last->free_seq = allocs[i].free_seq;
            if (!*last->name)
                last->name = allocs[i].name;
        }
    }
    *nallocs = n;
}

MT_ORDER_POINTED_1(by_place, struct mt_alloc_event, id)
static int events_same_call(const void *a, const void *b)
{
    const struct mt_alloc_event *x = *(const struct mt_alloc_event *const *)a,
                                *y = *(const struct mt_alloc_event *const *)b;
    int order = strcmp(x->kind, y->kind);
    order = order ? order : strcmp(x->name, y->name);
    order = order ? order : strcmp(x->file, y->file);
    if (order || x->line != y->line)
        return order ? order : x->line < y->line ? -1 : 1;
    return *x->file || x->ip == y->ip ? 0 : x->ip < y->ip ? -1 : 1;
}

static int events_by_call(const void *a, const void *b)
{
    int order = events_same_call(a, b);
    return order ? order : by_place(a, b);
}

/* Groups allocations that one call of a host program makes repeatedly: users see them as one buffer. Returns
 * 0, or -1 without memory. */
static int events_group(struct mt_alloc_event *allocs, size_t n)
{
    struct mt_alloc_event **list = malloc((n + 1) * sizeof *list), *first = NULL;
    if (!list)
        return -1;
    for (size_t i = 0; i < n; i++)
        list[i] = &allocs[i];
    qsort(list, n, sizeof *list, events_by_call);
    for (size_t i = 0; i < n; i++) {
        if (!first || events_same_call(&first, &list[i]) != 0)
            first = list[i];
        list[i]->first = (uint64_t)(first - allocs) + 1;
        first->like++;
        first->total += list[i]->bytes;
    }
    free(list);
    return 0;
}

/* Drops the host's copies and fills but keeps new memory. */
static void keep_new_memory(struct mt_source_merge *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ncopies; i++)
        if (m->copies[i].kind == MT_COPY_NEW)
            m->copies[n++] = m->copies[i];
    m->ncopies = n;
}

/* Collects copies and allocations of all inputs into m->copies; *allocs, owned by the caller, has the
 * allocations of the traces' companions, by id. Returns 0, or -1 with *err set. */
static int collect_events(struct mt_source_merge *m, unsigned flags, struct mt_alloc_event **allocs,
                          size_t *nallocs, struct mt_error *err)
{
    size_t copies = 0, most = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        copies += c ? c->ncopies + 2 * c->nallocs : 0;
        most += c ? c->nallocs : 0;
        most += m->inputs[i].beside ? m->inputs[i].beside->nallocs : 0;
    }
    m->copies = malloc((copies + 1) * sizeof *m->copies);
    *allocs = malloc((most + 1) * sizeof **allocs);
    if (!m->copies || !*allocs)
        goto memory;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        if (!c)
            continue;
        if (c->ncopies)
            memcpy(m->copies + m->ncopies, c->copies, c->ncopies * sizeof *c->copies);
        m->ncopies += c->ncopies;
        if (mt_input_is_host(&m->inputs[i])) {
            if (m->inputs[i].host.merged && host_memory(m, c) != 0)
                goto memory;
            if (!m->threads)
                continue;
        } else {
            device_memory(m, c);
        }
        if (c->nallocs)
            memcpy(*allocs + *nallocs, c->allocs, c->nallocs * sizeof *c->allocs);
        *nallocs += c->nallocs;
        /* The companion file goes on after the compact trace ended with its stream: later frees are there. */
        const struct mt_companion *b = m->inputs[i].beside;
        if (b && b != c && b->nallocs) {
            memcpy(*allocs + *nallocs, b->allocs, b->nallocs * sizeof *b->allocs);
            *nallocs += b->nallocs;
        }
    }
    qsort(m->copies, m->ncopies, sizeof *m->copies, by_seq);
    qsort(*allocs, *nallocs, sizeof **allocs, by_id);
    drop_doubles(m, *allocs, nallocs);
    if (m->threads && events_group(*allocs, *nallocs) != 0)
        goto memory;
    if (!m->ordered || (flags & MT_SOURCE_NO_MEMORY))
        m->ncopies = 0;
    else if (flags & MT_SOURCE_NO_HOST)
        keep_new_memory(m);
    return 0;
memory:
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, m->inputs[0].path,
                        "no memory for the companion's events");
}

/* ---- reading ahead: a ring of slots, each an item with room for its records ---- */

enum { SLOTS = 16, SLOT_RECORDS = 1 << 14, HELD = 2, LARGE = 1 << 10 };

struct slot {
    struct mt_item item;
    struct mt_raw_record *room;
    struct mt_access_run *runs; /* SLOT_RECORDS runs, or NULL if runs are not requested */
    struct mt_run_block *block; /* block of a compact trace to which the item points */
    int rc;                     /* return value of mt_merge_next */
};

struct mt_ahead {
    struct mt_source_merge *merge;
    struct mt_pool *pool;
    struct mt_work work;
    size_t head, tail; /* slots filled and slots released so far */
    size_t held;       /* slots that the consumer may use, from `tail` on; the last one is the newest */
    int over;          /* 1: the newest slot is an end or an error */
    int merges;        /* 1: records are joined into runs */
    struct mt_error error;
    struct slot slots[SLOTS];
    struct mt_raw_record *rooms;
    struct mt_access_run *run_rooms;
};

/* Keeps runs of a compact trace where they were decoded until the consumer releases them. */
static void readahead_keep(const struct mt_source_merge *m, struct slot *s)
{
    struct mt_host_reader *r =
        s->rc > 0 && s->item.kind == MT_ITEM_RUNS ? mt_input_container(&m->inputs[s->item.input]) : NULL;
    s->block = r ? mt_device_keep(r) : NULL;
}

/* Converts a batch of records to runs. */
static void put_together(struct slot *s)
{
    size_t taken;
    if (s->rc <= 0 || s->item.kind != MT_ITEM_BATCH)
        return;
    s->item.count = mt_runs_from_records(s->item.records, s->item.count, s->runs, SLOT_RECORDS, &taken);
    s->item.kind = MT_ITEM_RUNS;
    s->item.runs = s->runs;
    s->item.records = NULL;
}

static void ahead_fill(struct mt_ahead *a, struct slot *s)
{
    s->rc = mt_merge_next(a->merge, s->room, s->runs, SLOT_RECORDS, &s->item, &a->error);
    readahead_keep(a->merge, s);
    if (s->rc > 0)
        mt_process_item(a->merge->inputs[s->item.input].process, &s->item);
    if (a->merges)
        put_together(s);
}

/* Does a piece: several items if they are small (between allocations of a host program), to save switches. */
static int ahead_piece(void *self)
{
    struct mt_ahead *a = self;
    if (a->over || a->head - a->tail == SLOTS)
        return 0;
    do {
        struct slot *s = &a->slots[a->head % SLOTS];
        pthread_mutex_unlock(&a->pool->lock);
        ahead_fill(a, s);
        pthread_mutex_lock(&a->pool->lock);
        a->over = s->rc <= 0;
    } while (++a->head - a->tail <= SLOTS / 2 && !a->over &&
             a->slots[(a->head - 1) % SLOTS].item.count < LARGE);
    return 1;
}

static void ahead_free(struct mt_ahead *a)
{
    if (!a)
        return;
    free(a->rooms);
    free(a->run_rooms);
    free(a);
}

/* Starts reading ahead. `flags`: enum mt_source_flags; those for runs matter. */
static struct mt_ahead *ahead_start(struct mt_source_merge *m, unsigned flags, struct mt_error *err)
{
    int runs = m->threads || (flags & (MT_SOURCE_RUNS | MT_SOURCE_OWN_RUNS)) != 0;
    struct mt_ahead *a = calloc(1, sizeof *a);
    if (a)
        a->rooms = malloc(sizeof *a->rooms * SLOTS * SLOT_RECORDS);
    if (a && runs)
        a->run_rooms = malloc(sizeof *a->run_rooms * SLOTS * SLOT_RECORDS);
    if (!a || !a->rooms || (runs && !a->run_rooms)) {
        ahead_free(a);
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, "reader", "no memory for reading ahead");
        return NULL;
    }
    a->merge = m;
    a->merges = (flags & MT_SOURCE_RUNS) != 0;
    for (size_t i = 0; i < SLOTS; i++) {
        a->slots[i].room = a->rooms + i * SLOT_RECORDS;
        a->slots[i].runs = runs ? a->run_rooms + i * SLOT_RECORDS : NULL;
    }
    a->pool = m->pool;
    a->work = (struct mt_work){.piece = ahead_piece, .self = a, .alone = 1};
    mt_pool_add(a->pool, &a->work);
    pthread_mutex_lock(&a->pool->lock);
    mt_pool_wake(a->pool, 1);
    pthread_mutex_unlock(&a->pool->lock);
    return a;
}

/* Returns the next item. */
static int ahead_next(struct mt_ahead *a, struct mt_item *item, struct mt_error *err)
{
    const int back = a->held == HELD;
    if (back)
        mt_block_put(a->slots[a->tail % SLOTS].block);
    pthread_mutex_lock(&a->pool->lock);
    if (back) {
        a->tail++;
        a->held--;
        if (a->head - a->tail <= SLOTS / 2) /* otherwise the reader would be woken for every slot */
            mt_pool_wake(a->pool, 1);
    }
    while (a->head == a->tail + a->held)
        mt_pool_help(a->pool, &a->work);
    struct slot *s = &a->slots[(a->tail + a->held) % SLOTS];
    pthread_mutex_unlock(&a->pool->lock);
    if (s->rc > 0) {
        a->held++;
        *item = s->item;
    } else if (s->rc < 0) {
        *err = a->error;
    }
    return s->rc; /* an end or error is never released: later calls return it again */
}

/* Stops reading ahead, after the end or with the `own` stop flag raised before, and frees it. */
static void ahead_stop(struct mt_ahead *a)
{
    if (!a)
        return;
    mt_pool_remove(a->pool, &a->work);
    for (; a->tail < a->head; a->tail++)
        mt_block_put(a->slots[a->tail % SLOTS].block);
    ahead_free(a);
}

struct mt_source {
    struct mt_source_merge merge; /* owned by its pool while `ahead` runs */
    unsigned flags;
    struct mt_ahead *ahead;
    struct mt_error error; /* error of `ahead`, repeated at each call */
    int ended, rc;
    volatile sig_atomic_t halt;
    uint64_t spooled;
    struct mt_alloc_event *allocs;
    size_t nallocs;
};

static int open_inputs(struct mt_source *s, const char *const *paths, const struct mt_source_options *o,
                       struct mt_error *err)
{
    struct mt_source_merge *m = &s->merge;
    for (size_t i = 0; i < m->ninputs; i++) {
        struct mt_input *in = &m->inputs[i];
        const char *meta = i < o->ncompanions ? o->companions[i] : NULL;
        if (mt_input_open(in, paths[i], o->fds ? o->fds[i] : -1, meta, err) != 0)
            return -1;
        for (size_t k = 0; k < i; k++)
            if (m->inputs[k].device == in->device && m->inputs[k].inode == in->inode)
                return mt_error_set(err, MT_E_INPUT, 0, 0, in->path, "is the same file as %s",
                                    m->inputs[k].path);
        if (!in->live && mt_input_is_container(in) &&
            mt_container_input_open(in, s->flags, &m->stop, err) != 0)
            return -1;
    }
    return 0;
}

enum { SPOOL_NO, SPOOL_ALL, SPOOL_CONTAINER };

/* Returns 1 if the input must be spooled. A live input is analysed as it arrives if nothing must be known
 * before its end: a raw trace without companion file, but no compact trace. */
static int must_spool(const struct mt_source *s, const struct mt_input *in)
{
    if (s->merge.ninputs > 1 || (s->flags & MT_SOURCE_REWIND))
        return SPOOL_ALL;
    if (s->flags & (MT_SOURCE_NO_MEMORY | MT_SOURCE_NO_COMPANION))
        return SPOOL_NO;
    return in->meta ? SPOOL_ALL : SPOOL_CONTAINER;
}

static int spool_live(struct mt_source *s, struct mt_error *err)
{
    struct mt_source_merge *m = &s->merge;
    size_t n = 0;
    int rc = -1;
    int *from = calloc(m->ninputs, sizeof *from), *to = calloc(m->ninputs, sizeof *to);
    size_t *which = calloc(m->ninputs, sizeof *which);
    if (!from || !to || !which) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, "spool file", "no memory");
        goto out;
    }
    for (size_t i = 0; i < m->ninputs; i++) {
        struct mt_input *in = &m->inputs[i];
        int must = in->live ? must_spool(s, in) : SPOOL_NO;
        if (must == SPOOL_NO)
            continue;
        which[n] = i;
        from[n] = in->fd;
        if (must == SPOOL_ALL ? (to[n] = mt_spool_create(err)) < 0
                              : mt_unknown_input_look(in, &to[n], &m->stop, err) != 0)
            goto out;
        n += to[n] >= 0;
    }
    if (n > 0 && mt_spool_fill(from, to, n, &m->stop, &s->spooled, err) != 0)
        goto out;
    if (n > 0 && mt_stopped(&m->stop)) {
        struct mt_error stopped;
        mt_error_set(&stopped, MT_E_STOPPED, EINTR, 0, m->inputs[which[0]].path, "stopped while reading");
        m->done = s->spooled;
        mt_merge_problem(m, &stopped);
        m->stopped = 0;      /* data already spooled is analysed nevertheless */
        m->stop.user = NULL; /* a second signal ends the program */
    }
    for (size_t k = 0; k < n; k++) {
        struct mt_input *in = &m->inputs[which[k]];
        struct stat st;
        if (in->owned)
            close(in->fd);
        in->fd = to[k];
        in->owned = 1;
        in->live = 0;
        in->ops = &mt_raw_input;
        in->size = fstat(to[k], &st) == 0 ? (uint64_t)st.st_size : 0;
        to[k] = -1;
        if (mt_input_is_container(in) ? mt_container_input_open(in, s->flags, &m->stop, err) != 0
                                      : mt_input_load_companion(in, 1, &m->stop, err) != 0)
            goto out;
    }
    rc = 0;
out:
    for (size_t k = 0; to && k < n; k++)
        if (to[k] >= 0)
            close(to[k]);
    free(from);
    free(to);
    free(which);
    return rc;
}

/* Returns 1 if both ran on one machine since the same boot, so that their clocks agree. */
static int source_beside(const struct mt_companion *a, const struct mt_companion *b)
{
    enum { APART_MS = 2000 };
    int64_t x = (int64_t)(a->wall_ms - a->start_ns / 1000000),
            y = (int64_t)(b->wall_ms - b->start_ns / 1000000);
    return (x < y ? y - x : x - y) <= APART_MS;
}

/* Returns the name of the job if the inputs are traces of kernels of several of its processes, else NULL. */
static const char *source_job(const struct mt_source_merge *m)
{
    const struct mt_companion *first = m->ninputs ? mt_input_companion(&m->inputs[0]) : NULL;
    int several = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_input *in = &m->inputs[i];
        const struct mt_companion *c = mt_input_companion(in);
        if (!c || !first || !c->has_header || !*c->job || strcmp(c->job, first->job) != 0 ||
            !source_beside(c, first) || in->live || in->ends || mt_input_is_host(in))
            return NULL;
        several |= c->pid != first->pid || c->start_ns != first->start_ns;
    }
    return several ? first->job : NULL;
}

static int source_processes(struct mt_source_merge *m, struct mt_error *err)
{
    const char *job = source_job(m);
    if (!job || mt_processes_join(m, job) == 0)
        return 0;
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, m->inputs[0].path, "no memory for a job's processes");
}

static int one_process(struct mt_source_merge *m, struct mt_error *err)
{
    const struct mt_input *first = NULL;
    struct mt_run_id run = {0};
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_input *in = &m->inputs[i];
        const struct mt_companion *c = mt_input_companion(in);
        if (!c || !c->has_header || in->process)
            continue;
        struct mt_run_id its = {c->pid, c->start_ns, c->wall_ms, 0, mt_input_is_host(in)};
        if (first && !mt_run_same(&run, &its))
            return mt_error_set(
                err, MT_E_INPUT, 0, 0, in->path,
                "is of another run than %s (process %llu, not %llu): their addresses have nothing in "
                "common. Name the files of one run, the newer one's are %s and those written with it; or "
                "their folder, of which the newest run is taken; or give each run a folder of its own "
                "(MEMTRACE_DIR)",
                first->path, (unsigned long long)c->pid, (unsigned long long)run.pid,
                mt_run_newer(&its, &run) ? in->path : first->path);
        if (!first) {
            first = in;
            run = its;
        }
    }
    return 0;
}

/* Returns 1 if the host trace has the numbers of the CUDA calls. The compile-time engine and the qemu engine
 * take them from the CUDA runtime in the process; the Pin engine counts separately. */
static int source_numbered(const struct mt_input *in)
{
    const struct mt_companion *c = mt_input_companion(in);
    return !c || strcmp(c->engine, "pin") != 0;
}

/* Chooses the order: by sequence numbers if all inputs have them. */
static void decide_order(struct mt_source *s)
{
    struct mt_source_merge *m = &s->merge;
    size_t traces = 0, companions = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        traces += !mt_input_is_host(&m->inputs[i]);
        companions += m->inputs[i].companion || mt_input_container(&m->inputs[i]); /* a compact trace has the
                                                                                    * numbers in its chunks */
        m->total += m->inputs[i].size;
    }
    m->ordered = companions == traces || traces == 1;
    for (size_t i = 0; i < m->ninputs && !(s->flags & MT_SOURCE_NO_HOST); i++) {
        struct mt_input *in = &m->inputs[i];
        if (!mt_input_is_host(in))
            continue;
        if (companions < traces)
            mt_merge_note(
                m, 0, "%s: is left out: without companions its accesses cannot be put in order with launches",
                in->path);
        else if (traces > 0 && !source_numbered(in))
            mt_merge_note(
                m, 0,
                "%s: is left out: the engine %s does not see the numbers of CUDA calls, so its accesses "
                "cannot be put in order with launches; mt-cc --host and memtrace host's qemu engine make "
                "host "
                "traces that can",
                in->path, mt_input_companion(in)->engine);
        else
            m->hosts = in->host.merged = 1;
    }
    m->threads = traces == 0 && m->hosts;
}

/* Makes programs without kernels launches. Returns 0, or -1 with *err set. */
static int source_threads(struct mt_source_merge *m, struct mt_error *err)
{
    for (size_t i = 0; m->threads && i < m->ninputs; i++)
        if (mt_threads_input_take(&m->inputs[i], i, err) != 0)
            return -1;
    return 0;
}

/* Returns an input's share of the decoding threads. Memory is bounded: many inputs read few chunks ahead. */
static unsigned source_share(unsigned threads, size_t inputs)
{
    size_t each = (threads + inputs - 1) / inputs;
    return each > 2 ? (unsigned)each : 2;
}

struct mt_source *mt_source_open(const char *const *paths, size_t npaths, const struct mt_source_options *o,
                                 struct mt_error *err)
{
    static const struct mt_source_options none;
    struct mt_source *s = calloc(1, sizeof *s);
    if (s && npaths)
        s->merge.inputs = calloc(npaths, sizeof *s->merge.inputs);
    if (!s || !s->merge.inputs) {
        free(s);
        mt_error_set(err, npaths ? MT_E_SYSTEM : MT_E_INPUT, ENOMEM, 0, "reader",
                     npaths ? "no memory" : "no input given");
        return NULL;
    }
    if (!o)
        o = &none;
    struct mt_source_merge *m = &s->merge;
    s->flags = o->flags;
    m->ninputs = npaths;
    m->first = o->first;
    m->end = o->end ? o->end : UINT64_MAX;
    m->stop = (struct mt_stop){o->stop, &s->halt};
    if (!(m->pool = mt_pool_new(o->threads ? o->threads : 1))) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, "reader", "no memory");
        goto fail;
    }
    for (size_t i = 0; i < npaths; i++) {
        m->inputs[i].fd = -1;
        m->inputs[i].ends = o->ends ? &o->ends[i] : NULL;
        m->inputs[i].pool = m->pool;
        m->inputs[i].threads = o->threads > 1 ? source_share(o->threads, npaths) : 1;
    }
    mt_source_spaces(s, (o->flags & MT_SOURCE_SPACES) != 0);
    if (open_inputs(s, paths, o, err) != 0)
        goto fail;
    for (size_t i = 0; i < npaths; i++) {
        struct mt_input *in = &m->inputs[i];
        if (s->flags & MT_SOURCE_NO_COMPANION) {
            free(in->meta);
            in->meta = NULL;
        }
        if (in->ops == &mt_raw_input && mt_input_load_companion(in, 0, &m->stop, err) != 0)
            goto fail;
    }
    if (spool_live(s, err) != 0)
        goto fail;
    decide_order(s);
    if (!m->ordered)
        mt_merge_note(m, 0,
                      "not every input has a companion: launches are taken in the order of the inputs%s",
                      s->flags & MT_SOURCE_NO_MEMORY ? ""
                      : s->flags & MT_SOURCE_NO_HOST ? ", allocations are not known"
                                                     : ", allocations and host copies are not known");
    if (source_processes(m, err) != 0 || one_process(m, err) != 0 || source_threads(m, err) != 0 ||
        collect_events(m, s->flags, &s->allocs, &s->nallocs, err) != 0 || mt_merge_start(m, err) != 0)
        goto fail;
    return s;
fail:
    mt_source_close(s);
    return NULL;
}

size_t mt_source_inputs(const struct mt_source *s)
{
    return s->merge.ninputs;
}

const char *mt_source_path(const struct mt_source *s, size_t input)
{
    return input < s->merge.ninputs ? s->merge.inputs[input].path : NULL;
}

struct mt_source *mt_source_of_container(struct mt_host_reader *r, const char *path, unsigned flags,
                                         const volatile sig_atomic_t *stop, struct mt_error *err)
{
    struct mt_source *s = calloc(1, sizeof *s);
    struct mt_source_merge *m = s ? &s->merge : NULL;
    if (!s || !(m->inputs = calloc(1, sizeof *m->inputs)) || !(m->inputs->meta = strdup(path)) ||
        !(m->pool = mt_pool_new(1))) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory");
        mt_host_reader_close(r);
        mt_source_close(s);
        return NULL;
    }
    s->flags = flags | MT_SOURCE_NO_HOST | MT_SOURCE_NO_MEMORY;
    m->ninputs = 1;
    m->end = UINT64_MAX;
    mt_source_spaces(s, (flags & MT_SOURCE_SPACES) != 0);
    m->ordered = 1;
    m->stop = (struct mt_stop){stop, &s->halt};
    struct mt_input *in = m->inputs;
    in->path = path;
    in->fd = -1;
    in->live = 1;
    in->ops = &mt_device_input;
    in->container.reader = r;
    mt_container_set_stop(r, &m->stop);
    if (collect_events(m, s->flags, &s->allocs, &s->nallocs, err) == 0 && mt_merge_start(m, err) == 0)
        return s;
    mt_source_close(s);
    return NULL;
}

struct mt_pool *mt_source_pool(struct mt_source *s)
{
    return s->merge.pool;
}

void mt_source_spaces(struct mt_source *s, int on)
{
    s->merge.spaces = on;
    for (size_t i = 0; i < s->merge.ninputs; i++)
        s->merge.inputs[i].spaces = on;
}

/* Stops reading ahead; the caller then owns the merge. */
static void source_stop_ahead(struct mt_source *s)
{
    if (!s->ended) {
        __atomic_store_n(&s->halt, 1, __ATOMIC_RELAXED);
        s->ended = 1;
        s->rc = 0;
    }
    ahead_stop(s->ahead);
    s->ahead = NULL;
}

int mt_source_next(struct mt_source *s, struct mt_item *item, struct mt_error *err)
{
    if (!s->ended && !s->ahead && !(s->ahead = ahead_start(&s->merge, s->flags, &s->error))) {
        s->ended = 1;
        s->rc = -1;
    }
    int rc = s->ended ? s->rc : ahead_next(s->ahead, item, &s->error);
    if (rc > 0)
        return 1;
    s->ended = 1;
    s->rc = rc;
    if (rc < 0)
        *err = s->error;
    return rc;
}

int mt_source_rewind(struct mt_source *s, struct mt_error *err)
{
    source_stop_ahead(s);
    __atomic_store_n(&s->halt, 0, __ATOMIC_RELAXED);
    s->ended = 0;
    struct mt_source_merge *m = &s->merge;
    mt_merge_finish(m);
    m->again = 1;
    if (!mt_stopped(&m->stop))
        m->stopped = 0; /* the stop was our own, in the middle of a pass */
    for (size_t i = 0; i < m->ninputs; i++)
        if (m->inputs[i].live)
            return mt_error_set(err, MT_E_SYSTEM, ESPIPE, 0, m->inputs[i].path, "cannot be read twice");
    return mt_merge_start(m, err);
}

void mt_source_close(struct mt_source *s)
{
    if (!s)
        return;
    source_stop_ahead(s);
    struct mt_source_merge *m = &s->merge;
    for (size_t i = 0; i < m->ninputs; i++)
        mt_input_close(&m->inputs[i]);
    mt_pool_free(m->pool);
    for (size_t i = 0; i < m->nnotes; i++)
        free(m->notes[i]);
    free(m->notes);
    free(m->problems);
    free(m->inputs);
    mt_processes_free(m);
    free(m->copies);
    free(s->allocs);
    mt_intern_free(&m->names);
    free(s);
}

void mt_source_stop(struct mt_source *s)
{
    struct mt_source_merge *m = &s->merge;
    struct mt_error stopped;
    source_stop_ahead(s);
    if (m->stopped || m->ninputs == 0)
        return;
    mt_error_set(&stopped, MT_E_STOPPED, EINTR, 0, m->inputs[m->current < m->ninputs ? m->current : 0].path,
                 "stopped while reading");
    mt_merge_problem(m, &stopped);
}

const struct mt_error *mt_source_problems(struct mt_source *s, size_t *count)
{
    source_stop_ahead(s);
    *count = s->merge.nproblems;
    return s->merge.problems;
}

const char *const *mt_source_notes(struct mt_source *s, size_t *count, int *complete)
{
    source_stop_ahead(s);
    mt_merge_finish(&s->merge);
    *count = s->merge.nnotes;
    *complete = !s->merge.incomplete;
    return (const char *const *)s->merge.notes;
}

int mt_source_lacks(struct mt_source *s)
{
    source_stop_ahead(s);
    mt_merge_finish(&s->merge);
    return s->merge.out_of_memory ? -1 : (s->merge.incomplete & MT_MISSING) != 0;
}

MT_ORDER_POINTED_1(launch_by_seq, struct mt_launch_event, seq)

/* Removes duplicates: launches of streams without trace are in every companion file. */
static size_t source_drop_doubles(const struct mt_launch_event **list, size_t n)
{
    size_t kept = 0;
    qsort(list, n, sizeof *list, launch_by_seq);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || list[i]->seq != list[kept - 1]->seq)
            list[kept++] = list[i];
    return kept;
}

const struct mt_launch_event **mt_source_launches(struct mt_source *s, size_t *count)
{
    source_stop_ahead(s);
    mt_merge_finish(&s->merge);
    size_t n = s->merge.ninputs; /* a program without kernels is a launch */
    for (size_t i = 0; i < s->merge.ninputs; i++)
        n += s->merge.inputs[i].companion ? s->merge.inputs[i].companion->nlaunches : 0;
    const struct mt_launch_event **all = malloc((n + 1) * sizeof *all);
    n = 0;
    for (size_t i = 0; all && i < s->merge.ninputs; i++) {
        const struct mt_companion *c = s->merge.inputs[i].companion;
        for (size_t k = 0; c && k < c->nlaunches; k++)
            all[n++] = &c->launches[k];
        if (s->merge.threads)
            all[n++] = &s->merge.inputs[i].host.launch;
    }
    *count = all ? source_drop_doubles(all, n) : 0;
    return all;
}

int mt_source_untraced(struct mt_source *s, uint64_t *accesses, uint64_t *launches, struct mt_error *err)
{
    size_t n;
    const struct mt_launch_event **all = mt_source_launches(s, &n);
    *accesses = *launches = 0;
    if (!all)
        return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, s->merge.inputs[0].path,
                            "no memory to sort launches");
    for (size_t i = 0; i < n; i++) {
        *accesses += all[i]->untraced;
        *launches += !all[i]->traced;
    }
    free(all);
    return 0;
}

int mt_source_ordered(const struct mt_source *s)
{
    return s->merge.ordered;
}

int mt_source_host(const struct mt_source *s)
{
    return s->merge.hosts;
}

size_t mt_source_processes(const struct mt_source *s)
{
    return s->merge.nprocesses ? s->merge.nprocesses : 1;
}

int mt_source_threads(const struct mt_source *s)
{
    int timed = s->merge.threads;
    for (size_t i = 0; timed && i < s->merge.ninputs; i++)
        timed = mt_host_reader_head(s->merge.inputs[i].host.reader)->features & MT_MTC_HAS_TIMES && timed;
    return s->merge.threads + timed;
}

const struct mt_alloc_event *mt_source_allocs(struct mt_source *s, size_t *count)
{
    *count = s->nallocs;
    return s->allocs;
}

const struct mt_companion *mt_source_companion(const struct mt_source *s, size_t input)
{
    return input < s->merge.ninputs ? mt_input_companion(&s->merge.inputs[input]) : NULL;
}

void mt_source_progress(struct mt_source *s, uint64_t *done, uint64_t *total)
{
    *done = __atomic_load_n(&s->merge.done, __ATOMIC_RELAXED);
    *total = s->merge.total;
}
