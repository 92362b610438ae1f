/* Two runs side by side, for people: the verdict, sums, kernels, lines, buffers. */
#define _GNU_SOURCE
#include "versus_out.h"
#include "table.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 25 };

const char *mt_versus_cell(char out[MT_VERSUS_CELL], const struct mt_versus_row *r, enum mt_figure f)
{
    char side[2][32];
    double change;
    const struct mt_side_row *row[2] = {r->a, r->b};
    for (int i = 0; i < 2; i++)
        if (row[i] && row[i]->known >> f & 1)
            snprintf(side[i], sizeof side[i], "%" PRIu64, row[i]->v[f]);
        else
            strcpy(side[i], "-");
    if (strcmp(side[0], side[1]) == 0)
        snprintf(out, MT_VERSUS_CELL, "%s", side[0]);
    else if (mt_versus_change(r, f, &change))
        snprintf(out, MT_VERSUS_CELL, "%s -> %s (%+.1f %%)", side[0], side[1], 100 * change);
    else
        snprintf(out, MT_VERSUS_CELL, "%s -> %s", side[0], side[1]);
    return out;
}

static void versus_percent(char out[32], double efficiency)
{
    if (efficiency < 0)
        strcpy(out, "-");
    else
        snprintf(out, 32, "%.1f %%", 100 * efficiency);
}

const char *mt_versus_efficiency(char out[MT_VERSUS_CELL], const struct mt_versus_row *r)
{
    char a[32], b[32];
    versus_percent(a, mt_side_efficiency(r->a));
    versus_percent(b, mt_side_efficiency(r->b));
    snprintf(out, MT_VERSUS_CELL, strcmp(a, b) == 0 ? "%s" : "%s -> %s", a, b);
    return out;
}

int mt_versus_turn(const struct mt_versus_row *r, enum mt_figure f)
{
    if (!mt_figure_words[f].judged || !mt_versus_both(r, f))
        return 0;
    double a = (double)r->a->v[f], b = (double)r->b->v[f];
    return b < a * (1 - MT_VERSUS_SLACK) ? 1 : b > a * (1 + MT_VERSUS_SLACK) ? -1 : 0;
}

static void versus_no_verdict(FILE *f, const struct mt_versus *p)
{
    if (!p->unlike) {
        fputs("There is nothing to compare: neither run has an access of a kernel that was asked for", f);
        return;
    }
    fprintf(f, "A and B cannot be compared: they were sampled or selected differently. Of the CTAs of %s",
            p->unlike->kernel);
    for (int i = 0; i < 2; i++)
        fprintf(f, "%s %" PRIu64 " of %" PRIu64 " are in %c", i ? "," : "", p->part[i]->traced,
                p->part[i]->ctas, 'A' + i);
}

static void versus_verdict(FILE *f, const struct mt_versus *p)
{
    char cell[MT_VERSUS_CELL];
    const char *between = ": ";
    fprintf(f, "B is %s%s", p->verdict == MT_VERDICT_SAME ? "the " : "", mt_verdict_words[p->verdict]);
    for (int i = 0; i < MT_FIGURES; i++) {
        int turn = mt_versus_turn(&p->all, (enum mt_figure)i);
        if (!turn)
            continue;
        fprintf(f, "%s%s %s", between, mt_figure_words[i].words,
                mt_versus_cell(cell, &p->all, (enum mt_figure)i));
        between = ", ";
    }
    double a = mt_side_efficiency(p->all.a), b = mt_side_efficiency(p->all.b);
    if (a >= 0 && b >= 0 && (a - b > 0.001 || b - a > 0.001)) {
        fprintf(f, "%sefficiency %s", between, mt_versus_efficiency(cell, &p->all));
        between = ", ";
    }
    if (p->other_work) {
        fprintf(f, "; the two do not access the same number of bytes: loaded %s",
                mt_versus_cell(cell, &p->all, MT_FIGURE_LOADED));
        fprintf(f, ", stored %s", mt_versus_cell(cell, &p->all, MT_FIGURE_STORED));
    }
}

char *mt_versus_sentence(const struct mt_versus *p)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return NULL;
    (p->verdict == MT_VERDICT_NONE ? versus_no_verdict : versus_verdict)(f, p);
    fputc('.', f);
    int bad = ferror(f) | fclose(f);
    if (bad) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- tables ---- */

/* Both names of a row where they differ. */
static void versus_name(struct mt_table *t, const char *a, const char *b)
{
    if (a && b && strcmp(a, b) != 0)
        mt_table_say(t, "%s -> %s", a, b);
    else if (a && b)
        mt_table_text(t, a);
    else
        mt_table_say(t, a ? "%s -> (none)" : "(none) -> %s", a ? a : b);
}

static void versus_kernel_name(struct mt_table *t, const struct mt_versus_row *r)
{
    if (r->a && r->b && strcmp(r->a->kernel, r->b->kernel) == 0)
        mt_table_kernel(t, r->a->kernel);
    else
        versus_name(t, r->a ? r->a->kernel : NULL, r->b ? r->b->kernel : NULL);
}

static void versus_cells(struct mt_table *t, const struct mt_versus_row *r, const enum mt_figure *list,
                         size_t n)
{
    char cell[MT_VERSUS_CELL];
    for (size_t i = 0; i < n; i++)
        if (list[i] == MT_FIGURES)
            mt_table_text(t, mt_versus_efficiency(cell, r));
        else
            mt_table_text(t, mt_versus_cell(cell, r, list[i]));
}

size_t mt_versus_known(const struct mt_versus *p, const enum mt_figure *figures, size_t n,
                       enum mt_figure *out)
{
    unsigned known = p->all.a->known | p->all.b->known;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (figures[i] == MT_FIGURES || known >> figures[i] & 1)
            out[kept++] = figures[i];
    return kept;
}

/* A table with `heads`, then a column for each of the figures that are known. */
static size_t versus_table(struct mt_table *t, const struct mt_versus *p, const char *title,
                           const char *heads, const enum mt_figure *figures, size_t n, enum mt_figure *out)
{
    static const char *const shorter[MT_FIGURES + 1] = {
        [MT_FIGURE_CROSSING] = "between devices", [MT_FIGURE_FOOTPRINT] = "footprint",
        [MT_FIGURE_BANKS] = "bank conflicts",     [MT_FIGURE_HAZARDS] = "hazards",
        [MT_FIGURE_LOCAL] = "bytes local",        [MT_FIGURES] = "efficiency"};
    char text[512];
    size_t kept = mt_versus_known(p, figures, n, out), at = (size_t)snprintf(text, sizeof text, "%s", heads);
    for (size_t i = 0; i < kept && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "|>%s",
                               shorter[out[i]] ? shorter[out[i]] : mt_figure_words[out[i]].words);
    mt_table_init(t, title, text);
    return kept;
}

static int versus_sums(FILE *f, const struct mt_versus *p)
{
    struct mt_table t;
    char cell[MT_VERSUS_CELL];
    mt_table_init(&t, "The whole runs", "figure|A -> B");
    for (int i = 0; i < MT_FIGURES; i++) {
        if (!((p->all.a->known | p->all.b->known) >> i & 1))
            continue;
        mt_table_row(&t, 0);
        mt_table_text(&t, mt_figure_words[i].words);
        mt_table_text(&t, mt_versus_cell(cell, &p->all, (enum mt_figure)i));
    }
    mt_table_row(&t, 0);
    mt_table_text(&t, "efficiency");
    mt_table_text(&t, mt_versus_efficiency(cell, &p->all));
    return mt_table_print(&t, f, ROWS);
}

static int versus_kernel_table(FILE *f, const struct mt_versus *p)
{
    static const enum mt_figure list[] = {MT_FIGURE_LAUNCHES, MT_FIGURE_LOADED,    MT_FIGURE_STORED,
                                          MT_FIGURE_SECTORS,  MT_FIGURES,          MT_FIGURE_CONFLICTS,
                                          MT_FIGURE_CROSSING, MT_FIGURE_FOOTPRINT, MT_FIGURE_BANKS,
                                          MT_FIGURE_HAZARDS,  MT_FIGURE_LOCAL};
    enum mt_figure known[sizeof list / sizeof *list];
    struct mt_table t;
    size_t n = versus_table(&t, p, "By kernel", "kernel", list, sizeof list / sizeof *list, known);
    for (size_t i = 0; i < p->count; i++) {
        mt_table_row(&t, 0);
        versus_kernel_name(&t, &p->kernels[i].row);
        versus_cells(&t, &p->kernels[i].row, known, n);
    }
    return mt_table_print(&t, f, ROWS);
}

static int versus_part_table(FILE *f, const struct mt_versus *p, enum mt_side_by by)
{
    static const enum mt_figure lines[] = {MT_FIGURE_ACCESSES, MT_FIGURE_LOADED,  MT_FIGURE_STORED,
                                           MT_FIGURE_SECTORS,  MT_FIGURES,        MT_FIGURE_CONFLICTS,
                                           MT_FIGURE_BANKS,    MT_FIGURE_HAZARDS, MT_FIGURE_LOCAL},
                                buffers[] = {MT_FIGURE_ACCESSES, MT_FIGURE_LOADED, MT_FIGURE_STORED,
                                             MT_FIGURE_FALSELY};
    enum mt_figure known[sizeof lines / sizeof *lines];
    struct mt_table t;
    size_t n = by == MT_SIDE_LINES ? versus_table(&t, p, "By source line", "line|kernel", lines,
                                                  sizeof lines / sizeof *lines, known)
                                   : versus_table(&t, p, "By buffer", "buffer|kernel", buffers,
                                                  sizeof buffers / sizeof *buffers, known);
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = 0; k < p->kernels[i].count[by]; k++) {
            const struct mt_versus_row *r = &p->kernels[i].part[by][k];
            mt_table_row(&t, 0);
            versus_name(&t, r->a ? mt_place_short(r->a->place) : NULL,
                        r->b ? mt_place_short(r->b->place) : NULL);
            versus_kernel_name(&t, &p->kernels[i].row);
            versus_cells(&t, r, known, n);
        }
    return mt_table_print(&t, f, ROWS);
}

int mt_versus_text(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w)
{
    char *sentence = mt_versus_sentence(p);
    if (!sentence)
        return -1;
    for (int i = 0; i < 2; i++) {
        fprintf(f, "%c:", 'A' + i);
        for (size_t k = 0; k < w->npaths[i]; k++)
            fprintf(f, " %s", w->paths[i][k]);
        fprintf(f, "%s\n", w->complete[i] == 0 ? " (incomplete)" : "");
    }
    fprintf(f, "%s\n", sentence);
    free(sentence);
    return versus_sums(f, p) | versus_kernel_table(f, p) | versus_part_table(f, p, MT_SIDE_LINES) |
           versus_part_table(f, p, MT_SIDE_BUFFERS);
}
