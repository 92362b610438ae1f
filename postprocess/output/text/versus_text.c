/* Two runs side by side, for people: the verdict, sums, kernels, lines, buffers. */
#define _GNU_SOURCE
#include "output/text/words.h"
#include "versus_out.h"
#include "gaps.h"
#include "numbers.h"
#include "table.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 25 };

static struct mt_number versus_digits(uint64_t n, int page)
{
    struct mt_number w = mt_number_count(n);
    if (!page)
        snprintf(w.text, sizeof w.text, "%" PRIu64, n);
    return w;
}

const char *mt_versus_cell(char out[MT_VERSUS_CELL], const struct mt_versus_row *r, enum mt_figure f,
                           int page)
{
    struct mt_number side[2];
    double change;
    const struct mt_side_row *row[2] = {r->a, r->b};
    for (int i = 0; i < 2; i++)
        if (row[i] && row[i]->known >> f & 1)
            side[i] = versus_digits(row[i]->v[f], page);
        else
            strcpy(side[i].text, page ? "–" : "-");
    const char *arrow = page ? " → " : " -> ";
    if (strcmp(side[0].text, side[1].text) == 0)
        snprintf(out, MT_VERSUS_CELL, "%.30s", side[0].text);
    else if (!mt_versus_change(r, f, &change))
        snprintf(out, MT_VERSUS_CELL, "%.30s%s%.30s", side[0].text, arrow, side[1].text);
    else if (page)
        snprintf(out, MT_VERSUS_CELL, "%.30s → %.30s (%s%.1f\u00a0%%)", side[0].text, side[1].text,
                 change < 0 ? "−" : "+", 100 * fabs(change));
    else
        snprintf(out, MT_VERSUS_CELL, "%.30s -> %.30s (%+.1f %%)", side[0].text, side[1].text, 100 * change);
    return out;
}

static void versus_percent(char out[32], double efficiency, int page)
{
    if (efficiency < 0)
        strcpy(out, page ? "–" : "-");
    else
        snprintf(out, 32, page ? "%.1f\u00a0%%" : "%.1f %%", 100 * efficiency);
}

const char *mt_versus_efficiency(char out[MT_VERSUS_CELL], const struct mt_versus_row *r, int page)
{
    char a[32], b[32];
    versus_percent(a, mt_side_efficiency(r->a), page);
    versus_percent(b, mt_side_efficiency(r->b), page);
    snprintf(out, MT_VERSUS_CELL, strcmp(a, b) == 0 ? "%s" : page ? "%s → %s" : "%s -> %s", a, b);
    return out;
}

int mt_versus_turn(const struct mt_versus_row *r, enum mt_figure f)
{
    return mt_figure_words[f].judged && r->a && r->b ? -mt_versus_moved(r, f) : 0;
}

/* Figures that count and that one of the two does not know. */
static void versus_one_knows(FILE *f, const struct mt_versus *p)
{
    for (int side = 0; side < 2; side++) {
        const struct mt_side_row *here = side ? p->all.b : p->all.a, *there = side ? p->all.a : p->all.b;
        const char *between = side ? "; not compared: only B knows " : "; not compared: only A knows ";
        for (int i = 0; i < MT_FIGURES; i++)
            if (mt_figure_words[i].judged && (here->known & ~there->known) >> i & 1) {
                fprintf(f, "%s%s", between, mt_figure_words[i].words[mt_of_threads]);
                between = ", ";
            }
    }
}

/* 0, or -1 without memory. */
static int versus_untraced(FILE *f, const struct mt_versus *p)
{
    int bad = 0;
    for (int i = 0; i < 2; i++) {
        struct mt_gaps g = {0};
        bad |= mt_gaps_untraced(&g, &p->untraced[i], 0);
        if (g.sentence[MT_GAP_UNTRACED])
            fprintf(f, " Of %c, %s", 'A' + i, g.sentence[MT_GAP_UNTRACED]);
        mt_gaps_free(&g);
    }
    return bad;
}

static void versus_no_verdict(FILE *f, const struct mt_versus *p)
{
    if (!p->unlike && p->unseen) {
        fputs("A and B cannot be compared: not as many accesses of each have no record", f);
        return;
    }
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

static void versus_verdict(FILE *f, const struct mt_versus *p, int page)
{
    char cell[MT_VERSUS_CELL];
    const char *between = ": ";
    fprintf(f, "B is %s%s", p->verdict == MT_VERDICT_SAME ? "the " : "", mt_verdict_words[p->verdict]);
    for (int i = 0; i < MT_FIGURES; i++) {
        int turn = mt_versus_turn(&p->all, (enum mt_figure)i);
        if (!turn)
            continue;
        fprintf(f, "%s%s %s", between, mt_figure_words[i].words[mt_of_threads],
                mt_versus_cell(cell, &p->all, (enum mt_figure)i, page));
        between = ", ";
    }
    double a = mt_side_efficiency(p->all.a), b = mt_side_efficiency(p->all.b);
    if (a >= 0 && b >= 0 && (a - b > 0.001 || b - a > 0.001)) {
        fprintf(f, "%sefficiency %s", between, mt_versus_efficiency(cell, &p->all, page));
        between = ", ";
    }
    if (p->other_work) {
        fprintf(f, "; the two do not access the same number of bytes: loaded %s",
                mt_versus_cell(cell, &p->all, MT_FIGURE_LOADED, page));
        fprintf(f, ", stored %s", mt_versus_cell(cell, &p->all, MT_FIGURE_STORED, page));
    }
    versus_one_knows(f, p);
}

char *mt_versus_sentence(const struct mt_versus *p, int page)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return NULL;
    if (p->verdict == MT_VERDICT_NONE)
        versus_no_verdict(f, p);
    else
        versus_verdict(f, p, page);
    fputc('.', f);
    int bad = versus_untraced(f, p) | ferror(f);
    bad |= fclose(f);
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
            mt_table_text(t, mt_versus_efficiency(cell, r, 0));
        else
            mt_table_text(t, mt_versus_cell(cell, r, list[i], 0));
}

size_t mt_versus_shown(const struct mt_versus_row *rows, size_t nrows, const enum mt_figure *figures,
                       size_t n, enum mt_figure *out)
{
    uint64_t some[MT_FIGURES] = {0};
    size_t kept = 0;
    for (size_t i = 0; i < 2 * nrows; i++) {
        const struct mt_side_row *r = i % 2 ? rows[i / 2].b : rows[i / 2].a;
        for (int f = 0; r && f < MT_FIGURES; f++)
            some[f] |= r->known >> f & 1 ? r->v[f] : 0;
    }
    for (size_t i = 0; i < n; i++)
        if (some[figures[i] == MT_FIGURES ? MT_FIGURE_SECTORS : figures[i]])
            out[kept++] = figures[i];
    return kept;
}

const char *mt_versus_no_lines(const struct mt_versus *p)
{
    static const char *const words[] = {NULL, "not known of A: only compact traces of kernels have them",
                                        "not known of B: only compact traces of kernels have them",
                                        "not known of either: only compact traces of kernels have them"};
    return words[p->no_lines];
}

/* A table with `heads`, then a column for each of the figures that one of the runs has. */
static size_t versus_table(struct mt_table *t, const struct mt_versus *p, const char *title,
                           const char *heads, const enum mt_figure *figures, size_t n, enum mt_figure *out)
{
    char text[512];
    size_t kept = mt_versus_shown(&p->all, 1, figures, n, out),
           at = (size_t)snprintf(text, sizeof text, "%s", heads);
    for (size_t i = 0; i < kept && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "|>%s",
                               out[i] == MT_FIGURES ? "efficiency"
                                                    : mt_figure_words[out[i]].head[mt_of_threads]);
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
        mt_table_text(&t, mt_figure_words[i].words[mt_of_threads]);
        mt_table_text(&t, mt_versus_cell(cell, &p->all, (enum mt_figure)i, 0));
    }
    mt_table_row(&t, 0);
    mt_table_text(&t, "efficiency");
    mt_table_text(&t, mt_versus_efficiency(cell, &p->all, 0));
    return mt_table_print(&t, f, ROWS);
}

static int versus_kernel_table(FILE *f, const struct mt_versus *p)
{
    static const enum mt_figure list[] = {
        MT_FIGURE_LAUNCHES,  MT_FIGURE_LOADED,   MT_FIGURE_STORED,  MT_FIGURE_SECTORS, MT_FIGURES,
        MT_FIGURE_CONFLICTS, MT_FIGURE_CROSSING, MT_FIGURE_LARGEST, MT_FIGURE_BANKS,   MT_FIGURE_HAZARDS,
        MT_FIGURE_LOCAL,     MT_FIGURE_MISSES,   MT_FIGURE_FETCHED, MT_FIGURE_BOUNCES};
    enum mt_figure known[sizeof list / sizeof *list];
    struct mt_table t;
    size_t n = versus_table(&t, p, MT_EITHER("By kernel", "By program"), MT_EITHER("kernel", "program"), list,
                            sizeof list / sizeof *list, known);
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
                                           MT_FIGURE_BANKS,    MT_FIGURE_HAZARDS, MT_FIGURE_LOCAL,
                                           MT_FIGURE_MISSES,   MT_FIGURE_FETCHED, MT_FIGURE_BOUNCES},
                                buffers[] = {MT_FIGURE_ACCESSES, MT_FIGURE_LOADED, MT_FIGURE_STORED,
                                             MT_FIGURE_FALSELY, MT_FIGURE_BOUNCES};
    enum mt_figure known[sizeof lines / sizeof *lines];
    struct mt_table t;
    if (by == MT_SIDE_LINES && p->no_lines) {
        fprintf(f, "\nBy source line: %s\n", mt_versus_no_lines(p));
        return 0;
    }
    size_t n = by == MT_SIDE_LINES
                   ? versus_table(&t, p, "By source line", MT_EITHER("line|kernel", "line|program"), lines,
                                  sizeof lines / sizeof *lines, known)
                   : versus_table(&t, p, "By buffer", MT_EITHER("buffer|kernel", "buffer|program"), buffers,
                                  sizeof buffers / sizeof *buffers, known);
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = 0; k < p->kernels[i].count[by]; k++) {
            const struct mt_versus_row *r = &p->kernels[i].part[by][k];
            mt_table_row(&t, (uint64_t)(mt_versus_share(&p->all, r) * 1e9)); /* what changed most first */
            versus_name(&t, r->a ? mt_location_short(r->a->place) : NULL,
                        r->b ? mt_location_short(r->b->place) : NULL);
            versus_kernel_name(&t, &p->kernels[i].row);
            versus_cells(&t, r, known, n);
        }
    return mt_table_print(&t, f, ROWS);
}

int mt_versus_text(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w)
{
    char *sentence = mt_versus_sentence(p, 0);
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
