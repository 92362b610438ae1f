/* Shared and local memory in the page: the rows of the text's tables, the heaviest ones first. */
#include "report.h"
#include "page_list.h"
#include "output/results/results.h"
#include "memtrace/record.h"
#include <stdlib.h>

enum { MOST_ROWS = 2000, MOST_CELLS = 1 << 16 };

static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#include "memtrace/record.def"
};

static int shared_by_conflicts(const void *a, const void *b)
{
    const struct mt_onchip_place *p = *(const struct mt_onchip_place *const *)a,
                                 *q = *(const struct mt_onchip_place *const *)b;
    uint64_t x = p->sum.wavefronts - p->sum.least, y = q->sum.wavefronts - q->sum.least;
    if (x != y)
        return x < y ? 1 : -1;
    if (p->sum.bytes != q->sum.bytes)
        return p->sum.bytes < q->sum.bytes ? 1 : -1;
    return (p > q) - (p < q);
}

static int shared_by_count(const void *a, const void *b)
{
    const struct mt_onchip_hazard *p = *(const struct mt_onchip_hazard *const *)a,
                                  *q = *(const struct mt_onchip_hazard *const *)b;
    return p->h.count != q->h.count ? (p->h.count < q->h.count ? 1 : -1) : (p > q) - (p < q);
}

static void shared_site(struct mt_json *j, const struct mt_site_event *s)
{
    mt_json_text(j, "file", s ? s->file : "");
    mt_json_u64(j, "line", s ? s->line : 0);
    mt_json_u64(j, "column", s ? s->column : 0);
    mt_json_text(j, "variable", mt_onchip_variable(s));
    if (s && !*s->file && *s->at) /* machine code without lines */
        mt_json_text(j, "at", s->at);
}

static void shared_figures(struct mt_json *j, const struct mt_bank_cell *c)
{
    mt_json_u64(j, "requests", c->requests);
    mt_json_u64(j, "accesses", c->accesses);
    mt_json_u64(j, "bytes", c->bytes);
    mt_json_u64(j, "wavefronts", c->wavefronts);
    mt_json_u64(j, "ideal", c->least);
    mt_json_u64(j, "worst", c->worst);
}

/* Rows of one kind of memory; *n: those written, to `shown`. */
static void shared_places(struct mt_json *j, const struct mt_onchip_rows *r, uint32_t space,
                          const struct mt_onchip_place **shown, size_t *n)
{
    size_t all = 0;
    for (size_t i = 0; i < r->nplaces; i++)
        if (mt_rec_space(r->places[i].sum.type) == space)
            shown[all++] = &r->places[i];
    qsort(shown, all, sizeof *shown, shared_by_conflicts);
    *n = all < MOST_ROWS ? all : MOST_ROWS;
    mt_json_object(j, space == MT_IN_SHARED ? "banks" : "local", 0);
    mt_json_u64(j, "left_out", all - *n);
    mt_json_array(j, "rows", 0);
    for (size_t i = 0; i < *n; i++) {
        mt_json_object(j, NULL, 1);
        shared_site(j, shown[i]->site);
        mt_json_text(j, "kernel", shown[i]->kernel);
        mt_json_text(j, "type", types[shown[i]->sum.type & 3]);
        mt_json_u64(j, "launches", shown[i]->launches);
        shared_figures(j, &shown[i]->sum);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_end(j);
}

static int shared_cells(struct mt_json *j, const struct mt_report *r, const struct mt_onchip_place **shown,
                        size_t n)
{
    struct mt_page_rows p;
    uint64_t cells = 0;
    for (size_t i = 0; i < n; i++)
        cells += shown[i]->launches;
    if (cells > MOST_CELLS)
        return 0;
    mt_page_begin(&p, j, MT_PAGE_shared_cells);
    for (size_t i = 0; i < n; i++) {
        const struct mt_bank_cell *c = r->onchip->rows.cells + shown[i]->first,
                                  *end = r->onchip->rows.cells + shown[i]->end;
        while (c < end) {
            struct mt_bank_cell sum = {.launch = c->launch};
            for (; c < end && c->launch == sum.launch; c++)
                mt_onchip_add(&sum, c);
            mt_tuples_numbers(&p.w,
                              MT_NUMBERS(i, r->onchip->launches[sum.launch].superstep, sum.requests,
                                         sum.accesses, sum.bytes, sum.wavefronts, sum.least, sum.worst));
            mt_page_row(&p);
        }
    }
    return mt_page_end(&p);
}

static void shared_hazard(struct mt_json *j, const struct mt_report *r, const struct mt_onchip_hazard *x)
{
    static const char *const sides[] = {"first", "second"};
    const struct mt_hazard *h = &x->h;
    mt_json_object(j, NULL, 1);
    mt_json_text(j, "kind", mt_hazard_words[h->kind]);
    mt_json_text(j, "kernel", h->kernel);
    mt_json_text(j, "between", mt_hazard_between_words[h->between]);
    for (int i = 0; i < 2; i++) {
        mt_json_object(j, sides[i], 1);
        shared_site(j, x->side[i]);
        mt_json_text(j, "type", types[h->type[i]]);
        mt_json_u64(j, "thread", h->thread[i]);
        mt_json_end(j);
    }
    mt_json_u64(j, "words", h->count);
    mt_json_u64(j, "launches", h->launches);
    mt_json_u64(j, "launch", r->onchip->launches[h->launch].superstep);
    mt_json_numbers(j, "cta", MT_NUMBERS(h->cta >> 32, h->cta >> 16 & 0xffff, h->cta & 0xffff));
    mt_json_u64(j, "address", h->address);
    mt_json_end(j);
}

static int shared_hazard_cells(struct mt_json *j, const struct mt_report *r,
                               const struct mt_onchip_hazard **shown, size_t n)
{
    struct mt_page_rows p;
    uint64_t cells = 0;
    for (size_t i = 0; i < n; i++)
        cells += shown[i]->h.launches;
    if (cells > MOST_CELLS)
        return 0;
    mt_page_begin(&p, j, MT_PAGE_hazard_cells);
    for (size_t i = 0; i < n; i++)
        for (size_t k = shown[i]->first; k < shown[i]->end; k++) {
            const struct mt_hazard_share *c = &r->onchip->rows.hazard_cells[k];
            mt_tuples_numbers(&p.w, MT_NUMBERS(i, r->onchip->launches[c->launch].superstep, c->count));
            mt_page_row(&p);
        }
    return mt_page_end(&p);
}

static int shared_hazards(struct mt_json *j, const struct mt_report *r)
{
    const struct mt_onchip_rows *rows = r->onchip ? &r->onchip->rows : NULL;
    const struct mt_onchip_hazard **shown = malloc((rows->nhazards + 1) * sizeof *shown);
    size_t n = rows->nhazards < MOST_ROWS ? rows->nhazards : MOST_ROWS;
    if (!shown)
        return -1;
    for (size_t i = 0; i < rows->nhazards; i++)
        shown[i] = &rows->hazards[i];
    qsort(shown, rows->nhazards, sizeof *shown, shared_by_count);
    mt_json_object(j, "hazards", 0);
    mt_json_u64(j, "left_out", rows->nhazards - n);
    mt_json_array(j, "rows", 0);
    for (size_t i = 0; i < n; i++)
        shared_hazard(j, r, shown[i]);
    mt_json_end(j);
    int rc = shared_hazard_cells(j, r, shown, n);
    mt_json_end(j);
    free(shown);
    return rc;
}

static void report_shared_note(void *j, const char *note)
{
    mt_json_text(j, NULL, note);
}

int mt_report_write_shared(struct mt_json *j, const struct mt_report *r)
{
    const struct mt_onchip_rows *rows = r->onchip ? &r->onchip->rows : NULL;
    if (!rows || !rows->nplaces)
        return 0;
    const struct mt_onchip_place **shown = malloc(rows->nplaces * sizeof *shown);
    size_t banks, local;
    if (!shown)
        return -1;
    mt_json_object(j, "shared", 0);
    mt_json_u64(j, "blocks", r->onchip->banks.blocks);
    mt_json_array(j, "notes", 0);
    mt_shared_notes(r->onchip, report_shared_note, j);
    mt_json_end(j);
    shared_places(j, rows, MT_IN_SHARED, shown, &banks);
    shared_places(j, rows, MT_IN_LOCAL, shown + banks, &local);
    int rc = shared_cells(j, r, shown, banks + local);
    rc = rc ? rc : shared_hazards(j, r);
    mt_json_end(j);
    free(shown);
    return rc;
}
