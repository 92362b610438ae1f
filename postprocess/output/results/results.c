/* Writes the results of all analyses to tables, comm.json and text. */
#include "results.h"
#include "sql.h"
#include "summary.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void mt_tuples_buffer(struct mt_tuples *w, const struct mt_locality *m, uint64_t alloc)
{
    if (alloc < m->nallocs)
        mt_tuples_number(w, m->allocs[alloc].id);
    else
        mt_tuples_null(w, 1);
    mt_tuples_text(w, mt_alloc_label(w->label, m, alloc));
}

unsigned mt_relations_section(enum mt_relation_number number)
{
    const enum mt_relation_of of = mt_relations[number].of;
    return of <= MT_OF_RANGES || of == MT_OF_ONCHIP
               ? 0
               : 1u << (of - MT_OF_RANGES - 1); /* bits in the same order */
}

unsigned mt_relations_of(unsigned chosen)
{
    unsigned which = 0;
    for (int i = 0; i < MT_RELATIONS; i++) {
        unsigned needs = mt_relations_section((enum mt_relation_number)i);
        which |= (unsigned)(!needs || needs & chosen ? 1 : 0) << i;
    }
    return which;
}

mt_rows_of *const mt_rows_of_tables[MT_TABLES] = {
#define MT_RELATION(name, of, path, what) mt_rows_of_##name,
#define MT_COLUMN(name, column, type, presence, refers, json, what)
#include "output/rows/relations.def"
};

int mt_relation_write(struct mt_tuples *w, enum mt_relation_number number, const struct mt_comm_result *r)
{
    struct mt_rowset x = {.r = r};
    int rc = mt_tuples_begin(w, number);
    if (rc == 0 && mt_rows_of_tables[number](&x) != 0)
        return mt_tuples_memory(w);
    for (size_t i = 0; i < x.n && rc == 0; i++) {
        x.row(w, &x, i);
        rc = w->at ? mt_tuples_next(w) : 0;
    }
    mt_rows_end(&x);
    return rc == 0 ? mt_tuples_end(w) : rc;
}

/* Functions that write the results of each analysis. */
static const struct {
    int (*json)(struct mt_json *, const struct mt_comm_result *);
    int (*text)(struct mt_text *);
} results[MT_LOCALITY_OF_RUNS] = {
#define MT_ANALYSIS(NAME, name, ...) {mt_##name##_json, mt_##name##_text},
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
};

int mt_locality_write(struct mt_json *j, const struct mt_comm_result *r, int assignment)
{
    int rc = 0;
    for (int i = 0; i < MT_LOCALITY_OF_RUNS && rc == 0; i++)
        if (mt_locality_has(r->locality, (enum mt_locality_section)i))
            rc = results[i].json(j, r);
    return rc || !(r->chosen >> MT_LOCALITY_PLACEMENT & 1) ? rc : mt_placement_write(j, r, assignment);
}

int mt_results_text(FILE *f, const struct mt_comm_result *r, size_t rows, const struct mt_onchip *shared)
{
    struct mt_sql sql;
    struct mt_text t = {f, r, rows, &sql};
    char why[300];
    int rc = mt_sql_open(&sql, why, sizeof why);
    sql.r = r;
    if (rc == 0 && r->sections & ~(1u << MT_TRANSFERS))
        rc = mt_comm_text(&t);
    rc = rc ? rc : mt_estimates_text(&t);
    if (rc == 0 && r->sections & 1u << MT_TRANSFERS)
        rc = mt_transfers_text(&t);
    for (int i = 0; i < MT_LOCALITY_OF_RUNS && rc == 0; i++)
        if (mt_locality_has(r->locality, (enum mt_locality_section)i))
            rc = results[i].text(&t);
    if (rc == 0 && r->chosen >> MT_LOCALITY_PLACEMENT & 1)
        rc = mt_placement_text(&t);
    rc = rc || !shared ? rc : mt_shared_text(&t, shared);
    mt_sql_close(&sql);
    return rc;
}

/* ---- Rows of a table in comm.json: nested objects and arrays from the words of the table's path; the
 * innermost object has the columns, as their `json` says ---- */

enum { WORDS = 9 };

struct rows {
    struct mt_json *j;
    struct mt_tuples t; /* the next row, valid if `there` is set */
    struct mt_rowset x;
    size_t i; /* index of the next row */
    int there, failed;
    unsigned n, base, open; /* number of words; how many of them the caller has opened; how many are open */
    struct word {
        const char *text;
        unsigned star; /* number of the star, 0 for other words */
        int column;    /* column that is the star's key; -1: the star stands for elements of an array */
        int flat;
        char *key; /* key of the previous row */
    } word[WORDS];
    struct rows
        *beside; /* rows of another table inside the same objects; the paths share the first `common` words */
    unsigned common;
};

static void rows_next(struct rows *w)
{
    for (w->there = 0; !w->there && w->i < w->x.n; w->i++) {
        w->t.at = w->t.places = 0;
        w->x.row(&w->t, &w->x, w->i);
        w->there = w->t.at != 0;
    }
}

/* ---- members ---- */

static int rows_same(const struct mt_relation *r, unsigned i, unsigned k)
{
    return k < r->n && strcmp(r->columns[i].json, r->columns[k].json) == 0;
}

/* Returns the text of the columns that share the i-th one's name ("file:line", "x,y,z"), or NULL if unknown.
 */
static const char *rows_text(char room[MT_TUPLES_FILE + 64], const struct mt_tuples *t, unsigned i)
{
    const struct mt_relation *r = t->now;
    const struct mt_value *v = t->value;
    size_t n = 0;
    if (v[i].null || (r->columns[i].type == MT_TEXT && !rows_same(r, i, i + 1)))
        return v[i].null ? NULL : v[i].text;
    for (unsigned k = i; rows_same(r, i, k) && !v[k].null; k++) {
        if (k > i)
            room[n++] = r->columns[k - 1].type == MT_TEXT ? ':' : ',';
        if (r->columns[k].type == MT_TEXT)
            snprintf(room + n, MT_TUPLES_FILE - n, "%s", v[k].text); /* a file name from mt_tuples_place */
        else
            snprintf(room + n, 32, "%" PRId64, v[k].number);
        n += strlen(room + n);
    }
    return room;
}

static void rows_member(const struct rows *w, unsigned i, const char *name)
{
    char room[MT_TUPLES_FILE + 64];
    const struct mt_column *c = &w->t.now->columns[i];
    const struct mt_value *v = &w->t.value[i];
    const char *mark = strpbrk(c->json, ":?"), how = mark && mark > c->json ? mark[-1] : 0;
    if (mark && *mark == '?' && (v->null || (c->type == MT_BOOLEAN && !v->number)))
        return;
    if (v->null || c->type == MT_TEXT || rows_same(w->t.now, i, i + 1)) {
        const char *text = rows_text(room, &w->t, i);
        mt_json_text(w->j, name, how == 'n' && strcmp(text, "?") == 0 ? NULL : text);
    } else if (c->type == MT_REAL)
        mt_json_real(w->j, name, v->real);
    else if (c->type == MT_BOOLEAN)
        mt_json_bool(w->j, name, v->number != 0);
    else if (how == 'x')
        mt_json_hex(w->j, name, (uint64_t)v->number);
    else
        mt_json_i64(w->j, name, v->number);
}

/* Returns the column's member name in the object of a star, or NULL if it is not in that object. */
static const char *rows_name(const struct mt_column *c, unsigned star, int last)
{
    const char *mark = strpbrk(c->json, ":?");
    if (!*c->json || *c->json == '/' || strcmp(c->json, ".") == 0)
        return NULL;
    return mark ? (unsigned)(*c->json - '0') == star ? mark + 1 : NULL : last ? c->json : NULL;
}

/* Returns 1 if a column before the i-th has written the member whose name is these n bytes. */
static int rows_earlier(const struct rows *w, unsigned i, const char *name, size_t n, unsigned star, int last)
{
    for (unsigned k = 0; k < i; k++) {
        const char *other = rows_name(&w->t.now->columns[k], star, last);
        if (other && strncmp(other, name, n) == 0)
            return 1;
    }
    return 0;
}

/* Writes the members in the object of a star whose names begin with these n bytes; `last`: includes members
 * without a star. Lists come last. */
static void rows_members(const struct rows *w, unsigned star, int last, const char *begin, size_t n)
{
    char key[64];
    for (int list = 0; list < 2; list++)
        for (unsigned i = 0; i < w->t.now->n; i++) {
            const char *name = rows_name(&w->t.now->columns[i], star, last), *rest = name + n, *dot;
            if (!name || strncmp(name, begin, n) != 0)
                continue;
            dot = strchr(rest, '.');
            if ((dot && isdigit((unsigned char)dot[1])) != list ||
                rows_earlier(w, i, name, dot ? (size_t)(dot + 1 - name) : strlen(name) + 1, star, last))
                continue;
            snprintf(key, sizeof key, "%.*s", (int)(dot ? dot - rest : (int)strlen(rest)), rest);
            const char *of = isdigit((unsigned char)*rest) ? NULL : key;
            if (!dot) {
                rows_member(w, i, of);
            } else if (w->t.value[i].null) {
                mt_json_text(w->j, of, NULL);
            } else {
                (list ? mt_json_array : mt_json_object)(w->j, of, 1);
                rows_members(w, star, last, name, (size_t)(dot + 1 - name));
                mt_json_end(w->j);
            }
        }
}

/* ---- objects and arrays ---- */

/* Returns the key of the k-th word, or NULL for an element of an array. */
static const char *rows_key(const struct rows *w, char room[MT_TUPLES_FILE + 64], unsigned k)
{
    const struct word *x = &w->word[k];
    if (!x->star) {
        snprintf(room, MT_TUPLES_FILE, "%.*s", (int)strcspn(x->text, "/"), x->text);
        return room;
    }
    const char *key = x->column < 0 ? NULL : rows_text(room, &w->t, (unsigned)x->column);
    return x->column < 0 || key ? key : "?";
}

/* Opens the object or array of the k-th word. */
static void rows_open(struct rows *w, unsigned k)
{
    char room[MT_TUPLES_FILE + 64];
    struct word *x = &w->word[k];
    const char *key = rows_key(w, room, k);
    const struct mt_relation *r = w->t.now;
    if (k + 1 == w->n && strcmp(r->columns[r->n - 1].json, ".") == 0) {
        rows_member(w, r->n - 1, key);
        return;
    }
    if (k + 1 < w->n && w->word[k + 1].star && w->word[k + 1].column < 0)
        mt_json_array(w->j, key, x->flat);
    else
        mt_json_object(w->j, key, x->flat);
    free(x->key);
    x->key = key ? strdup(key) : NULL;
    w->failed |= key && !x->key;
    w->open = k + 1;
    if (x->star)
        rows_members(w, x->star, k + 1 == w->n, "", 0);
}

static void rows_close(struct rows *w, unsigned to);

static void rows_row(struct rows *w)
{
    char room[MT_TUPLES_FILE + 64];
    unsigned k = w->base;
    for (; k < w->open && k + 1 < w->n; k++) {
        const char *key = rows_key(w, room, k);
        if (!key || !w->word[k].key || strcmp(key, w->word[k].key) != 0)
            break;
    }
    rows_close(w, k);
    for (; k < w->n; k++)
        rows_open(w, k);
    rows_next(w);
}

/* Returns 1 if the row of b lies in w's innermost object. */
static int rows_within(const struct rows *b, const struct rows *w)
{
    char room[MT_TUPLES_FILE + 64];
    int same = b->there;
    for (unsigned k = 0; same && k < w->common; k++)
        same = !w->word[k].star || (w->word[k].key && strcmp(rows_key(b, room, k), w->word[k].key) == 0);
    return same;
}

static void rows_close(struct rows *w, unsigned to)
{
    struct rows *b = w->beside;
    for (; w->open > to; w->open--) {
        if (b && w->open == w->common) {
            rows_open(b, w->common);
            while (rows_within(b, w))
                rows_row(b);
            rows_close(b, w->common);
        }
        mt_json_end(w->j);
    }
}

/* ---- tables ---- */

static void rows_words(struct rows *w, const char *path)
{
    unsigned stars = 0;
    for (size_t n; *path; path += n + (path[n] == '/'), w->n++) {
        struct word *x = &w->word[w->n];
        n = strcspn(path, "/");
        *x = (struct word){
            .text = path, .star = *path == '*' ? ++stars : 0, .column = -1, .flat = path[n - 1] == '-'};
        for (unsigned i = w->t.now->n; x->star && i-- > 0;)
            if (w->t.now->columns[i].json[0] == '/' &&
                (unsigned)(w->t.now->columns[i].json[1] - '0') == x->star)
                x->column = (int)i;
    }
    w->word[w->n - 1].flat = path[-1] != '+';
}

/* Returns 0, or -1 without memory. */
static int rows_begin(struct rows *w, struct mt_json *j, const struct mt_comm_result *r,
                      enum mt_relation_number number)
{
    w->j = j;
    w->x.r = r;
    w->x.by_kernel = 1;
    w->t.now = &mt_relations[number];
    rows_words(w, mt_relations[number].path);
    if (mt_rows_of_tables[number](&w->x) != 0)
        return -1;
    rows_next(w);
    return 0;
}

static void rows_end(struct rows *w)
{
    for (unsigned k = 0; k < w->n; k++)
        free(w->word[k].key);
    mt_rows_end(&w->x);
}

int mt_relation_json(struct mt_json *j, const struct mt_comm_result *r, enum mt_relation_number number,
                     enum mt_relation_number beside, unsigned open)
{
    struct rows w = {.base = open, .open = open}, b = {.n = 0};
    int rc = rows_begin(&w, j, r, number);
    if (rc == 0 && beside != MT_REL_NONE && (rc = rows_begin(&b, j, r, beside)) == 0) {
        w.beside = &b;
        while (w.common < w.n && strncmp(w.word[w.common].text, b.word[w.common].text,
                                         strcspn(b.word[w.common].text, "/")) == 0)
            w.common++;
        b.base = w.common + 1;
    }
    for (; rc == 0 && !w.word[w.base].star; w.base++)
        rows_open(&w, w.base);
    while (rc == 0 && w.there && !w.failed)
        rows_row(&w);
    if (rc == 0)
        rows_close(&w, open);
    rows_end(&w);
    rows_end(&b);
    return rc || w.failed || b.failed ? -1 : 0;
}

/* ---- Tables that only SQL sees: the whole run, and sums of the communication analysis ---- */

static void run_whole(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm *c = x->r->comm;
    const uint64_t host_end = c->options.host_end;
    (void)i;
    mt_tuples_numbers(w, MT_NUMBERS(c->options.threads != 0, (uint64_t)c->options.host,
                                    (uint64_t)c->options.local, (uint64_t)c->options.strict, c->partial != 0,
                                    x->which, c->nlaunches, c->records, c->host_accesses,
                                    x->r->onchip && x->r->onchip->nplaces, c->options.host_first,
                                    host_end < INT64_MAX ? host_end : INT64_MAX, c->options.threads > 1));
    const unsigned line = x->r->locality->options.analysis.line_bits;
    mt_tuples_maybe(w, line != 0, 1ull << line);
    mt_tuples_maybe(w, x->r->locality->misses.options.cache_bytes != 0,
                    x->r->locality->misses.options.cache_bytes);
}

int mt_rows_of_run(struct mt_rowset *x)
{
    x->row = run_whole;
    x->n = 1;
    x->which = (unsigned)mt_comm_reported_launches(
        x->r->comm); /* computed once, since joins read the row again and again */
    return 0;
}

static void run_launch_volume(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm_launch *l = &x->r->comm->launches[i];
    if (!l->selected)
        return;
    const struct mt_volume v = mt_volume_of_launch(x->r->comm, i);
    mt_tuples_number(w, i);
    mt_tuples_text(w, l->kernel);
    mt_tuples_numbers(w, MT_NUMBERS(l->end - l->first, v.load, v.store, v.comm_load, v.comm_store));
    mt_tuples_numbers(w, MT_SENDER_KINDS, v.from);
}

MT_ROWS(launch_volumes, run_launch_volume, x->r->comm->nlaunches)

struct sends {
    const char **kernels; /* kernels by rank */
    struct mt_sent *list;
};

static void run_send(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct sends *s = x->data;
    const struct mt_sent *t = &s->list[i];
    mt_tuples_text(w, t->src == MT_SENT_HOST ? NULL : s->kernels[t->src]);
    mt_tuples_text(w, t->dst == MT_SENT_HOST ? NULL : s->kernels[t->dst]);
    mt_tuples_maybe(w, t->reader != UINT64_MAX, t->reader);
    mt_tuples_numbers(w, MT_NUMBERS(t->bytes, t->accesses, t->transfers));
}

static void run_sends_end(struct mt_rowset *x)
{
    struct sends *s = x->data;
    if (s) {
        free(s->kernels);
        free(s->list);
    }
    free(s);
}

int mt_rows_of_sends(struct mt_rowset *x)
{
    const struct mt_comm *c = x->r->comm;
    uint32_t *rank = mt_kernel_ranks(c);
    struct sends *s = x->data = calloc(1, sizeof *s);
    x->row = run_send;
    x->end = run_sends_end;
    if (rank && s && (s->kernels = malloc((c->nlaunches + 1) * sizeof *s->kernels)))
        s->list = mt_sent_of(c, rank, &x->n);
    for (size_t i = 0; s && s->list && i < c->nlaunches; i++)
        s->kernels[rank[i]] = c->launches[i].kernel;
    free(rank);
    return s && s->list ? 0 : -1;
}

/* Writes CTAs and bytes of a sample and their estimates for all CTAs; the estimates are unknown if no CTA is
 * traced. */
static void run_both(struct mt_tuples *w, uint64_t ctas, uint64_t traced, const struct mt_volume *v,
                     int known)
{
    known &= traced != 0;
    mt_tuples_numbers(w, MT_NUMBERS(ctas, traced, v->load, v->store));
    mt_tuples_maybe(w, known, known ? mt_estimate(v->load, ctas, traced) : 0);
    mt_tuples_maybe(w, known, known ? mt_estimate(v->store, ctas, traced) : 0);
}

static void run_sample(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm *c = x->r->comm;
    const struct mt_estimate *e = &x->r->estimates->list[i];
    struct mt_volume sum = {0};
    uint64_t found = 0;
    for (size_t k = 0; k < c->nlaunches; k++)
        if (strcmp(c->launches[k].kernel, e->kernel) == 0) {
            const struct mt_volume v = mt_volume_of_launch(c, k);
            mt_volume_add(&sum, &v);
            found++;
        }
    mt_tuples_text(w, e->kernel);
    mt_tuples_numbers(w, MT_NUMBERS(e->launches, e->traced_launches));
    /* no estimate if the number of launches differs from the companion's */
    run_both(w, e->ctas, e->traced_ctas, &sum, found == e->traced_launches);
}

MT_ROWS(samples, run_sample, x->r->estimates->n)

static void run_sampled(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const size_t launch = ((const size_t *)x->data)[i];
    const struct mt_launch_event *e = x->r->events[launch];
    const char *kernel = x->r->comm->launches[launch].kernel;
    const struct mt_volume v = mt_volume_of_launch(x->r->comm, launch);
    if (!e || !e->has_ctas || !mt_estimates_find(x->r->estimates, kernel))
        return;
    mt_tuples_text(w, kernel);
    mt_tuples_number(w, launch);
    run_both(w, e->ctas, e->traced_ctas, &v, 1);
}

MT_ROWS_OF_LIST(sampled_launches, run_sampled, mt_launches_sorted(x->r->comm), x->r->comm->nlaunches)

int mt_estimates_write(struct mt_json *j, const struct mt_comm_result *r)
{
    return r->estimates->n ? mt_relation_json(j, r, MT_REL_samples, MT_REL_sampled_launches, 0) : 0;
}

static void run_apart(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    mt_tuples_text(w, ((const char *const *)x->data)[i]);
}

MT_ROWS_OF_LIST(apart, run_apart, mt_kernels_apart(x->r->comm, x->r->events, &x->n), x->n)

/* ---- sentences ---- */

const char mt_run_sentences[] =
    "WITH k AS (SELECT kernel, count(*) AS n, sum(ctas) AS ctas, sum(load) AS load, sum(store) AS store, "
    "min(launch) AS first FROM launch_volumes GROUP BY kernel), "
    "t AS (SELECT count(*) AS kernels, sum(n) AS runs, sum(load + store) AS moved FROM k) "
    "SELECT 'kernel', 'volumes', 30, 0, CASE WHEN kernels > 1 THEN printf('%s moves most: %s, %s of all "
    "bytes, in %s of %s.', mark(kernel(kernel), kernel), bytes(load + store), share(load + store, moved), "
    "grouped(n), many(runs, 'launch', 'launches')) "
    "WHEN threads THEN printf('The program, %s, loads %s and stores %s in %s.', mark(kernel(kernel), "
    "kernel), bytes(load), bytes(store), many(ctas, 'thread', 'threads')) "
    "ELSE printf('One kernel, %s, moves all bytes: %s loaded, %s stored in %s.', mark(kernel(kernel), "
    "kernel), bytes(load), bytes(store), many(n, 'launch', 'launches')) END "
    "FROM k, t, run WHERE moved > 0 ORDER BY load + store DESC, first LIMIT 1; "
    "WITH t AS (SELECT count(*) AS n, sum(load) AS load, sum(comm_load) AS comm, sum(from_same_launch) AS "
    "same, sum(from_earlier_launch) AS earlier, sum(from_same_cta) AS own FROM launch_volumes), "
    "senders AS (SELECT 0 AS kind, same AS sent FROM t, run WHERE NOT strict UNION ALL SELECT 1, earlier "
    "FROM t, run WHERE NOT threads OR all_launches > 1 UNION ALL SELECT 2, own FROM t, run WHERE NOT local "
    "AND (NOT threads OR all_launches > 1)), "
    "said AS (SELECT group_concat(bytes(sent) || coalesce(' (' || share(sent, load) || ')', '') || iif(nth = "
    "1, ' were last written', '') || ' by ' || sender(kind), ', ') AS words FROM (SELECT *, row_number() "
    "OVER (ORDER BY kind) AS nth FROM senders), t), "
    "pairs AS (SELECT *, count(*) OVER () AS n FROM sends WHERE source IS NOT NULL AND reader IS NOT NULL "
    "ORDER BY bytes DESC, launch, source LIMIT 1) "
    "SELECT 'comm', 'transfers', 40, 0, CASE WHEN comm = 0 THEN printf(either('No CTA loads bytes that %s "
    "wrote%s', 'No thread loads bytes that %s wrote%s'), "
    "CASE strict + 2 * local WHEN 0 THEN either('another CTA or an earlier launch', 'another thread') WHEN 1 "
    "THEN either('an earlier launch', 'an earlier run') WHEN 2 THEN either('another CTA', 'another thread') "
    "ELSE sender(1) END, "
    "iif(EXISTS (SELECT 1 FROM sends WHERE source IS NULL AND reader IS NOT NULL), '; all bytes with a known "
    "writer came from the host.', '.')) "
    "ELSE printf(either('Of the bytes that CTAs load, %s%s.', 'Of the bytes that threads load, %s%s.'), "
    "iif(same IS NULL, "
    "bytes(comm) || coalesce(' (' || share(comm, load) || ')', '') || ' are communication', words), "
    "coalesce((SELECT printf('; %s %s to %s', iif(n > 1, 'most go from', 'all of them from'), "
    "mark(kernel(source), source), mark(kernel(reader), reader)) || iif(n > 1, ': ' || bytes(bytes), '') "
    "FROM pairs WHERE n > 1 OR source <> reader), '')) END "
    "FROM t, said, run WHERE t.n AND comm IS NOT NULL AND records + host_accesses; "
    "WITH t AS (SELECT sum(iif(reader IS NULL, bytes, 0)) AS there, sum(iif(reader IS NULL, 0, bytes)) AS "
    "back FROM sends WHERE source IS NULL OR reader IS NULL) "
    "SELECT 'host', 'transfers', 40, 0, 'Host code loads ' || bytes(there) || either(' that CTAs wrote', ' "
    "that threads wrote') || iif(back, either('; CTAs load ', '; threads load ') || bytes(back) || ' that "
    "the host wrote.', '.') "
    "FROM t, run WHERE host AND there AND launches; "
    "WITH k AS (SELECT kernel, sum(load) AS load, sum(store) AS store FROM launch_volumes GROUP BY kernel) "
    "SELECT 'sample', '', 150, 1, printf('A sample: %s of %s CTAs of %s are traced; all of them would load "
    "about %s and store %s. No other figure is scaled. Bytes that an untraced CTA wrote count for an earlier "
    "writer, or for none.', "
    "grouped(traced_ctas), grouped(ctas), mark(kernel(kernel), kernel), bytes(CAST(round(1.0 * load * ctas / "
    "traced_ctas) AS INTEGER)), bytes(CAST(round(1.0 * store * ctas / traced_ctas) AS INTEGER))) "
    "FROM (SELECT * FROM samples JOIN k USING (kernel) WHERE traced_ctas ORDER BY load + store DESC, kernel "
    "DESC LIMIT 1), run WHERE traced_ctas <> ctas AND records + host_accesses; "
    "SELECT 'nothing', 'timeline', 0, 0, CASE WHEN NOT launches THEN either('No launch is in this trace, or "
    "filters left none.', 'No run is in this trace, or filters left none.') "
    "ELSE printf(either('No access of the traced launches %swas recorded: their kernels touch no global "
    "memory, or filters left nothing.', 'No access of the traced runs %swas recorded: the program touches no "
    "memory, or filters left nothing.'), iif(onchip, 'to global memory ', '')) END "
    "FROM run WHERE NOT host_accesses AND (NOT launches OR NOT records);";
