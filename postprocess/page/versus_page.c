/* The page of two runs side by side: written as it is shown, without a script. */
#define _GNU_SOURCE
#include "output/text/words.h"
#include "versus_page.h"
#include "static_page.h"
#include "output/text/numbers.h"
#include "output/dot/xml.h"
#include <stdlib.h>
#include <string.h>

enum { OPEN_KERNELS = 20 }; /* of those that changed; the others are folded up */

/* ---- cells ---- */

static const char *page_turn(int turn)
{
    return turn > 0 ? "num better" : turn < 0 ? "num worse" : "num";
}

static void page_number(FILE *f, const struct mt_side_row *r, enum mt_figure figure)
{
    if (!r || !(r->known >> figure & 1))
        fputs("–", f);
    else
        fputs(mt_number_count(r->v[figure]).text, f);
}

static int page_equal(const struct mt_versus_row *r, enum mt_figure figure)
{
    return mt_versus_both(r, figure) && r->a->v[figure] == r->b->v[figure];
}

/* "4,608 → 1,024 −77.8 %", one number where both are equal. */
static void page_figure(FILE *f, const struct mt_versus_row *r, enum mt_figure figure)
{
    double change;
    fprintf(f, "<td class=\"%s\">", page_turn(mt_versus_turn(r, figure)));
    page_number(f, r->a ? r->a : r->b, figure);
    if (!page_equal(r, figure) && r->a && r->b && (r->a->known | r->b->known) >> figure & 1) {
        fputs(" → ", f);
        page_number(f, r->b, figure);
        if (mt_versus_change(r, figure, &change))
            fprintf(f, " <small>%s%.1f\u00a0%%</small>", change < 0 ? "−" : "+",
                    100 * (change < 0 ? -change : change));
    }
    fputs("</td>", f);
}

static void page_efficiency(FILE *f, const struct mt_versus_row *r)
{
    char cell[MT_VERSUS_CELL];
    const struct mt_versus_row one = {r->a ? r->a : r->b, r->b ? r->b : r->a}; /* where there is one only */
    double a = mt_side_efficiency(one.a), b = mt_side_efficiency(one.b);
    int turn = a < 0 || b < 0 ? 0 : b - a > MT_VERSUS_SLACK ? 1 : a - b > MT_VERSUS_SLACK ? -1 : 0;
    fprintf(f, "<td class=\"%s\">", page_turn(turn));
    fprintf(f, "%s</td>", mt_versus_efficiency(cell, &one, 1));
}

/* ---- the whole runs ---- */

static double page_part(const struct mt_side_row *r, enum mt_figure figure, uint64_t most)
{
    return most && r->known >> figure & 1 ? 100.0 * (double)r->v[figure] / (double)most : 0;
}

static void page_bars(FILE *f, const struct mt_versus_row *r, enum mt_figure figure)
{
    uint64_t a = r->a->v[figure], b = r->b->v[figure], most = a > b ? a : b;
    mt_static_bars(f, page_part(r->a, figure, most), page_part(r->b, figure, most));
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
    for (int i = 0; i < MT_FIGURES; i++) {
        if (!((p->all.a->known | p->all.b->known) >> i & 1))
            continue;
        mt_static_text(f, "<tr><th scope=\"row\">", mt_figure_words[i].words[mt_of_threads], "</th>");
        page_figure(f, &p->all, (enum mt_figure)i);
        page_bars(f, &p->all, (enum mt_figure)i);
        fputs("</tr>\n", f);
    }
    fputs("<tr><th scope=\"row\">efficiency</th>", f);
    page_efficiency(f, &p->all);
    double before = mt_side_efficiency(p->all.a), after = mt_side_efficiency(p->all.b);
    mt_static_bars(f, before > 0 ? 100 * before : 0, after > 0 ? 100 * after : 0);
    fputs("</tr>\n</tbody></table></section>\n", f);
}

/* ---- kernels ---- */

static const enum mt_figure of_kernel[] =
    {MT_FIGURE_LAUNCHES, MT_FIGURE_LOADED,  MT_FIGURE_STORED, MT_FIGURE_SAME_LAUNCH, MT_FIGURE_EARLIER_LAUNCH,
     MT_FIGURE_SAME_CTA, MT_FIGURE_SECTORS, MT_FIGURES,       MT_FIGURE_FALSELY,     MT_FIGURE_CONFLICTS,
     MT_FIGURE_CROSSING, MT_FIGURE_LARGEST, MT_FIGURE_BANKS,  MT_FIGURE_HAZARDS,     MT_FIGURE_LOCAL,
     MT_FIGURE_MISSES,   MT_FIGURE_FETCHED, MT_FIGURE_BOUNCES},
                            of_line[] = {MT_FIGURE_ACCESSES,  MT_FIGURE_LOADED,  MT_FIGURE_STORED,
                                         MT_FIGURE_REQUESTS,  MT_FIGURE_SECTORS, MT_FIGURES,
                                         MT_FIGURE_CONFLICTS, MT_FIGURE_BANKS,   MT_FIGURE_HAZARDS,
                                         MT_FIGURE_LOCAL,     MT_FIGURE_MISSES,  MT_FIGURE_FETCHED,
                                         MT_FIGURE_BOUNCES},
                            of_buffer[] = {MT_FIGURE_ACCESSES, MT_FIGURE_LOADED, MT_FIGURE_STORED,
                                           MT_FIGURE_FALSELY, MT_FIGURE_BOUNCES};
#define LENGTH(list) (sizeof list / sizeof *list)

static void page_head(FILE *f, const char *first, const enum mt_figure *list, size_t n)
{
    fprintf(f, "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">%s</th>", first);
    for (size_t i = 0; i < n; i++)
        if (list[i] == MT_FIGURES)
            fputs("<th scope=\"col\" class=\"num\">efficiency</th>", f);
        else
            fprintf(f, "<th scope=\"col\" class=\"num\" title=\"%s\">%s</th>",
                    mt_figure_words[list[i]].words[mt_of_threads],
                    mt_figure_words[list[i]].head[mt_of_threads]);
    fputs("</tr></thead><tbody>\n", f);
}

static void page_cells(FILE *f, const struct mt_versus_row *r, const enum mt_figure *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == MT_FIGURES)
            page_efficiency(f, r);
        else
            page_figure(f, r, list[i]);
    fputs("</tr>\n", f);
}

/* Both names where they differ; what one run lacks says so. */
static void page_name(FILE *f, const char *a, const char *b, int places)
{
    const char *one = a ? a : b;
    if (places)
        mt_static_text(f, "<span title=\"", one, "\">");
    mt_static_text(f, "", places ? mt_location_short(one) : one, "");
    if (a && b && strcmp(places ? mt_location_short(a) : a, places ? mt_location_short(b) : b) != 0)
        mt_static_text(f, " → ", places ? mt_location_short(b) : b, "");
    fputs(places ? "</span>" : "", f);
    if (!a || !b)
        fputs(a ? " <em>A only</em>" : " <em>B only</em>", f);
}

static void page_rows(FILE *f, const struct mt_versus_kernel *k, enum mt_side_by by)
{
    enum mt_figure list[LENGTH(of_line)];
    const int lines = by == MT_SIDE_LINES;
    size_t n = mt_versus_shown(k->part[by], k->count[by], lines ? of_line : of_buffer,
                               lines ? LENGTH(of_line) : LENGTH(of_buffer), list);
    if (!k->count[by])
        return;
    page_head(f, lines ? "source line" : "buffer", list, n);
    for (size_t i = 0; i < k->count[by]; i++) {
        const struct mt_versus_row *r = &k->part[by][i];
        fputs("<tr><th scope=\"row\">", f);
        page_name(f, r->a ? r->a->place : NULL, r->b ? r->b->place : NULL, lines);
        fputs("</th>", f);
        page_cells(f, r, list, n);
    }
    fputs("</tbody></table></div>\n", f);
}

/* Figures that changed, or what the kernel has most of. */
static void page_changes(FILE *f, const struct mt_versus_row *r)
{
    char cell[MT_VERSUS_CELL];
    enum mt_figure most = mt_versus_both(r, MT_FIGURE_SECTORS) ? MT_FIGURE_SECTORS : MT_FIGURE_LOADED;
    int some = 0;
    for (int i = 0; i < MT_FIGURES && r->a && r->b; i++)
        if (mt_versus_moved(r, (enum mt_figure)i)) {
            some = 1;
            fprintf(f, "<span class=\"%s\">%s %s</span>", page_turn(mt_versus_turn(r, (enum mt_figure)i)),
                    mt_figure_words[i].head[mt_of_threads], mt_versus_cell(cell, r, (enum mt_figure)i, 1));
        }
    if (!some && mt_versus_both(r, most))
        fprintf(f, "<span>%s %s, nothing changed</span>", mt_figure_words[most].head[mt_of_threads],
                mt_versus_cell(cell, r, most, 1));
}

static void page_kernel(FILE *f, const struct mt_versus_kernel *k, int open)
{
    enum mt_figure list[LENGTH(of_kernel)];
    const struct mt_versus_row *r = &k->row;
    size_t n = mt_versus_shown(r, 1, of_kernel, LENGTH(of_kernel), list);
    fprintf(f, "<details class=\"card\"%s><summary><h2>", open ? " open" : "");
    page_name(f, r->a ? r->a->kernel : NULL, r->b ? r->b->kernel : NULL, 0);
    fputs("</h2>", f);
    page_changes(f, r);
    fputs("</summary>\n", f);
    page_head(f, MT_EITHER("kernel", "program"), list, n);
    fputs("<tr><th scope=\"row\">all launches</th>", f);
    page_cells(f, r, list, n);
    fputs("</tbody></table></div>\n", f);
    page_rows(f, k, MT_SIDE_LINES);
    page_rows(f, k, MT_SIDE_BUFFERS);
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

int mt_versus_page(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w, const char *title)
{
    static const char *const classes[] = {"same", "better", "worse", "mixed", "none"};
    char *sentence = mt_versus_sentence(p, 1);
    if (!sentence)
        return -1;
    mt_static_begin(f, title ? title : "Before and after", p->verdict == MT_VERDICT_NONE ? "none" : "");
    page_inputs(f, w, 0);
    page_inputs(f, w, 1);
    fprintf(f, "<p class=\"verdict %s\">", classes[p->verdict]);
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
