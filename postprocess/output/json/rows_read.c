/* Rows of tables out of a comm.json: the other way round of rows_json.c. */
#include "rows_read.h"
#include "analysis/base/pairmap.h"
#include "memtrace/grow.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- members by a pattern ---- */

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

/* What v, which may be NULL, holds under the word that the n bytes are. */
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

/* Decimal, "0x…", or, of signed ones, "-1". */
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

/* "x,y,z" */
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

/* ---- rows by the descriptions ---- */

/* What the column's `json` names, unless it is a key: a path from x->here, or from the value of a star. */
static const json_t *rows_read_value(const struct mt_found *x, const char *path)
{
    const char *mark = strpbrk(path, ":?");
    const json_t *v = mark ? x->at[*path - '0'] : x->here;
    for (path = mark ? mark + 1 : path; v && *path && strcmp(path, ".") != 0;) {
        const size_t n = strcspn(path, ".");
        v = rows_read_member(v, path, n);
        path += n + (path[n] == '.');
    }
    return json_is_null(v) ? NULL : v;
}

/* A key, or a text; *v: another value; NULL, both: there is none. */
static const char *rows_read_text(const struct mt_found *x, const struct mt_column *c, const json_t **v)
{
    *v = *c->json == '/' ? NULL : rows_read_value(x, c->json);
    const char *text = *c->json == '/' ? x->key[c->json[1] - '0'] : json_string_value(*v);
    return *c->json == '/' && !text ? "?" : text;
}

/* "#12 name" is of allocation 12. */
static void rows_read_allocation(struct mt_found *x, const struct mt_column *label)
{
    const json_t *v;
    const char *text = rows_read_text(x, label, &v);
    const int known = text && *text == '#';
    mt_tuples_maybe(x->arg, known, known ? strtoull(text + 1, NULL, 10) : 0);
}

static void rows_read_number(struct mt_found *x, const struct mt_column *c, const char *text, const json_t *v)
{
    uint64_t n = (uint64_t)json_integer_value(v);
    if (text ? rows_read_digits(text, &n) != 0 : v && !json_is_integer(v))
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
    case MT_BOOLEAN: /* said where it is so */
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

/* The column and those of the same name; the next one. */
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

/* Beside the objects of the innermost key there are members of the object that they are in ("2:uses"). */
static int rows_read_beside(const struct mt_found *x, const struct mt_relation *r)
{
    for (unsigned i = 0; i < r->n && x->depth && x->key[x->depth]; i++) {
        const char *mark = strpbrk(r->columns[i].json, ":?");
        if (mark && (unsigned)(mark[-1] - '0') + 1 == x->depth && strcmp(mark + 1, x->key[x->depth]) == 0)
            return 1;
    }
    return 0;
}

static int rows_read_row(struct mt_found *x)
{
    struct mt_tuples *w = x->arg;
    if (rows_read_beside(x, w->now))
        return 0;
    if (!json_is_object(x->here) && !json_is_array(x->here) &&
        strcmp(w->now->columns[w->now->n - 1].json, ".") != 0)
        return mt_found_wrong(x, x->key[x->depth] ? x->key[x->depth] : "*");
    for (unsigned i = 0; i < w->now->n;)
        i = rows_read_columns(x, w->now, i);
    if (x->failed)
        return -1;
    if (w->now->columns[0].presence != MT_KEY || !w->value[0].null)
        return mt_tuples_next(w);
    w->at = w->places = 0; /* what has no number is no row */
    return 0;
}

/* ---- launches ---- */

struct launch {
    uint64_t id;
    const char *kernel;
    const json_t *of[MT_SECTIONS];
};

struct launches {
    struct launch *list;
    size_t n, room;
    struct mt_pairmap index; /* (id, 0) -> place */
    int section;
    unsigned there; /* sections, a bit each */
};

static int rows_read_launch(struct mt_found *x)
{
    struct launches *l = x->arg;
    const uint64_t id = mt_found_key(x, 2);
    uint64_t *at = mt_pairmap_get(&l->index, id, 0, l->n);
    if (!at || mt_grow(&l->list, &l->room, l->n + 1, sizeof *l->list) != 0) {
        snprintf(x->why, 300, "out of memory");
        return -1;
    }
    if (*at == l->n)
        l->list[l->n++] = (struct launch){.id = id, .kernel = x->key[1]};
    struct launch *one = &l->list[*at];
    one->of[l->section] = x->here;
    return !x->failed && x->key[1] && strcmp(one->kernel, x->key[1]) == 0
               ? 0
               : mt_found_wrong(x, x->key[2] ? x->key[2] : "*");
}

/* Those that a section with a part for each launch names. */
static int rows_read_launches(struct launches *l, const json_t *root, char *why)
{
    const unsigned others = 1u << MT_HCV | 1u << MT_HDV | 1u << MT_TRANSFERS | 1u << MT_ADDRESSES;
    struct mt_found x = {.root = root, .arg = l, .why = why};
    int rc = 0;
    for (l->section = 0; l->section < MT_SECTIONS && rc == 0; l->section++) {
        char pattern[40];
        if (others >> l->section & 1 || !mt_found_section(mt_section_names[l->section], root))
            continue;
        snprintf(pattern, sizeof pattern, "%s/*/*", mt_section_names[l->section]);
        l->there |= 1u << l->section;
        rc = mt_found_each(&x, pattern, rows_read_launch);
    }
    mt_pairmap_free(&l->index);
    return rc;
}

/* The members' numbers; NULL: they are not there. */
static void rows_read_numbers(struct mt_found *x, const json_t *o, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_object_get(o, names[i]);
        if (o && !json_is_integer(v))
            mt_found_wrong(x, names[i]);
        mt_tuples_maybe(x->arg, o != NULL, (uint64_t)json_integer_value(v));
    }
}

static int rows_read_launches_row(struct mt_found *x, const struct launch *one)
{
    struct mt_tuples *w = x->arg;
    mt_tuples_number(w, one->id);
    mt_tuples_text(w, one->kernel);
    mt_tuples_null(w, w->now->n - 3);
    mt_tuples_number(w, 1); /* what filters leave out is not in the file */
    return mt_tuples_next(w);
}

static int rows_read_volumes_row(struct mt_found *x, const struct launch *one)
{
    static const char *const volume[] = {"Load", "Store"};
    const json_t *ctas = one->of[MT_CDV] ? one->of[MT_CDV] : one->of[MT_CCV];
    mt_tuples_number(x->arg, one->id);
    mt_tuples_text(x->arg, one->kernel);
    mt_tuples_maybe(x->arg, ctas != NULL, json_object_size(ctas));
    rows_read_numbers(x, one->of[MT_KDV], volume, 2);
    rows_read_numbers(x, one->of[MT_KCV], volume, 2);
    rows_read_numbers(x, one->of[MT_SENDERS], mt_sender_names, MT_SENDER_KINDS);
    return x->failed ? -1 : mt_tuples_next(x->arg);
}

/* launches, or launch_volumes */
static int rows_read_by_launch(struct mt_tuples *w, const json_t *root)
{
    struct mt_found x = {.root = root, .arg = w, .why = w->why, .pattern = "KDV"};
    struct launches l = {.there = 0};
    int rc = rows_read_launches(&l, root, w->why);
    for (size_t i = 0; i < l.n && rc == 0; i++)
        rc = (w->now == &mt_relations[MT_REL_launches] ? rows_read_launches_row
                                                       : rows_read_volumes_row)(&x, &l.list[i]);
    free(l.list);
    return rc;
}

/* ---- tables of other shapes ---- */

static int rows_read_run(struct mt_tuples *w, const json_t *root)
{
    struct mt_found x = {.root = root, .here = root, .arg = w, .why = w->why, .pattern = ""};
    const json_t *options = json_object_get(root, "options"), *host = json_object_get(root, "host_accesses"),
                 *misses = json_object_get(root, "misses"), *line = NULL;
    const char *same = json_string_value(json_object_get(options, "same-cta"));
    struct launches l = {.there = 0};
    const int rc = rows_read_launches(&l, root, w->why);
    const uint64_t all = mt_found_number(&x, "launches"), launches = l.there ? l.n : all;
    free(l.list);
    for (int i = 0; i < MT_LOCALITY_SECTIONS && !line; i++)
        line = json_object_get(json_object_get(root, mt_locality_names[i]), "line_size");
    mt_tuples_numbers(w,
                      MT_NUMBERS(misses || json_object_get(root, "bounces"), host != NULL,
                                 same && strcmp(same, "local") == 0,
                                 json_is_true(json_object_get(options, "strict")), launches < all, launches,
                                 all, mt_found_number(&x, "records"), (uint64_t)json_integer_value(host),
                                 json_object_get(root, "shared") != NULL, 0, INT64_MAX, 0));
    mt_tuples_maybe(w, json_is_integer(line), (uint64_t)json_integer_value(line));
    mt_tuples_maybe(w, misses != NULL, (uint64_t)json_integer_value(json_object_get(misses, "bytes")));
    return rc || x.failed ? -1 : mt_tuples_next(w);
}

/* By policy. */
static int rows_read_placement_row(struct mt_found *x)
{
    struct mt_tuples *w = x->arg;
    const json_t *distinct = json_object_get(x->here, "distinct");
    int rc = 0;
    for (int i = 0; i < MT_PLACE_POLICIES && rc == 0; i++) {
        const char *name = mt_placement_policies[i];
        mt_tuples_number(w, mt_found_key(x, 2));
        mt_tuples_text(w, x->key[1]);
        mt_tuples_text(w, name);
        mt_tuples_numbers(w, MT_NUMBERS(mt_found_number(x, "load"), mt_found_number(x, name)));
        rows_read_numbers(x, json_is_null(distinct) ? NULL : distinct, &name, 1);
        rc = x->failed ? -1 : mt_tuples_next(w);
    }
    return rc;
}

/* Sums of one pair of kernels: the first launch that reads, bytes, accesses, transfers. */
static int rows_read_sent(struct mt_found *x)
{
    const uint64_t add[] = {mt_found_number(x, "Size"), mt_found_number(x, "cnt"), 1};
    const uint64_t launch = mt_found_key(x, 6);
    if (!x->key[1] || !x->key[4] || x->failed)
        return mt_found_wrong(x, "*");
    json_t *of = json_object_get(x->arg, x->key[1]), *sum = json_object_get(of, x->key[4]);
    if (!of)
        json_object_set_new(x->arg, x->key[1], of = json_object());
    if (!sum)
        json_object_set_new(
            of, x->key[4],
            sum = json_pack("[IIII]", (json_int_t)launch, (json_int_t)0, (json_int_t)0, (json_int_t)0));
    if (!sum) {
        snprintf(x->why, 300, "out of memory");
        return -1;
    }
    json_t *first = json_array_get(sum, 0);
    if ((uint64_t)json_integer_value(first) > launch)
        json_integer_set(first, (json_int_t)launch);
    for (size_t i = 0; i < 3; i++) {
        json_t *n = json_array_get(sum, i + 1);
        json_integer_set(n, (json_int_t)((uint64_t)json_integer_value(n) + add[i]));
    }
    return 0;
}

static int rows_read_sends_row(struct mt_found *x)
{
    struct mt_tuples *w = x->arg;
    for (int i = 1; i <= 2; i++)
        mt_tuples_text(w, strcmp(x->key[i], MT_HOST_NAME) == 0 ? NULL : x->key[i]);
    mt_tuples_maybe(w, !w->value[1].null, (uint64_t)json_integer_value(json_array_get(x->here, 0)));
    for (size_t i = 1; i < 4; i++)
        mt_tuples_number(w, (uint64_t)json_integer_value(json_array_get(x->here, i)));
    return mt_tuples_next(w);
}

static int rows_read_sends(struct mt_tuples *w, const json_t *root)
{
    json_t *sums = json_object();
    struct mt_found x = {.root = root, .arg = sums, .why = w->why},
                    y = {.root = sums, .arg = w, .why = w->why};
    int rc = mt_found_each(&x, "transfers/*/*/*/*/*/*", rows_read_sent);
    rc = rc ? rc : mt_found_each(&y, "*/*", rows_read_sends_row);
    json_decref(sums);
    return rc;
}

/* ---- tables ---- */

static const struct {
    const char *pattern, *section; /* of the rows; what mt-extract calls it, NULL: as the pattern begins */
    int (*read)(struct mt_tuples *w, const json_t *root); /* NULL: by the descriptions, a row for each */
    int (*row)(struct mt_found *x);                       /* the same */
    int always; /* where the member is not there, there are no rows */
} tables[MT_TABLES] = {
    [MT_REL_launches] = {"KDV", .read = rows_read_by_launch},
    [MT_REL_launch_volumes] = {"KDV", .read = rows_read_by_launch},
    [MT_REL_run] = {"", .read = rows_read_run, .always = 1},
    [MT_REL_sends] = {"transfers", .read = rows_read_sends},
    [MT_REL_samples] = {"estimates/*", .always = 1},
    [MT_REL_apart] = {"apart/*", .always = 1},
    [MT_REL_lines] = {"lines/lines/*/*"},
    [MT_REL_variables] = {"lines/variables/*/*"},
    [MT_REL_buffers] = {"lines/allocations/*/*"},
    [MT_REL_coalescing] = {"coalescing/kernels/*/*/*"},
    [MT_REL_coalescing_sites] = {"coalescing/sites/*"},
    [MT_REL_lane_strides] = {"coalescing/kernels/*/*/*/strides/*"},
    [MT_REL_reuse] = {"reuse/kernels/*/*/*"},
    [MT_REL_reuse_distances] = {"reuse/kernels/*/*/*/histogram/*"},
    [MT_REL_footprint] = {"reuse"},
    [MT_REL_sharing] = {"sharing/kernels/*/*/allocations/*/*"},
    [MT_REL_shared_lines] = {"sharing/kernels/*/*/top/*"},
    [MT_REL_conflicts] = {"conflicts/*/*/*"},
    [MT_REL_devices] = {"devices/*"},
    [MT_REL_links] = {"links/*", "devices"},
    [MT_REL_bounces] = {"bounces/*"},
    [MT_REL_misses] = {"misses/lines/*"},
    [MT_REL_traffic] = {"traffic/allocations/*/launches/*"},
    [MT_REL_allocations] = {"traffic/allocations/*"},
    [MT_REL_placement] = {"placement/kernels/*/*", .row = rows_read_placement_row},
    [MT_REL_placement_ctas] = {"placement/assignment/*/*/*"},
    [MT_REL_placed] = {"placement"},
};

static int rows_read_there(enum mt_relation_number number, const json_t *root)
{
    if (tables[number].read != rows_read_by_launch)
        return tables[number].pattern &&
               (tables[number].always || mt_found_section(tables[number].pattern, root));
    for (int s = MT_KCV; s <= MT_SENDERS; s++)
        if ((s <= MT_SDV || s == MT_SENDERS) && mt_found_section(mt_section_names[s], root))
            return 1;
    return 0;
}

int mt_rows_read(struct mt_tuples *w, enum mt_relation_number number, const json_t *root)
{
    struct mt_found x = {.root = root, .arg = w, .why = w->why};
    if (!rows_read_there(number, root))
        return 0;
    int rc = mt_tuples_begin(w, number);
    if (rc == 0 && tables[number].read)
        rc = tables[number].read(w, root);
    else if (rc == 0)
        rc = mt_found_each(&x, tables[number].pattern,
                           tables[number].row ? tables[number].row : rows_read_row);
    return rc == 0 && mt_tuples_end(w) == 0 ? 1 : -1;
}

void mt_rows_missing(enum mt_relation_number number, const json_t *root, char *why, size_t room)
{
    const char *name = mt_relations[number].name, *pattern = tables[number].pattern,
               *section = tables[number].section;
    const int n = (int)strcspn(pattern ? pattern : "", "/");
    if (!pattern)
        snprintf(why, room, "no comm.json has the table %s: the trace has it", name);
    else if (rows_read_member(root, pattern, (size_t)n))
        snprintf(why, room, "the table %s is not known: the trace did not have what it takes", name);
    else
        snprintf(why, room,
                 "the table %s is not in it: memtrace extract --sections=%.*s writes it, where there is any",
                 name, section ? (int)strlen(section) : n, section ? section : pattern);
}
