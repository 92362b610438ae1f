/* Shared and local memory: bank conflicts and hazards, from items to result rows. */
#include "onchip.h"
#include "memtrace/order.h"
#include "memtrace/record.h"
#include "memtrace/grow.h"
#include "memtrace/device.h"
#include "memtrace/hash.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, WORD = 4, MOST_BYTES = 32, KNOWN_BITS = 10 };

/* Cache of the costs of evenly spaced accesses, which depend on few values. */
struct mt_bank_known {
    int64_t stride;
    uint32_t offset, mask, meta, wavefronts, least, worst;
};

/* Different words requested in a step, by bank. */
struct step {
    uint32_t words;            /* words of all lanes of the step */
    uint64_t word[LANES * 2];  /* 4 bytes of a lane may span two words, 8 bytes three */
    uint8_t in_bank[MT_BANKS]; /* number of different words in each bank */
};

static void banks_add(struct step *s, uint64_t word, int atomic)
{
    for (uint32_t i = 0; i < s->words && !atomic; i++)
        if (s->word[i] == word)
            return;
    s->word[s->words++] = word;
    s->in_bank[word % MT_BANKS]++;
}

static uint32_t banks_ways(const struct step *s)
{
    uint32_t most = 0;
    for (int i = 0; i < MT_BANKS; i++)
        most = s->in_bank[i] > most ? s->in_bank[i] : most;
    return most;
}

/* Computes the wavefronts of a warp's access to shared memory; *least: without bank conflicts; *worst: ways
 * of the worst step. Returns 0 if unknown (no lanes, more than 32 bytes each). */
static uint32_t bank_wavefronts(const struct mt_access_run *r, uint32_t *least, uint32_t *worst)
{
    uint32_t size = r->meta & MT_RAW_MAX_SIZE, sum = 0, i = 0;
    uint32_t together = size <= WORD       ? LANES
                        : size <= 2 * WORD ? LANES / 2
                        : size <= 4 * WORD ? LANES / 4
                                           : LANES / 8;
    int atomic = (r->meta >> 28 & 3) == MT_ATOMIC;
    *least = *worst = 0;
    if (!r->mask || !size || size > MOST_BYTES)
        return 0;
    for (uint32_t first = 0; first < LANES; first += together) {
        struct step s;
        s.words = 0;
        memset(s.in_bank, 0, sizeof s.in_bank);
        for (uint32_t lane = first; lane < first + together; lane++) {
            if (!(r->mask >> lane & 1))
                continue;
            uint64_t a = r->addresses ? r->addresses[i] : r->base + (uint64_t)r->stride * i;
            i++;
            for (uint64_t w = a / WORD; w <= (a + size - 1) / WORD && s.words < LANES * 2; w++)
                banks_add(&s, w, atomic);
        }
        uint32_t ways = banks_ways(&s);
        sum += ways;
        *least += ways != 0;
        *worst = ways > *worst ? ways : *worst;
    }
    return sum;
}

static uint32_t banks_cost(struct mt_banks *b, const struct mt_access_run *r, uint32_t *least,
                           uint32_t *worst)
{
    uint32_t offset = (uint32_t)(r->base % (MT_BANKS * WORD));
    if (r->addresses || !r->mask)
        return bank_wavefronts(r, least, worst);
    uint64_t h = mt_hash_number((uint64_t)r->stride) ^
                 ((uint64_t)r->mask << 20 ^ offset ^ r->meta) * 0xbf58476d1ce4e5b9u;
    struct mt_bank_known *k = &b->known[h >> (64 - KNOWN_BITS)];
    if (!k->mask || k->stride != r->stride || k->offset != offset || k->mask != r->mask ||
        k->meta != r->meta) {
        *k = (struct mt_bank_known){.stride = r->stride, .offset = offset, .mask = r->mask, .meta = r->meta};
        k->wavefronts = bank_wavefronts(r, &k->least, &k->worst);
    }
    *least = k->least;
    *worst = k->worst;
    return k->wavefronts;
}

/* ---- cells ---- */

/* Functions return 0, or -1 without memory. */
static int banks_init(struct mt_banks *b)
{
    memset(b, 0, sizeof *b);
    b->known = calloc(1u << KNOWN_BITS, sizeof *b->known);
    return b->known ? 0 : -1;
}

static void banks_free(struct mt_banks *b)
{
    free(b->cells);
    mt_pairmap_free(&b->places);
    free(b->known);
    memset(b, 0, sizeof *b);
}

static void banks_launch(struct mt_banks *b, uint32_t launch, uint32_t input, int single)
{
    b->single = single;
    b->launch = launch;
    b->input = input;
    b->last = SIZE_MAX;
}

static struct mt_bank_cell *banks_cell(struct mt_banks *b, uint32_t site, uint32_t type)
{
    if (b->last < b->count && b->cells[b->last].site == site && b->cells[b->last].type == type)
        return &b->cells[b->last];
    uint64_t *at = mt_pairmap_get(&b->places, (uint64_t)b->launch << 32 | site, type, b->count);
    if (!at || mt_grow(&b->cells, &b->room, b->count + 1, sizeof *b->cells) != 0)
        return NULL;
    if (*at == b->count)
        b->cells[b->count++] =
            (struct mt_bank_cell){.launch = b->launch, .input = b->input, .site = site, .type = type};
    b->last = *at;
    return &b->cells[b->last];
}

static int banks_runs(struct mt_banks *b, const struct mt_access_run *runs, size_t n)
{
    for (const struct mt_access_run *r = runs, *end = runs + n; r < end; r++) {
        uint32_t type = r->meta >> 28, space = mt_rec_space(type), least = 0, worst = 0, wavefronts = 0;
        if (space != MT_IN_SHARED && space != MT_IN_LOCAL)
            continue;
        struct mt_bank_cell *c = banks_cell(b, r->site, type);
        if (!c)
            return -1;
        if (b->single)
            b->ungrouped += space == MT_IN_SHARED ? r->count : 0;
        else if (space == MT_IN_SHARED && !(wavefronts = banks_cost(b, r, &least, &worst)))
            b->blocks += r->count;
        c->requests += !b->single;
        c->accesses += r->count;
        c->bytes += (uint64_t)r->count * (r->meta & MT_RAW_MAX_SIZE);
        c->wavefronts += wavefronts;
        c->least += least;
        c->worst = worst > c->worst ? worst : c->worst;
    }
    return 0;
}

/* ---- result rows, for tables and pages ---- */

const struct mt_site_event *mt_onchip_site(const struct mt_source *s, uint32_t input, uint32_t site)
{
    return site ? mt_companion_site(mt_source_companion(s, input), site) : NULL;
}

const char *mt_onchip_variable(const struct mt_site_event *site)
{
    const char *v = site ? site->var : "", *at;
    while ((at = strstr(v, "::")))
        v = at + 2;
    return v;
}

/* ---- places ---- */

/* Cell with its sort key. */
struct keyed {
    const struct mt_bank_cell *cell;
    const char *kernel;
    const struct mt_site_event *site;
};

/* Orders by line; machine code without lines by its location. */
static int keyed_line(const struct mt_site_event *a, const struct mt_site_event *b)
{
    if (!a || !b)
        return !a - !b;
    int d = strcmp(a->file, b->file);
    d = d ? d : (a->line > b->line) - (a->line < b->line);
    return d || *a->file ? d : strcmp(a->at, b->at);
}

static int keyed_site(const struct mt_site_event *a, const struct mt_site_event *b)
{
    int d = keyed_line(a, b);
    if (d || !a || !b)
        return d;
    d = (a->column > b->column) - (a->column < b->column);
    return d ? d : strcmp(a->var, b->var);
}

static int keyed_place(const struct keyed *x, const struct keyed *y)
{
    int d = x->kernel == y->kernel ? 0 : strcmp(x->kernel, y->kernel);
    d = d ? d : x->site == y->site ? 0 : keyed_site(x->site, y->site);
    return d ? d : (x->cell->type > y->cell->type) - (x->cell->type < y->cell->type);
}

static int keyed_order(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    int d = keyed_place(x, y);
    return d ? d : (x->cell->launch > y->cell->launch) - (x->cell->launch < y->cell->launch);
}

void mt_onchip_add(struct mt_bank_cell *sum, const struct mt_bank_cell *c)
{
    sum->requests += c->requests;
    sum->accesses += c->accesses;
    sum->bytes += c->bytes;
    sum->wavefronts += c->wavefronts;
    sum->least += c->least;
    sum->worst = c->worst > sum->worst ? c->worst : sum->worst;
}

/* Adds the next cell of a place, whose other cells precede it. */
static void place_add(struct mt_onchip_place *p, const struct mt_bank_cell *c)
{
    struct mt_bank_cell *s = &p->sum;
    if (p->end == p->first)
        *s = (struct mt_bank_cell){.launch = c->launch, .site = c->site, .type = c->type, .input = c->input};
    p->launches += p->end == p->first || c[-1].launch != c->launch;
    p->end++;
    mt_onchip_add(s, c);
}

static int rows_places(struct mt_onchip_rows *r, const struct mt_onchip *x, const struct mt_source *s)
{
    size_t n = x->banks.count;
    struct keyed *k = malloc((n + 1) * sizeof *k);
    r->places = malloc((n + 1) * sizeof *r->places);
    r->cells = malloc((n + 1) * sizeof *r->cells);
    if (!k || !r->places || !r->cells) {
        free(k);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const struct mt_bank_cell *c = &x->banks.cells[i];
        k[i] = (struct keyed){c, x->launches[c->launch].kernel, mt_onchip_site(s, c->input, c->site)};
    }
    qsort(k, n, sizeof *k, keyed_order);
    for (size_t i = 0; i < n; i++) {
        if (!i || keyed_place(&k[i - 1], &k[i]))
            r->places[r->nplaces++] =
                (struct mt_onchip_place){.kernel = k[i].kernel, .site = k[i].site, .first = i, .end = i};
        r->cells[i] = *k[i].cell;
        place_add(&r->places[r->nplaces - 1], &r->cells[i]);
    }
    free(k);
    return 0;
}

/* ---- hazards ---- */

static int hazard_order(const void *a, const void *b)
{
    const struct mt_onchip_hazard *x = a, *y = b;
    int d = strcmp(x->h.kernel, y->h.kernel);
    for (int i = 0; i < 2 && !d; i++)
        d = keyed_line(x->side[i], y->side[i]);
    for (int i = 0; i < 2 && !d; i++)
        d = (x->h.type[i] > y->h.type[i]) - (x->h.type[i] < y->h.type[i]);
    d = d ? d : x->h.kind - y->h.kind;
    d = d ? d : x->h.space - y->h.space;
    return d ? d : x->h.between - y->h.between;
}

MT_ORDER_2(hazard_cell_order, struct mt_hazard_share, hazard, launch)

/* Collects the cells of hazards. row: row of each hazard in the list. */
static int rows_hazard_cells(struct mt_onchip_rows *r, const struct mt_hazards *h, const uint32_t *row)
{
    struct mt_hazard_share *cells = r->hazard_cells = malloc((h->ncells + 1) * sizeof *cells);
    size_t n = 0;
    if (!cells)
        return -1;
    for (size_t i = 0; i < h->ncells; i++)
        cells[i] = (struct mt_hazard_share){h->cells[i].count, row[h->cells[i].hazard], h->cells[i].launch};
    qsort(cells, h->ncells, sizeof *cells, hazard_cell_order);
    for (size_t i = 0; i < h->ncells; i++) {
        struct mt_onchip_hazard *to = &r->hazards[cells[i].hazard];
        if (n && hazard_cell_order(&cells[n - 1], &cells[i]) == 0) {
            cells[n - 1].count += cells[i].count;
            continue;
        }
        to->first = to->end ? to->first : n;
        cells[n] = cells[i];
        to->end = ++n;
        to->h.launches = to->end - to->first;
    }
    return 0;
}

static int rows_hazards(struct mt_onchip_rows *r, const struct mt_onchip *x, const struct mt_source *s)
{
    size_t count = x->hazards.count;
    struct mt_onchip_hazard *rows = r->hazards = malloc((count + 1) * sizeof *rows);
    uint32_t *row = malloc((count + 1) * sizeof *row);
    for (size_t i = 0; rows && i < count; i++) {
        const struct mt_hazard *h = &x->hazards.list[i];
        rows[i] = (struct mt_onchip_hazard){
            *h, {mt_onchip_site(s, h->input, h->site[0]), mt_onchip_site(s, h->input, h->site[1])}, i, 0};
    }
    if (rows)
        qsort(rows, count, sizeof *rows, hazard_order);
    for (size_t i = 0; rows && row && i < count; i++) {
        int other = !r->nhazards || hazard_order(&rows[r->nhazards - 1], &rows[i]);
        row[rows[i].first] = (uint32_t)(r->nhazards - !other);
        if (other)
            rows[r->nhazards++] = rows[i];
        else
            rows[r->nhazards - 1].h.count += rows[i].h.count,
                rows[r->nhazards - 1].h.words += rows[i].h.words;
    }
    int rc = rows && row ? rows_hazard_cells(r, &x->hazards, row) : -1;
    free(row);
    return rc;
}

static void onchip_rows_free(struct mt_onchip_rows *r)
{
    free(r->places);
    free(r->cells);
    free(r->hazards);
    free(r->hazard_cells);
    memset(r, 0, sizeof *r);
}

static int onchip_init(void *self, const struct mt_run_options *o)
{
    struct mt_onchip *x = self;
    *x = (struct mt_onchip){.source = o->source};
    return banks_init(&x->banks);
}

static int onchip_finish(void *self)
{
    struct mt_onchip *x = self;
    return rows_places(&x->rows, x, x->source) == 0 && rows_hazards(&x->rows, x, x->source) == 0 ? 0 : -1;
}

static void onchip_free(void *self)
{
    struct mt_onchip *x = self;
    onchip_rows_free(&x->rows);
    banks_free(&x->banks);
    mt_hazards_free(&x->hazards);
    free(x->launches);
    memset(x, 0, sizeof *x);
}

static int onchip_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_onchip *x = self;
    if (mt_grow(&x->launches, &x->launch_room, x->nlaunches + 1, sizeof *x->launches) != 0)
        return -1;
    x->launches[x->nlaunches] = (struct mt_onchip_launch){l->superstep, l->kernel, l->event};
    x->untraced += l->event ? l->event->untraced : 0;
    banks_launch(&x->banks, (uint32_t)x->nlaunches, (uint32_t)l->input, l->single);
    mt_hazards_launch(&x->hazards, (uint32_t)x->nlaunches, l);
    x->nlaunches++;
    return 0;
}

static int onchip_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_onchip *x = self;
    return banks_runs(&x->banks, runs, n) == 0 && mt_hazards_runs(&x->hazards, runs, n) == 0 ? 0 : -1;
}

const struct mt_analysis mt_onchip_analysis = {.needs = MT_NEEDS_SPACES,
                                               .init = onchip_init,
                                               .launch = onchip_launch,
                                               .runs = onchip_runs,
                                               .finish = onchip_finish,
                                               .free = onchip_free};
