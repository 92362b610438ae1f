/* See onchip.h: rows of what was found, for tables and pages. */
#include "onchip.h"
#include <stdlib.h>
#include <string.h>

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

/* A cell with what it is sorted by. */
struct keyed {
    const struct mt_bank_cell *cell;
    const char *kernel;
    const struct mt_site_event *site;
};

/* By line; machine code without lines by its place. */
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

/* The next cell of the place; the place's others lie before it. */
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

static int hazard_cell_order(const void *a, const void *b)
{
    const struct mt_hazard_share *x = a, *y = b;
    int d = (x->hazard > y->hazard) - (x->hazard < y->hazard);
    return d ? d : (x->launch > y->launch) - (x->launch < y->launch);
}

/* row: that of each hazard of the list. */
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

int mt_onchip_rows_make(struct mt_onchip_rows *r, const struct mt_onchip *x)
{
    return rows_places(r, x, x->source) == 0 && rows_hazards(r, x, x->source) == 0 ? 0 : -1;
}

void mt_onchip_rows_free(struct mt_onchip_rows *r)
{
    free(r->places);
    free(r->cells);
    free(r->hazards);
    free(r->hazard_cells);
    memset(r, 0, sizeof *r);
}
