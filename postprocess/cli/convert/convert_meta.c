/* Lines of companions and meta chunks on their way from one to the other. */
#define _GNU_SOURCE
#include "convert_write.h"
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

char *mt_convert_kernel_line(uint32_t id, const char *name)
{
    json_t *o = json_pack("{s:s, s:I, s:s}", "ev", "kernel", "id", (json_int_t)id, "name", name);
    char *text = text_of(o), *line = NULL;
    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    json_decref(o);
    return line;
}

char *mt_convert_partial_lines(const char *what, const char *path, const struct mt_companion *c)
{
    char *why = NULL, *lost, *end, *lines = NULL;
    if (asprintf(&why, "%s %s", what, path) < 0)
        return NULL;
    /* A path need not be UTF-8; a line is. */
    json_t *o = json_pack("{s:s, s:i, s:s}", "ev", "lost", "count", 0, "why", why);
    if (!o)
        o = json_pack("{s:s, s:i, s:s+}", "ev", "lost", "count", 0, "why", what, " it");
    json_t *e = json_pack("{s:s, s:I, s:I, s:I, s:b}", "ev", "end", "records_written",
                          (json_int_t)c->records_written, "records_counted", (json_int_t)c->records_counted,
                          "launches", (json_int_t)c->nlaunches, "complete", 0);
    lost = text_of(o);
    end = text_of(e);
    int ends = c->has_end || !mt_companion_speaks(c);
    if (lost && end && asprintf(&lines, ends ? "%s\n%s\n" : "%s\n", lost, end) < 0)
        lines = NULL;
    json_decref(o);
    json_decref(e);
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

/* 1: the object was changed. */
static int convert_meta_change(const struct mt_convert_chosen *c, int raw, json_t *o)
{
    const char *ev = json_string_value(json_object_get(o, "ev"));
    const char *format = json_string_value(json_object_get(o, "format"));
    if (!ev)
        return 0;
    if (strcmp(ev, "header") == 0 && raw && format && strcmp(format, "raw") != 0)
        return json_object_set_new(o, "format", json_string("raw")) == 0;
    if (c->all)
        return 0;
    if (strcmp(ev, "end") == 0)
        return json_object_set_new(o, "records_written", json_integer((json_int_t)c->accesses)) == 0 &&
               json_object_set_new(o, "records_counted", json_integer((json_int_t)c->accesses)) == 0 &&
               (!c->others ||
                json_object_set_new(o, "others_written", json_integer((json_int_t)c->others)) == 0) &&
               json_object_set_new(o, "launches", json_integer((json_int_t)c->count)) == 0;
    if (strcmp(ev, "launch") != 0 || !json_is_true(json_object_get(o, "traced")) ||
        mt_convert_is_chosen(c, (uint64_t)json_integer_value(json_object_get(o, "seq"))))
        return 0;
    return json_object_set_new(o, "traced", json_false()) == 0 &&
           json_object_set_new(o, "left_out", json_string("mt-convert")) == 0;
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
