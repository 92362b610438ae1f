/* The matrix as an SVG heat map: one cell per pair, dark where alike. */
#define _GNU_SOURCE
#include "compare_out.h"
#include "xml.h"
#include <math.h>
#include <string.h>

enum { LABEL_CHARS = 34, CHAR = 7, MARGIN = 16, TITLE = 34, SCALE = 14 };

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

/* What differs between the paths begins here: after the folders that all have. */
static size_t common_folders(const struct mt_compare *c)
{
    size_t common = 0;
    for (size_t at = 0; c->rows[0].path[at]; at++) {
        for (size_t i = 1; i < c->n; i++)
            if (c->rows[i].path[at] != c->rows[0].path[at])
                return common;
        if (c->rows[0].path[at] == '/')
            common = at + 1;
    }
    return common;
}

static int heatmap_continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80; /* a character of UTF-8 */
}

/* At most LABEL_CHARS bytes and a sign for what was left out of the middle. */
static void heatmap_label(FILE *f, const char *path)
{
    size_t n = strlen(path), head = LABEL_CHARS / 2, tail = n - LABEL_CHARS / 2;
    char start[LABEL_CHARS];
    if (n <= LABEL_CHARS) {
        mt_xml_text(f, path);
        return;
    }
    while (head > 0 && heatmap_continues(path[head]))
        head--;
    while (heatmap_continues(path[tail]))
        tail++;
    memcpy(start, path, head);
    start[head] = 0;
    mt_xml_text(f, start);
    fputs("\xe2\x80\xa6", f);
    mt_xml_text(f, path + tail);
}

static int label_width(const struct mt_compare *c, size_t skip)
{
    size_t most = 4;
    for (size_t i = 0; i < c->n; i++) {
        size_t n = strlen(c->rows[i].path + skip);
        n = n > LABEL_CHARS ? LABEL_CHARS + 1 : n;
        most = n > most ? n : most;
    }
    return (int)most * CHAR + 8;
}

static void heatmap_cell(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v, size_t i,
                         size_t k, int x, int y, int size)
{
    double value = mt_compare_value(c, v, i, k), alike = v->distance ? 1 - value : value;
    struct colour in = colour_of(alike);
    if (isnan(value))
        in = (struct colour){221, 221, 221};
    fprintf(f, "<g><title>");
    mt_xml_text(f, c->rows[i].path);
    fputs(" \xe2\x80\x93 ", f);
    mt_xml_text(f, c->rows[k].path);
    if (isnan(value))
        fputs(": not known", f);
    else
        fprintf(f, ": %.4f", value);
    fprintf(f, "</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\"/>", x, y,
            size, size, in.r, in.g, in.b);
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
                x + (double)width * i / STEPS, y, (double)width / STEPS + 0.3, SCALE, in.r, in.g, in.b);
    }
    fprintf(f, "<text x=\"%d\" y=\"%d\">%s</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
            x, y + SCALE + 14, v->distance ? "1 nothing in common" : "0 nothing in common", x + width,
            y + SCALE + 14, v->distance ? "0 same" : "1 same");
}

void mt_compare_write_svg(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v)
{
    char title[200];
    int n = (int)c->n, size = n <= 12 ? 48 : n <= 20 ? 36 : n <= 60 ? 16 : 8, names = size >= 12;
    mt_compare_title(title, sizeof title, c, v);
    char *range = strstr(title, " ("); /* the scale says it */
    if (range)
        *range = 0;
    size_t skip = common_folders(c);
    int label_room = names ? label_width(c, skip) : 0, slanted = label_room * 3 / 4;
    int left = MARGIN + label_room, grid = n * size, top = MARGIN + TITLE + slanted;
    int wide = left + grid + slanted + MARGIN, need = (int)strlen(title) * 8 + 2 * MARGIN;
    int width = wide > need ? wide : need, height = top + grid + SCALE + 20 + 2 * MARGIN;
    int bar = grid < 260 ? 260 : grid > 400 ? 400 : grid;
    if (width < left + bar + MARGIN)
        width = left + bar + MARGIN;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"%d\">\n<title>%s</title>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"%d\" font-size=\"14\">%s</text>\n",
            width, height, width, height, size < 32 ? 10 : 12, title, MARGIN, MARGIN + 12, title);
    for (int i = 0; names && i < n; i++) {
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", left - 6, top + i * size + size / 2 + 4);
        heatmap_label(f, c->rows[i].path + skip);
        int x = left + i * size + size / 2 + 4, y = top - 6;
        fprintf(f, "</text>\n<text x=\"%d\" y=\"%d\" transform=\"rotate(-45 %d %d)\">", x, y, x, y);
        heatmap_label(f, c->rows[i].path + skip);
        fputs("</text>\n", f);
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            heatmap_cell(f, c, v, (size_t)i, (size_t)k, left + k * size, top + i * size, size);
    heatmap_scale(f, v, left, top + grid + MARGIN, bar);
    fputs("</svg>\n", f);
}
