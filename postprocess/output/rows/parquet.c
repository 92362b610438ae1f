/* Writes Parquet files. */
#define _GNU_SOURCE

#include "parquet.h"
#include "base/text.h"
#include "memtrace/grow.h"
#include "relations.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { GROUP_ROWS = 1 << 16, GROUP_BYTES = 1 << 25, LEVEL = 3 };
static const char magic[4] = {'P', 'A', 'R', '1'};

/* A growing byte buffer. */
struct bytes {
    unsigned char *at;
    size_t n, room;
};

struct chunk { /* a column of a row group that was written */
    uint64_t offset, plain, packed, values;
};

struct column {
    struct mt_parquet_column is;
    struct bytes values;  /* plain encoding; a boolean takes a byte here, a bit in the file */
    struct bytes present; /* for optional columns, 0 or 1 for each row */
    size_t nulls;
};

struct mt_parquet {
    FILE *f;
    struct column *columns;
    unsigned n;
    uint64_t rows, group_rows, written;
    size_t group_bytes;
    struct chunk *chunks; /* chunks by row group, then column */
    uint64_t *groups;     /* number of rows of each group */
    size_t nchunks, chunk_room, ngroups, group_room;
    struct bytes page, packed, head; /* current page, its compressed form, header or footer */
};

static int parquet_put(struct bytes *b, const void *from, size_t n)
{
    if (n == 0)
        return 0;
    if (mt_grow(&b->at, &b->room, b->n + n, 1) != 0)
        return -1;
    memcpy(b->at + b->n, from, n);
    b->n += n;
    return 0;
}

/* ---- Thrift's compact protocol ---- */

/* A Thrift structure being written. A field's number is stored as its distance from the previous field. */
struct thrift {
    struct bytes *to;
    int last, failed;
};
enum { I32 = 5, I64 = 6, BINARY = 8, LIST = 9, STRUCT = 12 };

static void parquet_byte(struct thrift *t, unsigned v)
{
    unsigned char c = (unsigned char)v;
    t->failed |= parquet_put(t->to, &c, 1);
}

static void parquet_varint(struct thrift *t, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        parquet_byte(t, (unsigned)(v & 0x7f) | 0x80);
    parquet_byte(t, (unsigned)v);
}

static void parquet_field(struct thrift *t, int number, int type)
{
    parquet_byte(t, (unsigned)(number - t->last) << 4 | (unsigned)type); /* distances never exceed 15 */
    t->last = number;
}

static void parquet_integer(struct thrift *t, int number, int type, uint64_t v)
{
    parquet_field(t, number, type);
    parquet_varint(t, v << 1); /* zigzag encoding; values are never negative */
}

static void parquet_string(struct thrift *t, const char *s)
{
    size_t n = strlen(s);
    parquet_varint(t, n);
    t->failed |= parquet_put(t->to, s, n);
}

static void parquet_list(struct thrift *t, int number, int type, size_t n)
{
    parquet_field(t, number, LIST);
    parquet_byte(t, (n < 15 ? (unsigned)n : 15u) << 4 | (unsigned)type);
    if (n >= 15)
        parquet_varint(t, n);
}

/* Begins a nested structure: field numbers restart inside, and continue outside after its end. */
static int parquet_enter(struct thrift *t)
{
    int outside = t->last;
    t->last = 0;
    return outside;
}

static void parquet_leave(struct thrift *t, int outside)
{
    parquet_byte(t, 0);
    t->last = outside;
}

/* ---- pages ---- */

/* Writes definition levels: their length, then one run of bits (or of ones). */
static int parquet_levels(struct mt_parquet *p, const struct column *c)
{
    struct bytes *page = &p->page;
    struct thrift t = {page, 0, 0};
    size_t rows = c->present.n;
    uint32_t length = 0;
    if (parquet_put(page, &length, sizeof length) != 0)
        return -1;
    if (!c->nulls) {
        parquet_varint(&t, (uint64_t)rows << 1);
        parquet_byte(&t, 1);
    } else {
        parquet_varint(&t, (uint64_t)((rows + 7) / 8) << 1 | 1);
        for (size_t i = 0; i < rows; i += 8) {
            unsigned bits = 0;
            for (size_t k = i; k < rows && k < i + 8; k++)
                bits |= (unsigned)c->present.at[k] << (k - i);
            parquet_byte(&t, bits);
        }
    }
    length = (uint32_t)(page->n - sizeof length);
    if (!t.failed)
        memcpy(page->at, &length, sizeof length);
    return t.failed ? -1 : 0;
}

static int parquet_values(struct mt_parquet *p, const struct column *c)
{
    struct thrift t = {&p->page, 0, 0};
    if (c->is.type != MT_PARQUET_BOOLEAN)
        return parquet_put(&p->page, c->values.at, c->values.n);
    for (size_t i = 0; i < c->values.n; i += 8) {
        unsigned bits = 0;
        for (size_t k = i; k < c->values.n && k < i + 8; k++)
            bits |= (unsigned)c->values.at[k] << (k - i);
        parquet_byte(&t, bits);
    }
    return t.failed ? -1 : 0;
}

static void parquet_write(struct mt_parquet *p, const struct bytes *b)
{
    fwrite(b->at, 1, b->n, p->f);
    p->written += b->n;
}

/* Writes the PageHeader of a version 1 data page. */
static int parquet_page_head(struct mt_parquet *p)
{
    struct thrift t = {&p->head, 0, 0};
    p->head.n = 0;
    parquet_integer(&t, 1, I32, 0); /* DATA_PAGE */
    parquet_integer(&t, 2, I32, p->page.n);
    parquet_integer(&t, 3, I32, p->packed.n);
    parquet_field(&t, 5, STRUCT);
    int outside = parquet_enter(&t);
    parquet_integer(&t, 1, I32, p->group_rows);
    parquet_integer(&t, 2, I32, 0); /* PLAIN */
    parquet_integer(&t, 3, I32, 3); /* levels: RLE */
    parquet_integer(&t, 4, I32, 3);
    parquet_leave(&t, outside);
    parquet_byte(&t, 0);
    return t.failed ? -1 : 0;
}

/* Writes the column's part of the row group as one page. */
static int parquet_flush_column(struct mt_parquet *p, struct column *c)
{
    p->page.n = p->packed.n = 0;
    if ((c->is.optional && parquet_levels(p, c) != 0) || parquet_values(p, c) != 0 ||
        mt_grow(&p->packed.at, &p->packed.room, ZSTD_compressBound(p->page.n), 1) != 0)
        return -1;
    size_t packed = ZSTD_compress(p->packed.at, p->packed.room, p->page.at, p->page.n, LEVEL);
    if (ZSTD_isError(packed))
        return -1;
    p->packed.n = packed;
    if (parquet_page_head(p) != 0 ||
        mt_grow(&p->chunks, &p->chunk_room, p->nchunks + 1, sizeof *p->chunks) != 0)
        return -1;
    p->chunks[p->nchunks++] =
        (struct chunk){p->written, p->head.n + p->page.n, p->head.n + p->packed.n, p->group_rows};
    parquet_write(p, &p->head);
    parquet_write(p, &p->packed);
    c->values.n = c->present.n = c->nulls = 0;
    return 0;
}

static int parquet_flush(struct mt_parquet *p)
{
    if (!p->group_rows)
        return 0;
    for (unsigned i = 0; i < p->n; i++)
        if (parquet_flush_column(p, &p->columns[i]) != 0)
            return -1;
    if (mt_grow(&p->groups, &p->group_room, p->ngroups + 1, sizeof *p->groups) != 0)
        return -1;
    p->groups[p->ngroups++] = p->group_rows;
    p->rows += p->group_rows;
    p->group_rows = p->group_bytes = 0;
    return 0;
}

/* ---- values ---- */

/* Begins a file. Returns NULL without memory. */
static struct mt_parquet *parquet_begin(FILE *f, const struct mt_parquet_column *columns, unsigned n)
{
    struct mt_parquet *p = calloc(1, sizeof *p);
    if (p && !(p->columns = calloc(n, sizeof *p->columns))) {
        free(p);
        p = NULL;
    }
    if (!p)
        return NULL;
    p->f = f;
    p->n = n;
    for (unsigned i = 0; i < n; i++)
        p->columns[i].is = columns[i];
    fwrite(magic, 1, sizeof magic, f);
    p->written = sizeof magic;
    return p;
}

static int parquet_present(struct mt_parquet *p, unsigned c, unsigned char present)
{
    struct column *x = &p->columns[c];
    x->nulls += !present;
    return x->is.optional ? parquet_put(&x->present, &present, 1) : 0;
}

static int parquet_value(struct mt_parquet *p, unsigned c, const void *v, size_t n)
{
    p->group_bytes += n;
    return parquet_present(p, c, 1) != 0 ? -1 : parquet_put(&p->columns[c].values, v, n);
}

/* for integers and booleans */
static int parquet_number(struct mt_parquet *p, unsigned c, int64_t v)
{
    unsigned char bit = v != 0;
    return p->columns[c].is.type == MT_PARQUET_BOOLEAN ? parquet_value(p, c, &bit, 1)
                                                       : parquet_value(p, c, &v, sizeof v);
}

/* invalid UTF-8 becomes \xNN */
static int parquet_text(struct mt_parquet *p, unsigned c, const char *v)
{
    size_t length = strlen(v);
    char *visible = mt_text_is_plain(v, length) ? NULL : mt_text_visible_copy(v, length);
    const char *text = visible ? visible : v;
    uint32_t n = (uint32_t)strlen(text);
    int rc = parquet_value(p, c, &n, sizeof n);
    p->group_bytes += n;
    if (rc == 0)
        rc = parquet_put(&p->columns[c].values, text, n);
    free(visible);
    return rc;
}

/* ends the row */
static int parquet_row(struct mt_parquet *p)
{
    p->group_rows++;
    return p->group_rows >= GROUP_ROWS || p->group_bytes >= GROUP_BYTES ? parquet_flush(p) : 0;
}

/* ---- the footer ---- */

/* Writes the SchemaElements: the root, then a leaf for each column. */
static void parquet_schema(struct thrift *t, const struct mt_parquet *p)
{
    parquet_list(t, 2, STRUCT, p->n + 1);
    int outside = parquet_enter(t);
    parquet_field(t, 4, BINARY);
    parquet_string(t, "schema");
    parquet_integer(t, 5, I32, p->n);
    parquet_leave(t, outside);
    for (unsigned i = 0; i < p->n; i++) {
        const struct mt_parquet_column *c = &p->columns[i].is;
        parquet_enter(t);
        parquet_integer(t, 1, I32, (uint64_t)c->type);
        parquet_integer(t, 3, I32, c->optional != 0); /* REQUIRED, OPTIONAL */
        parquet_field(t, 4, BINARY);
        parquet_string(t, c->name);
        if (c->type == MT_PARQUET_TEXT) {
            parquet_integer(t, 6, I32, 0); /* UTF8 */
            parquet_field(t, 10, STRUCT);  /* LogicalType: STRING */
            int type = parquet_enter(t);
            parquet_field(t, 1, STRUCT);
            parquet_byte(t, 0);
            parquet_leave(t, type);
        }
        parquet_leave(t, outside);
    }
}

/* Writes a ColumnChunk and its ColumnMetaData. */
static void parquet_chunk(struct thrift *t, const struct column *c, const struct chunk *k)
{
    int outside = parquet_enter(t);
    parquet_integer(t, 2, I64, k->offset);
    parquet_field(t, 3, STRUCT);
    int inside = parquet_enter(t);
    parquet_integer(t, 1, I32, (uint64_t)c->is.type);
    parquet_list(t, 2, I32, 2);
    parquet_varint(t, 0 << 1); /* PLAIN */
    parquet_varint(t, 3 << 1); /* RLE */
    parquet_list(t, 3, BINARY, 1);
    parquet_string(t, c->is.name);
    parquet_integer(t, 4, I32, 6); /* ZSTD */
    parquet_integer(t, 5, I64, k->values);
    parquet_integer(t, 6, I64, k->plain);
    parquet_integer(t, 7, I64, k->packed);
    parquet_integer(t, 9, I64, k->offset);
    parquet_leave(t, inside);
    parquet_leave(t, outside);
}

static void parquet_groups(struct thrift *t, const struct mt_parquet *p)
{
    parquet_list(t, 4, STRUCT, p->ngroups);
    for (size_t g = 0; g < p->ngroups; g++) {
        const struct chunk *k = &p->chunks[g * p->n];
        uint64_t plain = 0;
        int outside = parquet_enter(t);
        parquet_list(t, 1, STRUCT, p->n);
        for (unsigned i = 0; i < p->n; i++) {
            plain += k[i].plain;
            parquet_chunk(t, &p->columns[i], &k[i]);
        }
        parquet_integer(t, 2, I64, plain);
        parquet_integer(t, 3, I64, p->groups[g]);
        parquet_leave(t, outside);
    }
}

/* Writes remaining rows and the footer, with `key` and `value` as metadata, or NULL. */
static int parquet_end(struct mt_parquet *p, const char *key, const char *value)
{
    if (parquet_flush(p) != 0)
        return -1;
    struct thrift t = {&p->head, 0, 0};
    p->head.n = 0;
    parquet_integer(&t, 1, I32, 1); /* version of the format */
    parquet_schema(&t, p);
    parquet_integer(&t, 3, I64, p->rows);
    parquet_groups(&t, p);
    if (key) {
        parquet_list(&t, 5, STRUCT, 1);
        int outside = parquet_enter(&t);
        parquet_field(&t, 1, BINARY);
        parquet_string(&t, key);
        parquet_field(&t, 2, BINARY);
        parquet_string(&t, value);
        parquet_leave(&t, outside);
    }
    parquet_field(&t, 6, BINARY);
    parquet_string(&t, "memtrace version " MEMTRACE_VERSION);
    parquet_byte(&t, 0);
    uint32_t length = (uint32_t)p->head.n;
    t.failed |= parquet_put(&p->head, &length, sizeof length);
    t.failed |= parquet_put(&p->head, magic, sizeof magic);
    if (t.failed)
        return -1;
    parquet_write(p, &p->head);
    return 0;
}

static void parquet_free(struct mt_parquet *p)
{
    for (unsigned i = 0; p && i < p->n; i++) {
        free(p->columns[i].values.at);
        free(p->columns[i].present.at);
    }
    if (!p)
        return;
    free(p->columns);
    free(p->chunks);
    free(p->groups);
    free(p->page.at);
    free(p->packed.at);
    free(p->head.at);
    free(p);
}

/* ---- Tables as Parquet files ---- */

static const enum mt_parquet_type relations_types[] = {[MT_INTEGER] = MT_PARQUET_INT64,
                                                       [MT_REAL] = MT_PARQUET_DOUBLE,
                                                       [MT_TEXT] = MT_PARQUET_TEXT,
                                                       [MT_BOOLEAN] = MT_PARQUET_BOOLEAN};

static int relations_parquet_memory(char *why)
{
    snprintf(why, 300, "out of memory");
    return -1;
}

static int relations_parquet_begin(void *arg, const struct mt_relation *r, char *why)
{
    struct mt_tuples_parquet *w = arg;
    struct mt_parquet_column columns[MT_RELATION_COLUMNS];
    for (unsigned i = 0; i < r->n; i++)
        columns[i] = (struct mt_parquet_column){r->columns[i].name, relations_types[r->columns[i].type],
                                                r->columns[i].presence == MT_MAYBE};
    w->p = parquet_begin(w->f, columns, r->n);
    return w->p ? 0 : relations_parquet_memory(why);
}

static int relations_parquet_row(void *arg, const struct mt_relation *r, const struct mt_value *v, char *why)
{
    struct mt_tuples_parquet *w = arg;
    int rc = 0;
    for (unsigned i = 0; i < r->n && rc == 0; i++)
        rc = v[i].null                       ? parquet_present(w->p, i, 0)
             : r->columns[i].type == MT_TEXT ? parquet_text(w->p, i, v[i].text)
             : r->columns[i].type == MT_REAL ? parquet_value(w->p, i, &v[i].real, sizeof v[i].real)
                                             : parquet_number(w->p, i, v[i].number);
    return rc == 0 && parquet_row(w->p) == 0 ? 0 : relations_parquet_memory(why);
}

static int relations_parquet_end(void *arg, const struct mt_relation *r, char *why)
{
    struct mt_tuples_parquet *w = arg;
    int rc = parquet_end(w->p, "memtrace", r->name);
    parquet_free(w->p);
    w->p = NULL;
    return rc == 0 ? 0 : relations_parquet_memory(why);
}

const struct mt_tuples_ops mt_tuples_as_parquet = {relations_parquet_begin, relations_parquet_row,
                                                   relations_parquet_end};

void mt_tuples_parquet_free(struct mt_tuples_parquet *w)
{
    parquet_free(w->p);
    w->p = NULL;
}
