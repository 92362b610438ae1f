/* SQLite virtual tables over the rows of results. Comparing an integer column with a value, as joins do, uses
 * an index of that column, which is built at first use. */
#include "sql.h"
#include "analysis/base/order.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct view {
    const char *name;
    enum mt_relation_of of;
    const char *question, *sql;
} views[] = {
#define MT_VIEW(name, of, question, sql) {#name, MT_OF_##of, question, sql},
#include "output/rows/views.def"
};
enum { VIEWS = sizeof views / sizeof *views };

/* Entry of an index: a column's value, and a row that has it. */
struct hit {
    int64_t value;
    size_t row;
};
MT_ORDER_2(sql_hit_order, struct hit, value, row)

struct table {
    sqlite3_vtab base;
    struct mt_sql *s;
    enum mt_relation_number number;
    int open;
    struct mt_rowset x; /* set once the rows are ready */
    struct {
        struct hit *list; /* index by column; NULL: not built yet */
        size_t n;
    } index[MT_RELATION_COLUMNS];
};

struct cursor {
    sqlite3_vtab_cursor base;
    struct mt_tuples w; /* writer that holds the current row */
    const struct mt_rowset *x;
    size_t row;                   /* number of the row in x */
    const struct hit *hit, *last; /* rest of the index entries to visit; NULL: visits all rows */
    struct hit one;               /* the single row requested by rowid */
};

/* Row writer of cursors: leaves the values in place. */
static int sql_keep(void *arg, const struct mt_relation *r, const struct mt_value *v, char *why)
{
    return 0;
}
static const struct mt_tuples_ops sql_ops = {.row = sql_keep};

/* ---- tables ---- */

static int sql_connect(sqlite3 *db, void *arg, int argc, const char *const *argv, sqlite3_vtab **out,
                       char **why)
{
    struct table *t = calloc(1, sizeof *t);
    sqlite3_str *text = sqlite3_str_new(db);
    enum mt_relation_number number = 0;
    while (strcmp(mt_relations[number].name, argv[0]) != 0)
        number++;
    mt_relation_declare(text, "x", &mt_relations[number], MT_DECLARE_TYPES);
    char *sql = sqlite3_str_finish(text);
    ((struct mt_sql *)arg)->declares = 1;
    int rc = t && sql ? sqlite3_declare_vtab(db, sql) : SQLITE_NOMEM;
    ((struct mt_sql *)arg)->declares = 0;
    sqlite3_free(sql);
    if (rc != SQLITE_OK) {
        free(t);
        return rc;
    }
    t->s = arg;
    t->number = number;
    t->s->reads |= 1ull << number; /* columns that USING names count as read, though no expression has them */
    *out = &t->base;
    return SQLITE_OK;
}

static int sql_disconnect(sqlite3_vtab *base)
{
    struct table *t = (struct table *)base;
    for (int i = 0; i < MT_RELATION_COLUMNS; i++)
        free(t->index[i].list);
    if (t->open)
        mt_rows_end(&t->x);
    free(t);
    return SQLITE_OK;
}

/* Chooses the index: the first integer column compared with a value, or rowid. */
static int sql_best(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct mt_relation *r = &mt_relations[((struct table *)base)->number];
    info->estimatedCost = 1e6;
    for (int i = 0; i < info->nConstraint && !info->idxNum; i++) {
        const int column = info->aConstraint[i].iColumn;
        if (!info->aConstraint[i].usable || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ ||
            (column >= 0 && r->columns[column].type != MT_INTEGER))
            continue;
        info->aConstraintUsage[i].argvIndex = 1; /* SQLite checks the condition again */
        info->idxNum = column < 0 ? -1 : column + 1;
        info->estimatedCost = column < 0 ? 1 : 100;
        info->estimatedRows = column < 0 ? 1 : 100;
    }
    return SQLITE_OK;
}

/* ---- rows ---- */

static int sql_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    struct cursor *c = calloc(1, sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->w.ops = &sql_ops;
    c->w.now = &mt_relations[((struct table *)base)->number];
    c->x = &((struct table *)base)->x;
    *out = &c->base;
    return SQLITE_OK;
}

static int sql_close(sqlite3_vtab_cursor *base)
{
    free(base);
    return SQLITE_OK;
}

/* Reads row i into c->w. Returns 1 if the row exists. */
static int sql_row(struct cursor *c, size_t i)
{
    c->w.at = c->w.places = 0;
    c->x->row(&c->w, c->x, i);
    return c->w.at != 0;
}

static int sql_index(struct table *t, struct cursor *c, int column)
{
    struct hit *list = malloc((c->x->n + 1) * sizeof *list);
    size_t n = 0;
    if (!list)
        return SQLITE_NOMEM;
    for (size_t i = 0; i < c->x->n; i++)
        if (sql_row(c, i) && !c->w.value[column].null)
            list[n++] = (struct hit){c->w.value[column].number, i};
    qsort(list, n, sizeof *list, sql_hit_order);
    t->index[column].list = list;
    t->index[column].n = n;
    return SQLITE_OK;
}

/* Advances from the current row to the next one that exists. */
static void sql_settle(struct cursor *c)
{
    if (c->hit) {
        if (c->hit < c->last)
            sql_row(c, c->row = c->hit->row);
        return;
    }
    while (c->row < c->x->n && !sql_row(c, c->row))
        c->row++;
}

static int sql_filter(sqlite3_vtab_cursor *base, int column, const char *text, int argc, sqlite3_value **argv)
{
    struct cursor *c = (struct cursor *)base;
    struct table *t = (struct table *)base->pVtab;
    if (!t->open) {
        t->x = (struct mt_rowset){.r = t->s->r};
        if (!t->x.r || mt_rows_of_tables[t->number](&t->x) != 0)
            return t->x.r ? SQLITE_NOMEM : SQLITE_MISUSE;
        t->open = 1;
    }
    c->row = 0;
    c->hit = c->last = NULL;
    const int known = column && sqlite3_value_type(argv[0]) == SQLITE_INTEGER;
    if (known && column < 0 && !c->x->order) {
        c->one.row = (size_t)sqlite3_value_int64(argv[0]);
        c->hit = &c->one;
        c->last = c->hit + (c->one.row < c->x->n && sql_row(c, c->one.row));
    } else if (known && column-- > 0) {
        if (!t->index[column].list && sql_index(t, c, column) != SQLITE_OK)
            return SQLITE_NOMEM;
        const struct hit *list = t->index[column].list;
        const size_t n = t->index[column].n;
        const int64_t value = sqlite3_value_int64(argv[0]);
        c->hit = list + MT_FIRST(i, n, list[i].value >= value);
        c->last = list + MT_FIRST(i, n, list[i].value > value);
    }
    sql_settle(c);
    return SQLITE_OK;
}

static int sql_next(sqlite3_vtab_cursor *base)
{
    struct cursor *c = (struct cursor *)base;
    if (c->hit)
        c->hit++;
    else
        c->row++;
    sql_settle(c);
    return SQLITE_OK;
}

static int sql_eof(sqlite3_vtab_cursor *base)
{
    const struct cursor *c = (const struct cursor *)base;
    return c->hit ? c->hit >= c->last : c->row >= c->x->n;
}

static int sql_column(sqlite3_vtab_cursor *base, sqlite3_context *to, int column)
{
    const struct cursor *c = (const struct cursor *)base;
    const struct mt_value *v = &c->w.value[column];
    if (v->null)
        sqlite3_result_null(to);
    else if (c->w.now->columns[column].type == MT_TEXT)
        sqlite3_result_text(to, v->text, -1, SQLITE_TRANSIENT);
    else if (c->w.now->columns[column].type == MT_REAL)
        sqlite3_result_double(to, v->real);
    else
        sqlite3_result_int64(to, v->number);
    return SQLITE_OK;
}

static int sql_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *id)
{
    const struct cursor *c = (const struct cursor *)base;
    *id = (sqlite3_int64)(c->x->order ? c->x->order[c->row] : c->row);
    return SQLITE_OK;
}

/* A module without xCreate is usable as a table of its name. */
static const sqlite3_module sql_module = {.xConnect = sql_connect,
                                          .xBestIndex = sql_best,
                                          .xDisconnect = sql_disconnect,
                                          .xDestroy = sql_disconnect,
                                          .xOpen = sql_open,
                                          .xClose = sql_close,
                                          .xFilter = sql_filter,
                                          .xNext = sql_next,
                                          .xEof = sql_eof,
                                          .xColumn = sql_column,
                                          .xRowid = sql_rowid};

/* ---- functions ---- */

static const char *sql_text(sqlite3_value *v)
{
    const char *text = (const char *)sqlite3_value_text(v);
    return text ? text : "";
}

/* place(file, line): place for display, "?" if unknown */
static void sql_place(sqlite3_context *to, int n, sqlite3_value **v)
{
    if (sqlite3_value_type(v[0]) == SQLITE_NULL) {
        sqlite3_result_text(to, "?", -1, SQLITE_STATIC);
        return;
    }
    const char *file = mt_location_short(sql_text(v[0]));
    char *text = sqlite3_value_type(v[1]) == SQLITE_NULL ? sqlite3_mprintf("%s", file)
                                                         : sqlite3_mprintf("%s:%s", file, sql_text(v[1]));
    sqlite3_result_text(to, text, -1, sqlite3_free);
}

/* callers(text): the innermost two of "file:line in function; …", with short file names; NULL if there are
 * none */
static void sql_callers(sqlite3_context *to, int n, sqlite3_value **v)
{
    char text[1024];
    size_t out = 0;
    const char *s = sql_text(v[0]);
    for (int i = 0; i < 2 && *s && out < sizeof text; i++) {
        const char *end = strstr(s, "; "), *in = strstr(s, " in "), *at = s;
        end = end ? end : s + strlen(s);
        for (const char *p = s; p < end && (!in || p < in); p++)
            at = *p == '/' ? p + 1 : at;
        out += (size_t)snprintf(text + out, sizeof text - out, "%s%.*s", i ? ", " : "", (int)(end - at), at);
        s = end + strspn(end, "; ");
    }
    if (out)
        sqlite3_result_text(to, text, -1, SQLITE_TRANSIENT);
}

/* kernel(name): name without namespaces, if long without template arguments */
static void sql_kernel(sqlite3_context *to, int n, sqlite3_value **v)
{
    char *name = mt_kernel_short(sql_text(v[0]));
    sqlite3_result_text(to, name, -1, free);
}

/* word(type): name of an access type; a read-modify-write of a host program, with LOCK or without, is an
 * update */
static void sql_word(sqlite3_context *to, int n, sqlite3_value **v)
{
    for (unsigned type = 0; type <= MT_UNKNOWN; type++)
        if (strcmp(mt_access_types[type], sql_text(v[0])) == 0)
            sqlite3_result_text(to, mt_of_threads && type == MT_ATOMIC ? "update" : mt_access_types[type], -1,
                                SQLITE_STATIC);
}

/* cta(x, y, z): number of a CTA in the grid, or of a thread */
static void sql_cta(sqlite3_context *to, int n, sqlite3_value **v)
{
    char key[64];
    uint64_t at[3];
    for (int i = 0; i < n; i++)
        at[i] = (uint64_t)sqlite3_value_int64(v[i]);
    const uint64_t order = mt_cta_order(at[0] << 32 | (at[1] & 0xffff) << 16 | (at[2] & 0xffff));
    mt_of_threads ? mt_key_u64(key, order & 0xffffffff) : mt_cta_key(key, order);
    sqlite3_result_text(to, key, -1, SQLITE_TRANSIENT);
}

/* fixed(x, n): number with n decimals, as printf prints it */
static void sql_fixed(sqlite3_context *to, int n, sqlite3_value **v)
{
    char text[400];
    const int digits = sqlite3_value_int(v[1]);
    snprintf(text, sizeof text, "%.*f",
             digits < 0    ? 0
             : digits > 15 ? 15
                           : digits,
             sqlite3_value_double(v[0]));
    sqlite3_result_text(to, text, -1, SQLITE_TRANSIENT);
}

/* percent(part, all): percentage, "-" if `all` is 0 */
static void sql_percent(sqlite3_context *to, int n, sqlite3_value **v)
{
    char text[400];
    const double all = sqlite3_value_double(v[1]);
    snprintf(text, sizeof text, all != 0 ? "%.1f %%" : "-", 100.0 * sqlite3_value_double(v[0]) / all);
    sqlite3_result_text(to, text, -1, SQLITE_TRANSIENT);
}

/* ---- functions for sentences ---- */

static void sql_number(sqlite3_context *to, struct mt_number n)
{
    sqlite3_result_text(to, n.text, -1, SQLITE_TRANSIENT);
}

static uint64_t sql_count(sqlite3_value *v)
{
    return (uint64_t)sqlite3_value_int64(v);
}

/* grouped(n): number with commas, 1,234,567 */
static void sql_grouped(sqlite3_context *to, int n, sqlite3_value **v)
{
    sql_number(to, mt_number_count(sql_count(v[0])));
}

/* bytes(n): size with its unit, 1.50 KiB */
static void sql_bytes(sqlite3_context *to, int n, sqlite3_value **v)
{
    sql_number(to, mt_number_bytes(sql_count(v[0])));
}

/* 100 % and 0 % are exact. */
static struct mt_number sql_number_percent(uint64_t part, uint64_t all)
{
    struct mt_number w, number;
    double p = all ? 100.0 * (double)part / (double)all : 0;
    if (part == all || !part)
        number = mt_number_decimals(p, 0);
    else if (p < 0.1 || p > 99.9)
        snprintf(number.text, sizeof number.text, "%s", p < 0.1 ? "< 0.1" : "> 99.9");
    else
        number = mt_number_decimals(p, 1);
    snprintf(w.text, sizeof w.text, "%.40s %%", number.text);
    return w;
}

/* share(part, all): 12.5 %; 100 % and 0 % are exact */
static void sql_share(sqlite3_context *to, int n, sqlite3_value **v)
{
    sql_number(to, sql_number_percent(sql_count(v[0]), sql_count(v[1])));
}

/* many(n, one, more): number with the right noun, 2 launches */
static void sql_many(sqlite3_context *to, int n, sqlite3_value **v)
{
    sql_number(to, mt_number_many(sql_count(v[0]), sql_text(v[1]), sql_text(v[2])));
}

/* rounded(x, n): number with n decimals, halves rounded up */
static void sql_rounded(sqlite3_context *to, int n, sqlite3_value **v)
{
    sql_number(to, mt_number_decimals(sqlite3_value_double(v[0]), sqlite3_value_int(v[1]) & 7));
}

static struct mt_number sql_number_duration(double ns)
{
    struct mt_number n;
    if (ns < 1e3)
        snprintf(n.text, sizeof n.text, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(n.text, sizeof n.text, "%.*f \u00b5s", ns < 1e4 ? 2 : 1, ns / 1e3);
    else if (ns < 1e9)
        snprintf(n.text, sizeof n.text, "%.*f ms", ns < 1e7 ? 2 : 1, ns / 1e6);
    else
        snprintf(n.text, sizeof n.text, "%.2f s", ns / 1e9);
    return n;
}

/* duration(nanoseconds): 1.50 µs */
static void sql_duration(sqlite3_context *to, int n, sqlite3_value **v)
{
    sql_number(to, sql_number_duration(sqlite3_value_double(v[0])));
}

/* either(kernels, threads): the first for a trace of kernels, the second for a host program */
static void sql_either(sqlite3_context *to, int n, sqlite3_value **v)
{
    sqlite3_result_value(to, v[mt_of_threads]);
}

/* sender(n): words for a source of communication (enum mt_sender) */
static void sql_sender(sqlite3_context *to, int n, sqlite3_value **v)
{
    const uint64_t kind = sql_count(v[0]);
    if (kind < MT_SENDER_KINDS)
        sqlite3_result_text(to, mt_sender_words[kind][mt_of_threads], -1, SQLITE_STATIC);
}

/* mark(shown, whole): shortened name with its full form (summary.h) */
static void sql_mark(sqlite3_context *to, int n, sqlite3_value **v)
{
    char *text = sqlite3_mprintf("%s\n%s", sql_text(v[0]), sql_text(v[1]));
    for (char *at = text; at && *at; at++)
        if ((unsigned char)*at < ' ')
            *at = '?';
    char *mark = text ? sqlite3_mprintf("\1%.*s\2%s\3", sqlite3_value_bytes(v[0]), text,
                                        text + sqlite3_value_bytes(v[0]) + 1)
                      : NULL;
    sqlite3_free(text);
    sqlite3_result_text(to, mark, -1, sqlite3_free);
}

static int sql_functions(sqlite3 *db)
{
    static const struct {
        const char *name;
        int arguments;
        void (*call)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {{"place", 2, sql_place},       {"callers", 1, sql_callers}, {"kernel", 1, sql_kernel},
                     {"word", 1, sql_word},         {"cta", 3, sql_cta},         {"fixed", 2, sql_fixed},
                     {"percent", 2, sql_percent},   {"grouped", 1, sql_grouped}, {"bytes", 1, sql_bytes},
                     {"share", 2, sql_share},       {"many", 3, sql_many},       {"rounded", 2, sql_rounded},
                     {"duration", 1, sql_duration}, {"either", 2, sql_either},   {"sender", 1, sql_sender},
                     {"mark", 2, sql_mark}};
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof functions / sizeof *functions; i++)
        rc = sqlite3_create_function(db, functions[i].name, functions[i].arguments,
                                     SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, functions[i].call, NULL, NULL);
    return rc;
}

/* ---- statements ---- */

/* Authorizer: notes which tables a statement reads. Tables of ours also report themselves in sql_connect.
 * `column` is empty if a table or a WITH query is read without columns. */
static int sql_is_known(struct mt_sql *s, const char *name, const char *column)
{
    static const char *const others[] = {"json_each", "json_tree", "sqlite_schema", "sqlite_master"};
    for (int i = 0; i < MT_TABLES; i++)
        if (strcasecmp(mt_relations[i].name, name) == 0) {
            s->reads |= 1ull << i;
            return 1;
        }
    for (size_t i = 0; i < VIEWS; i++)
        if (strcasecmp(views[i].name, name) == 0)
            return 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcasecmp(others[i], name) == 0)
            return 1;
    return !*column && strncasecmp(name, "pragma_", 7) != 0 && strncasecmp(name, "sqlite_", 7) != 0;
}

static int sql_may(void *arg, int action, const char *first, const char *second, const char *db,
                   const char *by)
{
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_READ:
        return sql_is_known(arg, first, second ? second : "") ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_FUNCTION:
        return strcasecmp(second, "load_extension") == 0 || strcasecmp(second, "fts3_tokenizer") == 0
                   ? SQLITE_DENY
                   : SQLITE_OK;
    default:
        return ((const struct mt_sql *)arg)->declares ? SQLITE_OK : SQLITE_DENY;
    }
}

static int sql_view(struct mt_sql *s, const struct view *v)
{
    char *sql = sqlite3_mprintf("CREATE VIEW %s AS %s", v->name, v->sql);
    int rc = sql ? sqlite3_exec(s->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return rc;
}

int mt_sql_take(struct mt_sql *s, const struct mt_comm_result *r)
{
    int rc = SQLITE_OK;
    for (int i = 0; i < MT_TABLES && rc == SQLITE_OK; i++)
        rc = sqlite3_create_module_v2(s->db, mt_relations[i].name, &sql_module, s, NULL);
    s->r = r;
    return rc;
}

/* Sets up what both kinds of database need; afterwards nothing can be written. */
static int sql_ready(struct mt_sql *s, int rc, char *why, size_t room)
{
    if (rc == SQLITE_OK)
        rc = mt_sql_take(s, NULL);
    if (rc == SQLITE_OK)
        rc = sql_functions(s->db);
    if (rc == SQLITE_OK) /* makes SQLite load the tables, if there are any */
        sqlite3_exec(s->db, "SELECT 1 FROM json_each('[]'), json_tree('[]')", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_set_authorizer(s->db, sql_may, s);
    if (rc == SQLITE_OK)
        return 0;
    snprintf(why, room, "%s", s->db ? sqlite3_errmsg(s->db) : "out of memory");
    mt_sql_close(s);
    return -1;
}

int mt_sql_open(struct mt_sql *s, char *why, size_t room)
{
    memset(s, 0, sizeof *s);
    int rc = sqlite3_open(":memory:", &s->db);
    for (size_t i = 0; i < VIEWS && rc == SQLITE_OK; i++)
        rc = sql_view(s, &views[i]);
    return sql_ready(s, rc, why, room);
}

static int sql_has(void *arg, int columns, char **name, char **heads)
{
    for (int i = 0; i < MT_TABLES; i++)
        if (strcmp(*name, mt_relations[i].name) == 0)
            ((struct mt_sql *)arg)->there |= 1ull << i;
    return 0;
}

int mt_sql_open_file(struct mt_sql *s, const char *path, char *why, size_t room)
{
    memset(s, 0, sizeof *s);
    int rc = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READONLY, NULL);
    if (rc == SQLITE_OK) /* views in a file are untrusted */
        rc = sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, "SELECT name FROM sqlite_schema WHERE type = 'table'", sql_has, s, NULL);
    return sql_ready(s, rc, why, room);
}

/* Sums the rows of transfers. */
static int sql_sends(struct mt_sql *s, char *why)
{
    const int rc = sqlite3_exec(s->db,
                                "INSERT INTO sends SELECT nullif(source, '" MT_HOST_NAME
                                "'), nullif(reader, '" MT_HOST_NAME "'), iif(reader = '" MT_HOST_NAME
                                "', NULL, min(launch)), sum(bytes), sum(accesses), count(*) FROM sends "
                                "GROUP BY source, reader; DELETE FROM sends WHERE transfers IS NULL",
                                NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        snprintf(why, 300, "%s", sqlite3_errmsg(s->db));
    return rc == SQLITE_OK ? 0 : -1;
}

int mt_sql_fill(struct mt_sql *s, const json_t *root, uint64_t which, char *why, size_t room)
{
    struct mt_db *db = mt_db_lend(s->db, why, room);
    int rc = db ? 0 : -1;
    s->declares = 1;
    sqlite3_exec(s->db, "BEGIN", NULL, NULL, NULL);
    for (int i = 0; i < MT_TABLES && rc >= 0; i++)
        if ((rc = which >> i & 1 ? mt_rows_read(mt_db_rows(db), (enum mt_relation_number)i, root) : 0) > 0)
            s->there |= 1ull << i;
    if (rc >= 0 && which & s->there & 1ull << MT_REL_sends)
        rc = sql_sends(s, mt_db_rows(db)->why);
    sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL);
    s->declares = 0;
    if (db && rc < 0)
        snprintf(why, room, "%s", mt_db_rows(db)->why);
    mt_db_close(db);
    return rc < 0 ? -1 : 0;
}

/* Prepares the next statement of *text and moves *text past it. NULL: there is none, or *rc is an error. */
static sqlite3_stmt *sql_statement(sqlite3 *db, const char **text, int *rc)
{
    sqlite3_stmt *out = NULL;
    do
        *rc = sqlite3_prepare_v2(db, *text, -1, &out, text);
    while (*rc == SQLITE_OK && !out && **text);
    return out;
}

sqlite3_stmt *mt_sql_prepare(struct mt_sql *s, const char *text, char *why, size_t room)
{
    int rc, more;
    sqlite3_stmt *out = sql_statement(s->db, &text, &rc);
    const char *said = sqlite3_errmsg(s->db);
    if (rc == SQLITE_AUTH) {
        snprintf(why, room, "a query is a SELECT, on the tables of the trace (--list names them)");
        return NULL;
    }
    if (rc != SQLITE_OK) {
        snprintf(why, room, "%s%s", said,
                 strncmp(said, "no such ", 8) == 0 ? ": memtrace query --list names tables and columns" : "");
        return NULL;
    }
    sqlite3_stmt *second = out ? sql_statement(s->db, &text, &more) : NULL;
    if (!out)
        snprintf(why, room, "there is no statement in it");
    else if (second || more != SQLITE_OK)
        snprintf(why, room, "there is more than one statement in it");
    else if (sqlite3_bind_parameter_count(out))
        snprintf(why, room, "a parameter (?) has no value here");
    else if (sqlite3_column_count(out))
        return out;
    else
        snprintf(why, room, "it has no result");
    sqlite3_finalize(second);
    sqlite3_finalize(out);
    return NULL;
}

void mt_sql_close(struct mt_sql *s)
{
    sqlite3_close(s->db);
    s->db = NULL;
}

/* ---- tables of text ---- */

int mt_text_table(struct mt_text *t, const char *title, const char *statement)
{
    char why[300];
    struct mt_table table;
    sqlite3_stmt *s = mt_sql_prepare(t->sql, statement, why, sizeof why);
    mt_table_init(&table, title, "");
    for (int i = 0; i < sqlite3_column_count(s); i++)
        mt_table_head(&table, sqlite3_column_name(s, i));
    int rc = SQLITE_NOMEM;
    while (s && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        mt_table_row(&table, 0);
        for (int i = 0; i < sqlite3_column_count(s); i++)
            mt_table_text(&table, sqlite3_column_text(s, i) ? (const char *)sqlite3_column_text(s, i) : "");
    }
    sqlite3_finalize(s);
    table.failed |= rc != SQLITE_DONE;
    return mt_table_print(&table, t->f, t->rows);
}

/* ---- the list ---- */

/* Lists the columns of a view. */
static void sql_list_view(struct mt_sql *s, FILE *f, const struct view *v)
{
    char why[300], *sql = sqlite3_mprintf("SELECT * FROM %s", v->name);
    sqlite3_stmt *x = sql ? mt_sql_prepare(s, sql, why, sizeof why) : NULL;
    fprintf(f, "%s: %s\n ", v->name, *v->question ? v->question : "the same in other words");
    for (int i = 0; i < sqlite3_column_count(x); i++)
        fprintf(f, " %s%s", sqlite3_column_name(x, i), i + 1 < sqlite3_column_count(x) ? "," : "");
    fputs("\n\n", f);
    sqlite3_finalize(x);
    sqlite3_free(sql);
}

void mt_sql_list(struct mt_sql *s, FILE *f)
{
    static const char *const types[] = {
        [MT_INTEGER] = "integer", [MT_REAL] = "real", [MT_TEXT] = "text", [MT_BOOLEAN] = "0 or 1"};
    for (int i = 0; i < MT_TABLES; i++) {
        const struct mt_relation *r = &mt_relations[i];
        if (i == MT_REL_ranges)
            continue;
        fprintf(f, "%s: %s\n", r->name, r->what);
        for (unsigned k = 0; k < r->n; k++)
            fprintf(f, "  %-20s %-8s %s%s%s\n", r->columns[k].name, types[r->columns[k].type],
                    r->columns[k].what, *r->columns[k].what && r->columns[k].presence == MT_MAYBE ? "; " : "",
                    r->columns[k].presence == MT_MAYBE ? "NULL: not known" : "");
        fputc('\n', f);
    }
    fputs("Views, ready answers:\n\n", f);
    for (size_t i = 0; i < VIEWS; i++)
        if (views[i].of != MT_OF_RANGES)
            sql_list_view(s, f, &views[i]);
}
