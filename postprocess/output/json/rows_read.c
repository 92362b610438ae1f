/* Reads table rows back from a comm.json, as results.c wrote them. */
#include "rows_read.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- members that match a pattern ---- */

int mt_found_wrong(struct mt_found *x, const char *member)
{
    const int n = (int)strcspn(x->pattern, "/");
    if (!x->failed)
        snprintf(x->why, 300, "'%.100s'%s%.*s%s is not as mt-extract writes it", member, n ? " in '" : "", n,
                 x->pattern, n ? "'" : "");
    x->failed = 1;
    return -1;
}

static int rows_read_walk(struct mt_found *x, const char *rest, const json_t *v,
                          int (*f)(struct mt_found *x));

static int rows_read_star(struct mt_found *x, const char *rest, const json_t *v, int (*f)(struct mt_found *x))
{
    const char *key = x->key[x->depth] ? x->key[x->depth] : "*";
    json_t *below;
    size_t i;
    int rc = 0;
    if (!json_is_object(v) && !json_is_array(v))
        return mt_found_wrong(x, key);
    const unsigned star = ++x->depth;
    x->key[star] = NULL;
    json_object_foreach((json_t *)(uintptr_t)v, key, below)
    {
        x->key[star] = key;
        if ((rc = rows_read_walk(x, rest, x->at[star] = below, f)) != 0)
            break;
    }
    json_array_foreach(v, i, below)
    {
        if ((rc = rows_read_walk(x, rest, x->at[star] = below, f)) != 0)
            break;
    }
    x->depth = star - 1;
    return rc;
}

/* Returns the member of v (or NULL) whose name is the first n bytes of `word`. */
static const json_t *rows_read_member(const json_t *v, const char *word, size_t n)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    return json_is_array(v) ? json_array_get(v, strtoul(name, NULL, 10)) : json_object_get(v, name);
}

static int rows_read_walk(struct mt_found *x, const char *rest, const json_t *v, int (*f)(struct mt_found *x))
{
    const size_t n = strcspn(rest, "/");
    const char *next = rest + n + (rest[n] == '/');
    x->here = v;
    if (!n)
        return f(x);
    if (*rest == '*')
        return rows_read_star(x, next, v, f);
    const json_t *below = rows_read_member(v, rest, n);
    return !below || json_is_null(below) ? 0 : rows_read_walk(x, next, below, f);
}

int mt_found_each(struct mt_found *x, const char *pattern, int (*f)(struct mt_found *x))
{
    x->pattern = pattern;
    x->depth = 0;
    x->at[0] = x->root;
    return rows_read_walk(x, pattern, x->root, f);
}

const json_t *mt_found_section(const char *pattern, const json_t *root)
{
    while (*pattern && *pattern != '*' && root) {
        const size_t n = strcspn(pattern, "/");
        root = rows_read_member(root, pattern, n);
        pattern += n + (pattern[n] == '/');
    }
    return json_is_null(root) ? NULL : root;
}

/* ---- numbers ---- */

/* Parses "12", "0x…" or, for signed columns, "-1". */
static int rows_read_digits(const char *text, uint64_t *out)
{
    char *end;
    const int hex = text[0] == '0' && text[1] == 'x', minus = *text == '-';
    errno = 0;
    *out = strtoull(text, &end, hex ? 16 : 10);
    const char first = text[minus ? 1 : hex ? 2 : 0];
    return errno || *end || (!hex && (first < '0' || first > '9')) || !first ? -1 : 0;
}

uint64_t mt_found_key(struct mt_found *x, unsigned star)
{
    uint64_t n = 0;
    const char *key = x->key[star] ? x->key[star] : "";
    if (rows_read_digits(key, &n) != 0)
        mt_found_wrong(x, key);
    return n;
}

/* Parses "x,y,z". */
static void rows_read_three(struct mt_found *x, const char *text, uint64_t out[3])
{
    unsigned long long n[3] = {0};
    int used = 0;
    if (sscanf(text, "%10llu,%10llu,%10llu%n", &n[0], &n[1], &n[2], &used) != 3 || text[used] ||
        n[0] > UINT32_MAX || n[1] > 0xffff || n[2] > 0xffff)
        mt_found_wrong(x, text);
    for (int i = 0; i < 3; i++)
        out[i] = n[i];
}

uint64_t mt_found_cta(struct mt_found *x, unsigned star)
{
    uint64_t n[3];
    rows_read_three(x, x->key[star] ? x->key[star] : "", n);
    return n[2] << 48 | n[1] << 32 | n[0];
}

uint64_t mt_found_number(struct mt_found *x, const char *member)
{
    const json_t *v = json_object_get(x->here, member);
    if (!json_is_integer(v) && (v || x->depth))
        mt_found_wrong(x, member);
    return (uint64_t)json_integer_value(v);
}

/* ---- rows, from the columns' descriptions ---- */

static const char *rows_read_key(const struct mt_found *x, char star)
{
    const char *key = x->key[star - '0'];
    return key ? key : "?";
}

/* Returns the value at a column's `json` path, from x->here or from a star's value. For columns that are not
 * keys. */
static const json_t *rows_read_value(const struct mt_found *x, const char *path)
{
    const char *mark = strpbrk(path, ":?");
    const json_t *v = mark ? x->at[*path - '0'] : x->here;
    for (path = mark ? mark + 1 : path; v && *path && !strchr(".#", *path);) {
        const size_t n = strcspn(path, ".");
        v = *path == '$' ? json_object_get(v, rows_read_key(x, path[1])) : rows_read_member(v, path, n);
        path += n + (path[n] == '.');
    }
    return json_is_null(v) ? NULL : v;
}

/* Returns a column's text: a key, or a string value. For another type *v is the value; if there is none both
 * are NULL. */
static const char *rows_read_text(const struct mt_found *x, const struct mt_column *c, const json_t **v)
{
    *v = *c->json == '/' ? NULL : rows_read_value(x, c->json);
    return *c->json == '/' ? rows_read_key(x, c->json[1]) : json_string_value(*v);
}

/* Splits "#12 name" into allocation 12 and its name. */
static void rows_read_allocation(struct mt_found *x, const struct mt_column *label)
{
    const json_t *v;
    const char *text = rows_read_text(x, label, &v);
    const int known = text && *text == '#';
    mt_tuples_maybe(x->arg, known, known ? strtoull(text + 1, NULL, 10) : 0);
}

static void rows_read_number(struct mt_found *x, const struct mt_column *c, const char *text, const json_t *v)
{
    const int many = strchr(c->json, '#') != NULL,
              bad = text && *c->json != '/' && strncmp(text, "0x", 2) != 0;
    uint64_t n = many ? json_object_size(v) : (uint64_t)json_integer_value(v);
    if (text ? bad || rows_read_digits(text, &n) != 0 : v && !many && !json_is_integer(v))
        mt_found_wrong(x, text ? text : c->json);
    mt_tuples_maybe(x->arg, text || v, n);
}

static void rows_read_one(struct mt_found *x, const struct mt_column *c)
{
    struct mt_tuples *w = x->arg;
    const json_t *v;
    const char *text = rows_read_text(x, c, &v);
    const int key = *c->json == '/';
    switch (c->type) {
    case MT_INTEGER:
        rows_read_number(x, c, text, v);
        break;
    case MT_TEXT:
        if (v && !text)
            mt_found_wrong(x, c->json);
        mt_tuples_text(w, !text && c->presence != MT_MAYBE                           ? "?"
                          : key && c->presence == MT_MAYBE && strcmp(text, "?") == 0 ? NULL
                                                                                     : text);
        break;
    case MT_BOOLEAN: /* false values are omitted in the file */
        if (v && !json_is_boolean(v))
            mt_found_wrong(x, c->json);
        mt_tuples_number(w, json_is_true(v));
        break;
    default:
        if (v && !json_is_number(v))
            mt_found_wrong(x, c->json);
        if (v)
            mt_tuples_real(w, json_number_value(v));
        else
            mt_tuples_null(w, 1);
    }
}

/* Reads a column and the following ones of the same name; returns the next column. */
static unsigned rows_read_columns(struct mt_found *x, const struct mt_relation *r, unsigned i)
{
    struct mt_tuples *w = x->arg;
    const struct mt_column *c = &r->columns[i];
    const json_t *v;
    uint64_t n[3];
    if (i + 1 == r->n || !*c->json || strcmp(c->json, c[1].json) != 0) {
        if (*c->json)
            rows_read_one(x, c);
        else if (c->refers == MT_REL_allocations)
            rows_read_allocation(x, c + 1);
        else if (c->type == MT_BOOLEAN) /* a filtered launch is missing in the file */
            mt_tuples_number(w, 1);
        else
            mt_tuples_null(w, 1);
        return i + 1;
    }
    const char *text = rows_read_text(x, c, &v);
    if (v && !text)
        mt_found_wrong(x, c->json);
    if (c->type == MT_TEXT) {
        mt_tuples_place(w, text ? text : "?");
        return i + 2;
    }
    rows_read_three(x, text ? text : "", n);
    mt_tuples_numbers(w, 3, n);
    return i + 3;
}

/* Returns 1 if the key belongs to the enclosing object, whose members are next to the innermost objects
 * ("2:uses"). */
static int rows_read_beside(const struct mt_found *x, const struct mt_relation *r)
{
    for (unsigned i = 0; i < r->n && x->depth && x->key[x->depth]; i++) {
        const char *mark = strpbrk(r->columns[i].json, ":?");
        const size_t n = strlen(x->key[x->depth]);
        if (mark && (unsigned)(mark[-1] - '0') + 1 == x->depth &&
            strncmp(mark + 1, x->key[x->depth], n) == 0 && strchr(".", mark[1 + n]))
            return 1;
    }
    return 0;
}

/* Returns 1 if the value can be a row: an object, or a plain value in tables of values. */
static int rows_read_fits(const struct mt_found *x, const struct mt_relation *r)
{
    int value = 0;
    for (unsigned i = 0; i < r->n; i++)
        value |= strcmp(r->columns[i].json, ".") == 0;
    return value || json_is_object(x->here) || json_is_array(x->here);
}

static int rows_read_row(struct mt_found *x)
{
    struct mt_tuples *w = x->arg;
    if (rows_read_beside(x, w->now))
        return 0;
    if (!rows_read_fits(x, w->now))
        return mt_found_wrong(x, x->depth ? rows_read_key(x, (char)('0' + x->depth)) : "*");
    for (unsigned i = 0; i < w->now->n;)
        i = rows_read_columns(x, w->now, i);
    if (x->failed)
        return -1;
    if (w->now->columns[0].presence != MT_KEY || !w->value[0].null)
        return mt_tuples_next(w);
    w->at = w->places = 0; /* an entry without a number is no row */
    return 0;
}

/* ---- tables ---- */

/* Tables whose section differs from the path of their rows: a table exists if `section` does. */
static const struct {
    const char *section;
    int always; /* 1: the table exists without rows */
} tables[MT_TABLES] = {
    [MT_REL_launches] = {"KDV"},      [MT_REL_launch_volumes] = {"KDV"},
    [MT_REL_samples] = {.always = 1}, [MT_REL_sampled_launches] = {.always = 1},
    [MT_REL_apart] = {.always = 1},   [MT_REL_links] = {"devices"},
    [MT_REL_machines] = {"devices"},
};

/* Returns the pattern of a table's rows, or NULL if its section is missing. */
static const char *rows_read_pattern(enum mt_relation_number number, const json_t *root)
{
    static const char *const launches[] = {"KDV/*/*", "KCV/*/*", "CDV/*/*",    "CCV/*/*",
                                           "SDV/*/*", "SCV/*/*", "senders/*/*"};
    const char *path = mt_relations[number].path,
               *section = tables[number].section ? tables[number].section : path;
    for (size_t i = 0; strcmp(path, "*") == 0 && i < sizeof launches / sizeof *launches; i++)
        if (mt_found_section(launches[i], root))
            return launches[i];
    return *path && (tables[number].always || mt_found_section(section, root)) ? path : NULL;
}

static int rows_read_count(struct mt_found *x)
{
    ++*(uint64_t *)x->arg;
    return 0;
}

static int rows_read_run(struct mt_tuples *w, const json_t *root)
{
    const json_t *options = json_object_get(root, "options"), *host = json_object_get(root, "host_accesses"),
                 *misses = json_object_get(root, "misses"), *line = NULL;
    const char *same = json_string_value(json_object_get(options, "same-cta")),
               *each = rows_read_pattern(MT_REL_launches, root);
    uint64_t launches = 0;
    struct mt_found x = {.root = root, .here = root, .arg = &launches, .why = w->why, .pattern = ""};
    const uint64_t all = mt_found_number(&x, "launches"), records = mt_found_number(&x, "records");
    if (x.failed || (each && mt_found_each(&x, each, rows_read_count) != 0))
        return -1;
    for (int i = 0; i < MT_LOCALITY_SECTIONS && !line; i++)
        line = json_object_get(json_object_get(root, mt_locality_names[i]), "line_size");
    launches = each ? launches : all;
    mt_tuples_numbers(w, MT_NUMBERS(misses || json_object_get(root, "bounces"), host != NULL,
                                    same && strcmp(same, "local") == 0,
                                    json_is_true(json_object_get(options, "strict")), launches < all,
                                    launches, all, records, (uint64_t)json_integer_value(host),
                                    json_object_get(root, "shared") != NULL));
    mt_tuples_null(w, 3);
    const json_t *coalescing = json_object_get(root, "coalescing");
    mt_tuples_number(w, !records && json_object_size(json_object_get(coalescing, "kernels")));
    mt_tuples_maybe(w, json_is_integer(line), (uint64_t)json_integer_value(line));
    mt_tuples_maybe(w, misses != NULL, (uint64_t)json_integer_value(json_object_get(misses, "bytes")));
    return mt_tuples_next(w);
}

int mt_rows_read(struct mt_tuples *w, enum mt_relation_number number, const json_t *root)
{
    struct mt_found x = {.root = root, .arg = w, .why = w->why};
    const char *pattern = number == MT_REL_run ? "" : rows_read_pattern(number, root);
    if (!pattern)
        return 0;
    int rc = mt_tuples_begin(w, number);
    if (rc == 0)
        rc = *pattern ? mt_found_each(&x, pattern, rows_read_row) : rows_read_run(w, root);
    return rc == 0 && mt_tuples_end(w) == 0 ? 1 : -1;
}

void mt_rows_missing(enum mt_relation_number number, const json_t *root, char *why, size_t room)
{
    const char *name = mt_relations[number].name,
               *section = tables[number].section ? tables[number].section : mt_relations[number].path;
    const int n = (int)strcspn(section, "/");
    if (!*section || (!root && number >= MT_RELATIONS))
        snprintf(why, room, "only the trace has the table %s", name);
    else if (rows_read_member(root, section, (size_t)n))
        snprintf(why, room, "the table %s is not known: the trace did not have what it takes", name);
    else
        snprintf(why, room,
                 "the table %s is not in it: memtrace extract --sections=%.*s writes it, where there is any",
                 name, n, section);
}
