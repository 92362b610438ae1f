/* Builds a JSON object as one line of text in a growing buffer. */
#include "json.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void json_put(struct mt_jsonl *j, const char *s, size_t n)
{
    if (j->failed)
        return;
    if (j->n + n > j->capacity) {
        size_t capacity = 2 * (j->n + n) + 256;
        char *p = realloc(j->text, capacity);
        if (!p) {
            j->failed = 1;
            return;
        }
        j->text = p;
        j->capacity = capacity;
    }
    memcpy(j->text + j->n, s, n);
    j->n += n;
}

static void put_key(struct mt_jsonl *j, const char *key)
{
    json_put(j, ",\"", 2);
    json_put(j, key, strlen(key));
    json_put(j, "\":", 2);
}

size_t mt_json_escape(char out[6], unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    const int short_one = c == '"' || c == '\\';
    memcpy(out, (char[]){'\\', short_one ? (char)c : 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
    return short_one ? 2 : 6;
}

/* Returns how many bytes from s on need no escape. */
static size_t json_plain(const unsigned char *s)
{
    size_t n = 0;
    while (s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
        n++;
    return n;
}

static void json_string(struct mt_jsonl *j, const char *text)
{
    json_put(j, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)(text ? text : ""); *s;) {
        char esc[6];
        size_t n = json_plain(s);
        if (n) {
            json_put(j, (const char *)s, n);
            s += n;
            continue;
        }
        n = mt_utf8_length(s, 4); /* valid: a NUL ends a sequence early */
        if (n == 0)
            json_put(j, "\xef\xbf\xbd", 3);
        else if (n == 1)
            json_put(j, esc, mt_json_escape(esc, *s));
        else
            json_put(j, (const char *)s, n);
        s += n ? n : 1;
    }
    json_put(j, "\"", 1);
}

/* Writes `before`, the digits of `value`, and `after`. Not printf, for speed: allocations write thousands of
 * lines. */
static inline void json_put_number(struct mt_jsonl *j, const char *before, uint64_t value, unsigned base,
                                   const char *after)
{
    char text[32], *end = text + sizeof text, *p = end;
    do
        *--p = "0123456789abcdef"[value % base];
    while (value /= base);
    json_put(j, before, strlen(before));
    json_put(j, p, (size_t)(end - p));
    json_put(j, after, strlen(after));
}

void mt_jsonl_begin(struct mt_jsonl *j, const char *ev)
{
    j->n = 0;
    j->failed = 0;
    json_put(j, "{\"ev\":", 6);
    json_string(j, ev);
}

static void jsonl_u64(struct mt_jsonl *j, const char *key, uint64_t value)
{
    put_key(j, key);
    json_put_number(j, "", value, 10, "");
}

static void jsonl_i64(struct mt_jsonl *j, const char *key, int64_t value)
{
    put_key(j, key);
    if (value < 0)
        json_put(j, "-", 1);
    json_put_number(j, "", value < 0 ? -(uint64_t)value : (uint64_t)value, 10, "");
}

static void jsonl_bool(struct mt_jsonl *j, const char *key, int value)
{
    put_key(j, key);
    json_put(j, value ? "true" : "false", value ? 4 : 5);
}

/* "0x…" */
static void jsonl_address(struct mt_jsonl *j, const char *key, uint64_t value)
{
    put_key(j, key);
    json_put_number(j, "\"0x", value, 16, "\"");
}

void mt_jsonl_string(struct mt_jsonl *j, const char *key, const char *value)
{
    put_key(j, key);
    json_string(j, value);
}

/* ["v0",…] */
static void jsonl_strings(struct mt_jsonl *j, const char *key, const char *const *v, size_t n)
{
    put_key(j, key);
    json_put(j, "[", 1);
    for (size_t i = 0; i < n; i++) {
        json_put(j, ",", i > 0);
        json_string(j, v[i]);
    }
    json_put(j, "]", 1);
}

/* [x,y,z] */
static void jsonl_u32x3(struct mt_jsonl *j, const char *key, const uint32_t v[3])
{
    char text[48];
    put_key(j, key);
    json_put(j, text,
             (size_t)snprintf(text, sizeof text, "[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "]", v[0], v[1], v[2]));
}

/* [v0,v1,…] */
static void jsonl_u64s(struct mt_jsonl *j, const char *key, const uint64_t *v, size_t n)
{
    char text[32];
    put_key(j, key);
    for (size_t i = 0; i < n; i++)
        json_put(j, text, (size_t)snprintf(text, sizeof text, "%c%" PRIu64, i ? ',' : '[', v[i]));
    json_put(j, n ? "]" : "[]", n ? 1 : 2);
}

static void put_scope(struct mt_jsonl *j, const char *key, enum mt_scope scope)
{
    static const char *const words[] = {
#define MT_ACCESS_SCOPE(name, code, text) [code] = text,
#include "memtrace/record.def"
    };
    mt_jsonl_string(j, key, words[scope]);
}

static void put_order(struct mt_jsonl *j, const char *key, enum mt_order_kind order)
{
    static const char *const words[] = {
#define MT_ACCESS_ORDER(name, code, text) [code] = text,
#include "memtrace/record.def"
    };
    mt_jsonl_string(j, key, words[order]);
}

static void jsonl_end(struct mt_jsonl *j)
{
    json_put(j, "}\n", 2);
}

void mt_jsonl_free(struct mt_jsonl *j)
{
    free(j->text);
    *j = (struct mt_jsonl){0};
}

/* ---- Writes JSON lines of companions and meta chunks, from memtrace/events.def ---- */

#define put_u64 jsonl_u64
#define put_id jsonl_u64
#define put_i64 jsonl_i64
#define put_int jsonl_i64
#define put_stream jsonl_i64
#define put_device jsonl_i64
#define put_bool jsonl_bool
#define put_address jsonl_address
#define put_string mt_jsonl_string
#define put_u32x3 jsonl_u32x3
#define put_u64s jsonl_u64s
#define put_strings(j, key, value) jsonl_strings(j, key, (value).list, (value).n)

void mt_line_put(struct mt_jsonl *j, enum mt_line_kind kind, const void *line)
{
    /* clang-format off */
    switch (kind) {
#define MT_EV_ONLY(ev, words) case MT_LINE_##ev: { const struct mt_##ev##_line *l = line; mt_jsonl_begin(j, #ev);
#define MT_EV_KEY(type, key, when, absent, words) if (when) put_##type(j, #key, l->key);
#define MT_EV_AGAIN(type, key, when) if (when) put_##type(j, #key, l->key);
#define MT_EV_WRITES(type, key, when, words, ...) if (when) put_##type(j, #key, __VA_ARGS__);
#define MT_EV_END(words) break; }
#include "memtrace/events.def"
    }
    /* clang-format on */
    jsonl_end(j);
}
