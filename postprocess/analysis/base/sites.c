/* Source locations of device code. */
#define _GNU_SOURCE
#include "sites.h"
#include "memtrace/grow.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SITES = 1 << 26 }; /* maximum site id, so that a table by id stays small */

int64_t mt_names_number(struct mt_names *n, const char *name)
{
    uint64_t *number, key = mt_hash_text(name);
    while ((number = mt_hash_at(&n->numbers, key)) && *number && strcmp(n->names[*number - 1], name) != 0)
        key++;
    if (!number || (!*number && (mt_grow(&n->names, &n->room, n->count + 1, sizeof *n->names) != 0 ||
                                 !(n->names[n->count] = strdup(name)))))
        return -1;
    if (!*number)
        *number = ++n->count;
    return (int64_t)*number - 1;
}

void mt_names_free(struct mt_names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->names[i]);
    free(n->names);
    mt_hash_free(&n->numbers);
    memset(n, 0, sizeof *n);
}

int mt_sites_init(struct mt_sites *s)
{
    memset(s, 0, sizeof *s);
    if (mt_names_number(&s->lines, "?") == 0 && mt_names_number(&s->vars, "?") == 0 &&
        mt_names_number(&s->place_names, "?") == 0 &&
        mt_grow(&s->places, &s->places_room, 1, sizeof *s->places) == 0) {
        s->places[0] = (struct mt_site_location){0};
        return 0;
    }
    mt_sites_free(s);
    return -1;
}

void mt_sites_free(struct mt_sites *s)
{
    mt_names_free(&s->lines);
    mt_names_free(&s->vars);
    mt_names_free(&s->place_names);
    free(s->places);
    s->places = NULL;
    s->places_room = 0;
}

/* Returns the number of a place, 0 if nothing is known of it, or -1 without memory. */
static int64_t base_sites_location(struct mt_sites *s, struct mt_site_location place)
{
    char name[64];
    const size_t before = s->place_names.count;
    if (!place.line && !place.var)
        return 0;
    snprintf(name, sizeof name, "%" PRIu32 " %" PRIu64 " %" PRIu32, place.line, place.column, place.var);
    if (mt_grow(&s->places, &s->places_room, before + 1, sizeof *s->places) != 0)
        return -1;
    int64_t number = mt_names_number(&s->place_names, name);
    if (number > 0)
        s->places[number] = place;
    return number;
}

static int sites_enter(struct mt_sites *s, struct mt_site_table *t, const struct mt_site_event *e)
{
    char name[4200];
    int64_t line = 0, var = 0;
    if (e->id >= t->count)
        return 0;
    if (mt_site_words(e, name, sizeof name))
        line = mt_names_number(&s->lines, name);
    if (*e->var)
        var = mt_names_number(&s->vars, e->var);
    if (line < 0 || var < 0)
        return -1;
    int64_t place =
        base_sites_location(s, (struct mt_site_location){(uint32_t)line, (uint32_t)var, e->column});
    if (place < 0)
        return -1;
    t->place[e->id] = (uint32_t)place;
    t->line[e->id] = (uint32_t)line;
    t->var[e->id] = (uint32_t)var;
    t->strong[e->id] =
        (uint8_t)((e->strong != 0) | (e->runtime != 0) << 1 | (e->scope & 7u) << 2 | (e->order & 7u) << 5);
    return 0;
}

int mt_sites_table(struct mt_sites *s, struct mt_site_table *t, const struct mt_site_event *sites, size_t n)
{
    size_t i = 0;
    memset(t, 0, sizeof *t);
    for (size_t k = 0; k < n; k++)
        if (sites[k].id < MOST_SITES && sites[k].id >= t->count)
            t->count = sites[k].id + 1;
    t->line = calloc(t->count + 1, sizeof *t->line);
    t->var = calloc(t->count + 1, sizeof *t->var);
    t->place = calloc(t->count + 1, sizeof *t->place);
    t->strong = calloc(t->count + 1, sizeof *t->strong);
    while (t->line && t->var && t->place && t->strong && i < n && sites_enter(s, t, &sites[i]) == 0)
        i++;
    if (t->line && t->var && t->place && t->strong && i == n)
        return 0;
    mt_site_table_free(t);
    return -1;
}

void mt_site_table_free(struct mt_site_table *t)
{
    free(t->line);
    free(t->var);
    free(t->place);
    free(t->strong);
    memset(t, 0, sizeof *t);
}
