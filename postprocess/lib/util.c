/* Error texts, interned strings, waiting for input. */
#define _GNU_SOURCE
#include "internal.h"
#include <poll.h>
#include <unistd.h>
#include <uthash.h>

/* Bytes of the character at s that may stand as they are; 0: it has to be made visible. */
static size_t text_plain(const unsigned char *s, size_t n)
{
    size_t length = mt_utf8_length(s, n);
    if (length == 1 && (*s < 0x20 || *s == 0x7f))
        return 0;
    if (length == 2 && s[0] == 0xc2 && s[1] < 0xa0) /* the second set of control characters */
        return 0;
    if (length == 3 && s[0] == 0xe2 &&
        ((s[1] == 0x80 && s[2] >= 0xa8 && s[2] <= 0xae) || (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9)))
        return 0; /* separators, and marks that turn the direction */
    if (length == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe)
        return 0; /* no characters at all: not allowed in XML */
    return length;
}

size_t mt_text_visible(char *out, size_t room, const char *text, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *s = (const unsigned char *)text;
    size_t at = 0;
    for (size_t i = 0, step; i < n; i += step) {
        step = text_plain(s + i, n - i);
        if (at + (step ? step : 4) >= room)
            break;
        if (step) {
            memcpy(out + at, s + i, step);
            at += step;
            continue;
        }
        char escape[4] = {'\\', 'x', hex[s[i] >> 4], hex[s[i] & 15]};
        memcpy(out + at, escape, sizeof escape);
        at += sizeof escape;
        step = 1;
    }
    out[at] = 0;
    return at;
}

void mt_text_put(FILE *f, const char *text)
{
    char part[256];
    for (size_t n = strlen(text), step; n > 0; text += step, n -= step) {
        step = n < sizeof part / 4 ? n : sizeof part / 4 - 1;
        while (step < n && step > 1 && ((unsigned char)text[step] & 0xc0) == 0x80)
            step--; /* characters stay whole */
        fwrite(part, 1, mt_text_visible(part, sizeof part, text, step), f);
    }
}

char *mt_text_visible_copy(const char *text, size_t n)
{
    char *out = malloc(4 * n + 1);
    if (out)
        mt_text_visible(out, 4 * n + 1, text, n);
    return out;
}

void mt_error_set(struct mt_error *err, enum mt_code code, int sys, uint64_t offset, const char *name,
                  const char *format, ...)
{
    char text[320], line[sizeof err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    err->code = code;
    err->sys = sys;
    err->offset = offset;
    if (code == MT_E_TRUNCATED || code == MT_E_CORRUPT)
        snprintf(line, sizeof line, "%.170s: byte %llu: %s", name, (unsigned long long)offset, text);
    else
        snprintf(line, sizeof line, "%.170s: %s", name, text);
    mt_text_visible(err->message, sizeof err->message, line, strlen(line));
}

struct mt_intern_entry {
    UT_hash_handle hh;
    char text[];
};

const char *mt_intern_add(struct mt_intern *set, const char *text, size_t length)
{
    struct mt_intern_entry *e;
    HASH_FIND(hh, set->head, text, length, e);
    if (e)
        return e->text;
    e = malloc(sizeof *e + length + 1);
    if (!e)
        return NULL;
    memcpy(e->text, text, length);
    e->text[length] = 0;
    HASH_ADD_KEYPTR(hh, set->head, e->text, length, e);
    return e->text;
}

const char *mt_intern_visible(struct mt_intern *set, const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t plain = 0;
    for (size_t step; plain < length && (step = text_plain(s + plain, length - plain)) > 0;)
        plain += step;
    if (plain == length) /* as a rule */
        return mt_intern_add(set, text, length);
    char *visible = mt_text_visible_copy(text, length);
    const char *added = visible ? mt_intern_add(set, visible, strlen(visible)) : NULL;
    free(visible);
    return added;
}

void mt_intern_free(struct mt_intern *set)
{
    struct mt_intern_entry *e, *next;
    HASH_ITER(hh, set->head, e, next)
    {
        HASH_DEL(set->head, e); // NOLINT(clang-analyzer-unix.Malloc): the macro reads no freed entry
        free(e);
    }
}

int mt_wait_readable(int fd, const struct mt_stop *stop)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (mt_stopped(stop))
            return 0;
        int n = poll(&p, 1, 100);
        if (n > 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            return 1;
    }
}
