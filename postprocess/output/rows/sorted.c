/* Sorts the results of the analyses for output. */
#define _GNU_SOURCE

#include "sorted.h"
#include "analysis/base/pairmap.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include "analysis/base/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- volumes ---- */

MT_ORDER_1(by_key, struct mt_volume, key)

void mt_volume_add(struct mt_volume *to, const struct mt_volume *v)
{
    to->load += v->load;
    to->store += v->store;
    to->comm_load += v->comm_load;
    to->comm_store += v->comm_store;
    for (int s = 0; s < MT_SENDER_KINDS; s++)
        to->from[s] += v->from[s];
}

static struct mt_volume sorted_actor(const struct mt_actor *a, enum mt_volume_by by)
{
    return (struct mt_volume){by == MT_VOLUME_CTA  ? mt_cta_order(a->cta)
                              : by == MT_VOLUME_SM ? a->smid
                                                   : 0,
                              a->load,
                              a->store,
                              mt_actor_comm_load(a),
                              a->comm_store,
                              {a->from[0], a->from[1], a->from[2]}};
}

struct mt_volume mt_volume_of_launch(const struct mt_comm *c, size_t launch)
{
    struct mt_volume sum = {0};
    for (uint32_t i = c->launches[launch].first; i < c->launches[launch].end; i++) {
        struct mt_volume v = sorted_actor(&c->actors[i], MT_VOLUME_LAUNCH);
        mt_volume_add(&sum, &v);
    }
    return sum;
}

size_t mt_volumes_of(const struct mt_comm *c, size_t launch, enum mt_volume_by by, struct mt_volume *rows)
{
    size_t n = 0, made = 0;
    if (by == MT_VOLUME_LAUNCH) {
        rows[0] = mt_volume_of_launch(c, launch);
        return 1;
    }
    for (uint32_t i = c->launches[launch].first; i < c->launches[launch].end; i++)
        rows[n++] = sorted_actor(&c->actors[i], by);
    qsort(rows, n, sizeof *rows, by_key);
    for (size_t i = 0; i < n; i++)
        if (made && rows[made - 1].key == rows[i].key)
            mt_volume_add(&rows[made - 1], &rows[i]);
        else
            rows[made++] = rows[i];
    return made;
}

size_t mt_volumes_room(const struct mt_comm *c)
{
    size_t most = 0;
    for (size_t i = 0; i < c->nlaunches; i++) {
        size_t n = c->launches[i].end - c->launches[i].first;
        most = n > most ? n : most;
    }
    return most + 1;
}

/* ---- further analyses ---- */

void *mt_sorted_copy(const void *from, size_t n, size_t size,
                     int (*order)(const void *, const void *, void *), void *arg)
{
    void *to = malloc((n + 1) * size);
    if (to && n) {
        memcpy(to, from, n * size);
        qsort_r(to, n, size, order, arg);
    }
    return to;
}

size_t *mt_sorted_numbers(size_t n, int (*order)(const void *, const void *, void *), void *arg)
{
    size_t *list = malloc((n + 1) * sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        list[i] = i;
    if (list && n)
        qsort_r(list, n, sizeof *list, order, arg);
    return list;
}

static int by_launch(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int d = mt_order_text(c->launches[x].kernel, c->launches[y].kernel);
    return d ? d : x < y ? -1 : x > y;
}

size_t *mt_launches_sorted(const struct mt_comm *c)
{
    return mt_sorted_numbers(c->nlaunches, by_launch, (void *)c);
}

/* ---- transfers ---- */

/* Compares by reader, then by writer; hosts come last. */
static int end_order(const struct mt_comm *c, uint32_t x, uint32_t y)
{
    if ((x ^ y) & MT_ENTRY_HOST)
        return x & MT_ENTRY_HOST ? 1 : -1;
    if (x & MT_ENTRY_HOST) {
        const struct mt_host_actor *p = &c->hosts[x & MT_ENTRY_MAX], *q = &c->hosts[y & MT_ENTRY_MAX];
        if (p->superstep != q->superstep)
            return p->superstep < q->superstep ? -1 : 1;
        return strcmp(mt_comm_location_name(c, p->place), mt_comm_location_name(c, q->place));
    }
    const struct mt_actor *p = &c->actors[x], *q = &c->actors[y];
    if (p->launch != q->launch)
        return p->launch < q->launch ? -1 : 1;
    uint64_t v = mt_cta_order(p->cta), w = mt_cta_order(q->cta);
    return v < w ? -1 : v > w;
}

static int by_transfer(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    const struct mt_transfer *x = &c->transfers[*(const size_t *)a], *y = &c->transfers[*(const size_t *)b];
    int d = end_order(c, x->dst, y->dst);
    return d ? d : end_order(c, x->src, y->src);
}

size_t *mt_transfers_sort(const struct mt_comm *c)
{
    return mt_sorted_numbers(c->ntransfers, by_transfer, (void *)c);
}

MT_ORDER_2(by_flow, struct mt_sent, src, dst)

static uint64_t sorted_group(const struct mt_comm *c, const uint32_t *group, uint32_t end)
{
    if (end & MT_ENTRY_HOST)
        return MT_SENT_HOST;
    return group ? group[c->actors[end].launch] : c->actors[end].launch;
}

struct mt_sent *mt_sent_of(const struct mt_comm *c, const uint32_t *group, size_t *n)
{
    struct mt_pairmap index = {0};
    struct mt_sent *list = NULL;
    size_t room = 0;
    int failed = mt_grow(&list, &room, 1, sizeof *list) != 0;
    *n = 0;
    for (size_t i = 0; !failed && i < c->ntransfers; i++) {
        const struct mt_transfer *t = &c->transfers[i];
        uint64_t src = sorted_group(c, group, t->src), dst = sorted_group(c, group, t->dst);
        uint64_t *at = mt_pairmap_get(&index, src, dst, *n);
        if ((failed = !at || mt_grow(&list, &room, *n + 1, sizeof *list) != 0))
            break;
        if (*at == *n)
            list[(*n)++] = (struct mt_sent){.src = src, .dst = dst, .reader = UINT64_MAX};
        struct mt_sent *f = &list[*at];
        uint64_t reader = t->dst & MT_ENTRY_HOST ? UINT64_MAX : c->actors[t->dst].launch;
        f->bytes += t->size;
        f->accesses += t->count;
        f->transfers++;
        f->reader = reader < f->reader ? reader : f->reader;
    }
    mt_pairmap_free(&index);
    if (failed) {
        free(list);
        return NULL;
    }
    qsort(list, *n, sizeof *list, by_flow);
    return list;
}

/* Words of the results, and keys made from numbers, shared by JSON, text and tables. */

const char *const mt_section_names[MT_SECTIONS] = {"KCV", "KDV", "CCV",       "CDV",     "SCV",      "SDV",
                                                   "HCV", "HDV", "transfers", "senders", "addresses"};

const char *const mt_sender_names[MT_SENDER_KINDS] = {"same_launch", "earlier_launch", "same_cta"};

const char *const mt_sender_words[MT_SENDER_KINDS][2] = {
    {"another CTA of the same launch", "another thread"},
    {"another CTA of an earlier launch", "another thread of an earlier program"},
    {"the same CTA of an earlier launch", "the same thread of an earlier program"}};

const char *const mt_access_types[4] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#include "memtrace/record.def"
};

const char *const mt_reuse_levels[MT_REUSE_LEVELS] = {"CTA", "SM", "device"};

const char *const mt_sharing_kinds[MT_SHARING_KINDS] = {"private", "read", "true", "false"};

const char *const mt_placement_policies[MT_PLACE_POLICIES] = {"block", "robin", "mincut"};

/* ---- keys ---- */

char *mt_digits(char *end, uint64_t v)
{
    do
        *--end = (char)('0' + v % 10);
    while (v /= 10);
    return end;
}

const char *mt_key_u64(char *out, uint64_t value)
{
    char d[20], *s = mt_digits(d + sizeof d, value);
    size_t n = (size_t)(d + sizeof d - s);
    memcpy(out, s, n);
    out[n] = 0;
    return out;
}
const char *mt_key_hex(char *out, uint64_t value)
{
    int shift = 60;
    size_t n = 2;
    memcpy(out, "0x", 2);
    while (shift > 0 && value >> shift == 0)
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        out[n++] = "0123456789abcdef"[value >> shift & 15];
    out[n] = 0;
    return out;
}

const char *mt_key_cta(char *out, uint64_t x, uint64_t y, uint64_t z)
{
    mt_key_u64(out, x);
    size_t n = strlen(out);
    out[n++] = ',';
    mt_key_u64(out + n, y);
    n += strlen(out + n);
    out[n++] = ',';
    mt_key_u64(out + n, z);
    return out;
}

const char *mt_cta_key(char *out, uint64_t order)
{
    return mt_key_cta(out, order & 0xffffffff, order >> 32 & 0xffff, order >> 48);
}

/* ---- places and buffers ---- */

const char *mt_comm_location_name(const struct mt_comm *c, uint32_t place)
{
    return place || c->options.host ? c->places.all.names[place] : "0,0,0";
}

const char *mt_alloc_label(char *out, const struct mt_locality *m, uint64_t alloc)
{
    return alloc < m->nallocs ? mt_alloc_event_label(out, &m->allocs[alloc]) : strcpy(out, "?");
}

const char *mt_alloc_event_label(char *out, const struct mt_alloc_event *a)
{
    const char *slash = strrchr(a->file, '/'), *file = slash ? slash + 1 : a->file;
    int n = snprintf(out, MT_ALLOC_LABEL, "#%" PRIu64 " %.200s", a->id, *a->name ? a->name : a->kind);
    if (!*a->name && *file && n < MT_ALLOC_LABEL)
        n += snprintf(out + n, MT_ALLOC_LABEL - (size_t)n, " %.60s:%" PRIu64, file, a->line);
    if (!*a->name && !*file && a->at && *a->at && n < MT_ALLOC_LABEL)
        n += snprintf(out + n, MT_ALLOC_LABEL - (size_t)n, " %.120s", a->at);
    if (a->like > 1 && n < MT_ALLOC_LABEL)
        snprintf(out + n, MT_ALLOC_LABEL - (size_t)n, " ×%" PRIu64, a->like);
    return out;
}

int mt_locality_has_sites(const struct mt_locality *m, enum mt_lines_by by)
{
    if (by == MT_BY_ALLOC)
        return m->nallocs > 0;
    for (size_t i = 0; i < m->lines.count[by]; i++)
        if (m->lines.cells[by][i].place)
            return 1;
    return 0;
}

int mt_locality_has_masks(const struct mt_locality *m)
{
    return m->coalescing.masked || !m->coalescing.unmasked;
}
