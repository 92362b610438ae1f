/* Text that came from files, on its way to people. */
#ifndef MT_LIB_TEXT_H
#define MT_LIB_TEXT_H
#include <stddef.h>
#include <stdio.h>

/* Text of a file for people's eyes: what a terminal or a line format could obey (control characters of both
 * sets, line and paragraph separators, marks that turn the direction, bytes that are not UTF-8) becomes \xNN,
 * a byte each; the rest stays. Doing it twice changes nothing. Puts as many whole characters of the `n` bytes
 * at `text` as fit into `room` >= 1 bytes, and a NUL; returns how many bytes are before it. 4 * n + 1
 * always do. */
size_t mt_text_visible(char *out, size_t room, const char *text, size_t n);
/* Would nothing of it change? */
int mt_text_is_plain(const char *text, size_t n);
/* The same of a string, into a file. */
void mt_text_put(FILE *f, const char *text);
/* The same, to be freed; NULL without memory. */
char *mt_text_visible_copy(const char *text, size_t n);
/* Length of the valid UTF-8 sequence at s (n bytes left), 0 if there is none. */
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
