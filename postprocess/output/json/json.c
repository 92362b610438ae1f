/* Streaming JSON writer with a single buffer. */
#define _GNU_SOURCE
#include "json.h"
#include "base/json.h"
#include "reader/base/internal.h"
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Room for the longest double with six decimals: sign, integer digits, point, decimals, NUL. */
enum { REAL_ROOM = 1 + DBL_MAX_10_EXP + 1 + 1 + 6 + 1 };

static void json_flush(struct mt_json *j)
{
    if (j->target) {
        memcpy(j->target, j->buffer, j->used);
        j->target += j->used;
        j->used = 0;
        return;
    }
    for (size_t done = 0; done < j->used && !j->error;) {
        ssize_t n = write(j->fd, j->buffer + done, j->used - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            j->error = errno;
    }
    j->used = 0;
}

static void json_put_bytes(struct mt_json *j, const char *s, size_t n)
{
    if (j->used + n > sizeof j->buffer)
        json_flush(j);
    if (n > sizeof j->buffer) {
        for (; n > sizeof j->buffer; s += sizeof j->buffer, n -= sizeof j->buffer) {
            memcpy(j->buffer, s, j->used = sizeof j->buffer);
            json_flush(j);
        }
    }
    memcpy(j->buffer + j->used, s, n);
    j->used += n;
}

static void json_put_char(struct mt_json *j, char c)
{
    json_put_bytes(j, &c, 1);
}

static void put_u64(struct mt_json *j, uint64_t v)
{
    char d[20], *s = mt_digits(d + sizeof d, v);
    json_put_bytes(j, s, (size_t)(d + sizeof d - s));
}

static void json_put_string(struct mt_json *j, const char *s)
{
    size_t n = strlen(s), plain = 0;
    json_put_char(j, '"');
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        size_t step = mt_utf8_length((const unsigned char *)s + i, n - i);
        int control = step == 2 && c == 0xc2 && (unsigned char)s[i + 1] < 0xa0; /* C1 control characters */
        if (step && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && !control &&
            !(j->html && (c == '<' || c == '>' || c == '&'))) {
            i += step;
            continue;
        }
        json_put_bytes(j, s + plain, i - plain);
        if (step == 0) {
            json_put_bytes(j, "\xef\xbf\xbd", 3);
        } else {
            char escape[6];
            i += control;
            json_put_bytes(j, escape, mt_json_escape(escape, (unsigned char)s[i]));
        }
        plain = ++i;
    }
    json_put_bytes(j, s + plain, n - plain);
    json_put_char(j, '"');
}

char *mt_json_quoted(const char *text)
{
    size_t n = strlen(text) * 6 + 3; /* longest escape of a byte, plus quotes and NUL */
    struct mt_json *j = calloc(1, sizeof *j);
    char *out = malloc(n);
    if (j && out) {
        j->fd = -1;
        j->target = out;
        json_put_string(j, text);
        json_flush(j);
        *j->target = 0;
    } else {
        free(out);
        out = NULL;
    }
    free(j);
    return out;
}

/* Writes comma, line break and key before a member. */
static void json_member(struct mt_json *j, const char *key)
{
    static const char blanks[] = "\n                                ";
    if (j->depth > 0) {
        if (!j->first)
            json_put_char(j, ',');
        if (!j->flat)
            json_put_bytes(j, blanks, 1 + (j->depth < 32 ? j->depth : 32));
        else if (!j->first)
            json_put_char(j, ' ');
    }
    j->first = 0;
    if (key) {
        json_put_string(j, key);
        json_put_bytes(j, ": ", 2);
    }
}

static void json_begin(struct mt_json *j, const char *key, int flat, char open, char close)
{
    json_member(j, key);
    json_put_char(j, open);
    j->kind[j->depth++] = close;
    if (flat && !j->flat)
        j->flat = (int)j->depth;
    j->first = 1;
}

void mt_json_open(struct mt_json *j, int fd)
{
    j->fd = fd;
    j->target = NULL;
    j->error = 0;
    j->depth = 0;
    j->flat = 0;
    j->html = 0;
    j->first = 1;
    j->used = 0;
}

int mt_json_close(struct mt_json *j)
{
    json_put_char(j, '\n');
    json_flush(j);
    return j->error ? -1 : 0;
}

void mt_json_object(struct mt_json *j, const char *key, int flat)
{
    json_begin(j, key, flat, '{', '}');
}

void mt_json_array(struct mt_json *j, const char *key, int flat)
{
    json_begin(j, key, flat, '[', ']');
}

void mt_json_end(struct mt_json *j)
{
    int flat = j->flat;
    if (j->flat == (int)j->depth)
        j->flat = 0;
    char close = j->kind[--j->depth];
    if (!flat && !j->first) {
        json_put_char(j, '\n');
        for (unsigned i = 0; i < j->depth; i++)
            json_put_char(j, ' ');
    }
    json_put_char(j, close);
    j->first = 0;
}

void mt_json_text(struct mt_json *j, const char *key, const char *value)
{
    json_member(j, key);
    if (value)
        json_put_string(j, value);
    else
        json_put_bytes(j, "null", 4);
}

void mt_json_u64(struct mt_json *j, const char *key, uint64_t value)
{
    json_member(j, key);
    put_u64(j, value);
}

/* Writes a member `count` times, with its separators: writes it once, then doubles the text written. */
static void json_again(struct mt_json *j, const char *text, size_t n, uint32_t count)
{
    const size_t before = (j->flat ? 0 : 1 + (j->depth < 32 ? j->depth : 32)) + 1 + (size_t)(j->flat != 0),
                 all = before + n;
    while (count > 0) {
        if (j->used + all > sizeof j->buffer)
            json_flush(j);
        char *at = j->buffer + j->used;
        size_t most = (sizeof j->buffer - j->used) / all, want = count < most ? count : most;
        memset(at, ' ', before);
        at[0] = ',';
        if (!j->flat)
            at[1] = '\n';
        memcpy(at + before, text, n);
        for (size_t have = 1, more; have < want; have += more) {
            more = have < want - have ? have : want - have;
            memcpy(at + have * all, at, more * all);
        }
        j->used += want * all;
        count -= (uint32_t)want;
    }
}

void mt_json_raw(struct mt_json *j, const char *text, size_t n, uint32_t count)
{
    json_member(j, NULL);
    json_put_bytes(j, text, n);
    if (n < sizeof j->buffer / 2) {
        json_again(j, text, n, count - 1);
        return;
    }
    while (--count > 0) {
        json_member(j, NULL);
        json_put_bytes(j, text, n);
    }
}

void mt_json_i64(struct mt_json *j, const char *key, int64_t value)
{
    json_member(j, key);
    if (value < 0)
        json_put_char(j, '-');
    put_u64(j, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void mt_json_real(struct mt_json *j, const char *key, double value)
{
    char text[REAL_ROOM];
    json_member(j, key);
    if (!isfinite(value)) {
        json_put_bytes(j, "null", 4); /* JSON has no NaN or infinity */
        return;
    }
    int n = snprintf(text, sizeof text, "%.6f", value);
    json_put_bytes(j, text, n < 0 ? 0 : (size_t)n);
}

void mt_json_exact(struct mt_json *j, const char *key, double value)
{
    char text[REAL_ROOM];
    int n = 0;
    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (isfinite(value) && !text[strspn(text, "-0123456789")])
        n += snprintf(text + n, sizeof text - (size_t)n, ".0");
    json_member(j, key);
    json_put_bytes(j, isfinite(value) ? text : "null", isfinite(value) ? (size_t)n : 4);
}

void mt_json_bool(struct mt_json *j, const char *key, int value)
{
    json_member(j, key);
    json_put_bytes(j, value ? "true" : "false", value ? 4 : 5);
}

void mt_json_known(struct mt_json *j, const char *key, int value)
{
    if (value < 0)
        mt_json_text(j, key, NULL);
    else
        mt_json_bool(j, key, value);
}

void mt_json_numbers(struct mt_json *j, const char *key, size_t n, const uint64_t *v)
{
    mt_json_array(j, key, 1);
    for (size_t i = 0; i < n; i++)
        mt_json_u64(j, NULL, v[i]);
    mt_json_end(j);
}

void mt_json_hex(struct mt_json *j, const char *key, uint64_t value)
{
    char text[64];
    mt_json_text(j, key, mt_key_hex(text, value));
}
