/* Descriptions of the tables, and writers of their rows. */
#define _GNU_SOURCE

#include "relations.h"
#include "base/text.h"
#include "analysis/base/sites.h"
#include "comm_formats.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* ---- CSV fields (RFC 4180, with LF) ---- */

/* Returns 1 if a spreadsheet would take the text for a formula. */
static int csv_formula(const char *s)
{
    return *s && strchr("=+-@", *s) != NULL;
}

void mt_csv_text(FILE *f, const char *s)
{
    char *visible = mt_text_visible_copy(s, strlen(s));
    const char *p = visible ? visible : "?";
    int quotes = strpbrk(p, ",\"") != NULL;
    if (quotes)
        fputc('"', f);
    if (csv_formula(p))
        fputc('\'', f);
    for (; *p; p++) {
        if (*p == '"')
            fputc('"', f);
        fputc(*p, f);
    }
    if (quotes)
        fputc('"', f);
    free(visible);
}

/* Column arrays, one for each table: each MT_RELATION ends the array of the previous table. */
/* clang-format off */
__attribute__((unused)) static const struct mt_column columns_before[] = {{0}
#define MT_RELATION(name, of, path, what) }; static const struct mt_column columns_##name[] = {
#define MT_COLUMN(name, column, type, presence, refers, json, what) {#column, MT_##type, MT_##presence, MT_REL_##refers, json, what},
#include "relations.def"
};
/* clang-format on */

const struct mt_relation mt_relations[MT_TABLES] = {
#define MT_RELATION(name, of, path, what)                                                                    \
    {#name, path, what, MT_OF_##of, columns_##name, sizeof columns_##name / sizeof *columns_##name},
#define MT_COLUMN(name, column, type, presence, refers, json, what)
#include "relations.def"
};

#define MT_RELATION(name, of, path, what)                                                                    \
    _Static_assert(sizeof columns_##name / sizeof *columns_##name <= MT_RELATION_COLUMNS, #name);
#define MT_COLUMN(name, column, type, presence, refers, json, what)
#include "relations.def"

const char *const mt_relation_names[] = {
#define MT_RELATION(name, of, path, what) #name,
#define MT_COLUMN(name, column, type, presence, refers, json, what)
#define MT_FACTS NULL,
#include "relations.def"
};

/* ---- rows ---- */

int mt_tuples_begin(struct mt_tuples *w, enum mt_relation_number number)
{
    w->now = &mt_relations[number];
    w->at = w->places = 0;
    return w->ops->begin ? w->ops->begin(w->arg, w->now, w->why) : 0;
}

/* Returns the next value, empty. Values beyond the last column are discarded, and mt_tuples_next reports it.
 */
static struct mt_value *relations_value(struct mt_tuples *w)
{
    static struct mt_value beyond;
    struct mt_value *v = w->at < w->now->n ? &w->value[w->at] : &beyond;
    w->at++;
    *v = (struct mt_value){0};
    return v;
}

void mt_tuples_number(struct mt_tuples *w, uint64_t v)
{
    relations_value(w)->number = (int64_t)v;
}

void mt_tuples_numbers(struct mt_tuples *w, size_t n, const uint64_t *v)
{
    for (size_t i = 0; i < n; i++)
        mt_tuples_number(w, v[i]);
}

void mt_tuples_real(struct mt_tuples *w, double v)
{
    relations_value(w)->real = v;
}

void mt_tuples_text(struct mt_tuples *w, const char *text)
{
    int maybe = w->at < w->now->n && w->now->columns[w->at].presence == MT_MAYBE;
    struct mt_value *v = relations_value(w);
    v->null = maybe && (!text || !*text);
    v->text = text ? text : "";
}

void mt_tuples_null(struct mt_tuples *w, unsigned columns)
{
    while (columns-- > 0)
        relations_value(w)->null = 1;
}

void mt_tuples_maybe(struct mt_tuples *w, int known, uint64_t v)
{
    *relations_value(w) = (struct mt_value){.null = !known, .number = (int64_t)v};
}

void mt_tuples_place(struct mt_tuples *w, const char *place)
{
    char *room = w->place[w->places++ % MT_TUPLES_PLACES];
    const char *colon = mt_location_colon(place);
    size_t n = colon ? (size_t)(colon - place) : strlen(place);
    if (n >= MT_TUPLES_FILE || strcmp(place, "?") == 0) {
        mt_tuples_null(w, 2);
        return;
    }
    memcpy(room, place, n);
    room[n] = 0;
    mt_tuples_text(w, room);
    if (colon)
        mt_tuples_number(w, strtoull(colon + 1, NULL, 10));
    else
        mt_tuples_null(w, 1);
}

void mt_tuples_cta(struct mt_tuples *w, uint64_t word)
{
    mt_tuples_number(w, word >> 32);
    mt_tuples_number(w, word >> 16 & 0xffff);
    mt_tuples_number(w, word & 0xffff);
}

int mt_tuples_next(struct mt_tuples *w)
{
    unsigned given = w->at;
    w->at = w->places = 0;
    if (given == w->now->n)
        return w->ops->row(w->arg, w->now, w->value, w->why);
    snprintf(w->why, sizeof w->why, "the table %s has %u columns and was given %u", w->now->name, w->now->n,
             given);
    return -1;
}

int mt_tuples_end(struct mt_tuples *w)
{
    return w->ops->end ? w->ops->end(w->arg, w->now, w->why) : 0;
}

void mt_rows_end(struct mt_rowset *x)
{
    if (x->end)
        x->end(x);
    else
        free(x->data);
}

/* ---- CSV ---- */

static int relations_csv_begin(void *arg, const struct mt_relation *r, char *why)
{
    for (unsigned i = 0; i < r->n; i++)
        fprintf(arg, "%s%s", i ? "," : "", r->columns[i].name);
    fputc('\n', arg);
    return 0;
}

static int relations_csv_row(void *arg, const struct mt_relation *r, const struct mt_value *v, char *why)
{
    for (unsigned i = 0; i < r->n; i++) {
        if (i)
            fputc(',', arg);
        if (v[i].null)
            continue;
        switch (r->columns[i].type) {
        case MT_TEXT:
            mt_csv_text(arg, v[i].text);
            break;
        case MT_REAL:
            fprintf(arg, "%.6f", v[i].real);
            break;
        default:
            fprintf(arg, "%" PRId64, v[i].number);
        }
    }
    fputc('\n', arg);
    return 0;
}

const struct mt_tuples_ops mt_tuples_as_csv = {.begin = relations_csv_begin, .row = relations_csv_row};

/* ---- SQLite: tables and views. Its integers are signed, so addresses of 2^63 and more, which no process
 * has, become negative ---- */

struct mt_db {
    sqlite3 *db;
    int borrowed;         /* 1: the database is the caller's, and values may be NULL */
    sqlite3_stmt *insert; /* INSERT statement of the open table */
    struct mt_tuples rows;
    unsigned of; /* parts of the results that are present, a bit each */
};

static const char indexes[] = "CREATE INDEX cta_volumes_launch ON cta_volumes(launch);"
                              "CREATE INDEX transfers_dst ON transfers(dst_launch);"
                              "CREATE INDEX transfers_src ON transfers(src_launch);"
                              "CREATE INDEX launches_kernel ON launches(kernel);"
                              "CREATE INDEX ranges_launch ON ranges(launch, x, y, z);"
                              "CREATE INDEX ranges_start ON ranges(start);"
                              "CREATE INDEX allocations_base ON allocations(base);";

static const struct {
    const char *name;
    enum mt_relation_of of;
    const char *sql;
} views[] = {
#define MT_VIEW(name, of, question, sql) {#name, MT_OF_##of, sql},
#include "views.def"
};

static int relations_sqlite_fail(struct mt_db *d, char *why)
{
    snprintf(why, 300, "%s", sqlite3_errmsg(d->db));
    return -1;
}

static int relations_sqlite_do(struct mt_db *d, const char *sql, char *why)
{
    return sql && sqlite3_exec(d->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : relations_sqlite_fail(d, why);
}

void mt_relation_declare(sqlite3_str *s, const char *name, const struct mt_relation *r, enum mt_declare how)
{
    static const char *const types[] = {
        [MT_INTEGER] = "INTEGER", [MT_REAL] = "REAL", [MT_TEXT] = "TEXT", [MT_BOOLEAN] = "INTEGER"};
    sqlite3_str_appendf(s, "CREATE TABLE %s (", name);
    for (unsigned i = 0; i < r->n; i++) {
        const struct mt_column *c = &r->columns[i];
        sqlite3_str_appendf(s, "%s%s %s", i ? ", " : "", c->name, types[c->type]);
        if (how >= MT_DECLARE_KEYS && c->presence == MT_KEY)
            sqlite3_str_appendall(s, " PRIMARY KEY");
        if (how == MT_DECLARE_ALL && c->presence == MT_SURE)
            sqlite3_str_appendall(s, " NOT NULL");
        if (how == MT_DECLARE_ALL && c->refers != MT_REL_NONE)
            sqlite3_str_appendf(s, " REFERENCES %s(id)", mt_relations[c->refers].name);
    }
    sqlite3_str_appendall(s, ");");
}

static int relations_sqlite_begin(void *arg, const struct mt_relation *r, char *why)
{
    struct mt_db *d = arg;
    sqlite3_str *create = sqlite3_str_new(d->db), *insert = sqlite3_str_new(d->db);
    mt_relation_declare(create, r->name, r, d->borrowed ? MT_DECLARE_KEYS : MT_DECLARE_ALL);
    sqlite3_str_appendf(insert, "INSERT INTO %s VALUES (?", r->name);
    for (unsigned i = 1; i < r->n; i++)
        sqlite3_str_appendall(insert, ",?");
    sqlite3_str_appendall(insert, ")");
    char *c = sqlite3_str_finish(create), *n = sqlite3_str_finish(insert);
    int rc = relations_sqlite_do(d, c, why);
    if (rc == 0 && (!n || sqlite3_prepare_v2(d->db, n, -1, &d->insert, NULL) != SQLITE_OK))
        rc = relations_sqlite_fail(d, why);
    sqlite3_free(c);
    sqlite3_free(n);
    d->of |= 1u << r->of;
    return rc;
}

static int relations_sqlite_row(void *arg, const struct mt_relation *r, const struct mt_value *v, char *why)
{
    struct mt_db *d = arg;
    for (unsigned i = 0; i < r->n; i++) {
        int at = (int)i + 1;
        if (v[i].null)
            sqlite3_bind_null(d->insert, at);
        else if (r->columns[i].type == MT_TEXT)
            sqlite3_bind_text(d->insert, at, v[i].text, -1, SQLITE_STATIC);
        else if (r->columns[i].type == MT_REAL)
            sqlite3_bind_double(d->insert, at, v[i].real);
        else
            sqlite3_bind_int64(d->insert, at, v[i].number);
    }
    int rc = sqlite3_step(d->insert);
    sqlite3_reset(d->insert);
    return rc == SQLITE_DONE ? 0 : relations_sqlite_fail(d, why);
}

static int relations_sqlite_end(void *arg, const struct mt_relation *r, char *why)
{
    struct mt_db *d = arg;
    sqlite3_finalize(d->insert);
    d->insert = NULL;
    return 0;
}

static const struct mt_tuples_ops ops = {relations_sqlite_begin, relations_sqlite_row, relations_sqlite_end};

static struct mt_db *relations_sqlite_new(char *why, size_t size)
{
    struct mt_db *d = calloc(1, sizeof *d);
    if (!d)
        snprintf(why, size, "out of memory");
    else
        d->rows = (struct mt_tuples){.ops = &ops, .arg = d};
    return d;
}

struct mt_db *mt_db_open(const char *path, char *why, size_t size)
{
    struct mt_db *d = relations_sqlite_new(why, size);
    if (!d)
        return NULL;
    if (sqlite3_open_v2(path, &d->db, SQLITE_OPEN_READWRITE, NULL) ||
        sqlite3_exec(d->db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;", NULL, NULL,
                     NULL)) {
        snprintf(why, size, "%s", d->db ? sqlite3_errmsg(d->db) : "out of memory");
        mt_db_close(d);
        return NULL;
    }
    return d;
}

struct mt_db *mt_db_lend(struct sqlite3 *db, char *why, size_t size)
{
    struct mt_db *d = relations_sqlite_new(why, size);
    if (d) {
        d->db = db;
        d->borrowed = 1;
    }
    return d;
}

struct mt_tuples *mt_db_rows(struct mt_db *d)
{
    return &d->rows;
}

int mt_db_finish(struct mt_db *d)
{
    int rc = relations_sqlite_do(d, indexes, d->rows.why);
    for (size_t i = 0; rc == 0 && i < sizeof views / sizeof *views; i++) {
        if (!(d->of >> views[i].of & 1))
            continue;
        char *sql = sqlite3_mprintf("CREATE VIEW %s AS %s", views[i].name, views[i].sql);
        rc = relations_sqlite_do(d, sql, d->rows.why);
        sqlite3_free(sql);
    }
    return rc == 0 ? relations_sqlite_do(d, "COMMIT;", d->rows.why) : rc;
}

void mt_db_close(struct mt_db *d)
{
    if (!d)
        return;
    sqlite3_finalize(d->insert);
    if (!d->borrowed)
        sqlite3_close(d->db);
    free(d);
}
