/* Host traces without kernels: the program is a launch, each of its threads a CTA (docs/definitions.md). */
#define _GNU_SOURCE
#include "reader/base/internal.h"
#include "reader/container/container.h"

static uint64_t threads_count(const struct mt_host_reader *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->chunks.count; i++) {
        const struct mt_mtc_index *e = &r->chunks.entries[i];
        n = e->type == MT_MTC_HOST && e->key != UINT64_MAX && e->key >= n ? e->key + 1 : n;
    }
    return n;
}

int mt_threads_input_take(struct mt_input *in, uint64_t number, struct mt_error *err)
{
    struct mt_host_state *h = &in->host;
    const struct mt_companion *c = mt_host_companion(h->reader);
    const char *slash = c ? strrchr(c->program, '/') : NULL, *name = slash ? slash + 1 : c ? c->program : "";
    if (!(h->program = strdup(*name ? name : "program")))
        return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, in->path, "no memory");
    uint64_t threads = threads_count(h->reader);
    h->launch = (struct mt_launch_event){.seq = MT_SEQ_PROGRAM + number,
                                         .kernel = h->program,
                                         .mangled = "",
                                         .signature = "",
                                         .file = "",
                                         .left_out = "",
                                         .library = "",
                                         .grid = {threads ? threads : 1, 1, 1},
                                         .block = {1, 1, 1},
                                         .traced = 1};
    in->ops = &mt_threads_input;
    return mt_host_reader_order(
        h->reader,
        mt_host_reader_head(h->reader)->features & MT_MTC_HAS_TIMES ? MT_HOST_BY_TIME : MT_HOST_BY_SEQ, err);
}

/* Looks at what comes next; what is wrong with it is kept until it can be said. */
static int threads_look(struct mt_input *in, uint64_t *bytes)
{
    struct mt_host_state *h = &in->host;
    if (!h->has_problem && mt_host_fill(in, bytes, &h->problem) < 0)
        h->has_problem = 1;
    return !h->has_problem && h->has_head && !h->life;
}

uint64_t mt_threads_input_seq(struct mt_input *in)
{
    uint64_t bytes = 0;
    if (!threads_look(in, &bytes))
        return MT_SEQ_NONE;
    return in->host.head.seq > in->host.seq ? in->host.head.seq : in->host.seq;
}

static uint32_t threads_type(const struct mt_host_access *a)
{
    static const struct {
        unsigned char reads, writes;
    } does[] = {
#define MT_HOST_OP(name, code, reads, writes, text) [code] = {reads, writes},
#include "memtrace/container.def"
    };
    unsigned op = (unsigned)a->site->op;
    if (op >= sizeof does / sizeof *does || a->size == 0)
        return MT_UNKNOWN;
    return does[op].reads && does[op].writes ? MT_ATOMIC
           : does[op].reads                  ? MT_LOAD
           : does[op].writes                 ? MT_STORE
                                             : MT_UNKNOWN;
}

/* One more access of the same kind, where the last run would have it. */
static int threads_goes_on(struct mt_access_run *r, const struct mt_access_run *a)
{
    if (r->site != a->site || r->cta != a->cta || r->meta != a->meta || r->count == UINT32_MAX)
        return 0;
    if (r->count == 1)
        r->stride = (int64_t)(a->base - r->base);
    if (a->base != r->base + r->count * (uint64_t)r->stride)
        return 0;
    r->count++;
    return 1;
}

/* Appends an access to the runs: at most two more of them, for one that is longer than a record can say. */
static size_t threads_add(struct mt_access_run *runs, size_t n, const struct mt_host_access *a,
                          uint64_t thread)
{
    uint32_t type = threads_type(a), size = a->size, whole = size / MT_RAW_MAX_SIZE;
    struct mt_access_run r = {.base = a->address,
                              .stride = MT_RAW_MAX_SIZE,
                              .cta = thread << 32,
                              .warp = MT_RUN_NO_WARP,
                              .site = a->site->site,
                              .count = whole,
                              .meta = type << 28 | MT_RAW_MAX_SIZE};
    if (type == MT_UNKNOWN)
        return n;
    if (whole)
        runs[n++] = r;
    r.base += (uint64_t)whole * MT_RAW_MAX_SIZE;
    r.meta = type << 28 | size % MT_RAW_MAX_SIZE;
    r.count = 1;
    r.stride = 0;
    if (size % MT_RAW_MAX_SIZE && (n == 0 || whole || !threads_goes_on(&runs[n - 1], &r)))
        runs[n++] = r;
    return n;
}

/* Accesses with one number in force, as many as there is room for. */
static size_t threads_collect(struct mt_input *in, struct mt_host_access *room, struct mt_access_run *runs,
                              size_t capacity, size_t *nruns, uint64_t *bytes)
{
    struct mt_host_state *h = &in->host;
    size_t n = 0;
    *nruns = 0;
    while (n < capacity / 2 && threads_look(in, bytes)) {
        if (h->head.seq > h->seq && n > 0)
            break;
        h->seq = h->head.seq > h->seq ? h->head.seq : h->seq;
        const uint64_t thread = h->head.thread & INT32_MAX;
        size_t got = mt_host_take(in, room + n, capacity / 2 - n);
        for (size_t i = 0; i < got; i++)
            *nruns = threads_add(runs, *nruns, &room[n + i], thread);
        n += got;
    }
    return n;
}

static uint64_t threads_accesses(const struct mt_access_run *runs, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += runs[i].count;
    return sum;
}

static int threads_input_pull(struct mt_input *in, const struct mt_stop *stop, struct mt_raw_record *room,
                              struct mt_access_run *runs, size_t capacity, struct mt_item *item,
                              struct mt_pulled *p, struct mt_error *err)
{
    struct mt_host_state *h = &in->host;
    size_t n = 0, host = 0;
    *item = (struct mt_item){.kind = MT_ITEM_RUNS, .runs = runs, .host = (const void *)room};
    if (mt_stopped(stop)) {
        in->pass.finished = p->over = 1;
        return mt_error_set(err, MT_E_STOPPED, EINTR, 0, in->path, "stopped while reading");
    }
    if (!h->begun) {
        /* Nothing but the beginning: new memory may come before the first access. */
        h->begun = 1;
        p->kernel = h->program;
        p->event = &h->launch;
        item->flags = MT_BATCH_BEGIN;
        return 1;
    }
    if (h->life) {
        /* Nothing but that: new memory may come before the thread's accesses. */
        item->life = h->life;
        item->seq = h->seq;
        h->life = 0;
        return 1;
    }
    host = threads_collect(in, (struct mt_host_access *)(void *)room, runs, capacity, &n, &p->bytes);
    if (host == 0 && h->has_problem) {
        h->has_problem = 0;
        *err = h->problem;
        p->over = in->pass.finished;
        return -1;
    }
    item->count = n;
    item->host_count = host;
    item->seq = h->seq;
    p->accesses = threads_accesses(runs, n);
    if (host == 0 && !h->life)
        item->flags = MT_BATCH_END;
    return 1;
}

static uint64_t threads_input_peek(struct mt_input *in)
{
    return in->host.launch.seq - MT_SEQ_PROGRAM; /* the allocations are not before it, but within */
}

static int threads_input_more(struct mt_input *in)
{
    return !in->pass.finished;
}

const struct mt_input_ops mt_threads_input = {mt_host_input_start, threads_input_peek, threads_input_pull,
                                              threads_input_more,  mt_host_input_end,  mt_host_input_close};
