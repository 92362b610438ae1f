/* What GraphML and pages share. */
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
