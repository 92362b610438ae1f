/* Rows of a table in comm.json. */
#include "rows_json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTHS = 9 };

struct writing {
    struct mt_json *j;
    const struct mt_rowset *x;
    size_t i; /* the row under way */
    void (*more)(struct mt_json *, void *, const struct mt_rowset *, size_t);
    void *arg;
    unsigned open;         /* objects that are */
    char *key[DEPTHS + 1]; /* by depth, those of the row before */
};

/* The depth of the objects that the column is a key of; 0: it is a member. */
static unsigned rows_json_key(const struct mt_column *c)
{
    return c->json[0] == '/' ? (unsigned)(c->json[1] - '0') : 0;
}

static int rows_json_same(const struct mt_relation *r, unsigned i, unsigned k)
{
    return k < r->n && strcmp(r->columns[i].json, r->columns[k].json) == 0;
}

/* Of the columns of one name from the i-th on: "file:line", "x,y,z"; NULL: not known. */
static const char *rows_json_text(char room[MT_TUPLES_FILE + 64], const struct mt_relation *r,
                                  const struct mt_value *v, unsigned i)
{
    size_t n = 0;
    if (v[i].null || (r->columns[i].type == MT_TEXT && !rows_json_same(r, i, i + 1)))
        return v[i].null ? NULL : v[i].text;
    for (unsigned k = i; rows_json_same(r, i, k) && !v[k].null; k++) {
        if (k > i)
            room[n++] = r->columns[k - 1].type == MT_TEXT ? ':' : ',';
        if (r->columns[k].type == MT_TEXT)
            snprintf(room + n, MT_TUPLES_FILE - n, "%s", v[k].text); /* a file of mt_tuples_place */
        else
            mt_key_u64(room + n, (uint64_t)v[k].number);
        n += strlen(room + n);
    }
    return room;
}

static void rows_json_member(struct mt_json *j, const struct mt_relation *r, const struct mt_value *v,
                             unsigned i, const char *name)
{
    char room[MT_TUPLES_FILE + 64];
    enum mt_value_type type = r->columns[i].type;
    if (v[i].null || type == MT_TEXT || rows_json_same(r, i, i + 1))
        mt_json_text(j, name, rows_json_text(room, r, v, i));
    else if (type == MT_REAL)
        mt_json_real(j, name, v[i].real);
    else if (type == MT_BOOLEAN)
        mt_json_bool(j, name, v[i].number != 0);
    else
        mt_json_i64(j, name, v[i].number);
}

/* Those of the object of that depth; `last`: what has no depth is here. */
static void rows_json_members(struct mt_json *j, const struct mt_relation *r, const struct mt_value *v,
                              unsigned depth, int last)
{
    for (unsigned i = 0; i < r->n; i++) {
        const char *name = r->columns[i].json, *mark = strpbrk(name, ":?");
        if (!*name || rows_json_key(&r->columns[i]) || (i && rows_json_same(r, i - 1, i)) ||
            (mark ? (unsigned)(*name - '0') != depth : !last) || (mark && *mark == '?' && v[i].null))
            continue;
        rows_json_member(j, r, v, i, mark ? mark + 1 : name);
    }
}

/* Ends all objects that are deeper. */
static void rows_json_close(struct writing *w, unsigned depth)
{
    for (; w->open > depth; w->open--) {
        mt_json_end(w->j);
        free(w->key[w->open]);
    }
}

/* Opens the row's object of that depth, if it is another one than before. 0, or -1 without memory. */
static int rows_json_open(struct writing *w, const struct mt_relation *r, const struct mt_value *v,
                          unsigned depth, int last)
{
    char room[MT_TUPLES_FILE + 64];
    unsigned i = 0;
    while (rows_json_key(&r->columns[i]) != depth)
        i++;
    const char *key = rows_json_text(room, r, v, i);
    key = key ? key : "?";
    if (depth <= w->open && !last && strcmp(key, w->key[depth]) == 0)
        return 0;
    rows_json_close(w, depth - 1);
    if (!(w->key[depth] = strdup(key)))
        return -1;
    w->open = depth;
    mt_json_object(w->j, key, last);
    rows_json_members(w->j, r, v, depth, last);
    return 0;
}

static int rows_json_row(void *arg, const struct mt_relation *r, const struct mt_value *v, char *why)
{
    struct writing *w = arg;
    unsigned depths = 0;
    int rc = 0;
    (void)why;
    for (unsigned i = 0; i < r->n; i++)
        depths = rows_json_key(&r->columns[i]) > depths ? rows_json_key(&r->columns[i]) : depths;
    for (unsigned d = 1; rc == 0 && d <= depths; d++)
        rc = rows_json_open(w, r, v, d, d == depths);
    if (!depths) {
        mt_json_object(w->j, NULL, 1);
        rows_json_members(w->j, r, v, 0, 1);
    }
    if (w->more && rc == 0)
        w->more(w->j, w->arg, w->x, w->i);
    if (!depths)
        mt_json_end(w->j);
    return rc;
}

int mt_relation_json(struct mt_json *j, enum mt_relation_number number, mt_rows_of *of,
                     const struct mt_comm_result *r,
                     void (*more)(struct mt_json *, void *, const struct mt_rowset *, size_t), void *arg)
{
    static const struct mt_tuples_ops ops = {.row = rows_json_row};
    struct mt_rowset x = {.r = r};
    struct writing w = {.j = j, .x = &x, .more = more, .arg = arg};
    struct mt_tuples t = {.ops = &ops, .arg = &w};
    int rc = of(&x);
    if (rc != 0)
        return rc;
    for (mt_tuples_begin(&t, number); w.i < x.n && rc == 0; w.i++) {
        x.row(&t, &x, w.i);
        rc = t.at ? mt_tuples_next(&t) : 0;
    }
    rows_json_close(&w, 0);
    mt_rows_end(&x);
    return rc;
}

/* ---- launches ---- */

/* The sections with a part per launch: reuse, sharing, placement. */
int mt_keys_launch(struct mt_json *j, struct mt_keys *k, const char *kernel, uint64_t superstep, int below)
{
    int same = k->kernel && mt_locality_compare_text(k->kernel, kernel) == 0;
    if (same && k->superstep == superstep)
        return 0;
    if (k->below)
        mt_json_end(j);
    if (!same) {
        if (k->kernel)
            mt_json_end(j);
        mt_json_object(j, kernel, 0);
    }
    *k = (struct mt_keys){.kernel = kernel, .superstep = superstep, .below = below};
    mt_key_u64(k->step, superstep);
    return 1;
}

void mt_keys_end(struct mt_json *j, struct mt_keys *k)
{
    if (k->below)
        mt_json_end(j);
    if (k->kernel)
        mt_json_end(j);
    k->kernel = NULL;
    k->below = 0;
}
