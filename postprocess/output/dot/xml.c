/* What GraphML and SVG share. */
#include "xml.h"
#include "base/text.h"
#include <stdlib.h>
#include <string.h>

void mt_xml_text(FILE *f, const char *s)
{
    char *visible = mt_text_visible_copy(s, strlen(s)); /* XML knows no control characters */
    for (const char *p = visible ? visible : "?"; *p; p++)
        switch (*p) {
        case '&':
            fputs("&amp;", f);
            break;
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        default:
            fputc(*p, f);
        }
    free(visible);
}

static int xml_continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80; /* a character of UTF-8 */
}

void mt_xml_short(FILE *f, const char *s, size_t most)
{
    size_t n = strlen(s), head = most / 4, tail = n - (most - head);
    char start[257];
    if (n <= most) {
        mt_xml_text(f, s);
        return;
    }
    while (head > 0 && xml_continues(s[head]))
        head--;
    while (xml_continues(s[tail]))
        tail++;
    snprintf(start, sizeof start, "%.*s", (int)head, s);
    mt_xml_text(f, start);
    fputs("\xe2\x80\xa6", f);
    mt_xml_text(f, s + tail);
}
