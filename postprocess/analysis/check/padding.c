/* See padding.h. */
#include "padding.h"
#include "analysis/base/runs.h"
#include <stdlib.h>
#include <string.h>

enum { WORD = 4 };

/* ---- members ---- */

static uint64_t padding_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint64_t padding_distance(uint64_t a, uint64_t b)
{
    return a < b ? b - a : a - b;
}

/* From lane to lane; 0: not known. */
static uint64_t padding_step(const struct mt_access_run *r)
{
    uint64_t step = 0;
    for (uint32_t i = 1; i < (r->addresses ? r->count : r->count > 1 ? 2 : 1); i++)
        step = padding_divisor(step, padding_distance(mt_run_address(r, i - 1), mt_run_address(r, i)));
    return step;
}

static int members_known(const struct mt_members *m)
{
    return m->step && m->step <= MT_MEMBERS_STEP;
}

static void members_begin(struct mt_members *m, uint64_t offset)
{
    m->begins[offset % m->step / 64] |= 1ull << offset % m->step % 64;
}

static int members_begins(const struct mt_members *m, uint64_t offset)
{
    return m->begins[offset % m->step / 64] >> offset % m->step % 64 & 1;
}

/* A smaller step: what is known moves there. */
static void members_fold(struct mt_members *m, uint64_t step)
{
    struct mt_members old = *m;
    m->step = step;
    memset(m->begins, 0, sizeof m->begins);
    for (uint64_t i = 0; members_known(m) && members_known(&old) && i < old.step; i++)
        if (members_begins(&old, i))
            members_begin(m, i);
}

void mt_members_store(struct mt_members *m, const struct mt_access_run *r, uint64_t offset, int whole)
{
    uint64_t step = padding_divisor(m->step, padding_step(r));
    if (m->widest < mt_run_size(r))
        m->widest = mt_run_size(r);
    if (step != m->step)
        members_fold(m, step);
    if (members_known(m) && !whole)
        members_begin(m, offset);
}

void mt_members_take(struct mt_members *m, const struct mt_members *from)
{
    uint32_t widest = m->widest;
    if (from && !m->step)
        *m = *from;
    m->host |= !from || from->host;
    if (m->widest < widest)
        m->widest = widest;
    if (from && m->widest < from->widest)
        m->widest = from->widest;
}

int mt_members_several(const struct mt_members *m)
{
    int n = 0;
    for (uint64_t i = 0; members_known(m) && i < m->step; i++)
        n += members_begins(m, i);
    return n > 1;
}

/* ---- padding ---- */

static int padding_unwritten(const struct mt_written *w, uint64_t at)
{
    int set;
    mt_written_run(w, at, 1, &set);
    return !set;
}

/* May bytes from .. to - 1 be padding that ends where something is aligned to so much? */
static int padding_fits(const struct mt_members *m, uint64_t from, uint64_t to, uint64_t align,
                        uint32_t aligned)
{
    const int words = from % WORD == 0 && to % WORD == 0;
    uint64_t most = words || (m->widest < WORD && !m->host) ? m->widest : MT_MEMBERS_ALIGNED;
    if (to % align || to - from >= align)
        return 0;
    for (uint64_t i = from; members_known(m) && i < to; i++)
        if (members_begins(m, i))
            return 0;
    if (to - from >= WORD && most < aligned)
        most = aligned;
    return align <= most;
}

uint64_t mt_padding(const struct mt_written *written, const struct mt_written *host,
                    const struct mt_members *m, uint64_t at, uint32_t aligned)
{
    uint64_t from = at, left;
    int set = 0;
    while (from && at - from < MT_MEMBERS_ALIGNED && padding_unwritten(written, from - 1))
        from--;
    if (!from || at - from == MT_MEMBERS_ALIGNED)
        return 0;
    if (host)
        mt_written_run(host, from - 1, 1, &set);
    left = mt_written_run(written, at, MT_MEMBERS_ALIGNED, &(int){0});
    for (uint64_t align = 2; !set && align <= MT_MEMBERS_ALIGNED; align *= 2) {
        uint64_t n = align - at % align;
        n = n < left ? n : left;
        if (padding_fits(m, from, at + n, align, aligned))
            return n;
    }
    return 0;
}

/* clang copies what is aligned to 16 as two halves. */
uint64_t mt_padding_read(const struct mt_written *written, const struct mt_written *host,
                         const struct mt_members *m, uint64_t at, uint64_t n, uint32_t size, int whole)
{
    uint32_t aligned = whole && size == 8 ? MT_MEMBERS_ALIGNED : size;
    uint64_t padding = size >= WORD && n == size && !whole ? 0 : mt_padding(written, host, m, at, aligned);
    return padding < n ? padding : n;
}

/* ---- copies of structs ---- */

static int padding_place_order(const void *a, const void *b)
{
    const struct mt_site_event *x = *(const struct mt_site_event *const *)a,
                               *y = *(const struct mt_site_event *const *)b;
    int d = strcmp(x->file, y->file);
    d = d ? d : (x->line > y->line) - (x->line < y->line);
    d = d ? d : (x->column > y->column) - (x->column < y->column);
    return d ? d : strcmp(x->function, y->function);
}

/* list[n] are those of one place. */
static int padding_copies_at(struct mt_pairmap *sites, size_t input, const struct mt_site_event **list,
                             size_t n)
{
    uint64_t sizes[2] = {0, 0}, count[2] = {0, 0};
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        int store = strcmp(list[i]->op, "store") == 0;
        sizes[store] |= list[i]->size;
        count[store]++;
    }
    for (size_t i = 0; i < n && rc == 0; i++)
        if (count[0] > 1 && count[1] > 1 && list[i]->size & sizes[0] & sizes[1])
            rc = mt_pairmap_get(sites, list[i]->id, input, 1) ? 0 : -1;
    return rc;
}

static int padding_copies_of(struct mt_pairmap *sites, size_t input, const struct mt_companion *c)
{
    const struct mt_site_event **list = malloc((c->nsites + 1) * sizeof *list);
    size_t n = 0;
    int rc = list ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < c->nsites; i++)
        if (*c->sites[i].file)
            list[n++] = &c->sites[i];
    if (n)
        qsort(list, n, sizeof *list, padding_place_order);
    for (size_t i = 0, end; i < n && rc == 0; i = end) {
        for (end = i + 1; end < n && padding_place_order(&list[i], &list[end]) == 0;)
            end++;
        rc = padding_copies_at(sites, input, list + i, end - i);
    }
    free((void *)list);
    return rc;
}

int mt_padding_copies(struct mt_pairmap *sites, const struct mt_source *s)
{
    const struct mt_companion *c;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < mt_source_inputs(s); i++)
        if ((c = mt_source_companion(s, i)))
            rc = padding_copies_of(sites, i, c);
    return rc;
}
