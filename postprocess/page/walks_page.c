/* The page of how alike traces walk: heat maps, a tree, and what differs between two walks. */
#define _GNU_SOURCE
#include "walks_page.h"
#include "static_page.h"
#include "analysis/base/sites.h"
#include "analysis/graph/graph.h"
#include "output/dot/graph_out.h"
#include "output/dot/xml.h"
#include "output/text/numbers.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 8 /* with tables */, ROWS = 25 /* of a table */, NAME = 60 /* bytes of a name */ };

struct walks {
    FILE *f;
    const struct mt_compare *c;
    struct mt_compare_view by; /* what orders the traces */
    size_t skip;               /* of each path */
    uint32_t *order;
    struct mt_cluster_join *joins; /* NULL: only two traces */
};

/* Two traces, and what differs. */
struct walks_pair {
    size_t i, k;
    const struct mt_sequence *a, *b;
    struct mt_count_pair *list[2]; /* nodes; n-grams */
    size_t count[2], differ[2];
    int same;
};

/* "3 name" */
static void walks_name(const struct walks *w, size_t i)
{
    fprintf(w->f, "<b>%zu</b> ", i + 1);
    mt_xml_short(w->f, w->c->rows[i].path + w->skip, NAME);
}

static double walks_value(const struct walks *w, int grams, size_t i, size_t k)
{
    return mt_compare_value(w->c, &(struct mt_compare_view){.grams = grams}, i, k);
}

static const char *walks_measure(const struct walks *w, int grams)
{
    static char words[2][40];
    snprintf(words[0], sizeof words[0], "Levenshtein");
    snprintf(words[1], sizeof words[1], "%u-grams", w->c->alphabet.n);
    return words[grams];
}

/* ---- the traces ---- */

static void walks_missing(const struct walks *w, const struct mt_compare_row *r)
{
    if (r->complete != 1)
        fputs(r->complete == 0 ? " <em>incomplete: something is missing in this trace</em>"
                               : " <em>not known whether it is complete</em>",
              w->f);
    if (!r->sequence.has_order)
        fputs(" <em>saved without --sequence: neither its order nor the first use of buffers is known</em>",
              w->f);
}

static void walks_inputs(const struct walks *w)
{
    fputs("<section class=\"card\"><h2>The traces</h2>\n<div class=\"scroll\"><table><thead><tr><th "
          "scope=\"col\">trace</th><th scope=\"col\" class=\"num\">nodes</th><th scope=\"col\" "
          "class=\"num\" title=\"runs of equal nodes\">runs</th></tr></thead><tbody>\n",
          w->f);
    for (size_t i = 0; i < w->c->n; i++) {
        const struct mt_compare_row *r = &w->c->rows[i];
        fprintf(w->f, "<tr><th scope=\"row\"><b>%zu</b> ", i + 1);
        mt_static_text(w->f, "<code>", r->path, "</code>");
        walks_missing(w, r);
        fprintf(w->f, " <small>%s</small></th><td class=\"num\">%s</td>", r->kind,
                mt_number_count(r->sequence.elements).text);
        fprintf(w->f, "<td class=\"num\">%s</td></tr>\n",
                r->sequence.has_order ? mt_number_count(r->sequence.all_runs).text : "\u2013");
    }
    fputs("</tbody></table></div></section>\n", w->f);
}

/* ---- order ---- */

static int walks_known(const struct walks *w, int grams)
{
    for (size_t i = 0; i < w->c->n * w->c->n; i++)
        if (isnan((grams ? w->c->gram : w->c->edit)[i]))
            return 0;
    return 1;
}

/* By the measure that was asked for, or by the other one where only that is known of all. */
static int walks_arrange(struct walks *w)
{
    size_t n = w->c->n;
    double *far = malloc(n * n * sizeof *far);
    struct mt_cluster_join *joins = malloc(n * sizeof *joins);
    w->order = malloc(n * sizeof *w->order);
    if (!walks_known(w, w->by.grams) && walks_known(w, !w->by.grams))
        w->by.grams = !w->by.grams;
    for (size_t i = 0; far && i < n * n; i++) {
        double alike = walks_value(w, w->by.grams, i / n, i % n);
        far[i] = isnan(alike) ? 1 : 1 - alike;
    }
    int rc = far && joins && w->order ? mt_cluster_average(far, n, joins) : -1;
    if (rc == 0)
        mt_cluster_order(joins, n, w->order);
    w->joins = n > 2 ? joins : NULL;
    if (n <= 2)
        free(joins);
    free(far);
    return rc;
}

/* ---- the maps ---- */

static void walks_map(const struct walks *w, int grams)
{
    char title[200];
    struct mt_compare_view v = {grams, w->by.distance, w->order, grams == w->by.grams ? w->joins : NULL, 1};
    mt_compare_title(title, sizeof title, w->c, &v);
    mt_static_text(w->f, "<figure><figcaption>", title, "</figcaption>\n<div class=\"map\">");
    mt_compare_write_svg(w->f, w->c, &v);
    fputs("</div></figure>\n", w->f);
}

static void walks_maps(const struct walks *w)
{
    fputs("<section class=\"card\"><h2>How alike</h2>\n", w->f);
    if (w->joins)
        fprintf(w->f,
                "<p class=\"lead\">Alike traces are neighbours: in both maps in the order of the tree, which "
                "joins "
                "what is nearest first (average distance, %s%s).</p>\n",
                walks_measure(w, w->by.grams),
                walks_known(w, w->by.grams) ? "" : ", 1 where it is not known");
    fputs("<div class=\"maps\">\n", w->f);
    walks_map(w, w->by.grams);
    walks_map(w, !w->by.grams);
    fputs("</div></section>\n", w->f);
}

/* ---- what differs ---- */

static int walks_differs(const struct walks_pair *p, int grams, const struct mt_count_pair *c)
{
    return c->a != c->b || mt_sequence_share(p->a, grams, c->a) != mt_sequence_share(p->b, grams, c->b);
}

static int walks_compare(struct walks_pair *p)
{
    for (int grams = 0; grams < 2; grams++) {
        p->list[grams] = mt_sequence_pairs(p->a, p->b, grams, &p->count[grams]);
        if (!p->list[grams])
            return -1;
        for (size_t i = 0; i < p->count[grams]; i++)
            p->differ[grams] += (size_t)walks_differs(p, grams, &p->list[grams][i]);
    }
    p->same = mt_sequence_same(p->a, p->b);
    return p->same < 0 ? -1 : 0;
}

static void walks_free(struct walks_pair *p)
{
    free(p->list[0]);
    free(p->list[1]);
}

static void walks_token(FILE *f, const struct mt_token *t)
{
    if (t->buffer == MT_BUFFER_NONE)
        fputs("outside", f);
    else
        fprintf(f, "#%" PRIu64, t->buffer);
    fprintf(f, "\u00a0%s%" PRIu64 "\u00a0%s", t->stride < 0 ? "\u2212" : "+",
            t->stride < 0 ? 0 - (uint64_t)t->stride : (uint64_t)t->stride,
            mt_stride_graph_types[t->type & 3]);
}

/* "#0 +8 read × 2 → #1 +4 write" */
static void walks_gram(const struct walks *w, uint32_t gram)
{
    uint32_t token[MT_NGRAM_MAX];
    unsigned n = w->c->alphabet.n, times;
    mt_gram_tokens(&w->c->alphabet, gram, token);
    for (unsigned i = 0; i < n; i += times) {
        for (times = 1; i + times < n && token[i + times] == token[i];)
            times++;
        fputs(i ? " \u2192 <code class=\"node\">" : "<code class=\"node\">", w->f);
        walks_token(w->f, &w->c->alphabet.tokens[token[i]]);
        fputs("</code>", w->f);
        if (times > 1)
            fprintf(w->f, " \u00d7\u00a0%u", times);
    }
}

static const struct mt_sequence_buffer *walks_buffer(const struct mt_sequence *s, uint64_t buffer)
{
    static const struct mt_sequence_buffer nothing;
    return buffer < s->nnamed ? &s->named[buffer] : &nothing;
}

/* One text where both say the same. */
static void walks_either(FILE *f, const char *a, const char *b)
{
    mt_xml_short(f, a ? a : b, NAME);
    if (a && b && strcmp(a, b) != 0) {
        fputs(" \u2192 ", f);
        mt_xml_short(f, b, NAME);
    }
}

static void walks_only(FILE *f, const struct walks_pair *p, const struct mt_count_pair *c)
{
    if (!c->a || !c->b)
        fprintf(f, " <em>only in %zu</em>", (c->a ? p->i : p->k) + 1);
}

static void walks_node(const struct walks *w, const struct walks_pair *p, const struct mt_count_pair *c)
{
    const struct mt_token *t = &w->c->alphabet.tokens[c->what];
    const struct mt_sequence_buffer *a = walks_buffer(p->a, t->buffer), *b = walks_buffer(p->b, t->buffer);
    fputs("<code class=\"node\">", w->f);
    walks_token(w->f, t);
    fputs("</code> ", w->f);
    if (a->name || b->name)
        walks_either(w->f, a->name, b->name);
    walks_only(w->f, p, c);
    if (a->place || b->place) {
        fputs(" <small>", w->f);
        walks_either(w->f, a->place ? mt_location_short(a->place) : NULL,
                     b->place ? mt_location_short(b->place) : NULL);
        fputs("</small>", w->f);
    }
}

/* "4,608 → 1,024", and by how much. */
static void walks_counts(FILE *f, const struct mt_count_pair *c)
{
    fprintf(f, "<td class=\"num\">%s \u2192 ", mt_number_count(c->a).text);
    fputs(mt_number_count(c->b).text, f);
    if (c->a != c->b)
        fprintf(f, " <small>%s%s</small>", c->b > c->a ? "+" : "\u2212",
                mt_number_count(c->b > c->a ? c->b - c->a : c->a - c->b).text);
    fputs("</td>", f);
}

/* The bars are in proportion to the widest of the table. */
static void walks_shares(FILE *f, const struct walks_pair *p, int grams, const struct mt_count_pair *c,
                         double widest)
{
    double a = mt_sequence_share(p->a, grams, c->a), b = mt_sequence_share(p->b, grams, c->b);
    double points = 100 * fabs(b - a);
    fprintf(f, "<td class=\"num\">%s \u2192 ",
            mt_number_percent(c->a, grams ? p->a->all_grams : p->a->elements).text);
    fputs(mt_number_percent(c->b, grams ? p->b->all_grams : p->b->elements).text, f);
    if (a != b)
        fprintf(f, " <small>%s%.*f points</small>", b > a ? "+" : "\u2212", points < 0.1 ? 3 : 1, points);
    fputs("</td>", f);
    mt_static_bars(f, 100 * a / widest, 100 * b / widest);
}

static void walks_row(const struct walks *w, const struct walks_pair *p, int grams,
                      const struct mt_count_pair *c, double widest)
{
    fputs("<tr><th scope=\"row\">", w->f);
    if (grams) {
        walks_gram(w, c->what);
        walks_only(w->f, p, c);
    } else {
        walks_node(w, p, c);
    }
    fputs("</th>", w->f);
    walks_counts(w->f, c);
    walks_shares(w->f, p, grams, c, widest);
    fputs("</tr>\n", w->f);
}

/* What is not in the table. */
static void walks_rest(FILE *f, const struct walks_pair *p, int grams, size_t shown)
{
    size_t left = p->differ[grams] - shown, equal = p->count[grams] - p->differ[grams];
    if (left)
        fprintf(f, "<p class=\"lead\">%s by less.</p>\n",
                mt_number_many(left, "more differs", "more differ").text);
    if (equal)
        fprintf(f, "<p class=\"lead\">%s as often in both.</p>\n",
                mt_number_many(equal, "is there", "are there").text);
}

/* The largest share of the first `rows`. */
static double walks_widest(const struct walks_pair *p, int grams, size_t rows)
{
    double most = 0;
    for (size_t i = 0; i < rows; i++) {
        most = fmax(most, mt_sequence_share(p->a, grams, p->list[grams][i].a));
        most = fmax(most, mt_sequence_share(p->b, grams, p->list[grams][i].b));
    }
    return most;
}

/* Those that differ come first. */
static void walks_table(const struct walks *w, const struct walks_pair *p, int grams, const char *what)
{
    size_t rows = p->differ[grams] < ROWS ? p->differ[grams] : ROWS;
    double widest = walks_widest(p, grams, rows);
    if (!rows) {
        fprintf(w->f, "<p class=\"lead\">No %s differs.</p>\n", what);
        walks_rest(w->f, p, grams, rows);
        return;
    }
    fprintf(w->f,
            "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">%s</th><th scope=\"col\" "
            "class=\"num\">how often</th><th scope=\"col\" class=\"num\">share</th><th scope=\"col\" "
            "class=\"bars\">in proportion</th></tr></thead><tbody>\n",
            what);
    for (size_t i = 0; i < rows; i++)
        walks_row(w, p, grams, &p->list[grams][i], widest);
    fputs("</tbody></table></div>\n", w->f);
    walks_rest(w->f, p, grams, rows);
}

static void walks_grams(const struct walks *w, const struct walks_pair *p)
{
    char what[80];
    snprintf(what, sizeof what, "walk of %u nodes", w->c->alphabet.n);
    if (!p->a->has_grams || !p->b->has_grams)
        fputs("<p class=\"lead\">Walks are not known: there is a graph that was saved without "
              "--sequence.</p>\n",
              w->f);
    else if (w->c->alphabet.n > 1) /* else it is the same table */
        walks_table(w, p, 1, what);
}

static void walks_summary(const struct walks *w, const struct walks_pair *p)
{
    fputs("<details class=\"card\" open><summary><h2><i class=\"key a\"></i>", w->f);
    walks_name(w, p->i);
    fputs(" \u2192 <i class=\"key b\"></i>", w->f);
    walks_name(w, p->k);
    fputs("</h2>", w->f);
    for (int grams = 0; grams < 2; grams++) {
        double x = walks_value(w, grams, p->i, p->k);
        if (!isnan(x))
            fprintf(w->f, "<span>%s %.4f</span>", walks_measure(w, grams), x);
    }
    if (p->same)
        fputs("<span>the same walk</span>", w->f);
    else
        fprintf(w->f, "<span>%zu of %s of access differ</span>", p->differ[0],
                mt_number_many(p->count[0], "kind", "kinds").text);
    fputs("</summary>\n", w->f);
}

static int walks_pair(const struct walks *w, size_t k)
{
    struct walks_pair p = {.k = k, .a = &w->c->rows[0].sequence, .b = &w->c->rows[k].sequence};
    int rc = walks_compare(&p);
    if (rc == 0) {
        walks_summary(w, &p);
        walks_table(w, &p, 0, "kind of access");
        walks_grams(w, &p);
        fputs("</details>\n", w->f);
    }
    walks_free(&p);
    return rc;
}

/* ---- the sentence ---- */

/* "Levenshtein 0.75, 3-grams 0.67" */
static void walks_both(const struct walks *w, const char *before, const size_t *two)
{
    fputs(before, w->f);
    for (int m = 0; m < 2; m++) {
        int grams = m ? !w->by.grams : w->by.grams;
        double x = walks_value(w, grams, two[0], two[1]);
        fprintf(w->f, "%s%s ", m ? ", " : "", walks_measure(w, grams));
        if (isnan(x))
            fputs("not known", w->f);
        else
            fprintf(w->f, "%.2f", x);
    }
}

struct extremes {
    size_t most[2], least[2];
    size_t pairs, known, same; /* of which the measure is known; that are the same walk */
};

static int walks_look(const struct walks *w, struct extremes *x)
{
    double most = -1, least = 2;
    for (size_t i = 0; i < w->c->n; i++)
        for (size_t k = i + 1; k < w->c->n; k++) {
            double value = walks_value(w, w->by.grams, i, k);
            int same = mt_sequence_same(&w->c->rows[i].sequence, &w->c->rows[k].sequence);
            if (same < 0)
                return -1;
            x->pairs++;
            x->known += !isnan(value);
            x->same += (size_t)same;
            if (value > most)
                most = value, x->most[0] = i, x->most[1] = k;
            if (value < least)
                least = value, x->least[0] = i, x->least[1] = k;
        }
    return 0;
}

static void walks_two(const struct walks *w, const char *before, const size_t *two)
{
    fputs(before, w->f);
    walks_name(w, two[0]);
    fputs(" and ", w->f);
    walks_name(w, two[1]);
}

/* Is all of its order there? */
static int walks_whole(const struct mt_sequence *s)
{
    return s->has_order && s->nruns == s->all_runs;
}

static const char *walks_sameness(const struct walks_pair *p)
{
    int order = p->a->has_order && p->b->has_order;
    if (p->same > 0)
        return " are the same walk, node by node";
    if (order && (p->differ[0] || (walks_whole(p->a) && walks_whole(p->b))))
        return " are not the same walk";
    return " are not known to be the same walk";
}

/* Of the only two. */
static int walks_of_two(const struct walks *w, const struct extremes *x)
{
    struct walks_pair p = {.k = 1, .a = &w->c->rows[0].sequence, .b = &w->c->rows[1].sequence};
    int rc = walks_compare(&p);
    walks_two(w, "", x->most);
    fputs(walks_sameness(&p), w->f);
    if (x->known)
        walks_both(w, ": ", x->most);
    fputs(x->known ? ", where 1 is the same and 0 nothing in common." : ".", w->f);
    if (rc == 0 && p.differ[0]) {
        const struct mt_count_pair *c = p.list[0];
        fputs(" What differs most is <code>", w->f);
        walks_token(w->f, &w->c->alphabet.tokens[c->what]);
        fprintf(w->f, "</code>, %s ", mt_number_percent(c->a, p.a->elements).text);
        fprintf(w->f, "of trace 1 and %s of trace 2.", mt_number_percent(c->b, p.b->elements).text);
    }
    walks_free(&p);
    return rc;
}

static void walks_same(const struct walks *w, const struct extremes *x)
{
    int whole = 1;
    for (size_t i = 0; i < w->c->n; i++)
        whole &= walks_whole(&w->c->rows[i].sequence);
    if (x->same)
        fprintf(w->f, " %s the same walk, node by node.",
                mt_number_many(x->same, "pair is", "pairs are").text);
    else
        fputs(whole ? " No two are the same walk." : " No two are known to be the same walk.", w->f);
}

static void walks_of_many(const struct walks *w, const struct extremes *x)
{
    if (memcmp(x->most, x->least, sizeof x->most) == 0) {
        fprintf(w->f, "All pairs%s are equally alike: %s ", x->known < x->pairs ? " that are known" : "",
                walks_measure(w, w->by.grams));
        fprintf(w->f, "%.2f, where 1 is the same and 0 nothing in common.",
                walks_value(w, w->by.grams, x->most[0], x->most[1]));
    } else {
        walks_two(w, "Most alike: ", x->most);
        walks_both(w, " (", x->most);
        walks_two(w, "). Least alike: ", x->least);
        walks_both(w, " (", x->least);
        fputs("), where 1 is the same and 0 nothing in common.", w->f);
    }
    walks_same(w, x);
}

static int walks_sentence(const struct walks *w)
{
    struct extremes x = {{0, 1}, {0, 1}, 0, 0, 0};
    int rc = walks_look(w, &x);
    fprintf(w->f, "<p class=\"verdict%s\">", x.known ? "" : " none");
    if (rc == 0 && x.pairs == 1)
        rc = walks_of_two(w, &x);
    else if (rc == 0 && x.known)
        walks_of_many(w, &x);
    else
        fputs("How alike they are is not known: they were saved without their order.", w->f);
    fputs("</p>\n", w->f);
    return rc;
}

/* ---- the page ---- */

/* Each sentence on strides once. */
static void walks_strides(const struct walks *w)
{
    for (size_t i = 0; i < w->c->n; i++) {
        const char *words = w->c->rows[i].stride;
        size_t k = 0;
        while (k < i && (!words || !w->c->rows[k].stride || strcmp(words, w->c->rows[k].stride) != 0))
            k++;
        if (words && k == i) {
            fprintf(w->f, " %c", toupper((unsigned char)*words));
            mt_static_text(w->f, "", words + 1, ".");
        }
    }
}

/* What a node is called, and what differs from the first trace. */
static int walks_pairs(const struct walks *w)
{
    int rc = 0;
    fputs("<p class=\"lead\"><code>#0 +8 read</code>: reads in steps of 8 bytes, in the buffer that was used "
          "first.",
          w->f);
    walks_strides(w);
    fputs("</p>\n", w->f);
    for (size_t k = 1; k < w->c->n && k <= PAIRS && rc == 0; k++)
        rc = walks_pair(w, k);
    if (w->c->n > PAIRS + 1)
        fprintf(w->f, "<p class=\"lead\">What differs is shown of trace 1 and the next %d.</p>\n", PAIRS);
    return rc;
}

static int walks_write(const struct walks *w)
{
    mt_static_begin(w->f,
                    w->c->n == 2 ? "How alike two traces walk through memory"
                                 : "How alike traces walk through memory",
                    "");
    if (walks_sentence(w) != 0)
        return -1;
    if (w->c->note)
        mt_static_text(w->f, "<p class=\"verdict mixed\">", w->c->note, ".</p>\n");
    walks_maps(w);
    walks_inputs(w);
    int rc = walks_pairs(w);
    mt_static_end(
        w->f, "A node is a kind of access: buffer, stride, read or write. Walks are nodes in a row of one "
              "thread or CTA. Shares are of all nodes, or walks, of a trace; a point is one percent of "
              "these. Words and rules: memtrace-compare(1), memtrace-graph(1).");
    return rc;
}

int mt_walks_page(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v)
{
    struct walks w = {.f = f, .c = c, .by = *v, .skip = mt_compare_common(c)};
    int rc = walks_arrange(&w);
    if (rc == 0)
        rc = walks_write(&w);
    free(w.joins);
    free(w.order);
    return rc;
}
