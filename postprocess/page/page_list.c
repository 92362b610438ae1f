/* Lists in the page's data. */
#include "page_list.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *columns;
} lists[MT_PAGE_LISTS] = {
#define MT_LIST(name, columns) {#name, columns},
#include "page.def"
};

#define MT_LIST(name, columns)                                                                               \
    _Static_assert(sizeof columns <= sizeof((struct mt_page_rows *)NULL)->names, #name);
#include "page.def"

/* ---- rows ---- */

static void page_list_array(struct mt_json *j, unsigned n, const struct mt_value *v)
{
    mt_json_array(j, NULL, 1);
    for (unsigned i = 0; i < n; i++)
        if (v[i].null || v[i].text)
            mt_json_text(j, NULL, v[i].null ? NULL : v[i].text);
        else
            mt_json_i64(j, NULL, v[i].number);
    mt_json_end(j);
}

/* ---- packs ---- */

static int page_list_put(struct mt_page_rows *to, uint64_t v)
{
    if (mt_grow(&to->bytes, &to->room, to->n + 10, 1) != 0)
        return -1;
    for (; v > 127; v >>= 7)
        to->bytes[to->n++] = (unsigned char)(v | 128);
    to->bytes[to->n++] = (unsigned char)v;
    return 0;
}

/* The group under way: its keys, how many rows, and these. */
static int page_list_flush(struct mt_page_rows *to)
{
    unsigned width = to->list.n - to->keys;
    int rc = 0;
    if (!to->ngroup)
        return 0;
    for (unsigned i = 0; rc == 0 && i < to->keys; i++)
        rc = page_list_put(to, to->key[i]);
    if (rc == 0)
        rc = page_list_put(to, to->ngroup / width);
    for (size_t i = 0; rc == 0 && i < to->ngroup; i++)
        rc = page_list_put(to, to->group[i] - (i % width || !i ? 0 : to->group[i - width]));
    to->ngroup = 0;
    return rc;
}

static int page_list_packed(struct mt_page_rows *to, const struct mt_value *v)
{
    const unsigned keys = to->keys, n = to->list.n;
    int same = to->ngroup != 0;
    for (unsigned i = 0; i < keys; i++)
        same &= to->key[i] == (uint64_t)v[i].number;
    if (!same && page_list_flush(to) != 0)
        return -1;
    if (mt_grow(&to->group, &to->group_room, to->ngroup + n, sizeof *to->group) != 0)
        return -1;
    for (unsigned i = 0; i < n; i++)
        *(i < keys ? &to->key[i] : &to->group[to->ngroup++]) = (uint64_t)v[i].number;
    to->count++;
    return 0;
}

static int page_list_base64(const struct mt_page_rows *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((to->n + 2) / 3 * 4 + 1);
    size_t out = 0;
    for (size_t i = 0; text && i < to->n; i += 3) {
        size_t left = to->n - i;
        uint32_t v = (uint32_t)to->bytes[i] << 16 | (left > 1 ? (uint32_t)to->bytes[i + 1] << 8 : 0) |
                     (left > 2 ? to->bytes[i + 2] : 0);
        text[out++] = digits[v >> 18];
        text[out++] = digits[v >> 12 & 63];
        text[out++] = left > 1 ? digits[v >> 6 & 63] : '=';
        text[out++] = left > 2 ? digits[v & 63] : '=';
    }
    if (!text)
        return -1;
    text[out] = 0;
    mt_json_text(to->j, "data", text);
    free(text);
    return 0;
}

/* ---- both ---- */

static int page_list_row(void *arg, const struct mt_relation *r, const struct mt_value *v, char *why)
{
    struct mt_page_rows *to = arg;
    (void)why;
    if (to->keys)
        return page_list_packed(to, v);
    page_list_array(to->j, r->n, v);
    return 0;
}

/* The names of its columns. */
static void page_list_columns(struct mt_page_rows *p, const char *key, enum mt_page_list list)
{
    snprintf(p->names, sizeof p->names, "%s", lists[list].columns);
    mt_json_array(p->j, key, 1);
    for (char *save, *name = strtok_r(p->names, " ", &save); name; name = strtok_r(NULL, " ", &save))
        if (*name == '|') {
            p->keys = p->list.n;
        } else if (p->list.n < MT_RELATION_COLUMNS) {
            p->columns[p->list.n++].name = name;
            mt_json_text(p->j, NULL, name);
        }
    mt_json_end(p->j);
}

void mt_page_begin(struct mt_page_rows *p, struct mt_json *j, enum mt_page_list list)
{
    static const struct mt_tuples_ops ops = {.row = page_list_row};
    *p = (struct mt_page_rows){.w = {.ops = &ops, .arg = p, .now = &p->list},
                               .list = {.name = lists[list].name, .columns = p->columns},
                               .j = j};
    mt_json_object(j, lists[list].name, strchr(lists[list].columns, '|') != NULL);
    page_list_columns(p, "columns", list);
    if (!p->keys)
        mt_json_array(j, "rows", 0);
}

void mt_page_row(struct mt_page_rows *p)
{
    p->failed |= mt_tuples_next(&p->w) != 0;
}

int mt_page_end(struct mt_page_rows *p)
{
    if (p->keys) {
        p->failed |= page_list_flush(p) != 0;
        mt_json_u64(p->j, "keys", p->keys);
        mt_json_u64(p->j, "count", p->count);
        p->failed |= page_list_base64(p) != 0;
    } else {
        mt_json_end(p->j);
    }
    mt_json_end(p->j);
    free(p->bytes);
    free(p->group);
    return p->failed ? -1 : 0;
}

void mt_page_names(struct mt_json *j)
{
    mt_json_object(j, "columns", 0);
    for (int i = MT_PAGE_traffic_launches; i <= MT_PAGE_traffic_heat; i++)
        page_list_columns(&(struct mt_page_rows){.j = j}, lists[i].name, i);
    mt_json_end(j);
}
