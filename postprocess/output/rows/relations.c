/* The tables' descriptions, and rows on their way to a writer. */
#define _GNU_SOURCE
#include "relations.h"
#include "analysis/base/sites.h"
#include "csv.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An array of columns for each table: a table's row ends the array before it. */
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

/* The next value, empty; beyond the last column it goes nowhere, and mt_tuples_next says so. */
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

int mt_tuples_memory(struct mt_tuples *w)
{
    snprintf(w->why, sizeof w->why, "out of memory");
    return -1;
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
    (void)why;
    for (unsigned i = 0; i < r->n; i++)
        fprintf(arg, "%s%s", i ? "," : "", r->columns[i].name);
    fputc('\n', arg);
    return 0;
}

static int relations_csv_row(void *arg, const struct mt_relation *r, const struct mt_value *v, char *why)
{
    (void)why;
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
