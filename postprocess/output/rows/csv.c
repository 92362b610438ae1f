/* Fields of CSV files, RFC 4180 with LF. */
#include "csv.h"
#include "base/text.h"
#include <stdlib.h>
#include <string.h>

/* What spreadsheets take for the beginning of a formula. */
static int csv_formula(const char *s)
{
    return *s && strchr("=+-@", *s) != NULL;
}

void mt_csv_text(FILE *f, const char *s)
{
    char *visible = mt_text_visible_copy(s, strlen(s));
    const char *p = visible ? visible : "?";
    int quotes = strpbrk(p, ",\"") != NULL;
    if (quotes)
        fputc('"', f);
    if (csv_formula(p))
        fputc('\'', f);
    for (; *p; p++) {
        if (*p == '"')
            fputc('"', f);
        fputc(*p, f);
    }
    if (quotes)
        fputc('"', f);
    free(visible);
}
