/* Shortens long names of kernels and functions for messages. */
#include "short.h"
#include <string.h>

#define DOTS "\xe2\x80\xa6"                           /* the character … */
enum { KEPT = 24, DEEPEST = 3, HALF = MT_SHORT / 2 }; /* 24 bytes keep "(anonymous namespace)" */

/* Returns the length of an operator's name at `at` whose signs are no brackets: "operator<<", "operator->".
 */
static size_t short_operator(const char *at)
{
    static const char word[] = "operator";
    size_t n = sizeof word - 1;
    return strncmp(at, word, n) == 0 ? n + strspn(at + n, "<>-=!") : 0;
}

/* Returns the end of the brackets that open at `at`, or NULL if they do not close. */
static const char *short_close(const char *at)
{
    int depth = 0;
    while (*at) {
        size_t skip = short_operator(at);
        if (skip) {
            at += skip;
            continue;
        }
        depth += strchr("<({[", *at) ? 1 : strchr(">)}]", *at) ? -1 : 0;
        at++;
        if (!depth)
            return at;
    }
    return NULL;
}

/* A text shortened to its beginning and its end. */
struct short_ends {
    char head[HALF + 1], tail[HALF];
    size_t n; /* bytes added so far */
};

static void short_put(struct short_ends *e, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++, e->n++)
        if (e->n < HALF)
            e->head[e->n] = text[i];
        else
            e->tail[(e->n - HALF) % HALF] = text[i];
}

static int short_is_inside(char c) /* Returns 1 for a continuation byte of UTF-8. */
{
    return (c & 0xc0) == 0x80;
}

static struct mt_short short_join(struct short_ends *e)
{
    struct mt_short s;
    size_t head = e->n < HALF ? e->n : HALF, tail = e->n - head, cut = tail > HALF, at = 0, n = 0;
    if (cut) {
        at = tail % HALF;
        tail = HALF;
        while (head && short_is_inside(e->head[head - 1]))
            head--;
        head -= head && (e->head[head - 1] & 0x80);
        for (; tail && short_is_inside(e->tail[at % HALF]); at++)
            tail--;
    }
    memcpy(s.text, e->head, n = head);
    if (cut) {
        memcpy(s.text + n, DOTS, sizeof DOTS - 1);
        n += sizeof DOTS - 1;
    }
    for (size_t i = 0; i < tail; i++)
        s.text[n++] = e->tail[(at + i) % HALF];
    s.text[n] = 0;
    return s;
}

/* Empties brackets of more than KEPT bytes at nesting depth `depth`, and all parameter lists. */
static struct short_ends short_emptied(const char *name, int depth)
{
    struct short_ends e = {.n = 0};
    int closed = 1,
        in = 0; /* closed: 0 once a bracket does not close, so that the time stays linear in the name */
    for (const char *at = name; *at;) {
        size_t n = short_operator(at);
        int opens = closed && !n && strchr("<({[", *at);
        const char *end = opens ? short_close(at) : NULL;
        closed = closed && (!opens || end);
        if (end && end - at > KEPT && (in >= depth || *at == '(')) {
            short_put(&e, at, 1);
            short_put(&e, DOTS, sizeof DOTS - 1);
            short_put(&e, end - 1, 1);
            at = end;
            continue;
        }
        n = end && end - at <= KEPT ? (size_t)(end - at) : n ? n : 1;
        in += n > 1 ? 0 : end ? 1 : in && strchr(">)}]", *at) ? -1 : 0;
        short_put(&e, at, n);
        at += n;
    }
    return e;
}

struct mt_short mt_short(const char *name)
{
    struct short_ends e = {.n = 0};
    size_t size = strlen(name ? name : "");
    if (size <= MT_SHORT)
        short_put(&e, name, size);
    else
        for (int depth = DEEPEST; depth >= 0 && (depth == DEEPEST || e.n > MT_SHORT); depth--)
            e = short_emptied(name, depth);
    return short_join(&e);
}
