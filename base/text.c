/* Makes text from files safe to show. */
#include "text.h"
#include <stdlib.h>
#include <string.h>

/* Returns the length of the character at s if it may be shown unchanged, else 0. */
static size_t text_plain(const unsigned char *s, size_t n)
{
    size_t length = mt_utf8_length(s, n);
    if (length == 1 && (*s < 0x20 || *s == 0x7f))
        return 0;
    if (length == 2 && s[0] == 0xc2 && s[1] < 0xa0) /* C1 control characters */
        return 0;
    if (length == 2 && s[0] == 0xd8 && s[1] == 0x9c) /* Arabic letter mark */
        return 0;
    if (length == 3 && s[0] == 0xe2 &&
        ((s[1] == 0x80 && ((s[2] >= 0xa8 && s[2] <= 0xae) || s[2] == 0x8e || s[2] == 0x8f)) ||
         (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9)))
        return 0; /* separators and direction marks */
    if (length == 3 && s[0] == 0xef && ((s[1] == 0xbf && s[2] >= 0xbe) || (s[1] == 0xbb && s[2] == 0xbf)))
        return 0; /* noncharacters, which XML forbids, and the invisible byte order mark */
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
            step--; /* keeps characters whole */
        fwrite(part, 1, mt_text_visible(part, sizeof part, text, step), f);
    }
}

struct mt_visible mt_visible(const char *text)
{
    struct mt_visible v;
    mt_text_visible(v.text, sizeof v.text, text, strlen(text));
    return v;
}

char *mt_text_visible_copy(const char *text, size_t n)
{
    char *out = malloc(4 * n + 1);
    if (out)
        mt_text_visible(out, 4 * n + 1, text, n);
    return out;
}

int mt_text_is_plain(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t i = 0;
    for (size_t step; i < n && (step = text_plain(s + i, n - i)) > 0;)
        i += step;
    return i == n;
}
