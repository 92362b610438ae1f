/* The page of two runs side by side: written as it is shown, without a script. */
#define _GNU_SOURCE
#include "output/text/words.h"
#include "versus_page.h"
#include "static_page.h"
#include "output/dot/xml.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_KERNELS = 20 }; /* of those that changed; the others are folded up */

/* ---- cells ---- */

static const char *page_turn(int turn)
{
    return turn > 0 ? "num better" : turn < 0 ? "num worse" : "num";
}

/* "4,608 → 1,024 −77.8 %", one number where both are equal or only one has the row. */
static void page_figure(FILE *f, const struct mt_versus_row *r, enum mt_figure figure)
{
    char a[MT_VERSUS_CELL], b[MT_VERSUS_CELL];
    double change;
    mt_versus_side(a, r, !r->kernel[0], figure, 1);
    mt_versus_side(b, r, r->kernel[1] != NULL, figure, 1);
    fprintf(f, "<td class=\"%s\">%s", page_turn(mt_versus_turn(r, figure)), a);
    if (strcmp(a, b) != 0)
        fprintf(f, " → %s", b);
    if (strcmp(a, b) != 0 && mt_versus_change(r, figure, &change))
        fprintf(f, " <small>%s%.1f\u00a0%%</small>", change < 0 ? "−" : "+", 100 * fabs(change));
    fputs("</td>", f);
}

/* ---- the whole runs ---- */

static void page_bars(FILE *f, const struct mt_versus_row *r, enum mt_figure figure)
{
    const double a = fmax(mt_versus_value(r, 0, figure), 0), b = fmax(mt_versus_value(r, 1, figure), 0),
                 most = figure == MT_FIGURE_EFFICIENCY ? 1 : fmax(fmax(a, b), 1);
    mt_static_bars(f, 100 * a / most, 100 * b / most);
}

static void page_sums(FILE *f, const struct mt_versus *p)
{
    fputs("<section class=\"card\"><h2>The whole runs</h2>\n<p class=\"lead\"><i class=\"key a\"></i>A <i "
          "class=\"key "
          "b\"></i>B. Figures that are better where less is moved are coloured; the others only say how much "
          "was "
          "done.</p>\n<table><thead><tr><th scope=\"col\">figure</th><th scope=\"col\" class=\"num\">A → "
          "B</th><th "
          "scope=\"col\" class=\"bars\">in proportion</th></tr></thead><tbody>\n",
          f);
    for (int i = 0; i < MT_FIGURES_ALL; i++) {
        if (!mt_versus_has(p->all, i))
            continue;
        mt_static_text(f, "<tr><th scope=\"row\">", mt_figure_words[i].words[mt_of_threads], "</th>");
        page_figure(f, p->all, i);
        page_bars(f, p->all, i);
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></section>\n", f);
}

/* ---- kernels ---- */

/* Both names where they differ; what one run lacks says so. */
static void page_name(FILE *f, char *const name[2], int places)
{
    const char *a = name[0], *b = name[1], *one = a ? a : b;
    if (places)
        mt_static_text(f, "<span title=\"", one, "\">");
    mt_static_text(f, "", places ? mt_location_short(one) : one, "");
    if (a && b && strcmp(places ? mt_location_short(a) : a, places ? mt_location_short(b) : b) != 0)
        mt_static_text(f, " → ", places ? mt_location_short(b) : b, "");
    fputs(places ? "</span>" : "", f);
    if (!a || !b)
        fputs(a ? " <em>A only</em>" : " <em>B only</em>", f);
}

/* Their rows, with a column for each of the figures that one of the runs has here. */
static void page_table(FILE *f, const char *first, struct mt_versus_list list, char in)
{
    enum mt_figure column[MT_FIGURES_ALL];
    const size_t n = mt_versus_columns(list, in, column);
    fprintf(f, "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">%s</th>", first);
    for (size_t i = 0; i < n; i++) {
        const struct mt_figure_words *w = &mt_figure_words[column[i]];
        fputs("<th scope=\"col\" class=\"num\"", f);
        if (column[i] != MT_FIGURE_EFFICIENCY)
            fprintf(f, " title=\"%s\"", w->words[mt_of_threads]);
        fprintf(f, ">%s</th>", w->head[mt_of_threads]);
    }
    fputs("</tr></thead><tbody>\n", f);
    for (const struct mt_versus_row *r = list.row; r < list.row + list.n; r++) {
        fputs("<tr><th scope=\"row\">", f);
        if (in == 'K')
            fputs("all launches", f);
        else
            page_name(f, r->place, in == 'L');
        fputs("</th>", f);
        for (size_t i = 0; i < n; i++)
            page_figure(f, r, column[i]);
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
}

/* Figures that changed, or what the kernel has most of. */
static void page_changes(FILE *f, const struct mt_versus_row *r)
{
    char cell[MT_VERSUS_CELL];
    enum mt_figure most = mt_versus_both(r, MT_FIGURE_SECTORS) ? MT_FIGURE_SECTORS : MT_FIGURE_LOADED;
    int some = 0;
    for (int i = 0; i < MT_FIGURES && r->kernel[0] && r->kernel[1]; i++)
        if (mt_versus_moved(r, i)) {
            some = 1;
            fprintf(f, "<span class=\"%s\">%s %s</span>", page_turn(mt_versus_turn(r, i)),
                    mt_figure_words[i].head[mt_of_threads], mt_versus_cell(cell, r, i, 1));
        }
    if (!some && mt_versus_both(r, most))
        fprintf(f, "<span>%s %s, nothing changed</span>", mt_figure_words[most].head[mt_of_threads],
                mt_versus_cell(cell, r, most, 1));
}

static void page_kernel(FILE *f, const struct mt_versus_kernel *k, int open)
{
    fprintf(f, "<details class=\"card\"%s><summary><h2>", open ? " open" : "");
    page_name(f, k->row->kernel, 0);
    fputs("</h2>", f);
    page_changes(f, k->row);
    fputs("</summary>\n", f);
    page_table(f, MT_EITHER("kernel", "program"), mt_versus_rows(k, 'k'), 'K');
    if (k->lines.n)
        page_table(f, "source line", k->lines, 'L');
    if (k->buffers.n)
        page_table(f, "buffer", k->buffers, 'b');
    fputs("</details>\n", f);
}

/* ---- the page ---- */

static void page_inputs(FILE *f, const struct mt_versus_words *w, int i)
{
    fprintf(f, "<p class=\"input\"><b><i class=\"key %c\"></i>%c</b> ", 'a' + i, 'A' + i);
    for (size_t k = 0; k < w->npaths[i]; k++)
        mt_static_text(f, k ? ", <code>" : "<code>", w->paths[i][k], "</code>");
    fputs(w->complete[i] == 0  ? " <em>incomplete: something is missing in this run</em>"
          : w->complete[i] < 0 ? " <em>not known whether it is complete</em>"
                               : "",
          f);
    fputs("</p>\n", f);
}

int mt_versus_page(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w)
{
    char *sentence = mt_versus_sentence(p, 1);
    if (!sentence)
        return -1;
    mt_static_begin(f, w->title ? w->title : "Before and after", p->verdict == MT_VERDICT_NONE ? "none" : "");
    page_inputs(f, w, 0);
    page_inputs(f, w, 1);
    fprintf(f, "<p class=\"verdict %s\">", mt_verdict_words[p->verdict]);
    mt_xml_text(f, sentence);
    fputs("</p>\n", f);
    if (p->moved)
        fprintf(f, "<p class=\"lead\">%zu %s found again at another place by what %s.</p>\n", p->moved,
                p->moved == 1 ? "source line was" : "source lines were",
                p->moved == 1 ? "it accesses" : "they access");
    if (p->no_lines)
        fprintf(f, "<p class=\"lead\">Source lines: %s.</p>\n", mt_versus_no_lines(p));
    page_sums(f, p);
    for (size_t i = 0; i < p->count; i++)
        page_kernel(f, &p->kernels[i], i < OPEN_KERNELS && p->kernels[i].change > 0);
    mt_static_end(f,
                  "Efficiency: different bytes asked for / bytes moved in sectors of 32. Between devices: if "
                  "the CTAs ran on two, in blocks. Words and rules: definitions.md, memtrace compare.");
    free(sentence);
    return 0;
}
