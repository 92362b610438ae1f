/* The matrix as an SVG heat map: one cell per pair, dark where alike. */
#define _GNU_SOURCE
#include "compare_out.h"
#include "xml.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_CHARS = 34, PAGE_CHARS = 18, TREE = 130, CHAR = 7, MARGIN = 16, TITLE = 34, SCALE = 14 };

struct colour {
    int r, g, b;
};

/* Light to dark in steps that also differ in a print without colours. */
static struct colour colour_of(double x)
{
    static const struct colour steps[] = {{255, 255, 217}, {199, 233, 180}, {127, 205, 187},
                                          {65, 182, 196},  {34, 94, 168},   {8, 29, 88}};
    const int last = (int)(sizeof steps / sizeof *steps) - 1;
    double at = (x < 0 ? 0 : x > 1 ? 1 : x) * last;
    int i = at >= last ? last - 1 : (int)at;
    double f = at - i;
    const struct colour *p = &steps[i], *q = &steps[i + 1];
    return (struct colour){(int)lround(p->r + f * (q->r - p->r)), (int)lround(p->g + f * (q->g - p->g)),
                           (int)lround(p->b + f * (q->b - p->b))};
}

size_t mt_compare_common(const struct mt_compare *c)
{
    size_t common = 0;
    for (size_t at = 0; c->rows[0].path[at]; at++) {
        for (size_t i = 1; i < c->n; i++)
            if (c->rows[i].path[at] != c->rows[0].path[at])
                return common;
        if (c->rows[0].path[at] == '/' && c->rows[0].path[at + 1])
            common = at + 1;
    }
    return common;
}

struct heatmap {
    const struct mt_compare *c;
    const struct mt_compare_view *v;
    int n, size /* of a cell */, names /* there is room for them */;
    size_t skip;                  /* of each path */
    int left, top, grid, slanted; /* of the cells; what the names above reach to the right */
    int font, width, height;
};

/* The trace in this row and column. */
static size_t heatmap_trace(const struct heatmap *h, int i)
{
    return h->v->order ? h->v->order[i] : (size_t)i;
}

static int heatmap_room(const struct heatmap *h)
{
    size_t most = 4, limit = h->v->inside ? PAGE_CHARS : LABEL_CHARS;
    for (int i = 0; i < h->n; i++) {
        size_t n = strlen(h->c->rows[i].path + h->skip);
        n = n > limit ? limit + 1 : n;
        most = n > most ? n : most;
    }
    return (int)(most + (h->v->inside ? 4 : 0)) * CHAR + 8; /* a number, too */
}

/* "3 – 7: 0.1234"; alone, the picture has no list of numbers. */
static void heatmap_words(FILE *f, const struct heatmap *h, size_t i, size_t k, double value)
{
    fputs("<title>", f);
    if (h->v->inside)
        fprintf(f, "%zu \u2013 %zu", i + 1, k + 1);
    else {
        mt_xml_text(f, h->c->rows[i].path);
        fputs(" \u2013 ", f);
        mt_xml_text(f, h->c->rows[k].path);
    }
    if (isnan(value))
        fputs(": not known</title>", f);
    else
        fprintf(f, ": %.4f</title>", value);
}

static void heatmap_cell(FILE *f, const struct heatmap *h, int row, int column)
{
    size_t i = heatmap_trace(h, row), k = heatmap_trace(h, column);
    double value = mt_compare_value(h->c, h->v, i, k), alike = h->v->distance ? 1 - value : value;
    int x = h->left + column * h->size, y = h->top + row * h->size, size = h->size;
    struct colour in = isnan(value) ? (struct colour){221, 221, 221} : colour_of(alike);
    fputs("<g>", f);
    heatmap_words(f, h, i, k, value);
    fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\"/>", x, y, size,
            size, in.r, in.g, in.b);
    if (size >= 32 && !isnan(value))
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"%s\">%.2f</text>", x + size / 2,
                y + size / 2 + 4, alike > 0.55 ? "#fff" : "#111", value);
    fputs("</g>\n", f);
}

static void heatmap_scale(FILE *f, const struct mt_compare_view *v, int x, int y, int width)
{
    enum { STEPS = 48 };
    for (int i = 0; i < STEPS; i++) {
        struct colour in = colour_of((i + 0.5) / STEPS);
        fprintf(f, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"#%02x%02x%02x\"/>\n",
                x + (double)width * i / STEPS, y, (double)width / STEPS + (i + 1 < STEPS), SCALE, in.r, in.g,
                in.b);
    }
    fprintf(f, "<text x=\"%d\" y=\"%d\">%s</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
            x, y + SCALE + 14, v->distance ? "1 nothing in common" : "0 nothing in common", x + width,
            y + SCALE + 14, v->distance ? "0 same" : "1 same");
}

/* ---- names ---- */

static void heatmap_row_name(FILE *f, const struct heatmap *h, int i)
{
    size_t trace = heatmap_trace(h, i);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", h->left - 6,
            h->top + i * h->size + h->size / 2 + 4);
    mt_xml_short(f, h->c->rows[trace].path + h->skip, h->v->inside ? PAGE_CHARS : LABEL_CHARS);
    if (h->v->inside)
        fprintf(f, " <tspan font-weight=\"600\">%zu</tspan>", trace + 1);
    fputs("</text>\n", f);
}

static void heatmap_column_name(FILE *f, const struct heatmap *h, int i)
{
    size_t trace = heatmap_trace(h, i);
    int x = h->left + i * h->size + h->size / 2, y = h->top - 6;
    if (h->v->inside) {
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-weight=\"600\">%zu</text>\n", x, y,
                trace + 1);
        return;
    }
    fprintf(f, "<text x=\"%d\" y=\"%d\" transform=\"rotate(-45 %d %d)\">", x + 4, y, x + 4, y);
    mt_xml_short(f, h->c->rows[trace].path + h->skip, LABEL_CHARS);
    fputs("</text>\n", f);
}

/* ---- the tree ---- */

static double heatmap_across(const struct heatmap *h, double distance)
{
    double most = h->v->joins[h->n - 2].distance;
    return h->left + h->grid + 8 + (most > 0 ? distance / most * (TREE - 34) : 0);
}

/* A join's line from the one group by way of the distance to the other. */
static void heatmap_join(FILE *f, const struct heatmap *h, int i, double *x, double *y)
{
    const struct mt_cluster_join *j = &h->v->joins[i];
    double at = heatmap_across(h, j->distance);
    fprintf(f,
            "<path d=\"M%.1f %.1fH%.1fV%.1fH%.1f\" fill=\"none\" stroke=\"currentColor\"><title>distance "
            "%.4f</title></path>\n",
            x[j->a], y[j->a], at, y[j->b], x[j->b], j->distance);
    x[h->n + i] = at;
    y[h->n + i] = (y[j->a] + y[j->b]) / 2;
}

static void heatmap_tree(FILE *f, const struct heatmap *h)
{
    double *x = calloc(2 * (size_t)h->n, sizeof *x), *y = calloc(2 * (size_t)h->n, sizeof *y);
    int under = h->top + h->grid + 14;
    for (int i = 0; x && y && i < h->n; i++) {
        x[heatmap_trace(h, i)] = h->left + h->grid + 4;
        y[heatmap_trace(h, i)] = h->top + i * h->size + h->size / 2;
    }
    for (int i = 0; x && y && i + 1 < h->n; i++)
        heatmap_join(f, h, i, x, y);
    fprintf(f,
            "<text x=\"%d\" y=\"%d\">0</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">distance "
            "%.2f</text>\n",
            h->left + h->grid + 4, under, h->width - MARGIN, under, h->v->joins[h->n - 2].distance);
    free(x);
    free(y);
}

/* ---- the picture ---- */

/* Needs `need` pixels for its title. */
static void heatmap_sizes(struct heatmap *h, int need)
{
    const int inside = h->v->inside, n = h->n;
    h->size = n <= 12 ? 48 : n <= 20 ? 36 : n <= 60 || inside ? 16 : 8;
    h->names = h->size >= 12;
    h->font = h->size < 32 ? 10 : 12;
    int room = h->names ? heatmap_room(h) : 0;
    h->slanted = inside ? 0 : room * 3 / 4;
    h->left = (inside ? 2 : MARGIN) + room;
    h->grid = n * h->size;
    h->top = inside ? 20 : MARGIN + TITLE + h->slanted;
    h->width = h->left + h->grid + h->slanted + MARGIN + (h->v->joins ? TREE : 0);
    h->width = h->width > need ? h->width : need;
    h->height = h->top + h->grid + SCALE + 20 + (inside ? MARGIN + 8 : 2 * MARGIN);
}

static void heatmap_begin(FILE *f, const struct heatmap *h, const char *title)
{
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"%d\"%s>\n<title>%s</title>\n",
            h->width, h->height, h->width, h->height, h->font,
            h->v->inside ? " role=\"img\" fill=\"currentColor\"" : "", title);
    if (!h->v->inside)
        fprintf(f,
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                "<text x=\"%d\" y=\"%d\" font-size=\"14\">%s</text>\n",
                MARGIN, MARGIN + 12, title);
}

void mt_compare_write_svg(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v)
{
    char title[200];
    struct heatmap h = {.c = c, .v = v, .n = (int)c->n, .skip = mt_compare_common(c)};
    mt_compare_title(title, sizeof title, c, v);
    char *range = strstr(title, " ("); /* the scale says it */
    if (range)
        *range = 0;
    heatmap_sizes(&h, v->inside ? 0 : (int)strlen(title) * 8 + 2 * MARGIN);
    int bar = h.grid < 260 ? 260 : h.grid > 400 ? 400 : h.grid, start = v->inside ? 2 : h.left;
    if (h.width < start + bar + MARGIN)
        h.width = start + bar + MARGIN;
    heatmap_begin(f, &h, title);
    for (int i = 0; h.names && i < h.n; i++) {
        heatmap_row_name(f, &h, i);
        heatmap_column_name(f, &h, i);
    }
    for (int i = 0; i < h.n; i++)
        for (int k = 0; k < h.n; k++)
            heatmap_cell(f, &h, i, k);
    if (v->joins)
        heatmap_tree(f, &h);
    heatmap_scale(f, v, start, h.top + h.grid + MARGIN + (v->joins ? 8 : 0), bar);
    fputs("</svg>\n", f);
}
