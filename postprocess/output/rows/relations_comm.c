/* Rows of the communication analysis and of what the companions say. */
#define _GNU_SOURCE
#include "comm_formats.h"
#include "sorted.h"
#include "relations_parts.h"
#include "base/text.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

int mt_tuples_of_launches(struct mt_tuples *w, const struct mt_comm_result *r)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->comm->nlaunches; i++) {
        const struct mt_launch_event *e = r->events[i];
        mt_tuples_number(w, i);
        mt_tuples_text(w, r->comm->launches[i].kernel);
        if (e) {
            mt_tuples_text(w, e->mangled);
            mt_tuples_text(w, e->signature);
            mt_tuples_number(w, e->seq);
            mt_tuples_number(w, e->stream);
            for (int k = 0; k < 3; k++)
                mt_tuples_number(w, e->grid[k]);
            for (int k = 0; k < 3; k++)
                mt_tuples_number(w, e->block[k]);
            mt_tuples_number(w, e->shared);
            mt_tuples_text(w, e->file);
            mt_tuples_numbers(w, MT_NUMBERS(e->line, e->begin_ns, e->end_ns, e->untraced));
        } else {
            mt_tuples_null(w, 16);
        }
        mt_tuples_number(w, r->comm->launches[i].selected != 0);
        rc = mt_tuples_next(w);
    }
    return rc;
}

int mt_tuples_of_cta_volumes(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_comm *c = r->comm;
    int rc = 0;
    for (uint32_t i = 1; rc == 0 && i < c->nactors; i++) {
        const struct mt_actor *a = &c->actors[i];
        if (!c->launches[a->launch].selected)
            continue;
        mt_tuples_number(w, a->launch);
        mt_tuples_cta(w, a->cta);
        mt_tuples_numbers(w, MT_NUMBERS(a->smid, a->load, a->store, mt_actor_comm_load(a), a->comm_store));
        for (int s = 0; s < MT_SENDER_KINDS; s++)
            mt_tuples_number(w, a->from[s]);
        rc = mt_tuples_next(w);
    }
    return rc;
}

int mt_tuples_of_host_volumes(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_comm *c = r->comm;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->nhosts; i++) {
        const struct mt_host_actor *h = &c->hosts[i];
        mt_tuples_number(w, i + 1); /* never 0: to SQL a place is true, a CTA's NULL is not */
        mt_tuples_number(w, h->superstep);
        mt_tuples_text(w, mt_comm_location_name(c, h->place));
        mt_tuples_numbers(w, MT_NUMBERS(h->load, h->store, h->comm_load, h->comm_store));
        rc = mt_tuples_next(w);
    }
    return rc;
}

static void relations_end(struct mt_tuples *w, const struct mt_comm *c, uint32_t id)
{
    if (id & MT_ENTRY_HOST) {
        mt_tuples_null(w, 4);
        mt_tuples_number(w, (uint64_t)(id & MT_ENTRY_MAX) + 1);
    } else {
        mt_tuples_number(w, c->actors[id].launch);
        mt_tuples_cta(w, c->actors[id].cta);
        mt_tuples_null(w, 1);
    }
}

int mt_tuples_of_transfers(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_comm *c = r->comm;
    size_t *order = mt_transfers_sort(c);
    int rc = order ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; rc == 0 && i < c->ntransfers; i++) {
        const struct mt_transfer *x = &c->transfers[order[i]];
        relations_end(w, c, x->src);
        relations_end(w, c, x->dst);
        mt_tuples_numbers(w, MT_NUMBERS(x->size, x->count, mt_transfer_unordered(c, x)));
        rc = mt_tuples_next(w);
    }
    free(order);
    return rc;
}

/* ---- sites ---- */

struct numbered {
    const struct mt_site_event *site;
    size_t from; /* place in the order of the inputs */
};

static int relations_site_order(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    if (x->site->id != y->site->id)
        return x->site->id < y->site->id ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Of all companions of kernels; NULL without memory. */
static struct numbered *relations_sites(const struct mt_comm_result *r, size_t *count)
{
    size_t n = 0;
    for (size_t i = 0; i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        n += c && !c->engine[0] ? c->nsites : 0;
    }
    struct numbered *list = malloc((n + 1) * sizeof *list);
    n = 0;
    for (size_t i = 0; list && i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        for (size_t k = 0; c && !c->engine[0] && k < c->nsites; k++, n++)
            list[n] = (struct numbered){&c->sites[k], n};
    }
    if (list)
        qsort(list, n, sizeof *list, relations_site_order);
    *count = n;
    return list;
}

int mt_tuples_of_sites(struct mt_tuples *w, const struct mt_comm_result *r)
{
    size_t n;
    struct numbered *list = relations_sites(r, &n);
    int rc = list ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct mt_site_event *s = list[i].site;
        if (i && s->id == list[i - 1].site->id)
            continue; /* streams of one process have the same sites */
        mt_tuples_number(w, s->id);
        mt_tuples_text(w, s->file);
        mt_tuples_number(w, s->line);
        mt_tuples_number(w, s->column);
        mt_tuples_text(w, s->function);
        mt_tuples_text(w, s->op);
        mt_tuples_number(w, s->size);
        mt_tuples_text(w, s->var);
        mt_tuples_text(w, s->at);
        rc = mt_tuples_next(w);
    }
    free(list);
    return rc;
}

int mt_tuples_of_allocations(struct mt_tuples *w, const struct mt_comm_result *r)
{
    size_t n;
    const struct mt_alloc_event *a = mt_source_allocs(r->source, &n);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (i && a[i].id == a[i - 1].id)
            continue; /* a companion may say anything */
        mt_tuples_numbers(w, MT_NUMBERS(a[i].id, a[i].base, a[i].bytes));
        mt_tuples_text(w, a[i].kind);
        mt_tuples_text(w, a[i].name);
        mt_tuples_text(w, a[i].file);
        mt_tuples_number(w, a[i].line);
        mt_tuples_number(w, a[i].seq);
        mt_tuples_maybe(w, a[i].free_seq != MT_SEQ_NONE, a[i].free_seq);
        rc = mt_tuples_next(w);
    }
    return rc;
}

/* ---- copies ---- */

MT_ORDER_POINTED(by_seq, struct mt_copy_event,
                 MT_ORDER_DIFFER(x, y, seq) MT_ORDER_DIFFER(x, y, kind) MT_ORDER_DIFFER(x, y, dst))

/* Of all inputs, each once: those of no stream are in every companion. NULL without memory. */
static const struct mt_copy_event **relations_copies(const struct mt_comm_result *r, size_t *n)
{
    size_t room = 0, kept = 0;
    for (size_t i = 0; i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        room += c ? c->ncopies : 0;
    }
    const struct mt_copy_event **list = malloc((room + 1) * sizeof *list);
    *n = 0;
    for (size_t i = 0; list && i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        for (size_t k = 0; c && k < c->ncopies; k++)
            list[(*n)++] = &c->copies[k];
    }
    if (list)
        qsort(list, *n, sizeof *list, by_seq);
    for (size_t i = 0; list && i < *n; i++)
        if (!kept || by_seq(&list[kept - 1], &list[i]) != 0)
            list[kept++] = list[i];
    *n = kept;
    return list;
}

int mt_tuples_of_copies(struct mt_tuples *w, const struct mt_comm_result *r)
{
    static const char *const kinds[] = {"h2h", "h2d", "d2h", "d2d", "set"};
    size_t n;
    const struct mt_copy_event **list = relations_copies(r, &n);
    int rc = list ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct mt_copy_event *c = list[i];
        mt_tuples_number(w, c->seq);
        mt_tuples_text(w, c->kind <= MT_COPY_SET ? kinds[c->kind] : "?");
        mt_tuples_number(w, c->dst);
        mt_tuples_maybe(w, c->kind != MT_COPY_SET, c->src);
        mt_tuples_numbers(w, MT_NUMBERS(c->width * c->height, c->height));
        mt_tuples_maybe(w, c->stream >= 0, (uint64_t)c->stream);
        mt_tuples_maybe(w, c->begin_ns != 0, c->begin_ns);
        mt_tuples_text(w, c->file && *c->file ? c->file : NULL);
        mt_tuples_maybe(w, c->file && *c->file, c->line);
        rc = mt_tuples_next(w);
    }
    free(list);
    return rc;
}

/* ---- ranges ---- */

struct ranges {
    struct mt_tuples *w;
    uint64_t launch;
};

static int relations_range(void *arg, uint64_t word, uint32_t type, const struct mt_touched_range *range)
{
    struct ranges *r = arg;
    mt_tuples_number(r->w, r->launch);
    mt_tuples_cta(r->w, word);
    mt_tuples_number(r->w, type);
    mt_tuples_number(r->w, range->start);
    mt_tuples_number(r->w, range->end);
    return mt_tuples_next(r->w);
}

int mt_tuples_ranges(struct mt_tuples *w, uint64_t launch, struct mt_touched *ranges)
{
    struct ranges r = {w, launch};
    return mt_touched_end(ranges, relations_range, &r);
}

/* They come from a pass of their own. */
int mt_tuples_of_ranges(struct mt_tuples *w, const struct mt_comm_result *r)
{
    (void)w, (void)r;
    return 0;
}

/* ---- meta ---- */

static int relations_say(struct mt_tuples *w, const char *key, const char *value)
{
    size_t n = strlen(value);
    char *visible =
        mt_text_is_plain(value, n) ? NULL : mt_text_visible_copy(value, n); /* a path may be anything */
    mt_tuples_text(w, key);
    mt_tuples_text(w, visible ? visible : value);
    int rc = mt_tuples_next(w);
    free(visible);
    return rc;
}

static int relations_say_number(struct mt_tuples *w, const char *key, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return relations_say(w, key, text);
}

static int relations_options(struct mt_tuples *w, const struct mt_comm_result *r)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < MT_LOCALITY_SECTIONS; i++)
        if (r->chosen >> i & 1)
            rc = relations_say(w, mt_locality_names[i], "1");
    if (rc == 0 && r->chosen & (1u << MT_LOCALITY_REUSE | 1u << MT_LOCALITY_SHARING))
        rc = relations_say_number(w, "line_size", 1ull << r->locality->options.analysis.line_bits);
    if (rc == 0 && r->chosen & 1u << MT_LOCALITY_REUSE)
        rc = relations_say_number(w, "sample", 1ull << r->locality->reuse.sample_bits);
    if (rc == 0 && r->chosen & 1u << MT_LOCALITY_PLACEMENT)
        rc = relations_say_number(w, "placement_devices", r->placement->devices);
    return rc;
}

int mt_tuples_of_meta(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_companion *c = r->ninputs ? mt_source_companion(r->source, 0) : NULL;
    const char *program = c ? strrchr(c->program, '/') : NULL;
    const char *tag = r->tag ? r->tag : program ? program + 1 : c && *c->program ? c->program : r->inputs[0];
    size_t notes;
    int ignored, rc = 0;
    const char *const *note = mt_source_notes(r->source, &notes, &ignored);
    char key[40];
    const char *const first[][2] = {{"format", "memtrace-comm"},
                                    {"version", "1"},
                                    {"tool", "mt-extract " MEMTRACE_VERSION},
                                    {"complete", r->complete > 0 ? "1"
                                                 : r->complete   ? "not known"
                                                                 : "0"},
                                    {"tag", tag}};
    for (size_t i = 0; rc == 0 && i < sizeof first / sizeof *first; i++)
        rc = relations_say(w, first[i][0], first[i][1]);
    for (size_t i = 0; rc == 0 && i < r->ninputs; i++) {
        snprintf(key, sizeof key, "input %zu", i);
        rc = relations_say(w, key, r->inputs[i]);
    }
    for (size_t i = 0; rc == 0 && i < notes + r->nnotes; i++) {
        snprintf(key, sizeof key, "note %zu", i);
        rc = relations_say(w, key, i < notes ? note[i] : r->notes[i - notes]);
    }
    return rc == 0 ? relations_options(w, r) : rc;
}

/* ---- all of them ---- */

unsigned mt_relations_section(enum mt_relation_number number)
{
    const int section = (int)mt_relations[number].of - (int)MT_OF_RANGES - 1; /* in the same order */
    return section < 0 ? 0 : 1u << section;
}

unsigned mt_relations_of(unsigned chosen)
{
    unsigned which = 0;
    for (int i = 0; i < MT_RELATIONS; i++) {
        unsigned needs = mt_relations_section((enum mt_relation_number)i);
        which |= (unsigned)(!needs || needs & chosen ? 1 : 0) << i;
    }
    return which;
}

int mt_relation_write(struct mt_tuples *w, enum mt_relation_number number, const struct mt_comm_result *r)
{
    static int (*const rows[MT_RELATIONS])(struct mt_tuples *, const struct mt_comm_result *) = {
#define MT_RELATION(name, of, what) mt_tuples_of_##name,
#define MT_COLUMN(name, column, type, presence, refers, json, what)
#include "relations.def"
    };
    return mt_tuples_begin(w, number) != 0 || rows[number](w, r) != 0 || mt_tuples_end(w) != 0 ? -1 : 0;
}
