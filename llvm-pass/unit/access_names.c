/* Names of accesses by the location of their expression: set by the AST side, looked up for sites. */
#include "options.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

struct access_name {
    const char *file; /* one string per file */
    uint32_t line, column;
    enum mt_named_access op;
    uint32_t size; /* bytes of the expression's object; 0: unknown yet */
    char *name;    /* "": there are several */
};

static struct {
    struct access_name *list;
    size_t n, cap;
    int sorted;
    char *file; /* last file */
} names;

static int access_name_order(const void *x, const void *y)
{
    const struct access_name *a = x, *b = y;
    return a->line != b->line       ? (a->line < b->line ? -1 : 1)
           : a->column != b->column ? (a->column < b->column ? -1 : 1)
           : a->op != b->op         ? (a->op < b->op ? -1 : 1)
                                    : strcmp(a->file, b->file);
}

static int access_name_order_of_all(const void *x, const void *y)
{
    const struct access_name *a = x, *b = y;
    int place = access_name_order(x, y);
    return place ? place : a->size < b->size ? -1 : a->size > b->size;
}

void mt_pass_name_access(const char *file, uint32_t line, uint32_t column, enum mt_named_access op,
                         uint32_t size, const char *name)
{
    if (!names.file || strcmp(names.file, file))
        names.file = strdup(file);
    char *copy = strdup(name);
    if (!names.file || !copy || mt_grow(&names.list, &names.cap, names.n + 1, sizeof *names.list)) {
        free(copy);
        return;
    }
    names.list[names.n++] = (struct access_name){names.file, line, column, op, size, copy};
    names.sorted = 0;
}

/* Keeps one entry per location and size; two different names give none. */
static void access_name_sort(void)
{
    size_t kept = 0;
    if (names.n)
        qsort(names.list, names.n, sizeof *names.list, access_name_order_of_all);
    for (size_t i = 0; i < names.n; i++) {
        struct access_name *last = kept ? &names.list[kept - 1] : NULL, *one = &names.list[i];
        if (!last || access_name_order_of_all(last, one)) {
            names.list[kept++] = *one;
            continue;
        }
        if (strcmp(last->name, one->name))
            *last->name = 0;
        free(one->name);
    }
    names.n = kept;
    names.sorted = 1;
}

/* Chooses among several at one location by size, if that is unique. */
static const char *access_name_among(const struct access_name *first, size_t n, uint32_t size)
{
    const char *all = first->name;
    for (size_t i = 0; i < n; i++) {
        if (first[i].size == size)
            return first[i].name;
        if (strcmp(first[i].name, all))
            all = "";
    }
    return all;
}

const char *mt_pass_access_name(const char *file, uint32_t line, uint32_t column, enum mt_named_access op,
                                uint32_t size)
{
    struct access_name key = {.file = file, .line = line, .column = column, .op = op};
    if (!names.sorted)
        access_name_sort();
    const struct access_name *first =
        names.n ? bsearch(&key, names.list, names.n, sizeof key, access_name_order) : NULL;
    size_t n = first != NULL;
    while (n && first > names.list && !access_name_order(first - 1, &key)) {
        first--;
        n++;
    }
    while (n && first + n < names.list + names.n && !access_name_order(first + n, &key))
        n++;
    const char *name = n ? access_name_among(first, n, size) : "";
    return *name ? name : NULL;
}
