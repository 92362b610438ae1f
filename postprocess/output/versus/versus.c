/* Compares two runs side by side. The figures of each are SQL queries on its tables (figures.def). Kernels
 * and buffers are matched by name, lines by what they access. */
#define _GNU_SOURCE

#include "base/text.h"
#include "memtrace/order.h"
#include "versus.h"
#include "output/text/table.h"
#include "output/text/gaps.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MT_BOTH(words) {words, words}
#define MT_EACH(kernels, threads) {kernels, threads}
const struct mt_figure_words mt_figure_words[MT_FIGURES_ALL] = {
#define MT_FIGURE(NAME, name, fold, known, in, judged, words, head) {#name, words, head, in, judged},
#include "figures.def"
    {"efficiency", MT_BOTH("efficiency"), MT_BOTH("efficiency"), "kKlL", 0}};
const char *const mt_verdict_words[5] = {"same", "better", "worse", "mixed", "none"};

enum { MOST_CELLS = 1 << 22 }; /* most cells of the table that aligns a kernel's lines */

enum { MT_VERSUS_CELL = 96 };

/* ---- figures of a run ---- */

/* Tables of the comparison. `by`: 'a' is the whole run, 'k' a kernel, 'l' a line, 'b' a buffer. A row of
 * `raw` counts for each letter of `levels`. `mate`: the matching row of the other run. `of`: one number for a
 * kernel, its mate, and their lines and buffers. */
/* clang-format off */
static const char versus_tables[] =
    "PRAGMA journal_mode = OFF; BEGIN;"
    "CREATE TABLE runs(run INTEGER PRIMARY KEY, threads, lanes, caches, turns, onchip);"
    "CREATE TABLE site(run, file, line, col, op, variable);"
    "CREATE TABLE raw(levels, kernel, file, line, buffer"
#define MT_FIGURE(NAME, name, fold, known, in, judged, words, head) ", [" #name "]"
#include "figures.def"
    "); CREATE TABLE figures(id INTEGER PRIMARY KEY, run, by, kernel, place, file, line, first"
#define MT_FIGURE(NAME, name, fold, known, in, judged, words, head) ", [" #name "]"
#include "figures.def"
    ", tokens, mate, of DEFAULT 0);"
    "INSERT INTO figures(run, by, kernel, place) VALUES (1, 'a', '', ''), (2, 'a', '', '');";

static const char versus_raw[] =
#define MT_FROM(levels, columns, select) "INSERT INTO raw(levels, kernel, " columns ") SELECT '" #levels "', " select ";"
#include "figures.def"
    ;

/* A figure that an analysis looked for and did not find is zero, not unknown. A buffer without a name is identified by kind and place. */
static const char versus_figures[] =
    "INSERT INTO figures SELECT NULL, runs.run, v.by, kernel, CASE v.by WHEN 'l' THEN coalesce(raw.file || coalesce(':' || raw.line, ''), '?') "
    "WHEN 'b' THEN iif(a.id IS NULL, '?', coalesce(a.name, coalesce(a.kind, '') || iif(a.file IS NULL, '', ' ' || place(a.file, a.line)))) ELSE '' END AS place, "
    "max(raw.file), max(raw.line), min(a.id)"
#define MT_FIGURE(NAME, name, fold, known, in, judged, words, head) ", coalesce(" #fold "([" #name "]), iif(" known ", 0, NULL))"
#include "figures.def"
    ", NULL, NULL, 0 FROM runs, raw JOIN (SELECT 'k' AS by UNION ALL VALUES ('l'), ('b')) v ON instr(levels, v.by) "
    "LEFT JOIN allocations a ON v.by = 'b' AND a.id = buffer WHERE runs.run = (SELECT max(run) FROM runs) GROUP BY v.by, kernel, place;"
    "REPLACE INTO figures SELECT (SELECT max(run) FROM runs), (SELECT max(run) FROM runs), 'a', '', '', NULL, NULL, NULL"
#define MT_FIGURE(NAME, name, fold, known, in, judged, words, head) ", " #fold "([" #name "])"
#include "figures.def"
    ", NULL, NULL, 0 FROM figures WHERE by = 'k' AND run = (SELECT max(run) FROM runs);"
    "UPDATE figures SET footprint = (SELECT coalesce(lines * line_size, 0) FROM footprint, run) WHERE id = last_insert_rowid();"
    "DELETE FROM raw;";

/* Matches rows that have the same key and no mate yet, in the order of allocations, then of names. */
#define VERSUS_MATCH(key, where)                                                                                                      \
    "WITH keyed AS (SELECT *, " key " AS key FROM figures WHERE mate IS NULL AND " where "), ordered AS (SELECT *, row_number() OVER " \
    "(PARTITION BY run, of, by, key ORDER BY first NULLS LAST, place, kernel) AS n FROM keyed WHERE key IS NOT NULL) "                \
    "UPDATE figures SET mate = m.mate FROM (SELECT x.id, y.id AS mate FROM ordered x JOIN ordered y ON y.run <> x.run "               \
    "AND (x.of, x.by, x.key, x.n) = (y.of, y.by, y.key, y.n)) m WHERE figures.id = m.id;"

/* Kernels match by name, then by template; if each run has one left, these two match. Buffers match by name; unnamed ones match within their kind ("cudaMalloc main.cu:12") in the order of allocation. */
static const char versus_mates[] =
    VERSUS_MATCH("kernel", "by IN ('a', 'k')")
    VERSUS_MATCH("nullif(substr(kernel, 1, instr(kernel || '<', '<') - 1), '')", "by = 'k'")
    VERSUS_MATCH("iif(count(*) OVER (PARTITION BY run) = 1, 1, NULL)", "by = 'k'")
    "UPDATE figures SET of = iif(k.run = 1, coalesce(k.mate, k.id), k.id) FROM (SELECT id, run, kernel, mate FROM figures WHERE by = 'k') k "
    "WHERE figures.by <> 'a' AND (figures.run, figures.kernel) = (k.run, k.kernel);"
    VERSUS_MATCH("place", "by = 'b'")
    VERSUS_MATCH("iif(place LIKE '% %:%', substr(place, 1, instr(place, ' ')), NULL)", "by = 'b'");

enum { TOKEN = 16 }; /* bytes of an access: operation with variable, then operation alone, as numbers shared by both runs */
static const char versus_tokens[] =
    "UPDATE figures SET tokens = t.tokens FROM (SELECT DISTINCT run, file, line, group_concat(token, '') OVER (PARTITION BY run, file, line "
    "ORDER BY token ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS tokens FROM (SELECT run, file, line, "
    "printf('%08x%08x', dense_rank() OVER (ORDER BY op, variable), dense_rank() OVER (ORDER BY op)) AS token FROM (SELECT DISTINCT * FROM site "
    "WHERE (run, file, line) IN (SELECT run, file, line FROM figures WHERE by = 'l')))) t "
    "WHERE by = 'l' AND (figures.run, figures.file, figures.line) = (t.run, t.file, t.line)";

/* Runs without source lines, or without any accesses. */
static const char versus_lineless[] =
    "SELECT run FROM figures WHERE by = 'l' GROUP BY run HAVING min(place) = '?' AND max(place) = '?' "
    "UNION ALL SELECT run FROM figures WHERE by = 'a' AND run NOT IN (SELECT run FROM runs)";

static const char versus_pairs[] =
    "SELECT p.of, p.by, a.kernel, b.kernel, a.place, b.place"
#define MT_FIGURE(NAME, name, fold, known, in, judged, words, head) ", a.[" #name "], b.[" #name "]"
#include "figures.def"
    " FROM (SELECT of, by, mate AS a, id AS b FROM figures WHERE run = 2 UNION ALL SELECT of, by, id, NULL FROM figures WHERE run = 1 AND mate IS NULL) p "
    "LEFT JOIN figures a ON a.id = p.a LEFT JOIN figures b ON b.id = p.b WHERE p.of OR p.by = 'a' "
    "ORDER BY p.of, p.by, b.place IS NULL, coalesce(b.place, a.place)";
/* clang-format on */

static int versus_do(struct mt_versus *p, const char *sql)
{
    return sqlite3_exec(p->sql.db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -1;
}

__attribute__((format(printf, 2, 3))) static int versus_say(struct mt_versus *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *sql = sqlite3_vmprintf(format, args);
    va_end(args);
    int rc = sql ? versus_do(p, sql) : -1;
    sqlite3_free(sql);
    return rc;
}

/* Returns a table of *n rows of texts, heads first, for sqlite3_free_table. NULL: no memory. */
static char **versus_ask(struct mt_versus *p, size_t *n, const char *sql)
{
    char **table = NULL;
    int rows = 0, rc = sqlite3_get_table(p->sql.db, sql, &table, &rows, NULL, NULL);
    *n = (size_t)rows;
    return rc == SQLITE_OK ? table : NULL;
}

/* Records which analyses a run has. */
static int versus_run(struct mt_versus *p, int run, const struct mt_comm_result *r)
{
    const struct mt_locality *m = r->locality;
    return versus_say(p, "INSERT INTO runs VALUES (%d, %d, %d, %d, %d, %d)", run + 1,
                      r->comm->options.threads != 0, m->coalescing.masked || !m->coalescing.unmasked,
                      m->misses.known, m->bounces.known, r->onchip != NULL);
}

/* Records what each line accesses. */
static int versus_sites(struct mt_versus *p, const struct mt_comm_result *r)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(p->sql.db, "INSERT INTO site SELECT max(run), ?, ?, ?, ?, ? FROM runs", -1,
                                &s, NULL);
    for (size_t i = 0; rc == SQLITE_OK && i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        for (size_t k = 0; c && rc == SQLITE_OK && k < c->nsites; k++) {
            sqlite3_bind_text(s, 1, c->sites[k].file, -1, SQLITE_STATIC);
            sqlite3_bind_int64(s, 2, (sqlite3_int64)c->sites[k].line);
            sqlite3_bind_int64(s, 3, (sqlite3_int64)c->sites[k].column);
            sqlite3_bind_text(s, 4, c->sites[k].op, -1, SQLITE_STATIC);
            sqlite3_bind_text(s, 5, c->sites[k].var, -1, SQLITE_STATIC);
            sqlite3_step(s);
            rc = sqlite3_reset(s);
        }
    }
    sqlite3_finalize(s);
    return rc == SQLITE_OK ? 0 : -1;
}

static int versus_open(struct mt_versus *p)
{
    char why[300];
    return p->sql.db ? 0
                     : mt_sql_open(&p->sql, why, sizeof why) ||
                           sqlite3_set_authorizer(p->sql.db, NULL, NULL) || versus_do(p, versus_tables);
}

int mt_versus_take(struct mt_versus *p, int run, const struct mt_comm_result *r)
{
    return versus_open(p) || mt_sql_take(&p->sql, r) ||
                   mt_run_parts_gather(&p->parts[run], r->source, r->ninputs) || versus_run(p, run, r) ||
                   versus_sites(p, r) || versus_do(p, versus_raw) || versus_do(p, versus_figures)
               ? -1
               : 0;
}

/* ---- lines ---- */

/* A row of the query for lines. */
struct line {
    char *id, *of, *run, *place, *tokens;
};

/* Returns the similarity of two lines' accesses, 0 to 1000: by operation and variable, or (`from` is the
 * half) by operation alone. Both lists are sorted. */
static unsigned versus_alike(const struct line *x, const struct line *y, size_t from)
{
    const size_t n = strlen(x->tokens), m = strlen(y->tokens);
    size_t same = 0;
    for (size_t i = 0, k = 0; i < n && k < m;) {
        const int d = memcmp(x->tokens + i + from, y->tokens + k + from, TOKEN / 2);
        same += d == 0 ? TOKEN : 0;
        i += d <= 0 ? TOKEN : 0;
        k += d >= 0 ? TOKEN : 0;
    }
    return same ? (unsigned)(1000 * same / (n > m ? n : m)) : 0;
}

static unsigned versus_score(const struct line *x, const struct line *y)
{
    unsigned strong = versus_alike(x, y, 0), weak = versus_alike(x, y, TOKEN / 2) / 4,
             score = strong > weak ? strong : weak;
    if (!*x->tokens && !*y->tokens)
        return strcmp(x->place, y->place) == 0 ? 1000 : 0;
    return score ? score + (strcmp(mt_location_short(x->place), mt_location_short(y->place)) == 0 ? 10 : 0)
                 : 0;
}

/* Aligns two lists of lines as diff does, maximising the sum of similarities. */
static int versus_align(struct mt_versus *p, const struct line *a, size_t na, const struct line *b, size_t nb)
{
    const size_t w = nb + 1;
    uint32_t *best = calloc((na + 1) * w, sizeof *best);
    int rc = best ? 0 : -1;
    for (size_t i = na; rc == 0 && i-- > 0;)
        for (size_t k = nb; k-- > 0;) {
            uint32_t skip =
                best[(i + 1) * w + k] > best[i * w + k + 1] ? best[(i + 1) * w + k] : best[i * w + k + 1];
            unsigned score = versus_score(&a[i], &b[k]);
            uint32_t take = score ? best[(i + 1) * w + k + 1] + score : 0;
            best[i * w + k] = take > skip ? take : skip;
        }
    for (size_t i = 0, k = 0; rc == 0 && i < na && k < nb;) {
        unsigned score = versus_score(&a[i], &b[k]);
        if (score && best[i * w + k] == best[(i + 1) * w + k + 1] + score) {
            rc = versus_say(p, "UPDATE figures SET mate = %s + %s - id WHERE id IN (%s, %s)", a[i].id,
                            b[k].id, a[i].id, b[k].id);
            i++;
            k++;
        } else if (best[i * w + k] == best[(i + 1) * w + k]) {
            i++;
        } else {
            k++;
        }
    }
    free(best);
    return rc;
}

/* Aligns the lines of one kernel; those of A come first in the list. */
static int versus_kernel_lines(struct mt_versus *p, const struct line *list, size_t n)
{
    size_t na = 0;
    while (na < n && *list[na].run == '1')
        na++;
    return (na + 1) * (n - na + 1) <= MOST_CELLS
               ? versus_align(p, list, na, list + na, n - na)
               : versus_say(p, VERSUS_MATCH("place", "by = 'l' AND of = %s"), list->of);
}

static int versus_lines(struct mt_versus *p)
{
    size_t n, end;
    char **table =
        versus_do(p, versus_tokens) == 0
            ? versus_ask(p, &n,
                         "SELECT id, of, run, place, coalesce(tokens, '') FROM figures WHERE by = 'l' "
                         "ORDER BY of, run, coalesce(file, '?'), line")
            : NULL;
    const struct line *list = table ? (const void *)(table + sizeof *list / sizeof *table) : NULL;
    int rc = table ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < n; i = end) {
        for (end = i; end < n && strcmp(list[end].of, list[i].of) == 0;)
            end++;
        rc = versus_kernel_lines(p, list + i, end - i);
    }
    sqlite3_free_table(table);
    return rc ? rc
              : versus_do(p, VERSUS_MATCH("nullif(tokens, '')",
                                          "by = 'l'")); /* matches lines that changed places */
}

/* ---- results ---- */

/* Returns a figure of run 0 or 1; negative if it is unknown or the run has no such row. */
static double versus_value(const struct mt_versus_row *r, int run, enum mt_figure f)
{
    if (f != MT_FIGURE_EFFICIENCY)
        return r->v[f][run] ? (double)mt_versus_number(r, run, f) : -1;
    const uint64_t sectors = mt_versus_number(r, run, MT_FIGURE_SECTORS);
    return sectors ? mt_efficiency(mt_versus_number(r, run, MT_FIGURE_DISTINCT), sectors) : -1;
}

/* Returns 1 if both runs have the figure. */
static int versus_both(const struct mt_versus_row *r, enum mt_figure f)
{
    return versus_value(r, 0, f) >= 0 && versus_value(r, 1, f) >= 0;
}

/* Sets *change to (b - a) / a. Returns 1, or 0 if a value is unknown or missing, or a is 0. */
static int versus_change(const struct mt_versus_row *r, enum mt_figure f, double *change)
{
    const double a = versus_value(r, 0, f), b = versus_value(r, 1, f);
    if (f == MT_FIGURE_EFFICIENCY || a <= 0 || b < 0)
        return 0;
    *change = (b - a) / a;
    return 1;
}

/* Returns 1 if the figure is larger in b by MT_VERSUS_SLACK or more, -1 if smaller, and 0 if neither or
 * unknown, or if it is not a judged figure or bytes. A row that a run lacks counts as 0. */
static int versus_moved(const struct mt_versus_row *r, enum mt_figure f)
{
    double v[2] = {0, 0};
    if (!mt_figure_words[f].judged && f != MT_FIGURE_LOADED && f != MT_FIGURE_STORED)
        return 0;
    for (int run = 0; run < 2; run++)
        if (r->kernel[run] && (v[run] = versus_value(r, run, f)) < 0)
            return 0;
    double least = v[0] * MT_VERSUS_SLACK, change = v[1] - v[0];
    return change == 0 ? 0 : change <= -least ? -1 : change >= least;
}

/* Returns the row's largest share, 0 to 1, of the larger run's sum (`all`) among the figures that moved. */
static double versus_share(const struct mt_versus_row *all, const struct mt_versus_row *r)
{
    double most = 0;
    for (int f = 0; f < MT_FIGURES; f++) {
        if (!versus_moved(r, (enum mt_figure)f))
            continue;
        const double a = (double)mt_versus_number(r, 0, f), b = (double)mt_versus_number(r, 1, f);
        const uint64_t x = mt_versus_number(all, 0, f), y = mt_versus_number(all, 1, f);
        const double part = (a < b ? b - a : a - b) / (double)(x > y ? x : y);
        most = part > most ? part : most;
    }
    return most;
}

static uint64_t versus_weight(const struct mt_versus_row *r)
{
    uint64_t most = 0;
    for (int run = 0; run < 2; run++) {
        const uint64_t n = r->v[MT_FIGURE_SECTORS][run] ? mt_versus_number(r, run, MT_FIGURE_SECTORS)
                                                        : mt_versus_number(r, run, MT_FIGURE_LOADED) +
                                                              mt_versus_number(r, run, MT_FIGURE_STORED);
        most = n > most ? n : most;
    }
    return most;
}

static int versus_order_kernels(const void *a, const void *b)
{
    const struct mt_versus_kernel *x = a, *y = b;
    if (x->change != y->change)
        return x->change < y->change ? 1 : -1;
    uint64_t p = versus_weight(x->row), q = versus_weight(y->row);
    return p != q ? (p < q ? 1 : -1) : strcmp(mt_versus_kernel_name(x->row), mt_versus_kernel_name(y->row));
}

static void versus_add(struct mt_versus *p, const struct mt_versus_row *r)
{
    struct mt_versus_kernel *k = &p->kernels[p->count - 1];
    if (*r->by == 'k') {
        k->row = r;
        k->change = versus_share(p->all, r);
        return;
    }
    struct mt_versus_list *list = *r->by == 'l' ? &k->lines : &k->buffers;
    list->row = list->n++ ? list->row : r;
    p->moved += *r->by == 'l' && r->place[0] && r->place[1] &&
                strcmp(mt_location_short(r->place[0]), mt_location_short(r->place[1])) != 0;
}

static int versus_rows(struct mt_versus *p)
{
    size_t n;
    if (!(p->table = versus_ask(p, &n, versus_pairs)) || !(p->kernels = calloc(n + 1, sizeof *p->kernels)))
        return -1;
    const struct mt_versus_row *r = (const void *)(p->table + sizeof *r / sizeof *p->table);
    p->all = r;
    for (size_t i = 1; i < n; i++) {
        p->count += strcmp(r[i].of, r[i - 1].of) != 0;
        versus_add(p, &r[i]);
    }
    qsort(p->kernels, p->count, sizeof *p->kernels, versus_order_kernels);
    return 0;
}

static void versus_judge(struct mt_versus *p)
{
    int less = 0, more = 0;
    for (int f = 0; f < MT_FIGURES; f++)
        if (mt_figure_words[f].judged) {
            less |= versus_moved(p->all, (enum mt_figure)f) < 0;
            more |= versus_moved(p->all, (enum mt_figure)f) > 0;
        }
    p->verdict = less && more ? MT_VERDICT_MIXED
                 : less       ? MT_VERDICT_BETTER
                 : more       ? MT_VERDICT_WORSE
                              : MT_VERDICT_SAME;
    for (int f = MT_FIGURE_LOADED; f <= MT_FIGURE_STORED; f++)
        p->other_work |= mt_versus_number(p->all, 0, f) != mt_versus_number(p->all, 1, f);
}

/* Returns the part of a kernel, or NULL if no companion file has it. */
static const struct mt_run_part *versus_part_find(const struct mt_run_parts *p, const char *kernel)
{
    const size_t at = MT_FIRST(i, p->n, strcmp(p->list[i].kernel, kernel) >= 0);
    return at < p->n && strcmp(p->list[at].kernel, kernel) == 0 ? &p->list[at] : NULL;
}

/* Compares the untraced accesses: an increase would make the other figures look smaller. */
static void versus_untraced(struct mt_versus *p)
{
    double all[2], n[2];
    for (int run = 0; run < 2; run++) {
        for (size_t i = 0; i < p->count; i++) {
            const char *kernel = p->kernels[i].row->kernel[run];
            const struct mt_run_part *part = kernel ? versus_part_find(&p->parts[run], kernel) : NULL;
            if (part)
                mt_untraced_add(&p->untraced[run], part);
        }
        n[run] = (double)p->untraced[run].accesses;
        all[run] = n[run] + (double)mt_versus_number(p->all, run, MT_FIGURE_ACCESSES);
    }
    p->unseen = fabs(n[1] - n[0]) > MT_VERSUS_SLACK * fmax(all[0], all[1]);
    if (p->unseen)
        p->verdict = MT_VERDICT_NONE;
}

/* Checks whether the runs were sampled or selected differently. Differences below the verdict's slack are
 * rounding. */
static void versus_parts(struct mt_versus *p)
{
    double most = MT_VERSUS_SLACK;
    for (size_t i = 0; i < p->count; i++) {
        char *const *kernel = p->kernels[i].row->kernel;
        const struct mt_run_part *x = versus_part_find(&p->parts[0], kernel[!kernel[0]]),
                                 *y = versus_part_find(&p->parts[1], kernel[!!kernel[1]]);
        if (!x || !y || !x->ctas || !y->ctas)
            continue;
        const double left = (double)x->traced / (double)x->ctas, right = (double)y->traced / (double)y->ctas,
                     apart = fabs(left - right);
        if (apart <= most * fmax(left, right))
            continue;
        most = apart / fmax(left, right);
        p->unlike = kernel[!kernel[0]];
        p->part[0] = x;
        p->part[1] = y;
    }
    if (p->unlike || !p->count)
        p->verdict = MT_VERDICT_NONE;
}

/* Removes the lines if a run has no source lines to compare. */
static int versus_drop_lines(struct mt_versus *p)
{
    size_t n;
    char **run = versus_ask(p, &n, versus_lineless);
    for (size_t i = 0; run && i < n; i++)
        p->no_lines |= atoi(run[i + 1]);
    sqlite3_free_table(run);
    return !run || (p->no_lines && versus_do(p, "DELETE FROM figures WHERE by = 'l'"));
}

int mt_versus_make(struct mt_versus *p)
{
    if (versus_open(p) || versus_drop_lines(p) || versus_do(p, versus_mates) || versus_lines(p) ||
        versus_rows(p))
        return -1;
    versus_judge(p);
    versus_untraced(p);
    versus_parts(p);
    return 0;
}

void mt_versus_free(struct mt_versus *p)
{
    sqlite3_free_table(p->table);
    free(p->kernels);
    mt_run_parts_free(&p->parts[0]);
    mt_run_parts_free(&p->parts[1]);
    mt_sql_close(&p->sql);
    *p = (struct mt_versus){0};
}

/* ---- Text: the verdict, sums, kernels, lines, buffers ---- */

enum { ROWS = 25 };

/* Writes a figure of run 0 or 1, or "-" if unknown. Returns out. */
static const char *versus_side(char out[MT_VERSUS_CELL], const struct mt_versus_row *r, int run,
                               enum mt_figure f, int page)
{
    const double v = versus_value(r, run, f);
    if (v < 0)
        strcpy(out, page ? "–" : "-");
    else if (f == MT_FIGURE_EFFICIENCY)
        snprintf(out, MT_VERSUS_CELL, page ? "%.1f\u00a0%%" : "%.1f %%", 100 * v);
    else
        snprintf(out, MT_VERSUS_CELL, "%s",
                 page ? mt_number_count(mt_versus_number(r, run, f)).text : r->v[f][run]);
    return out;
}

/* Writes a figure of both runs: "8192 -> 2048 (-75.0 %)", or "12" if they are equal. Returns out. */
static const char *versus_cell(char out[MT_VERSUS_CELL], const struct mt_versus_row *r, enum mt_figure f,
                               int page)
{
    char a[MT_VERSUS_CELL], b[MT_VERSUS_CELL];
    double change;
    versus_side(a, r, 0, f, page);
    versus_side(b, r, 1, f, page);
    if (strcmp(a, b) == 0)
        snprintf(out, MT_VERSUS_CELL, "%.30s", a);
    else if (!versus_change(r, f, &change))
        snprintf(out, MT_VERSUS_CELL, "%.30s%s%.30s", a, page ? " → " : " -> ", b);
    else if (page)
        snprintf(out, MT_VERSUS_CELL, "%.30s → %.30s (%s%.1f\u00a0%%)", a, b, change < 0 ? "−" : "+",
                 100 * fabs(change));
    else
        snprintf(out, MT_VERSUS_CELL, "%.30s -> %.30s (%+.1f %%)", a, b, 100 * change);
    return out;
}

/* Returns 1 if B is better, -1 if worse, 0 if neither or unknown. */
static int versus_turn(const struct mt_versus_row *r, enum mt_figure f)
{
    if (f != MT_FIGURE_EFFICIENCY)
        return mt_figure_words[f].judged && r->kernel[0] && r->kernel[1] ? -versus_moved(r, f) : 0;
    const double a = versus_value(r, 0, f), b = versus_value(r, 1, f);
    return a < 0 || b < 0 ? 0 : b - a > MT_VERSUS_SLACK ? 1 : a - b > MT_VERSUS_SLACK ? -1 : 0;
}

/* Lists the columns of a table (a letter of `in`, figures.def) that have a value in these rows. Returns their
 * number. */
static size_t versus_columns(struct mt_versus_list list, char in, enum mt_figure out[MT_FIGURES_ALL])
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

/* Lists judged figures that only one run has. */
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

/* Returns 0, or -1 without memory. */
static int versus_text_versus_untraced(FILE *f, const struct mt_versus *p)
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
        const double a = versus_value(p->all, 0, i), b = versus_value(p->all, 1, i);
        if (i == MT_FIGURE_EFFICIENCY ? a < 0 || b < 0 || fabs(a - b) <= 0.001 : !versus_turn(p->all, i))
            continue;
        fprintf(f, "%s%s %s", between, mt_figure_words[i].words[mt_of_threads],
                versus_cell(cell, p->all, i, page));
        between = ", ";
    }
    if (p->other_work) {
        fprintf(f, "; the two do not access the same number of bytes: loaded %s",
                versus_cell(cell, p->all, MT_FIGURE_LOADED, page));
        fprintf(f, ", stored %s", versus_cell(cell, p->all, MT_FIGURE_STORED, page));
    }
    versus_one_knows(f, p);
}

/* Returns the verdict as a sentence, to be freed; NULL: no memory. */
static char *versus_sentence(const struct mt_versus *p, int page)
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
    int bad = versus_text_versus_untraced(f, p) | ferror(f);
    bad |= fclose(f);
    if (bad) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- tables ---- */

/* Writes both names of a row if they differ. */
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

/* Returns why there are no source lines, or NULL if there are. */
static const char *versus_no_lines(const struct mt_versus *p)
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
        mt_table_text(&t, versus_cell(cell, p->all, i, 0));
    }
    return mt_table_print(&t, f, ROWS);
}

/* Writes a table of kernels, lines or buffers ('k', 'l', 'b'), with a column for each of their figures that a
 * run has. */
static int versus_table(FILE *f, const struct mt_versus *p, char by, const char *title, const char *heads)
{
    enum mt_figure column[MT_FIGURES_ALL];
    const size_t n = versus_columns((struct mt_versus_list){p->all, 1}, by, column);
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
                &t, by == 'k' ? 0 : (uint64_t)(versus_share(p->all, r) * 1e9)); /* largest change first */
            if (by != 'k')
                versus_name(&t, r->place[0] ? mt_location_short(r->place[0]) : NULL,
                            r->place[1] ? mt_location_short(r->place[1]) : NULL);
            versus_kernel_name(&t, p->kernels[i].row);
            for (size_t k = 0; k < n; k++)
                mt_table_text(&t, versus_cell(text, r, column[k], 0));
        }
    }
    return mt_table_print(&t, f, ROWS);
}

int mt_versus_text(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w)
{
    char *sentence = versus_sentence(p, 0);
    if (!sentence)
        return -1;
    for (int i = 0; i < 2; i++) {
        fprintf(f, "%c:", 'A' + i);
        for (size_t k = 0; k < w->npaths[i]; k++)
            fprintf(f, " %s", mt_visible(w->paths[i][k]).text);
        fprintf(f, "%s\n", w->complete[i] == 0 ? " (incomplete)" : "");
    }
    fprintf(f, "%s\n", sentence);
    free(sentence);
    int rc = versus_sums(f, p) |
             versus_table(f, p, 'k', MT_EITHER("By kernel", "By program"), MT_EITHER("kernel", "program"));
    if (p->no_lines)
        fprintf(f, "\nBy source line: %s\n", versus_no_lines(p));
    else
        rc |= versus_table(f, p, 'l', "By source line", MT_EITHER("line|kernel", "line|program"));
    return rc | versus_table(f, p, 'b', "By buffer", MT_EITHER("buffer|kernel", "buffer|program"));
}

/* ---- JSON ---- */

static void versus_json_side(struct mt_json *j, const struct mt_versus_row *r, int run, enum mt_figure f)
{
    const double value = versus_value(r, run, f);
    if (value >= 0 && f != MT_FIGURE_EFFICIENCY)
        mt_json_u64(j, run ? "b" : "a", mt_versus_number(r, run, f));
    else
        mt_json_real(j, run ? "b" : "a", value >= 0 ? value : NAN);
}

/* Writes the figures that at least one run has. */
static void versus_json_figures(struct mt_json *j, const struct mt_versus_row *r)
{
    for (int f = 0; f < MT_FIGURES_ALL; f++) {
        double change = NAN;
        if (!mt_versus_has(r, f))
            continue;
        mt_json_object(j, mt_figure_words[f].name, 1);
        versus_json_side(j, r, 0, f);
        versus_json_side(j, r, 1, f);
        versus_change(r, f, &change);
        if (f != MT_FIGURE_EFFICIENCY)
            mt_json_real(j, "change", change);
        mt_json_end(j);
    }
}

static void versus_json_rows(struct mt_json *j, const char *key, struct mt_versus_list list)
{
    mt_json_array(j, key, 0);
    for (const struct mt_versus_row *r = list.row; r < list.row + list.n; r++) {
        mt_json_object(j, NULL, 1);
        mt_json_text(j, "a", r->place[0]);
        mt_json_text(j, "b", r->place[1]);
        versus_json_figures(j, r);
        mt_json_end(j);
    }
    mt_json_end(j);
}

int mt_versus_json(struct mt_json *j, const struct mt_versus *p, const struct mt_versus_words *w)
{
    char *sentence = versus_sentence(p, 0);
    if (!sentence)
        return -1;
    mt_json_object(j, NULL, 0);
    mt_json_text(j, "format", "memtrace-volumes");
    mt_json_u64(j, "version", 1);
    for (int i = 0; i < 2; i++) {
        mt_json_object(j, i ? "b" : "a", 1);
        mt_json_array(j, "inputs", 1);
        for (size_t k = 0; k < w->npaths[i]; k++)
            mt_json_text(j, NULL, w->paths[i][k]);
        mt_json_end(j);
        mt_json_known(j, "complete", w->complete[i]);
        mt_json_u64(j, "untraced", p->untraced[i].accesses);
        mt_json_end(j);
    }
    mt_json_text(j, "verdict", mt_verdict_words[p->verdict]);
    mt_json_text(j, "sentence", sentence);
    mt_json_bool(j, "same_work", !p->other_work);
    mt_json_bool(j, "same_part", !p->unlike);
    mt_json_object(j, "all", 0);
    versus_json_figures(j, p->all);
    mt_json_end(j);
    mt_json_array(j, "kernels", 0);
    for (size_t i = 0; i < p->count; i++) {
        const struct mt_versus_kernel *k = &p->kernels[i];
        mt_json_object(j, NULL, 0);
        mt_json_text(j, "a", k->row->kernel[0]);
        mt_json_text(j, "b", k->row->kernel[1]);
        versus_json_figures(j, k->row);
        versus_json_rows(j, "lines", k->lines);
        versus_json_rows(j, "buffers", k->buffers);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_end(j);
    free(sentence);
    return 0;
}

/* ---- page of two runs side by side, without a script ---- */

enum { OPEN_KERNELS = 20 }; /* maximum number of changed kernels that are unfolded */

/* Writes a text from a trace, escaped, between trusted HTML. */
static void versus_html_text(FILE *f, const char *open, const char *text, const char *close)
{
    fputs(open, f);
    mt_xml_text(f, text);
    fputs(close, f);
}

/* Writes everything up to the end of the headline; `look` is a class of the page's style, or "". Uses neither
 * network nor other files. */
static void versus_html_begin(FILE *f, const struct mt_versus_words *w, const char *look)
{
    const char *title = w->title ? w->title : "Before and after";
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
          "content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
          "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" "
          "href=\"data:,\">\n",
          f);
    versus_html_text(f, "<title>", title, "</title>\n<style>\n");
    fwrite(w->style, 1, w->style_bytes, f);
    fprintf(f, "</style></head><body><main%s%s%s>\n", *look ? " class=\"" : "", look, *look ? "\"" : "");
    versus_html_text(f, "<h1>", title, "</h1>\n");
}

static const char *versus_html_turn(int turn)
{
    return turn > 0 ? "num better" : turn < 0 ? "num worse" : "num";
}

/* Writes "4,608 → 1,024 −77.8 %", or one number if both are equal or only one run has the row. */
static void versus_html_figure(FILE *f, const struct mt_versus_row *r, enum mt_figure figure)
{
    char a[MT_VERSUS_CELL], b[MT_VERSUS_CELL];
    double change;
    versus_side(a, r, !r->kernel[0], figure, 1);
    versus_side(b, r, r->kernel[1] != NULL, figure, 1);
    fprintf(f, "<td class=\"%s\">%s", versus_html_turn(versus_turn(r, figure)), a);
    if (strcmp(a, b) != 0)
        fprintf(f, " → %s", b);
    if (strcmp(a, b) != 0 && versus_change(r, figure, &change))
        fprintf(f, " <small>%s%.1f\u00a0%%</small>", change < 0 ? "−" : "+", 100 * fabs(change));
    fputs("</td>", f);
}

static void versus_html_bars(FILE *f, const struct mt_versus_row *r, enum mt_figure figure)
{
    const double a = fmax(versus_value(r, 0, figure), 0), b = fmax(versus_value(r, 1, figure), 0),
                 most = figure == MT_FIGURE_EFFICIENCY ? 1 : fmax(fmax(a, b), 1);
    fprintf(f,
            "<td class=\"bars\" aria-hidden=\"true\"><i class=\"a\" style=\"width:%.1f%%\"></i>"
            "<i class=\"b\" style=\"width:%.1f%%\"></i></td>",
            100 * a / most, 100 * b / most);
}

static void versus_html_sums(FILE *f, const struct mt_versus *p)
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
        versus_html_text(f, "<tr><th scope=\"row\">", mt_figure_words[i].words[mt_of_threads], "</th>");
        versus_html_figure(f, p->all, i);
        versus_html_bars(f, p->all, i);
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></section>\n", f);
}

/* Writes both names if they differ, and a word if one run lacks it. */
static void versus_html_name(FILE *f, char *const name[2], int places)
{
    const char *a = name[0], *b = name[1], *one = a ? a : b;
    if (places)
        versus_html_text(f, "<span title=\"", one, "\">");
    versus_html_text(f, "", places ? mt_location_short(one) : one, "");
    if (a && b && strcmp(places ? mt_location_short(a) : a, places ? mt_location_short(b) : b) != 0)
        versus_html_text(f, " → ", places ? mt_location_short(b) : b, "");
    fputs(places ? "</span>" : "", f);
    if (!a || !b)
        fputs(a ? " <em>A only</em>" : " <em>B only</em>", f);
}

/* Writes the rows, with a column for each figure that one of the runs has here. */
static void versus_html_table(FILE *f, const char *first, struct mt_versus_list list, char in)
{
    enum mt_figure column[MT_FIGURES_ALL];
    const size_t n = versus_columns(list, in, column);
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
            versus_html_name(f, r->place, in == 'L');
        fputs("</th>", f);
        for (size_t i = 0; i < n; i++)
            versus_html_figure(f, r, column[i]);
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
}

/* Writes the figures that changed, or the kernel's largest ones. */
static void versus_html_changes(FILE *f, const struct mt_versus_row *r)
{
    char cell[MT_VERSUS_CELL];
    enum mt_figure most = versus_both(r, MT_FIGURE_SECTORS) ? MT_FIGURE_SECTORS : MT_FIGURE_LOADED;
    int some = 0;
    for (int i = 0; i < MT_FIGURES && r->kernel[0] && r->kernel[1]; i++)
        if (versus_moved(r, i)) {
            some = 1;
            fprintf(f, "<span class=\"%s\">%s %s</span>", versus_html_turn(versus_turn(r, i)),
                    mt_figure_words[i].head[mt_of_threads], versus_cell(cell, r, i, 1));
        }
    if (!some && versus_both(r, most))
        fprintf(f, "<span>%s %s, nothing changed</span>", mt_figure_words[most].head[mt_of_threads],
                versus_cell(cell, r, most, 1));
}

static void versus_html_kernel(FILE *f, const struct mt_versus_kernel *k, int open)
{
    fprintf(f, "<details class=\"card\"%s><summary><h2>", open ? " open" : "");
    versus_html_name(f, k->row->kernel, 0);
    fputs("</h2>", f);
    versus_html_changes(f, k->row);
    fputs("</summary>\n", f);
    versus_html_table(f, MT_EITHER("kernel", "program"), mt_versus_rows(k, 'k'), 'K');
    if (k->lines.n)
        versus_html_table(f, "source line", k->lines, 'L');
    if (k->buffers.n)
        versus_html_table(f, "buffer", k->buffers, 'b');
    fputs("</details>\n", f);
}

static void versus_html_inputs(FILE *f, const struct mt_versus_words *w, int i)
{
    fprintf(f, "<p class=\"input\"><b><i class=\"key %c\"></i>%c</b> ", 'a' + i, 'A' + i);
    for (size_t k = 0; k < w->npaths[i]; k++)
        versus_html_text(f, k ? ", <code>" : "<code>", w->paths[i][k], "</code>");
    fputs(w->complete[i] == 0  ? " <em>incomplete: something is missing in this run</em>"
          : w->complete[i] < 0 ? " <em>not known whether it is complete</em>"
                               : "",
          f);
    fputs("</p>\n", f);
}

int mt_versus_page(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w)
{
    char *sentence = versus_sentence(p, 1);
    if (!sentence)
        return -1;
    versus_html_begin(f, w, p->verdict == MT_VERDICT_NONE ? "none" : "");
    versus_html_inputs(f, w, 0);
    versus_html_inputs(f, w, 1);
    fprintf(f, "<p class=\"verdict %s\">", mt_verdict_words[p->verdict]);
    mt_xml_text(f, sentence);
    fputs("</p>\n", f);
    if (p->moved)
        fprintf(f, "<p class=\"lead\">%zu %s found again at another place by what %s.</p>\n", p->moved,
                p->moved == 1 ? "source line was" : "source lines were",
                p->moved == 1 ? "it accesses" : "they access");
    if (p->no_lines)
        fprintf(f, "<p class=\"lead\">Source lines: %s.</p>\n", versus_no_lines(p));
    versus_html_sums(f, p);
    for (size_t i = 0; i < p->count; i++)
        versus_html_kernel(f, &p->kernels[i], i < OPEN_KERNELS && p->kernels[i].change > 0);
    fputs("<footer>Efficiency: different bytes asked for / bytes moved in sectors of 32. Between devices: if "
          "the CTAs ran on two, in blocks. Words and rules: definitions.md, memtrace "
          "compare.</footer>\n</main></body></html>\n",
          f);
    free(sentence);
    return 0;
}
