/* Lines of companions and meta chunks on their way from one to the other. */
#define _GNU_SOURCE
#include "convert_write.h"
#include "base/json.h"
#include "base/line.h"
#include "cli/base/cli.h"
#include "memtrace/order.h"
#include "reader/container/container.h" /* mt_companion_speaks */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 1 << 20 };

int mt_convert_write(void *file, const void *data, size_t bytes)
{
    errno = 0;
    return fwrite(data, 1, bytes, file) == bytes ? 0 : errno ? errno : EIO;
}

int mt_convert_lines_end(struct mt_convert_lines *l)
{
    int e = l->bytes ? mt_mtc_write(l->w, MT_MTC_META, 0, 0, 0, 0, l->count, l->text, l->bytes) : 0;
    l->bytes = 0;
    l->count = 0;
    return e;
}

int mt_convert_line_add(struct mt_convert_lines *l, const char *line, size_t n)
{
    if (n && line[n - 1] == '\n')
        n--;
    int e = l->bytes && l->bytes + n + 1 > LINES ? mt_convert_lines_end(l) : 0;
    if (e)
        return e;
    if (l->bytes + n + 1 > l->room) {
        size_t more = l->bytes + n + 1 > LINES ? l->bytes + n + 1 : LINES;
        char *p = realloc(l->text, more);
        if (!p)
            return ENOMEM;
        l->text = p;
        l->room = more;
    }
    memcpy(l->text + l->bytes, line, n);
    l->text[l->bytes + n] = '\n';
    l->bytes += n + 1;
    l->count++;
    return 0;
}

/* Writes the object as one line. */
static char *text_of(json_t *o)
{
    char *text = o ? json_dumps(o, JSON_PRESERVE_ORDER) : NULL;
    return text;
}

/* A new line, as jansson writes those that are changed on their way. */
static char *convert_meta_line(enum mt_line_kind kind, const void *line)
{
    struct mt_jsonl j = {0};
    mt_line_put(&j, kind, line);
    json_t *o = j.failed ? NULL : json_loadb(j.text, j.n, 0, NULL);
    char *text = text_of(o);
    json_decref(o);
    mt_jsonl_free(&j);
    return text;
}

char *mt_convert_kernel_line(uint32_t id, const char *name)
{
    char *text = convert_meta_line(MT_LINE_kernel, &(struct mt_kernel_line){id, name}), *line = NULL;
    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    return line;
}

char *mt_convert_partial_lines(const char *what, const char *path, const struct mt_companion *c)
{
    char *why = NULL, *lines = NULL;
    if (asprintf(&why, "%s %s", what, path) < 0)
        return NULL;
    char *lost = convert_meta_line(MT_LINE_lost, &(struct mt_lost_line){0, why});
    char *end = convert_meta_line(MT_LINE_end, &(struct mt_end_line){.records_written = c->records_written,
                                                                     .records_counted = c->records_counted,
                                                                     .launches = c->nlaunches});
    int ends = c->has_end || !mt_companion_speaks(c);
    if (lost && end && asprintf(&lines, ends ? "%s\n%s\n" : "%s\n", lost, end) < 0)
        lines = NULL;
    free(lost);
    free(end);
    free(why);
    return lines;
}

int mt_convert_partial(struct mt_mtc_writer *w, const char *what, const char *path,
                       const struct mt_companion *c)
{
    char *lines = mt_convert_partial_lines(what, path, c);
    uint64_t n = lines && strchr(lines, '\n')[1] ? 2 : 1;
    int e = lines ? mt_mtc_write(w, MT_MTC_META, 0, 0, 0, 0, n, lines, strlen(lines)) : ENOMEM;
    free(lines);
    return e ? mt_cli_fail("cannot write the container: %s", strerror(e)) : MT_EXIT_INPUT;
}

int mt_convert_is_kernel(const char *line, size_t n)
{
    json_t *o = n < 1 << 20 && memmem(line, n, "\"kernel\"", 8) ? json_loadb(line, n, 0, NULL) : NULL;
    const char *ev = json_string_value(json_object_get(o, "ev"));
    int is = ev && strcmp(ev, "kernel") == 0;
    json_decref(o);
    return is;
}

int mt_convert_is_chosen(const struct mt_convert_chosen *c, uint64_t seq)
{
    return c->all || (c->count && bsearch(&seq, c->seq, c->count, sizeof seq, mt_order_u64));
}

/* The name of a key that such a line has. */
#define KEY(ev, key) (sizeof((struct mt_##ev##_line *)0)->key ? #key : NULL)

/* 1: the object was changed. */
static int convert_meta_change(const struct mt_convert_chosen *c, int raw, json_t *o)
{
    const char *ev = json_string_value(json_object_get(o, "ev"));
    const char *format = json_string_value(json_object_get(o, KEY(header, format)));
    if (!ev)
        return 0;
    if (strcmp(ev, "header") == 0 && raw && format && strcmp(format, "raw") != 0)
        return json_object_set_new(o, KEY(header, format), json_string("raw")) == 0;
    if (c->all)
        return 0;
    if (strcmp(ev, "end") == 0)
        return json_object_set_new(o, KEY(end, records_written), json_integer((json_int_t)c->accesses)) ==
                   0 &&
               json_object_set_new(o, KEY(end, records_counted), json_integer((json_int_t)c->accesses)) ==
                   0 &&
               (!c->others ||
                json_object_set_new(o, KEY(end, others_written), json_integer((json_int_t)c->others)) == 0) &&
               json_object_set_new(o, KEY(end, launches), json_integer((json_int_t)c->count)) == 0;
    if (strcmp(ev, "launch") != 0 || !json_is_true(json_object_get(o, KEY(launch, traced))) ||
        mt_convert_is_chosen(c, (uint64_t)json_integer_value(json_object_get(o, KEY(launch, seq)))))
        return 0;
    return json_object_set_new(o, KEY(launch, traced), json_false()) == 0 &&
           json_object_set_new(o, KEY(launch, left_out), json_string("mt-convert")) == 0;
}

int mt_convert_line(const struct mt_convert_chosen *c, int raw, const char *line, size_t n, char **out)
{
    static const char *const events[] = {"\"header\"", "\"end\"", "\"launch\""};
    int any = 0;
    *out = NULL;
    for (size_t i = 0; i < sizeof events / sizeof *events && n < 1 << 20; i++)
        any |= memmem(line, n, events[i], strlen(events[i])) != NULL;
    json_t *o = any ? json_loadb(line, n, 0, NULL) : NULL;
    int rc = 0;
    if (o && convert_meta_change(c, raw, o)) {
        *out = text_of(o);
        rc = *out ? 0 : -1;
    }
    json_decref(o);
    return rc;
}
