/* Error texts, interned strings, waiting for input. */
#define _GNU_SOURCE
#include "internal.h"
#include <poll.h>
#include <unistd.h>
#include <uthash.h>

int mt_error_set(struct mt_error *err, enum mt_code code, int sys, uint64_t offset, const char *name,
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
    return -1;
}

struct mt_intern_entry {
    UT_hash_handle hh;
    _Alignas(uint64_t) char text[];
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
    if (mt_text_is_plain(text, length)) /* the usual case */
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
