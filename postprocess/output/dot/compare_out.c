/* How alike traces are: text, CSV and JSON (docs/man/memtrace-compare.md). */
#define _GNU_SOURCE
#include "compare_out.h"
#include "output/rows/csv.h"
#include "graph_out.h"
#include "base/text.h"
#include <math.h>
#include <string.h>

static const char *const compared[] = {
    [MT_COMPARED_NODES] = "nodes", [MT_COMPARED_RUNS] = "runs", [MT_COMPARED_FIRST_RUNS] = "first runs"};

static double compare_value(const struct mt_compare *c, const struct mt_compare_view *v, size_t i, size_t k)
{
    double s = (v->grams ? c->gram : c->edit)[i * c->n + k];
    return v->distance ? 1 - s : s;
}

static void compare_title(char *out, size_t size, const struct mt_compare *c, const struct mt_compare_view *v)
{
    const char *what = v->distance ? "distance" : "similarity";
    const char *range = v->distance ? "0 same, 1 nothing in common" : "1 same, 0 nothing in common";
    if (v->grams)
        snprintf(out, size, "n-gram %s: %u-grams that make up at least %g %% (%s)", what, c->alphabet.n,
                 100 * c->threshold, range);
    else if (c->how == MT_COMPARED_FIRST_RUNS)
        snprintf(out, size, "Levenshtein %s of the first %zu runs of nodes (%s)", what, c->cap, range);
    else
        snprintf(out, size, "Levenshtein %s of the sequences of %s (%s)", what,
                 c->how == MT_COMPARED_RUNS ? "runs of nodes" : "nodes", range);
}

/* ---- text ---- */

void mt_compare_write_text(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v)
{
    char title[200];
    compare_title(title, sizeof title, c, v);
    fprintf(f, "# %s\n    ", title);
    for (size_t k = 0; k < c->n; k++)
        fprintf(f, " %7zu", k + 1);
    fputc('\n', f);
    for (size_t i = 0; i < c->n; i++) {
        fprintf(f, "%4zu", i + 1);
        for (size_t k = 0; k < c->n; k++) {
            double x = compare_value(c, v, i, k);
            if (isnan(x))
                fputs("       -", f);
            else
                fprintf(f, "  %.4f", x);
        }
        fputs("  ", f);
        mt_text_put(f, c->rows[i].path);
        putc('\n', f);
    }
}

/* ---- CSV (RFC 4180) ---- */

void mt_compare_write_csv(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v)
{
    for (size_t k = 0; k < c->n; k++) {
        fputc(',', f);
        mt_csv_text(f, c->rows[k].path);
    }
    for (size_t i = 0; i < c->n; i++) {
        fputs("\r\n", f);
        mt_csv_text(f, c->rows[i].path);
        for (size_t k = 0; k < c->n; k++) {
            double x = compare_value(c, v, i, k);
            fputc(',', f);
            if (!isnan(x))
                fprintf(f, "%.6f", x);
        }
    }
    fputs("\r\n", f);
}

/* ---- JSON ---- */

static void json_matrix(struct mt_json *j, const struct mt_compare *c, const struct mt_compare_view *v)
{
    mt_json_array(j, v->distance ? "distance" : "similarity", 0);
    for (size_t i = 0; i < c->n; i++) {
        mt_json_array(j, NULL, 1);
        for (size_t k = 0; k < c->n; k++)
            mt_json_real(j, NULL, compare_value(c, v, i, k));
        mt_json_end(j);
    }
    mt_json_end(j);
}

static void json_token(struct mt_json *j, const struct mt_token *t)
{
    mt_json_array(j, NULL, 1);
    if (t->buffer == MT_BUFFER_NONE)
        mt_json_text(j, NULL, NULL);
    else
        mt_json_u64(j, NULL, t->buffer);
    mt_json_i64(j, NULL, t->stride);
    mt_json_text(j, NULL, mt_stride_graph_types[t->type & 3]);
    mt_json_end(j);
}

static void json_grams(struct mt_json *j, const struct mt_compare *c, const struct mt_compare_row *r)
{
    mt_json_array(j, "frequent", 0);
    for (size_t i = 0; i < r->ngrams; i++) {
        uint32_t token[MT_NGRAM_MAX];
        unsigned n = c->alphabet.n;
        mt_gram_tokens(&c->alphabet, r->grams[i].gram, token);
        mt_json_object(j, NULL, 1);
        mt_json_array(j, "nodes", 1);
        for (unsigned k = 0; k < n; k++)
            json_token(j, &c->alphabet.tokens[token[k]]);
        mt_json_end(j);
        mt_json_u64(j, "count", r->grams[i].count);
        mt_json_end(j);
    }
    mt_json_end(j);
}

static void json_row(struct mt_json *j, const struct mt_compare *c, const struct mt_compare_row *r)
{
    mt_json_object(j, NULL, 0);
    mt_json_text(j, "path", r->path);
    mt_json_text(j, "kind", r->kind);
    mt_json_known(j, "complete", r->complete);
    mt_json_u64(j, "nodes", r->sequence.elements);
    mt_json_u64(j, "runs", r->sequence.all_runs);
    mt_json_u64(j, "compared", r->compared);
    mt_json_u64(j, "ngrams", r->sequence.all_grams);
    json_grams(j, c, r);
    mt_json_end(j);
}

void mt_compare_write_json(struct mt_json *j, const struct mt_compare *c)
{
    mt_json_object(j, NULL, 0);
    mt_json_text(j, "format", "memtrace-compare");
    mt_json_u64(j, "version", 1);
    mt_json_object(j, "options", 1);
    mt_json_u64(j, "ngram", c->alphabet.n);
    mt_json_real(j, "threshold", c->threshold);
    mt_json_u64(j, "cap", c->cap);
    mt_json_end(j);
    mt_json_array(j, "inputs", 0);
    for (size_t i = 0; i < c->n; i++)
        json_row(j, c, &c->rows[i]);
    mt_json_end(j);
    mt_json_object(j, "levenshtein", 0);
    mt_json_text(j, "of", compared[c->how]);
    json_matrix(j, c, &(struct mt_compare_view){.distance = 1});
    mt_json_end(j);
    mt_json_object(j, "ngrams", 0);
    json_matrix(j, c, &(struct mt_compare_view){.grams = 1});
    mt_json_end(j);
    mt_json_end(j);
}
