/* Rows of a table in comm.json: objects and arrays by the words of its path, in the innermost one
 * the columns, as their `json` says. */
#include "results.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 9 };

struct rows {
    struct mt_json *j;
    struct mt_tuples t; /* has a row, if it is `there` */
    struct mt_rowset x;
    size_t i; /* the one after it */
    int there, failed;
    unsigned n, base, open; /* words; those that somebody else opened, and all that are */
    struct word {
        const char *text;
        unsigned star; /* which one; 0: it is none */
        int column;    /* that is its key; -1: it stands for elements of an array */
        int flat;
        char *key; /* of the row before */
    } word[WORDS];
    struct rows
        *beside; /* rows of another table in the same objects, whose first `common` words are the same */
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

/* Of the columns of one name from the i-th on: "file:line", "x,y,z"; NULL: not known. */
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
            snprintf(room + n, MT_TUPLES_FILE - n, "%s", v[k].text); /* a file of mt_tuples_place */
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

/* The column's name in the object of that star; NULL: it is not there. */
static const char *rows_name(const struct mt_column *c, unsigned star, int last)
{
    const char *mark = strpbrk(c->json, ":?");
    if (!*c->json || *c->json == '/' || strcmp(c->json, ".") == 0)
        return NULL;
    return mark ? (unsigned)(*c->json - '0') == star ? mark + 1 : NULL : last ? c->json : NULL;
}

/* Was what the n bytes of a name are written by a column before the i-th? */
static int rows_earlier(const struct rows *w, unsigned i, const char *name, size_t n, unsigned star, int last)
{
    for (unsigned k = 0; k < i; k++) {
        const char *other = rows_name(&w->t.now->columns[k], star, last);
        if (other && strncmp(other, name, n) == 0)
            return 1;
    }
    return 0;
}

/* Those whose names begin with n bytes, in the object of that star; `last`: what has no star is there. Lists
 * come after the others. */
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

/* NULL: an element of an array. */
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

/* What the k-th word stands for. */
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

/* Is the row of b in the object that is w's innermost one? */
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

/* 0, or -1 without memory. */
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
