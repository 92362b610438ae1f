/* Lines of JSON in one pass. */
#include "flat.h"
#include "base/text.h"
#include "memtrace/grow.h"

#include <stdlib.h>

enum { DEEPEST = 64 }; /* lists and objects within each other */
static const struct mt_flat_value absent;

/* What is left of the line. */
struct cursor {
    struct mt_flat *line;
    const char *at, *end, *begin;
};

static int flat_wrong(struct cursor *c, const char *why)
{
    c->line->why = why;
    c->line->at = (size_t)(c->at - c->begin);
    return 1;
}

static void flat_blanks(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

/* Takes this character, after blanks. Returns 1 if it is there. */
static int flat_take(struct cursor *c, char what)
{
    flat_blanks(c);
    if (c->at == c->end || *c->at != what)
        return 0;
    c->at++;
    return 1;
}

/* ---- texts ---- */

/* Returns the value of 4 hexadecimal digits, or -1. */
static int flat_hex(const struct cursor *c)
{
    int n = 0;
    for (int i = 0; i < 4; i++) {
        int d = c->at + i < c->end ? c->at[i] : 0;
        d = d >= '0' && d <= '9'   ? d - '0'
            : d >= 'a' && d <= 'f' ? d - 'a' + 10
            : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                   : -1;
        if (d < 0)
            return -1;
        n = n << 4 | d;
    }
    return n;
}

static void flat_put(struct mt_flat *l, unsigned byte)
{
    l->plain[l->plain_used++] = (char)byte;
}

static void flat_put_utf8(struct mt_flat *l, unsigned code)
{
    if (code < 0x80) {
        flat_put(l, code);
        return;
    }
    if (code < 0x800) {
        flat_put(l, 0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            flat_put(l, 0xe0 | code >> 12);
        } else {
            flat_put(l, 0xf0 | code >> 18);
            flat_put(l, 0x80 | (code >> 12 & 63));
        }
        flat_put(l, 0x80 | (code >> 6 & 63));
    }
    flat_put(l, 0x80 | (code & 63));
}

/* Decodes "XXXX" after "\u", and its other half if it is one of two. */
static int flat_unicode(struct cursor *c)
{
    int code = flat_hex(c), low;
    if (code < 0 || (code >= 0xdc00 && code < 0xe000))
        return flat_wrong(c, "no character is \\u and this");
    c->at += 4;
    if (code >= 0xd800 && code < 0xdc00) {
        if (c->end - c->at < 6 || c->at[0] != '\\' || c->at[1] != 'u')
            return flat_wrong(c, "the second half of a character is missing");
        c->at += 2;
        low = flat_hex(c);
        if (low < 0xdc00 || low >= 0xe000)
            return flat_wrong(c, "the second half of a character is missing");
        c->at += 4;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    flat_put_utf8(c->line, (unsigned)code);
    return 0;
}

/* Decodes what follows a backslash. */
static int flat_escape(struct cursor *c)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *which = c->at < c->end && *c->at ? strchr(from, *c->at) : NULL;
    if (c->at < c->end && *c->at == 'u') {
        c->at++;
        return flat_unicode(c);
    }
    if (!which)
        return flat_wrong(c, "no escape is written like this");
    flat_put(c->line, (unsigned char)to[which - from]);
    c->at++;
    return 0;
}

/* Makes room for all texts of the line, which are no longer than it is. Texts in the room stay where they
 * are. */
static int flat_room(struct cursor *c)
{
    struct mt_flat *l = c->line;
    size_t n = (size_t)(c->end - c->begin);
    return l->plain_used || mt_grow(&l->plain, &l->plain_room, n, 1) == 0 ? 0 : -1;
}

/* Reads the rest of a text with escapes, whose first n characters are plain. */
static int flat_escaped(struct cursor *c, const char *from, size_t n, struct mt_flat_value *v)
{
    struct mt_flat *l = c->line;
    int rc = flat_room(c);
    if (rc != 0)
        return rc;
    char *text = l->plain + l->plain_used;
    memcpy(text, from, n);
    l->plain_used += n;
    while (rc == 0 && c->at < c->end && *c->at != '"') {
        unsigned char b = (unsigned char)*c->at;
        size_t step = b < 0x80 ? 1 : mt_utf8_length((const unsigned char *)c->at, (size_t)(c->end - c->at));
        if (b < 0x20 || !step)
            return flat_wrong(c, b < 0x20 ? "a control character in a text" : "a text that is not UTF-8");
        if (b == '\\') {
            c->at++;
            rc = flat_escape(c);
            continue;
        }
        memcpy(l->plain + l->plain_used, c->at, step);
        l->plain_used += step;
        c->at += step;
    }
    *v = (struct mt_flat_value){
        .kind = MT_FLAT_TEXT, .text = text, .bytes = (size_t)(l->plain + l->plain_used - text)};
    return rc;
}

/* Reads a text after its first quote. */
static int flat_text(struct cursor *c, struct mt_flat_value *v)
{
    const char *from = c->at;
    int rc = 0;
    while (c->at < c->end) {
        unsigned char b = (unsigned char)*c->at;
        if (b == '"' || b == '\\' || b < 0x20)
            break;
        size_t step = b < 0x80 ? 1 : mt_utf8_length((const unsigned char *)c->at, (size_t)(c->end - c->at));
        if (!step)
            return flat_wrong(c, "a text that is not UTF-8");
        c->at += step;
    }
    *v = (struct mt_flat_value){.kind = MT_FLAT_TEXT, .text = from, .bytes = (size_t)(c->at - from)};
    if (c->at < c->end && *c->at != '"')
        rc = flat_escaped(c, from, (size_t)(c->at - from), v);
    if (rc == 0 && c->at == c->end)
        return flat_wrong(c, "a text without an end");
    c->at += rc == 0;
    return rc;
}

/* ---- numbers and words ---- */

static size_t flat_digits(struct cursor *c)
{
    const char *from = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return (size_t)(c->at - from);
}

/* Reads ".5" and "e-3" behind a number. Returns 1 after an error. */
static int flat_fraction(struct cursor *c, struct mt_flat_value *v)
{
    if (c->at < c->end && *c->at == '.') {
        c->at++;
        v->kind = MT_FLAT_REAL;
        if (!flat_digits(c))
            return flat_wrong(c, "a number without digits");
    }
    if (c->at < c->end && (*c->at == 'e' || *c->at == 'E')) {
        c->at++;
        v->kind = MT_FLAT_REAL;
        c->at += c->at < c->end && (*c->at == '+' || *c->at == '-');
        if (!flat_digits(c))
            return flat_wrong(c, "a number without digits");
    }
    return 0;
}

static int flat_number(struct cursor *c, struct mt_flat_value *v)
{
    const char *from = c->at;
    int minus = *c->at == '-', large = 0;
    uint64_t n = 0;
    c->at += minus;
    const char *digits = c->at;
    size_t many = flat_digits(c);
    if (!many || (many > 1 && *digits == '0'))
        return flat_wrong(c, "not a value");
    for (const char *d = digits; d < digits + many; d++)
        large |= __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*d - '0'), &n);
    *v = (struct mt_flat_value){.kind = MT_FLAT_INTEGER};
    if (flat_fraction(c, v))
        return 1;
    if (v->kind == MT_FLAT_INTEGER && (large || n > (uint64_t)INT64_MAX + (uint64_t)minus)) {
        c->at = from;
        return flat_wrong(c, "a number of more than 64 bits");
    }
    v->number = v->kind == MT_FLAT_INTEGER ? (int64_t)(minus ? 0 - n : n) : 0;
    return 0;
}

static int flat_word(struct cursor *c, struct mt_flat_value *v)
{
    static const struct {
        const char *word;
        struct mt_flat_value value;
    } words[] = {{"true", {.kind = MT_FLAT_BOOL, .number = 1}},
                 {"false", {.kind = MT_FLAT_BOOL}},
                 {"null", {.kind = MT_FLAT_NULL}}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].word);
        if ((size_t)(c->end - c->at) >= n && memcmp(c->at, words[i].word, n) == 0) {
            c->at += n;
            *v = words[i].value;
            return 0;
        }
    }
    return flat_wrong(c, "not a value");
}

/* ---- lists and objects ---- */

static int flat_value(struct cursor *c, struct mt_flat_value *v, int depth);

/* Reads a list after its bracket. Elements are kept of the line's own lists, at depth 1. */
static int flat_list(struct cursor *c, struct mt_flat_value *v, int depth)
{
    struct mt_flat *l = c->line;
    struct mt_flat_value e;
    *v = (struct mt_flat_value){.kind = MT_FLAT_LIST, .first = l->nelements};
    if (flat_take(c, ']'))
        return 0;
    do {
        int rc = flat_value(c, &e, depth);
        if (rc != 0)
            return rc;
        if (depth == 1 && mt_grow(&l->elements, &l->element_room, l->nelements + 1, sizeof e) != 0)
            return -1;
        if (depth == 1)
            l->elements[l->nelements++] = e;
    } while (flat_take(c, ','));
    v->bytes = l->nelements - v->first;
    return flat_take(c, ']') ? 0 : flat_wrong(c, "a list goes on with neither ',' nor ']'");
}

static int flat_keep(struct mt_flat *l, const struct mt_flat_value *key, const struct mt_flat_value *v)
{
    if (mt_grow(&l->members, &l->room, l->count + 1, sizeof *l->members) != 0)
        return -1;
    struct mt_flat_member *m = &l->members[l->count++];
    *m = (struct mt_flat_member){.key = key->text, .bytes = key->bytes, .value = *v};
    memcpy(&m->begin, key->text, key->bytes < sizeof m->begin ? key->bytes : sizeof m->begin);
    return 0;
}

/* Reads an object after its brace. Members are kept of the line itself, at depth 0. */
static int flat_object(struct cursor *c, struct mt_flat_value *v, int depth)
{
    struct mt_flat_value key, value;
    *v = (struct mt_flat_value){.kind = MT_FLAT_OBJECT};
    if (flat_take(c, '}'))
        return 0;
    do {
        int rc = flat_take(c, '"') ? flat_text(c, &key) : flat_wrong(c, "a key is missing");
        if (rc == 0 && !flat_take(c, ':'))
            rc = flat_wrong(c, "a key is not followed by ':'");
        rc = rc == 0 ? flat_value(c, &value, depth) : rc;
        if (rc != 0)
            return rc;
        if (depth == 0 && flat_keep(c->line, &key, &value) != 0)
            return -1;
    } while (flat_take(c, ','));
    return flat_take(c, '}') ? 0 : flat_wrong(c, "an object goes on with neither ',' nor '}'");
}

/* Reads a value; `depth` is that of what it is in. */
static int flat_value(struct cursor *c, struct mt_flat_value *v, int depth)
{
    flat_blanks(c);
    if (c->at == c->end)
        return flat_wrong(c, "the line ends too early");
    if (depth == DEEPEST)
        return flat_wrong(c, "too many lists and objects within each other");
    char first = *c->at;
    if (first == '-' || (first >= '0' && first <= '9'))
        return flat_number(c, v);
    if (first != '"' && first != '[' && first != '{')
        return flat_word(c, v);
    c->at++;
    return first == '"'   ? flat_text(c, v)
           : first == '[' ? flat_list(c, v, depth + 1)
                          : flat_object(c, v, depth + 1);
}

int mt_flat_read(struct mt_flat *l, const char *text, size_t n)
{
    struct cursor c = {.line = l, .at = text, .begin = text, .end = text + n};
    struct mt_flat_value whole;
    l->count = l->nelements = l->plain_used = l->next = 0;
    if (!flat_take(&c, '{'))
        return flat_wrong(&c, "not an object");
    int rc = flat_object(&c, &whole, 0);
    flat_blanks(&c);
    return rc != 0 || c.at == c.end ? rc : flat_wrong(&c, "more follows the object");
}

void mt_flat_free(struct mt_flat *l)
{
    free(l->members);
    free(l->elements);
    free(l->plain);
    memset(l, 0, sizeof *l);
}

/* ---- lookups ---- */

const struct mt_flat_value *mt_flat_find(struct mt_flat *l, uint64_t begin, const char *key, size_t n)
{
    size_t count = l ? l->count : 0;
    for (size_t k = 0, i = l ? l->next : 0; k < count; k++, i++) {
        i = i < count ? i : 0;
        const struct mt_flat_member *m = &l->members[i];
        if (m->begin == begin && m->bytes == n && (n <= sizeof begin || memcmp(m->key, key, n) == 0)) {
            l->next = i + 1;
            return &m->value;
        }
    }
    return &absent;
}

const struct mt_flat_value *mt_flat_element(const struct mt_flat *l, const struct mt_flat_value *list,
                                            size_t i)
{
    return list->kind == MT_FLAT_LIST && i < list->bytes ? &l->elements[list->first + i] : &absent;
}

int mt_flat_is(const struct mt_flat_value *v, const char *text)
{
    size_t n = strlen(text);
    return v->kind == MT_FLAT_TEXT && v->bytes == n && memcmp(v->text, text, n) == 0;
}
