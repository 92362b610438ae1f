/* What happens to memory besides accesses: copies, fills and allocations of all inputs in one order. */
#include "reader/base/internal.h"
#include "memtrace/order.h"

MT_ORDER_3(by_seq, struct mt_copy_event, seq, kind, dst)

MT_ORDER_1(by_id, struct mt_alloc_event, id)

MT_ORDER_POINTED_2(by_release, struct mt_alloc_event, free_seq, id)

/* What an address held before it was allocated anew is nobody's message to who reads it now. */
static struct mt_copy_event events_new(const struct mt_alloc_event *a, uint64_t from)
{
    return (struct mt_copy_event){.seq = a->seq,
                                  .kind = MT_COPY_NEW,
                                  .dst = a->base + from,
                                  .width = a->bytes - from,
                                  .height = a->bytes > from};
}

/* 0: where it was before its first access is not known (symbols, malloc in kernels). */
static int events_is_new(const struct mt_alloc_event *a)
{
    return strcmp(a->kind, "symbol") != 0 && strcmp(a->kind, "device") != 0;
}

/* Allocations of a trace's companion. */
static void device_memory(struct mt_source_merge *m, const struct mt_companion *c)
{
    for (size_t k = 0; k < c->nallocs; k++)
        if (events_is_new(&c->allocs[k]))
            m->copies[m->ncopies++] = events_new(&c->allocs[k], 0);
}

/* The allocation that a realloc gave up: freed with its number, or just before. */
static const struct mt_alloc_event *given_up(const struct mt_alloc_event *const *freed, size_t n,
                                             const struct mt_alloc_event *a)
{
    size_t at = MT_FIRST(i, n, freed[i]->free_seq > a->seq);
    while (at-- > 0 && freed[at]->free_seq + 1 >= a->seq)
        if (freed[at] != a && freed[at]->id < a->id)
            return freed[at];
    return NULL;
}

/* Allocations of host code. A realloc carries its bytes along. The program break moves over memory that
 * malloc deals out again, and says so itself. 0, or -1 without memory. */
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

/* Events of no stream are in every companion: each once. */
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

/* What one call of a host program allocated again and again is one buffer to people. 0, or -1 without
 * memory. */
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

/* What the host did to memory is left out; which memory there was is not. */
static void keep_new_memory(struct mt_source_merge *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ncopies; i++)
        if (m->copies[i].kind == MT_COPY_NEW)
            m->copies[n++] = m->copies[i];
    m->ncopies = n;
}

int mt_collect_events(struct mt_source_merge *m, unsigned flags, struct mt_alloc_event **allocs,
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
        /* A container was closed with its stream, and the file goes on: what is freed later is there. */
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
