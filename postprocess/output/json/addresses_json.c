/* The section addresses: a line per operation, put together from texts that stay the same for long. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "comm_json.h"
#include "memtrace/grow.h"

/* What a line says of its CTA, without the kernel's name. */
struct who_text {
    uint32_t who; /* + 1; 0: nobody yet */
    unsigned char before_n, after_n;
    char before[80], after[32]; /* the address is between the two */
};
enum { WHO_TEXTS = 1024 };

struct writer {
    struct mt_json *json;
    const struct mt_addresses *a;
    const struct mt_comm *comm;
    const volatile sig_atomic_t *stop;
    int open;           /* a key's list is */
    uint64_t superstep; /* whose kernel `kernel` is: "{"kernel": NAME" */
    char *kernel;
    size_t kernel_n;
    char *line; /* of the operation written last */
    size_t line_n, line_room;
    uint64_t key;
    uint32_t last_who, last_what;
    struct who_text *texts;
};

static char *addresses_json_digits(char *out, uint64_t v)
{
    char d[20], *s = d + sizeof d;
    do
        *--s = (char)('0' + v % 10);
    while (v /= 10);
    size_t n = (size_t)(d + sizeof d - s);
    memcpy(out, s, n);
    return out + n;
}

static char *addresses_json_text(char *out, const char *s)
{
    size_t n = strlen(s);
    memcpy(out, s, n);
    return out + n;
}

static char *addresses_json_hex(char *out, uint64_t v)
{
    int shift = v ? (63 - __builtin_clzll(v)) / 4 * 4 : 0;
    for (; shift >= 0; shift -= 4)
        *out++ = "0123456789abcdef"[v >> shift & 15];
    return out;
}

static const struct who_text *text_of(struct writer *w, uint32_t who)
{
    struct who_text *t = &w->texts[who % WHO_TEXTS];
    if (t->who == who + 1)
        return t;
    const struct mt_operator *o = &w->a->who[who];
    struct mt_raw_record r = {{0, 0, o->cta}};
    char *p = addresses_json_digits(addresses_json_text(t->before, ", \"it\": "), o->superstep);
    p = addresses_json_digits(addresses_json_text(p, ", \"cta\": ["), mt_rec_cta_x(&r));
    p = addresses_json_digits(addresses_json_text(p, ", "), mt_rec_cta_y(&r));
    p = addresses_json_digits(addresses_json_text(p, ", "), mt_rec_cta_z(&r));
    t->before_n = (unsigned char)(addresses_json_text(p, "], \"addr\": \"0x") - t->before);
    t->after_n =
        (unsigned char)(addresses_json_digits(addresses_json_text(t->after, "\", \"smid\": "), o->smid) -
                        t->after);
    t->who = who + 1;
    return t;
}

/* The part of the line with the kernel's name, made by the JSON writer for its quotes. */
static int kernel_of(struct writer *w, uint64_t superstep)
{
    if (w->kernel && w->superstep == superstep)
        return 0;
    const char *name = w->comm->launches[superstep].kernel;
    if (!w->kernel || strcmp(w->comm->launches[w->superstep].kernel, name) != 0) {
        char *quoted = mt_json_quoted(name);
        size_t n = quoted ? strlen(quoted) : 0;
        char *kernel = quoted ? malloc(n + 16) : NULL;
        if (kernel) {
            free(w->kernel);
            w->kernel = kernel;
            w->kernel_n =
                (size_t)(addresses_json_text(addresses_json_text(kernel, "{\"kernel\": "), quoted) - kernel);
        }
        free(quoted);
        if (!kernel)
            return -1;
    }
    w->superstep = superstep;
    return 0;
}

static int make_line(struct writer *w, const struct mt_operation *op)
{
    static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = ", \"type\": \"" text "\"}",
#include "memtrace/record.def"
    };
    const struct who_text *t = text_of(w, op->who);
    const struct mt_operation_kind *kind = &w->a->what[op->what];
    if (kernel_of(w, w->a->who[op->who].superstep) != 0)
        return -1;
    if (mt_grow(&w->line, &w->line_room, w->kernel_n + 256, 1) != 0)
        return -1;
    char *p = w->line;
    memcpy(p, w->kernel, w->kernel_n);
    p += w->kernel_n;
    memcpy(p, t->before, sizeof t->before);
    p = addresses_json_hex(p + t->before_n, w->key - kind->before);
    memcpy(p, t->after, sizeof t->after);
    p = addresses_json_digits(addresses_json_text(p + t->after_n, ", \"size\": "),
                              kind->meta & MT_RAW_MAX_SIZE);
    p = addresses_json_text(p, types[kind->meta >> 28]);
    w->line_n = (size_t)(p - w->line);
    w->last_who = op->who;
    w->last_what = op->what;
    return 0;
}

static int write_key(void *arg, uint64_t key)
{
    struct writer *w = arg;
    char name[64];
    if (w->open)
        mt_json_end(w->json);
    w->open = 1;
    w->key = key;
    w->last_who = UINT32_MAX;
    mt_json_array(w->json, mt_key_hex(name, key), 0);
    return w->stop && *w->stop ? 1 : w->json->error ? 1 : 0;
}

static int write_operations(void *arg, uint64_t key, const struct mt_operation *op, size_t n)
{
    struct writer *w = arg;
    (void)key;
    for (size_t i = 0; i < n; i++) {
        if ((op[i].who != w->last_who || op[i].what != w->last_what) && make_line(w, &op[i]) != 0)
            return -1;
        mt_json_raw(w->json, w->line, w->line_n, op[i].count);
    }
    return w->stop && *w->stop ? 1 : 0;
}

int mt_addresses_write(struct mt_json *j, struct mt_addresses *a, const struct mt_comm *c,
                       const volatile sig_atomic_t *stop)
{
    static const struct mt_addresses_visitor visitor = {write_key, write_operations};
    struct writer w = {.json = j, .a = a, .comm = c, .stop = stop};
    w.texts = calloc(WHO_TEXTS, sizeof *w.texts);
    int rc = w.texts ? mt_addresses_visit(a, &visitor, &w) : -1;
    if (w.open)
        mt_json_end(j);
    free(w.texts);
    free(w.kernel);
    free(w.line);
    return rc;
}
