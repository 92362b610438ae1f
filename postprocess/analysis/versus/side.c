/* Takes the figures of one run together: rows are gathered as they come, sorted, and equal ones added. */
#define _GNU_SOURCE
#include "side.h"
#include "analysis/base/sites.h"
#include "memtrace/grow.h"
#include "memtrace/hash.h"
#include "memtrace/order.h"
#include "memtrace/record.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct mt_figure_words mt_figure_words[MT_FIGURES] = {
#define MT_BOTH(words) {words, words}
#define MT_EACH(kernels, threads) {kernels, threads}
#define MT_FIGURE(NAME, name, words, head, judged) {#name, words, head, judged},
#include "figures.def"
#undef MT_FIGURE
#undef MT_BOTH
#undef MT_EACH
};

/* ---- rows ---- */

/* A row to be added to; NULL: no memory. */
static struct mt_side_row *side_row(struct mt_run_side *s, enum mt_side_by by, const char *kernel,
                                    const char *place)
{
    if (mt_grow((void **)&s->rows[by], &s->room[by], s->count[by] + 1, sizeof **s->rows) != 0)
        return NULL;
    struct mt_side_row *r = &s->rows[by][s->count[by]++];
    *r = (struct mt_side_row){.kernel = kernel, .place = place, .first = UINT64_MAX};
    return r;
}

static void side_add(struct mt_side_row *r, enum mt_figure f, uint64_t n)
{
    r->known |= 1u << f;
    r->v[f] += n;
}

static int by_key(const void *a, const void *b)
{
    const struct mt_side_row *x = a, *y = b;
    int d = strcmp(x->kernel, y->kernel);
    return d ? d : strcmp(x->place, y->place);
}

/* One figure is a maximum. */
static void side_join(struct mt_side_row *into, const struct mt_side_row *r)
{
    for (int f = 0; f < MT_FIGURES; f++)
        if (f != MT_FIGURE_LARGEST)
            into->v[f] += r->v[f];
        else if (r->v[f] > into->v[f])
            into->v[f] = r->v[f];
    into->known |= r->known;
    into->first = r->first < into->first ? r->first : into->first;
}

static void side_group(struct mt_run_side *s, enum mt_side_by by)
{
    size_t n = 0;
    if (s->count[by])
        qsort(s->rows[by], s->count[by], sizeof **s->rows, by_key);
    for (size_t i = 0; i < s->count[by]; i++)
        if (n && by_key(&s->rows[by][n - 1], &s->rows[by][i]) == 0)
            side_join(&s->rows[by][n - 1], &s->rows[by][i]);
        else
            s->rows[by][n++] = s->rows[by][i];
    s->count[by] = n;
}

/* ---- where from ---- */

static int side_launches(struct mt_run_side *s, const struct mt_comm *c)
{
    for (size_t i = 0; i < c->nlaunches; i++) {
        struct mt_side_row *r =
            c->launches[i].selected ? side_row(s, MT_SIDE_KERNELS, c->launches[i].kernel, "") : NULL;
        if (!r && c->launches[i].selected)
            return -1;
        if (!r)
            continue;
        side_add(r, MT_FIGURE_LAUNCHES, 1);
        for (uint32_t k = c->launches[i].first; k < c->launches[i].end; k++) {
            side_add(r, MT_FIGURE_LOADED, c->actors[k].load);
            side_add(r, MT_FIGURE_STORED, c->actors[k].store);
            side_add(r, MT_FIGURE_RECEIVED, mt_actor_comm_load(&c->actors[k]));
            side_add(r, MT_FIGURE_SAME_LAUNCH, c->actors[k].from[MT_FROM_SAME_LAUNCH]);
            side_add(r, MT_FIGURE_EARLIER_LAUNCH, c->actors[k].from[MT_FROM_EARLIER_LAUNCH]);
            side_add(r, MT_FIGURE_SAME_CTA, c->actors[k].from[MT_FROM_SAME_CTA]);
        }
    }
    return 0;
}

static int side_crossing(struct mt_run_side *s, const struct mt_comm *c, const struct mt_placement *p)
{
    s->devices = p->devices;
    for (size_t i = 0; i < p->nlaunches && i < c->nlaunches; i++) {
        struct mt_side_row *r =
            c->launches[i].selected ? side_row(s, MT_SIDE_KERNELS, c->launches[i].kernel, "") : NULL;
        if (r)
            side_add(r, MT_FIGURE_CROSSING, p->launches[i].cross[MT_PLACE_BLOCK]);
        else if (c->launches[i].selected)
            return -1;
    }
    return 0;
}

/* A buffer's name; what has none is called by kind and place. Owned by the side. */
static const char *side_buffer(struct mt_run_side *s, const struct mt_locality *m, uint64_t alloc,
                               uint64_t *id)
{
    if (alloc >= m->nallocs)
        return "?";
    const struct mt_alloc_event *a = &m->allocs[alloc];
    const char *slash = strrchr(a->file, '/');
    char *text;
    *id = a->id;
    if (*a->name)
        return a->name;
    if (!*a->file)
        return a->kind;
    if (mt_grow((void **)&s->texts, &s->text_room, s->ntexts + 1, sizeof *s->texts) != 0 ||
        asprintf(&text, "%s %s:%llu", a->kind, slash ? slash + 1 : a->file, (unsigned long long)a->line) < 0)
        return NULL;
    return s->texts[s->ntexts++] = text;
}

static int side_lines(struct mt_run_side *s, const struct mt_side_of *of)
{
    for (int by = MT_BY_LINE; by <= MT_BY_ALLOC; by++) {
        const struct mt_lines *l = &of->more->lines;
        for (size_t i = 0; by != MT_BY_VAR && i < l->count[by]; i++) {
            const struct mt_lines_cell *c = &l->cells[by][i];
            uint64_t id = UINT64_MAX;
            const char *place =
                by == MT_BY_LINE ? of->sites->lines.names[c->place] : side_buffer(s, of->more, c->place, &id);
            struct mt_side_row *r =
                place ? side_row(s, by == MT_BY_LINE ? MT_SIDE_LINES : MT_SIDE_BUFFERS, c->kernel, place)
                      : NULL;
            if (!r)
                return -1;
            r->first = id;
            side_add(r, MT_FIGURE_ACCESSES,
                     c->accesses[MT_LOAD] + c->accesses[MT_STORE] + c->accesses[MT_ATOMIC]);
            side_add(r, MT_FIGURE_LOADED, c->load);
            side_add(r, MT_FIGURE_STORED, c->store);
            /* Each access is of one buffer, or of none ("?"): so the kernel's are summed. */
            uint64_t n = r->v[MT_FIGURE_ACCESSES];
            if (by == MT_BY_ALLOC && !(r = side_row(s, MT_SIDE_KERNELS, c->kernel, "")))
                return -1;
            if (by == MT_BY_ALLOC)
                side_add(r, MT_FIGURE_ACCESSES, n);
        }
    }
    return 0;
}

static int side_requests(struct mt_run_side *s, const struct mt_side_of *of)
{
    const struct mt_coalescing *c = &of->more->coalescing;
    for (size_t i = 0; i < c->count; i++)
        for (int by = MT_SIDE_KERNELS; by <= MT_SIDE_LINES; by++) {
            const struct mt_coalescing_cell *x = &c->cells[i];
            struct mt_side_row *r = side_row(s, (enum mt_side_by)by, x->kernel,
                                             by == MT_SIDE_LINES ? of->sites->lines.names[x->line] : "");
            if (!r)
                return -1;
            side_add(r, MT_FIGURE_REQUESTS, x->requests);
            side_add(r, MT_FIGURE_SECTORS, x->sectors);
            side_add(r, MT_FIGURE_DISTINCT, x->distinct);
        }
    return 0;
}

/* A conflict counts at both of its lines, once where they are the same. */
static int side_conflicts(struct mt_run_side *s, const struct mt_side_of *of)
{
    for (size_t i = 0; i < of->more->conflicts.count; i++) {
        const struct mt_conflict *c = &of->more->conflicts.list[i];
        uint32_t line[2] = {mt_side_line(c->side[0]), mt_side_line(c->side[1])};
        struct mt_side_row *r = side_row(s, MT_SIDE_KERNELS, c->kernel, "");
        if (r)
            side_add(r, MT_FIGURE_CONFLICTS, c->bytes);
        for (int k = 0; r && k < 1 + (line[0] != line[1]); k++)
            if ((r = side_row(s, MT_SIDE_LINES, c->kernel, of->sites->lines.names[line[k]])))
                side_add(r, MT_FIGURE_CONFLICTS, c->bytes);
        if (!r)
            return -1;
    }
    return 0;
}

static int side_caches(struct mt_run_side *s, const struct mt_locality *m)
{
    for (size_t i = 0; i < m->reuse.count; i++) {
        const struct mt_reuse_launch *l = &m->reuse.launches[i];
        struct mt_side_row *r = l->selected ? side_row(s, MT_SIDE_KERNELS, l->kernel, "") : NULL;
        if (r)
            side_add(r, MT_FIGURE_LARGEST, l->level[MT_REUSE_DEVICE].lines << m->reuse.options.line_bits);
        else if (l->selected)
            return -1;
    }
    for (size_t i = 0; i < m->sharing.count; i++)
        for (int by = MT_SIDE_KERNELS; by <= MT_SIDE_BUFFERS; by += MT_SIDE_BUFFERS) {
            const struct mt_sharing_cell *c = &m->sharing.cells[i];
            uint64_t id = UINT64_MAX;
            const char *place = by == MT_SIDE_KERNELS ? "" : side_buffer(s, m, c->alloc, &id);
            struct mt_side_row *r = place ? side_row(s, (enum mt_side_by)by, c->kernel, place) : NULL;
            if (!r)
                return -1;
            r->first = id;
            side_add(r, MT_FIGURE_FALSELY, c->accesses[MT_SHARED_FALSE]);
        }
    return 0;
}

/* ---- host programs ---- */

static int side_misses(struct mt_run_side *s, const struct mt_side_of *of)
{
    const struct mt_misses *x = &of->more->misses;
    for (size_t i = 0; i < x->count; i++)
        for (int by = MT_SIDE_KERNELS; by <= MT_SIDE_LINES; by++) {
            struct mt_side_row *r =
                side_row(s, (enum mt_side_by)by, x->list[i].kernel,
                         by == MT_SIDE_LINES ? of->sites->lines.names[x->list[i].line] : "");
            if (!r)
                return -1;
            side_add(r, MT_FIGURE_MISSES, x->list[i].misses);
            side_add(r, MT_FIGURE_FETCHED, x->list[i].fetched);
        }
    return 0;
}

/* At the line that takes over, and at the buffer. */
static int side_bounces(struct mt_run_side *s, const struct mt_side_of *of)
{
    const struct mt_bounces *x = &of->more->bounces;
    for (size_t i = 0; i < x->count; i++)
        for (int by = MT_SIDE_KERNELS; by <= MT_SIDE_BUFFERS; by++) {
            uint64_t id = UINT64_MAX;
            const char *place = by == MT_SIDE_KERNELS ? ""
                                : by == MT_SIDE_LINES ? of->sites->lines.names[x->list[i].line[1]]
                                                      : side_buffer(s, of->more, x->list[i].alloc, &id);
            struct mt_side_row *r = place ? side_row(s, (enum mt_side_by)by, x->list[i].kernel, place) : NULL;
            if (!r)
                return -1;
            r->first = id < r->first ? id : r->first;
            side_add(r, MT_FIGURE_BOUNCES, x->list[i].times);
        }
    return 0;
}

/* ---- shared and local memory ---- */

/* A figure of a line, and of its kernel where that is said. */
static int side_onchip_add(struct mt_run_side *s, const char *kernel, const struct mt_site_event *site,
                           enum mt_figure figure, uint64_t n, int with_kernel)
{
    char *text;
    const char *place = "?";
    if (site && *site->file) {
        if (mt_grow((void **)&s->texts, &s->text_room, s->ntexts + 1, sizeof *s->texts) != 0 ||
            asprintf(&text, "%s:%llu", site->file, (unsigned long long)site->line) < 0)
            return -1;
        place = s->texts[s->ntexts++] = text;
    }
    struct mt_side_row *r = side_row(s, MT_SIDE_LINES, kernel, place);
    if (r)
        side_add(r, figure, n);
    if (r && with_kernel && (r = side_row(s, MT_SIDE_KERNELS, kernel, "")))
        side_add(r, figure, n);
    return r ? 0 : -1;
}

/* A hazard counts at both of its lines, once where they are the same. */
static int side_onchip(struct mt_run_side *s, const struct mt_onchip_rows *x)
{
    int bad = 0;
    for (size_t i = 0; i < x->nplaces && !bad; i++) {
        const struct mt_onchip_place *p = &x->places[i];
        int local = mt_rec_space(p->sum.type) == MT_IN_LOCAL;
        bad = side_onchip_add(s, p->kernel, p->site, local ? MT_FIGURE_LOCAL : MT_FIGURE_BANKS,
                              local ? p->sum.bytes : p->sum.wavefronts - p->sum.least, 1);
    }
    for (size_t i = 0; i < x->nhazards && !bad; i++) {
        const struct mt_site_event *const *side = x->hazards[i].side;
        int same = side[0] == side[1] || (side[0] && side[1] && side[0]->line == side[1]->line &&
                                          !strcmp(side[0]->file, side[1]->file));
        for (int k = 0; k < 2 - same && !bad; k++)
            bad = side_onchip_add(s, x->hazards[i].h.kernel, side[k], MT_FIGURE_HAZARDS,
                                  x->hazards[i].h.count, !k);
    }
    return bad;
}

/* ---- accesses of lines ---- */

static uint64_t side_hash(uint64_t h, const char *text)
{
    return mt_hash_bytes(h, text, strlen(text)) * 31;
}

int mt_side_sites(struct mt_run_side *s, const struct mt_site_event *sites, size_t n)
{
    if (mt_grow((void **)&s->tokens, &s->token_room, s->ntokens + n, sizeof *s->tokens) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        uint64_t weak = side_hash(MT_HASH_BEGIN, sites[i].op);
        s->tokens[s->ntokens++] = (struct mt_side_token){sites[i].file, sites[i].line, sites[i].column,
                                                         side_hash(weak, sites[i].var), weak};
    }
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct mt_side_token *x = a, *y = b;
    int d = strcmp(x->file, y->file);
    if (d || x->line != y->line)
        return d ? d : x->line < y->line ? -1 : 1;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* Those of the line that the row is about; tokens are sorted. */
static void side_tokens(struct mt_run_side *s, struct mt_side_row *r)
{
    const char *colon = mt_location_colon(r->place);
    char *file = colon ? strndup(r->place, (size_t)(colon - r->place)) : NULL;
    struct mt_side_token key = {.file = file, .line = colon ? strtoull(colon + 1, NULL, 10) : 0};
    size_t lo = file ? MT_FIRST(i, s->ntokens, by_place(&s->tokens[i], &key) >= 0) : 0, end = lo;
    while (file && end < s->ntokens && s->tokens[end].line == key.line &&
           strcmp(s->tokens[end].file, file) == 0)
        end++;
    if (file && end > lo) {
        r->tokens = s->hashes + 2 * lo;
        r->ntokens = end - lo;
    }
    free(file);
}

/* Sites that several kernels or streams have are one. */
static int side_all_tokens(struct mt_run_side *s)
{
    size_t n = 0;
    if (s->ntokens)
        qsort(s->tokens, s->ntokens, sizeof *s->tokens, by_place);
    for (size_t i = 0; i < s->ntokens; i++)
        if (!n || by_place(&s->tokens[n - 1], &s->tokens[i]) != 0)
            s->tokens[n++] = s->tokens[i];
    s->ntokens = n;
    s->hashes = malloc((2 * n + 1) * sizeof *s->hashes);
    if (!s->hashes)
        return -1;
    for (size_t i = 0; i < n; i++) {
        s->hashes[2 * i] = s->tokens[i].hash;
        s->hashes[2 * i + 1] = s->tokens[i].weak;
    }
    for (size_t i = 0; i < s->count[MT_SIDE_LINES]; i++)
        side_tokens(s, &s->rows[MT_SIDE_LINES][i]);
    return 0;
}

/* What an analysis looked for and did not find is zero, not unknown. */
static void side_known(struct mt_run_side *s, const struct mt_side_of *of)
{
    int masks = of->more->coalescing.masked || !of->more->coalescing.unmasked;
    unsigned always = 1u << MT_FIGURE_CONFLICTS | 1u << MT_FIGURE_FALSELY | 1u << MT_FIGURE_LARGEST |
                      1u << MT_FIGURE_LOADED | 1u << MT_FIGURE_STORED | 1u << MT_FIGURE_RECEIVED |
                      1u << MT_FIGURE_SAME_LAUNCH | 1u << MT_FIGURE_EARLIER_LAUNCH |
                      1u << MT_FIGURE_SAME_CTA | 1u << MT_FIGURE_LAUNCHES | 1u << MT_FIGURE_CROSSING |
                      1u << MT_FIGURE_ACCESSES;
    unsigned lines = 1u << MT_FIGURE_CONFLICTS | 1u << MT_FIGURE_ACCESSES | 1u << MT_FIGURE_LOADED |
                     1u << MT_FIGURE_STORED;
    unsigned host = (of->more->misses.known ? 1u << MT_FIGURE_MISSES | 1u << MT_FIGURE_FETCHED : 0) |
                    (of->more->bounces.known ? 1u << MT_FIGURE_BOUNCES : 0);
    unsigned onchip =
        of->onchip ? 1u << MT_FIGURE_BANKS | 1u << MT_FIGURE_HAZARDS | 1u << MT_FIGURE_LOCAL : 0;
    unsigned lanes = 1u << MT_FIGURE_REQUESTS | 1u << MT_FIGURE_SECTORS | 1u << MT_FIGURE_DISTINCT;
    if (of->comm->options.threads) /* programs have no devices and, as a rule, no earlier launches */
        always &= ~(1u << MT_FIGURE_CROSSING | 1u << MT_FIGURE_EARLIER_LAUNCH | 1u << MT_FIGURE_SAME_CTA |
                    1u << MT_FIGURE_LARGEST | 1u << MT_FIGURE_LAUNCHES);
    for (size_t i = 0; i < s->count[MT_SIDE_KERNELS]; i++) {
        struct mt_side_row *r = &s->rows[MT_SIDE_KERNELS][i];
        r->known = masks ? r->known | always | lanes : (r->known | always) & ~lanes;
        r->known |= onchip | host;
        side_join(&s->all, r);
    }
    for (size_t i = 0; i < s->count[MT_SIDE_LINES]; i++)
        s->rows[MT_SIDE_LINES][i].known |= lines | (masks ? lanes : 0) | onchip | host;
    for (size_t i = 0; i < s->count[MT_SIDE_BUFFERS]; i++)
        s->rows[MT_SIDE_BUFFERS][i].known |= 1u << MT_FIGURE_FALSELY;
    const struct mt_reuse *u = &of->more->reuse;
    side_add(&s->all, MT_FIGURE_FOOTPRINT, mt_reuse_footprint(u) << u->options.line_bits);
    s->has_lines = !s->count[MT_SIDE_LINES];
    for (size_t i = 0; i < s->count[MT_SIDE_LINES]; i++)
        s->has_lines |= strcmp(s->rows[MT_SIDE_LINES][i].place, "?") != 0;
}

int mt_side_fill(struct mt_run_side *s, const struct mt_side_of *of)
{
    s->all = (struct mt_side_row){.kernel = "", .place = "", .first = UINT64_MAX};
    if (side_launches(s, of->comm) != 0 || side_crossing(s, of->comm, of->placement) != 0 ||
        side_lines(s, of) != 0 || side_requests(s, of) != 0 || side_conflicts(s, of) != 0 ||
        side_misses(s, of) != 0 || side_bounces(s, of) != 0 || side_caches(s, of->more) != 0 ||
        (of->onchip && side_onchip(s, of->onchip) != 0))
        return -1;
    for (int by = 0; by < MT_SIDE_BY; by++)
        side_group(s, (enum mt_side_by)by);
    side_known(s, of);
    return side_all_tokens(s);
}

void mt_side_free(struct mt_run_side *s)
{
    for (int by = 0; by < MT_SIDE_BY; by++)
        free(s->rows[by]);
    for (size_t i = 0; i < s->ntexts; i++)
        free(s->texts[i]);
    free(s->texts);
    free(s->tokens);
    free(s->hashes);
    mt_run_parts_free(&s->parts);
    *s = (struct mt_run_side){0};
}
