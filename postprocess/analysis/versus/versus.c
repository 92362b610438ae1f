/* Puts two runs side by side. Kernels are found by name, buffers by name, lines by what they access. */
#define _GNU_SOURCE
#include "versus.h"
#include "analysis/base/sites.h"
#include <stdlib.h>
#include <string.h>

const char *const mt_verdict_words[5] = {"same", "better", "worse", "mixed", "none"};

enum { MOST_CELLS = 1 << 22 }; /* of the table that aligns the lines of a kernel */
#define NONE SIZE_MAX

/* Rows of one run, those of one kernel; to[i]: the row of the other run, or NONE. */
struct half {
    const struct mt_side_row *rows;
    size_t n, *to;
};

static int versus_half(struct half *h, const struct mt_run_side *s, enum mt_side_by by,
                       const struct mt_side_row *kernel)
{
    size_t first = 0, end;
    while (kernel && first < s->count[by] && strcmp(s->rows[by][first].kernel, kernel->kernel) != 0)
        first++;
    for (end = first; kernel && end < s->count[by] && strcmp(s->rows[by][end].kernel, kernel->kernel) == 0;)
        end++;
    if (by == MT_SIDE_KERNELS)
        end = s->count[by];
    *h = (struct half){s->count[by] ? s->rows[by] + first : NULL, end - first,
                       malloc((end - first + 1) * sizeof *h->to)};
    for (size_t i = 0; h->to && i < h->n; i++)
        h->to[i] = NONE;
    return h->to ? 0 : -1;
}

static void versus_join(struct half *a, size_t i, struct half *b, size_t k)
{
    a->to[i] = k;
    b->to[k] = i;
}

/* Joins what has the same key; rows are in the order of their keys. */
static void versus_equal(struct half *a, struct half *b, const char *(*key)(const struct mt_side_row *))
{
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        int d = strcmp(key(&a->rows[i]), key(&b->rows[k]));
        if (d == 0 && a->to[i] == NONE && b->to[k] == NONE)
            versus_join(a, i, b, k);
        i += d <= 0;
        k += d >= 0;
    }
}

static const char *key_kernel(const struct mt_side_row *r)
{
    return r->kernel;
}

static const char *key_place(const struct mt_side_row *r)
{
    return r->place;
}

static int by_first(const void *a, const void *b, void *arg)
{
    const struct mt_side_row *rows = arg, *x = &rows[*(const size_t *)a], *y = &rows[*(const size_t *)b];
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : strcmp(x->place, y->place);
}

static size_t *versus_order(const struct half *h, int (*before)(const void *, const void *, void *))
{
    size_t *order = malloc((h->n + 1) * sizeof *order);
    for (size_t i = 0; order && i < h->n; i++)
        order[i] = i;
    if (order && h->n)
        qsort_r(order, h->n, sizeof *order, before, (void *)(uintptr_t)h->rows);
    return order;
}

/* Joins what is alike and has no partner, in the order of allocations. Nothing where that would take long. */
static int versus_alike(struct half *a, struct half *b,
                        int (*alike)(const struct mt_side_row *, const struct mt_side_row *))
{
    size_t *oa = versus_order(a, by_first), *ob = versus_order(b, by_first);
    int rc = oa && ob ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < a->n && (a->n + 1) * (b->n + 1) <= MOST_CELLS; i++)
        for (size_t k = 0; a->to[oa[i]] == NONE && k < b->n; k++)
            if (b->to[ob[k]] == NONE && alike(&a->rows[oa[i]], &b->rows[ob[k]]))
                versus_join(a, oa[i], b, ob[k]);
    free(oa);
    free(ob);
    return rc;
}

/* If each run has one left, these two belong together. */
static void versus_last(struct half *a, struct half *b)
{
    size_t left[2] = {NONE, NONE}, count[2] = {0, 0};
    struct half *half[2] = {a, b};
    for (int h = 0; h < 2; h++)
        for (size_t i = 0; i < half[h]->n; i++)
            if (half[h]->to[i] == NONE) {
                left[h] = i;
                count[h]++;
            }
    if (count[0] == 1 && count[1] == 1)
        versus_join(a, left[0], b, left[1]);
}

/* ---- kernels and buffers ---- */

static int alike_template(const struct mt_side_row *x, const struct mt_side_row *y)
{
    size_t n = strcspn(x->kernel, "<");
    return n && n == strcspn(y->kernel, "<") && strncmp(x->kernel, y->kernel, n) == 0;
}

/* Without names: of one kind ("cudaMalloc main.cu:12"), in the order in which they were allocated. */
static int alike_kind(const struct mt_side_row *x, const struct mt_side_row *y)
{
    const char *colon = strrchr(x->place, ':'), *blank = strchr(x->place, ' ');
    size_t n = blank && colon && blank < colon ? (size_t)(blank - x->place) + 1 : 0;
    return n && strncmp(x->place, y->place, n) == 0 && strrchr(y->place, ':');
}

/* ---- lines ---- */

/* How alike the accesses of two lines are, up to 1000: by operation and variable, and less by operation
 * alone. */
static unsigned versus_tokens(const struct mt_side_row *x, const struct mt_side_row *y, unsigned which)
{
    size_t same = 0, most = x->ntokens > y->ntokens ? x->ntokens : y->ntokens;
    uint64_t taken = 0; /* of the first 64 of y: more are in no line that people write */
    for (size_t i = 0; i < x->ntokens; i++)
        for (size_t k = 0; k < y->ntokens && k < 64; k++)
            if (!(taken >> k & 1) && x->tokens[2 * i + which] == y->tokens[2 * k + which]) {
                taken |= (uint64_t)1 << k;
                same++;
                break;
            }
    return most ? (unsigned)(1000 * same / most) : 0;
}

static unsigned versus_score(const struct mt_side_row *x, const struct mt_side_row *y)
{
    unsigned strong = versus_tokens(x, y, 0), weak = versus_tokens(x, y, 1) / 4,
             score = strong > weak ? strong : weak;
    if (!x->ntokens && !y->ntokens)
        return strcmp(x->place, y->place) == 0 ? 1000 : 0;
    return score ? score + (strcmp(mt_location_short(x->place), mt_location_short(y->place)) == 0 ? 10 : 0)
                 : 0;
}

/* "file:line" by file, then number: rows are in the order of texts. */
static int line_before(const void *a, const void *b, void *arg)
{
    const struct mt_side_row *rows = arg, *x = &rows[*(const size_t *)a], *y = &rows[*(const size_t *)b];
    const char *cx = mt_location_colon(x->place), *cy = mt_location_colon(y->place);
    size_t nx = cx ? (size_t)(cx - x->place) : strlen(x->place),
           ny = cy ? (size_t)(cy - y->place) : strlen(y->place);
    int d = strncmp(x->place, y->place, nx < ny ? nx : ny);
    if (d || nx != ny)
        return d ? d : nx < ny ? -1 : 1;
    unsigned long long lx = cx ? strtoull(cx + 1, NULL, 10) : 0, ly = cy ? strtoull(cy + 1, NULL, 10) : 0;
    return lx < ly ? -1 : lx > ly;
}

/* The pairs in the order of both that are most alike in sum: as diff does it, with degrees. */
static int versus_align(struct half *a, struct half *b)
{
    size_t w = b->n + 1, *oa = versus_order(a, line_before), *ob = versus_order(b, line_before);
    uint32_t *best = calloc((a->n + 1) * w, sizeof *best);
    int rc = best && oa && ob ? 0 : -1;
    for (size_t i = a->n; rc == 0 && i-- > 0;)
        for (size_t k = b->n; k-- > 0;) {
            uint32_t skip =
                best[(i + 1) * w + k] > best[i * w + k + 1] ? best[(i + 1) * w + k] : best[i * w + k + 1];
            unsigned score = versus_score(&a->rows[oa[i]], &b->rows[ob[k]]);
            uint32_t take = score ? best[(i + 1) * w + k + 1] + score : 0;
            best[i * w + k] = take > skip ? take : skip;
        }
    for (size_t i = 0, k = 0; rc == 0 && i < a->n && k < b->n;) {
        unsigned score = versus_score(&a->rows[oa[i]], &b->rows[ob[k]]);
        if (score && best[i * w + k] == best[(i + 1) * w + k + 1] + score)
            versus_join(a, oa[i++], b, ob[k++]);
        else if (best[i * w + k] == best[(i + 1) * w + k])
            i++;
        else
            k++;
    }
    free(best);
    free(oa);
    free(ob);
    return rc;
}

static int alike_accesses(const struct mt_side_row *x, const struct mt_side_row *y)
{
    return versus_tokens(x, y, 0) == 1000;
}

static int versus_lines(struct half *a, struct half *b)
{
    if ((a->n + 1) * (b->n + 1) > MOST_CELLS) {
        versus_equal(a, b, key_place);
        return 0;
    }
    return versus_align(a, b) |
           versus_alike(a, b, alike_accesses); /* the second: lines that changed places */
}

/* ---- together ---- */

static size_t versus_collect(const struct half *a, const struct half *b, struct mt_versus_row *out)
{
    size_t n = 0;
    for (size_t k = 0; k < b->n; k++)
        out[n++] = (struct mt_versus_row){b->to[k] == NONE ? NULL : &a->rows[b->to[k]], &b->rows[k]};
    for (size_t i = 0; i < a->n; i++)
        if (a->to[i] == NONE)
            out[n++] = (struct mt_versus_row){&a->rows[i], NULL};
    return n;
}

static int versus_part(struct mt_versus_kernel *kernel, enum mt_side_by by, const struct mt_run_side *sa,
                       const struct mt_run_side *sb)
{
    struct half a, b = {.to = NULL};
    int rc = versus_half(&a, sa, by, kernel->row.a) | versus_half(&b, sb, by, kernel->row.b);
    if (rc == 0 && by == MT_SIDE_LINES)
        rc = versus_lines(&a, &b);
    if (rc == 0 && by == MT_SIDE_BUFFERS) {
        versus_equal(&a, &b, key_place);
        rc = versus_alike(&a, &b, alike_kind);
    }
    kernel->part[by] = rc == 0 ? malloc((a.n + b.n + 1) * sizeof **kernel->part) : NULL;
    if (kernel->part[by])
        kernel->count[by] = versus_collect(&a, &b, kernel->part[by]);
    free(a.to);
    free(b.to);
    return kernel->part[by] ? 0 : -1;
}

static int versus_kernels(struct mt_versus *p, const struct mt_run_side *sa, const struct mt_run_side *sb)
{
    struct half a, b = {.to = NULL};
    int rc = versus_half(&a, sa, MT_SIDE_KERNELS, NULL) | versus_half(&b, sb, MT_SIDE_KERNELS, NULL);
    struct mt_versus_row *rows =
        malloc((sa->count[MT_SIDE_KERNELS] + sb->count[MT_SIDE_KERNELS] + 1) * sizeof *rows);
    if (rc == 0 && rows) {
        versus_equal(&a, &b, key_kernel);
        rc = versus_alike(&a, &b, alike_template);
        versus_last(&a, &b);
        p->count = versus_collect(&a, &b, rows);
        p->kernels = calloc(p->count + 1, sizeof *p->kernels);
    }
    for (size_t i = 0; p->kernels && i < p->count; i++)
        p->kernels[i].row = rows[i];
    free(a.to);
    free(b.to);
    free(rows);
    return p->kernels && rc == 0 ? 0 : -1;
}

static uint64_t versus_weight(const struct mt_versus_row *r)
{
    uint64_t most = 0;
    for (int i = 0; i < 2; i++) {
        const struct mt_side_row *x = i ? r->b : r->a;
        uint64_t n = !x                                  ? 0
                     : x->known >> MT_FIGURE_SECTORS & 1 ? x->v[MT_FIGURE_SECTORS]
                                                         : x->v[MT_FIGURE_LOADED] + x->v[MT_FIGURE_STORED];
        most = n > most ? n : most;
    }
    return most;
}

static int versus_order_kernels(const void *a, const void *b)
{
    const struct mt_versus_kernel *x = a, *y = b;
    if (x->change != y->change)
        return x->change < y->change ? 1 : -1;
    uint64_t p = versus_weight(&x->row), q = versus_weight(&y->row);
    const struct mt_side_row *u = x->row.b ? x->row.b : x->row.a, *v = y->row.b ? y->row.b : y->row.a;
    return p != q ? (p < q ? 1 : -1) : strcmp(u->kernel, v->kernel);
}

int mt_versus_both(const struct mt_versus_row *r, enum mt_figure f)
{
    return r->a && r->b && r->a->known >> f & 1 && r->b->known >> f & 1;
}

int mt_versus_change(const struct mt_versus_row *r, enum mt_figure f, double *change)
{
    if (!mt_versus_both(r, f) || !r->a->v[f])
        return 0;
    *change = ((double)r->b->v[f] - (double)r->a->v[f]) / (double)r->a->v[f];
    return 1;
}

int mt_versus_moved(const struct mt_versus_row *r, enum mt_figure f)
{
    double v[2] = {0, 0};
    const struct mt_side_row *side[2] = {r->a, r->b};
    if (!mt_figure_words[f].judged && f != MT_FIGURE_LOADED && f != MT_FIGURE_STORED)
        return 0;
    for (int i = 0; i < 2; i++)
        if (side[i] && !(side[i]->known >> f & 1))
            return 0;
        else if (side[i])
            v[i] = (double)side[i]->v[f];
    double least = v[0] * MT_VERSUS_SLACK, change = v[1] - v[0];
    return change == 0 ? 0 : change <= -least ? -1 : change >= least;
}

double mt_versus_share(const struct mt_versus_row *all, const struct mt_versus_row *r)
{
    double most = 0;
    for (int f = 0; f < MT_FIGURES; f++) {
        double a = r->a ? (double)r->a->v[f] : 0, b = r->b ? (double)r->b->v[f] : 0;
        uint64_t whole = all->a->v[f] > all->b->v[f] ? all->a->v[f] : all->b->v[f];
        if (!mt_versus_moved(r, (enum mt_figure)f))
            continue;
        double part = (a < b ? b - a : a - b) / (double)whole;
        most = part > most ? part : most;
    }
    return most;
}

static void versus_judge(struct mt_versus *p)
{
    int less = 0, more = 0;
    for (int f = 0; f < MT_FIGURES; f++)
        if (mt_figure_words[f].judged) {
            less |= mt_versus_moved(&p->all, (enum mt_figure)f) < 0;
            more |= mt_versus_moved(&p->all, (enum mt_figure)f) > 0;
        }
    p->verdict = less && more ? MT_VERDICT_MIXED
                 : less       ? MT_VERDICT_BETTER
                 : more       ? MT_VERDICT_WORSE
                              : MT_VERDICT_SAME;
    p->other_work = p->all.a->v[MT_FIGURE_LOADED] != p->all.b->v[MT_FIGURE_LOADED] ||
                    p->all.a->v[MT_FIGURE_STORED] != p->all.b->v[MT_FIGURE_STORED];
}

/* What a run moves to where it has no record looks like less. */
static void versus_untraced(struct mt_versus *p, const struct mt_run_side *a, const struct mt_run_side *b)
{
    const struct mt_run_side *side[2] = {a, b};
    uint64_t all[2], n[2];
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < p->count; i++) {
            const struct mt_side_row *r = s ? p->kernels[i].row.b : p->kernels[i].row.a;
            const struct mt_run_part *part = r ? mt_run_parts_find(&side[s]->parts, r->kernel) : NULL;
            if (part)
                mt_untraced_add(&p->untraced[s], part);
        }
        n[s] = p->untraced[s].accesses;
        all[s] = n[s] + side[s]->all.v[MT_FIGURE_ACCESSES];
    }
    double apart = n[0] < n[1] ? (double)(n[1] - n[0]) : (double)(n[0] - n[1]);
    p->unseen = apart > MT_VERSUS_SLACK * (double)(all[0] > all[1] ? all[0] : all[1]);
    if (p->unseen)
        p->verdict = MT_VERDICT_NONE;
}

/* Sampled or selected differently? What is by less than the verdict's slack is rounding. */
static void versus_parts(struct mt_versus *p, const struct mt_run_side *a, const struct mt_run_side *b)
{
    double most = MT_VERSUS_SLACK;
    for (size_t i = 0; i < p->count; i++) {
        const struct mt_versus_row *r = &p->kernels[i].row;
        const struct mt_run_part *x = mt_run_parts_find(&a->parts, (r->a ? r->a : r->b)->kernel),
                                 *y = mt_run_parts_find(&b->parts, (r->b ? r->b : r->a)->kernel);
        if (!x || !y || !x->ctas || !y->ctas)
            continue;
        double left = (double)x->traced / (double)x->ctas, right = (double)y->traced / (double)y->ctas,
               apart = left > right ? left - right : right - left;
        if (apart <= most * (left > right ? left : right))
            continue;
        most = apart / (left > right ? left : right);
        p->unlike = r->a ? r->a : r->b;
        p->part[0] = x;
        p->part[1] = y;
    }
    if (p->unlike || !p->count)
        p->verdict = MT_VERDICT_NONE;
}

int mt_versus_make(struct mt_versus *p, const struct mt_run_side *a, const struct mt_run_side *b)
{
    *p = (struct mt_versus){.all = {&a->all, &b->all},
                            .no_lines = (a->has_lines ? 0 : 1) + (b->has_lines ? 0 : 2)};
    if (versus_kernels(p, a, b) != 0)
        return -1;
    for (size_t i = 0; i < p->count; i++)
        p->kernels[i].change = mt_versus_share(&p->all, &p->kernels[i].row);
    if (p->count)
        qsort(p->kernels, p->count, sizeof *p->kernels, versus_order_kernels);
    for (size_t i = 0; i < p->count; i++) {
        struct mt_versus_kernel *k = &p->kernels[i];
        if ((!p->no_lines && versus_part(k, MT_SIDE_LINES, a, b) != 0) ||
            versus_part(k, MT_SIDE_BUFFERS, a, b) != 0)
            return -1;
        for (size_t l = 0; l < k->count[MT_SIDE_LINES]; l++) {
            const struct mt_versus_row *r = &k->part[MT_SIDE_LINES][l];
            p->moved +=
                r->a && r->b && strcmp(mt_location_short(r->a->place), mt_location_short(r->b->place)) != 0;
        }
    }
    versus_judge(p);
    versus_untraced(p, a, b);
    versus_parts(p, a, b);
    return 0;
}

void mt_versus_free(struct mt_versus *p)
{
    for (size_t i = 0; p->kernels && i < p->count; i++)
        for (int by = 0; by < MT_SIDE_BY; by++)
            free(p->kernels[i].part[by]);
    free(p->kernels);
    *p = (struct mt_versus){0};
}
