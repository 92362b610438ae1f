/* Text from files, made safe to show. */
#ifndef MT_LIB_TEXT_H
#define MT_LIB_TEXT_H
#include <stddef.h>
#include <stdio.h>

/* Copies text for display. Bytes that a terminal or line format could interpret (control characters C0 and
 * C1, line and paragraph separators, direction marks, invalid UTF-8) become \xNN; the rest is unchanged.
 * Doing so twice changes nothing more. Writes as many whole characters of the `n` bytes at `text` as fit into
 * `room` >= 1 bytes, and a NUL; 4 * n + 1 always suffice. Returns the length without the NUL. */
size_t mt_text_visible(char *out, size_t room, const char *text, size_t n);
/* Returns the beginning of a path or name, made safe as by mt_text_visible: mt_visible(path).text */
struct mt_visible {
    char text[4352];
};
struct mt_visible mt_visible(const char *text);
/* Returns 1 if mt_text_visible would change nothing. */
int mt_text_is_plain(const char *text, size_t n);
/* Writes a string to a file, made safe as by mt_text_visible. */
void mt_text_put(FILE *f, const char *text);
/* Returns a copy made safe as by mt_text_visible, to be freed; NULL: no memory. */
char *mt_text_visible_copy(const char *text, size_t n);
/* Returns the length of the valid UTF-8 sequence at s (n bytes left), or 0. */
static inline size_t mt_utf8_length(const unsigned char *s, size_t n)
{
    unsigned char c = s[0];
    if (c < 0x80)
        return 1;
    size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || n < want)
        return 0;
    for (size_t i = 1; i < want; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f) || (c == 0xf0 && s[1] < 0x90) ||
        (c == 0xf4 && s[1] > 0x8f))
        return 0;
    return want;
}
#endif
