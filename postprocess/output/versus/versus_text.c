/* Two runs side by side, for people: the verdict, sums, kernels, lines, buffers. */
#define _GNU_SOURCE
#include "output/text/words.h"
#include "versus.h"
#include "output/text/gaps.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 25 };

const char *mt_versus_side(char out[MT_VERSUS_CELL], const struct mt_versus_row *r, int run, enum mt_figure f,
                           int page)
{
    const double v = mt_versus_value(r, run, f);
    if (v < 0)
        strcpy(out, page ? "–" : "-");
    else if (f == MT_FIGURE_EFFICIENCY)
        snprintf(out, MT_VERSUS_CELL, page ? "%.1f\u00a0%%" : "%.1f %%", 100 * v);
    else
        snprintf(out, MT_VERSUS_CELL, "%s",
                 page ? mt_number_count(mt_versus_number(r, run, f)).text : r->v[f][run]);
    return out;
}

const char *mt_versus_cell(char out[MT_VERSUS_CELL], const struct mt_versus_row *r, enum mt_figure f,
                           int page)
{
    char a[MT_VERSUS_CELL], b[MT_VERSUS_CELL];
    double change;
    mt_versus_side(a, r, 0, f, page);
    mt_versus_side(b, r, 1, f, page);
    if (strcmp(a, b) == 0)
        snprintf(out, MT_VERSUS_CELL, "%.30s", a);
    else if (!mt_versus_change(r, f, &change))
        snprintf(out, MT_VERSUS_CELL, "%.30s%s%.30s", a, page ? " → " : " -> ", b);
    else if (page)
        snprintf(out, MT_VERSUS_CELL, "%.30s → %.30s (%s%.1f\u00a0%%)", a, b, change < 0 ? "−" : "+",
                 100 * fabs(change));
    else
        snprintf(out, MT_VERSUS_CELL, "%.30s -> %.30s (%+.1f %%)", a, b, 100 * change);
    return out;
}

int mt_versus_turn(const struct mt_versus_row *r, enum mt_figure f)
{
    if (f != MT_FIGURE_EFFICIENCY)
        return mt_figure_words[f].judged && r->kernel[0] && r->kernel[1] ? -mt_versus_moved(r, f) : 0;
    const double a = mt_versus_value(r, 0, f), b = mt_versus_value(r, 1, f);
    return a < 0 || b < 0 ? 0 : b - a > MT_VERSUS_SLACK ? 1 : a - b > MT_VERSUS_SLACK ? -1 : 0;
}

size_t mt_versus_columns(struct mt_versus_list list, char in, enum mt_figure out[MT_FIGURES_ALL])
{
    size_t n = 0;
    for (int f = 0; f < MT_FIGURES; f++) {
        uint64_t some = 0;
        for (size_t i = 0; i < 2 * list.n; i++)
            some |= mt_versus_number(&list.row[i / 2], i % 2, f);
        if (!some || !strchr(mt_figure_words[f].in, in))
            continue;
        out[n++] = (enum mt_figure)f;
        if (f == MT_FIGURE_SECTORS)
            out[n++] = MT_FIGURE_EFFICIENCY;
    }
    return n;
}

/* Figures that count and that one of the two does not know. */
static void versus_one_knows(FILE *f, const struct mt_versus *p)
{
    for (int run = 0; run < 2; run++) {
        const char *between = run ? "; not compared: only B knows " : "; not compared: only A knows ";
        for (int i = 0; i < MT_FIGURES; i++)
            if (mt_figure_words[i].judged && p->all->v[i][run] && !p->all->v[i][!run]) {
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
            p->unlike);
    for (int i = 0; i < 2; i++)
        fprintf(f, "%s %" PRIu64 " of %" PRIu64 " are in %c", i ? "," : "", p->part[i]->traced,
                p->part[i]->ctas, 'A' + i);
}

static void versus_verdict(FILE *f, const struct mt_versus *p, int page)
{
    char cell[MT_VERSUS_CELL];
    const char *between = ": ";
    fprintf(f, "B is %s%s", p->verdict == MT_VERDICT_SAME ? "the " : "", mt_verdict_words[p->verdict]);
    for (int i = 0; i < MT_FIGURES_ALL; i++) {
        const double a = mt_versus_value(p->all, 0, i), b = mt_versus_value(p->all, 1, i);
        if (i == MT_FIGURE_EFFICIENCY ? a < 0 || b < 0 || fabs(a - b) <= 0.001 : !mt_versus_turn(p->all, i))
            continue;
        fprintf(f, "%s%s %s", between, mt_figure_words[i].words[mt_of_threads],
                mt_versus_cell(cell, p->all, i, page));
        between = ", ";
    }
    if (p->other_work) {
        fprintf(f, "; the two do not access the same number of bytes: loaded %s",
                mt_versus_cell(cell, p->all, MT_FIGURE_LOADED, page));
        fprintf(f, ", stored %s", mt_versus_cell(cell, p->all, MT_FIGURE_STORED, page));
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
    if (r->kernel[0] && r->kernel[1] && strcmp(r->kernel[0], r->kernel[1]) == 0)
        mt_table_kernel(t, r->kernel[0]);
    else
        versus_name(t, r->kernel[0], r->kernel[1]);
}

const char *mt_versus_no_lines(const struct mt_versus *p)
{
    static const char *const words[] = {NULL, "not known of A: only compact traces of kernels have them",
                                        "not known of B: only compact traces of kernels have them",
                                        "not known of either: only compact traces of kernels have them"};
    return words[p->no_lines];
}

static int versus_sums(FILE *f, const struct mt_versus *p)
{
    struct mt_table t;
    char cell[MT_VERSUS_CELL];
    mt_table_init(&t, "The whole runs", "figure|A -> B");
    for (int i = 0; i < MT_FIGURES_ALL; i++) {
        if (!mt_versus_has(p->all, i))
            continue;
        mt_table_row(&t, 0);
        mt_table_text(&t, mt_figure_words[i].words[mt_of_threads]);
        mt_table_text(&t, mt_versus_cell(cell, p->all, i, 0));
    }
    return mt_table_print(&t, f, ROWS);
}

/* Of kernels, lines or buffers ('k', 'l', 'b'), with a column for each of their figures that one of the runs
 * has. */
static int versus_table(FILE *f, const struct mt_versus *p, char by, const char *title, const char *heads)
{
    enum mt_figure column[MT_FIGURES_ALL];
    const size_t n = mt_versus_columns((struct mt_versus_list){p->all, 1}, by, column);
    struct mt_table t;
    char text[MT_VERSUS_CELL];
    mt_table_init(&t, title, heads);
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, ">%s", mt_figure_words[column[i]].head[mt_of_threads]);
        mt_table_head(&t, text);
    }
    for (size_t i = 0; i < p->count; i++) {
        const struct mt_versus_list list = mt_versus_rows(&p->kernels[i], by);
        for (const struct mt_versus_row *r = list.row; r < list.row + list.n; r++) {
            mt_table_row(
                &t,
                by == 'k' ? 0 : (uint64_t)(mt_versus_share(p->all, r) * 1e9)); /* what changed most first */
            if (by != 'k')
                versus_name(&t, r->place[0] ? mt_location_short(r->place[0]) : NULL,
                            r->place[1] ? mt_location_short(r->place[1]) : NULL);
            versus_kernel_name(&t, p->kernels[i].row);
            for (size_t k = 0; k < n; k++)
                mt_table_text(&t, mt_versus_cell(text, r, column[k], 0));
        }
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
    int rc = versus_sums(f, p) |
             versus_table(f, p, 'k', MT_EITHER("By kernel", "By program"), MT_EITHER("kernel", "program"));
    if (p->no_lines)
        fprintf(f, "\nBy source line: %s\n", mt_versus_no_lines(p));
    else
        rc |= versus_table(f, p, 'l', "By source line", MT_EITHER("line|kernel", "line|program"));
    return rc | versus_table(f, p, 'b', "By buffer", MT_EITHER("buffer|kernel", "buffer|program"));
}
