/* Text tables: columns as wide as needed, words left-aligned, numbers right-aligned. */
#define _GNU_SOURCE

#include "base/text.h"
#include "memtrace/order.h"
#include "table.h"
#include "memtrace/record.h"
#include "output/rows/sorted.h"
#include "memtrace/grow.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mt_of_threads;

/* Returns the column head for a column of results. */
static const char *words_head(const char *column)
{
    static const char *const heads[][2] = {{"kernel", "program"},
                                           {"CTA", "thread"},
                                           {">launch", ">run"},
                                           {">launches", ">runs"},
                                           {">last launch", ">last run"},
                                           {">earlier launch", ">earlier run"},
                                           {">same launch", ">other thread"},
                                           {">same CTA", ">same thread"},
                                           {">pairs of CTAs", ">pairs of threads"}};
    for (size_t i = 0; mt_of_threads && i < sizeof heads / sizeof *heads; i++)
        if (strcmp(heads[i][0], column) == 0)
            return heads[i][1];
    return column;
}

/* Formats a number with commas: 1,234,567. */
struct mt_number mt_number_count(uint64_t n)
{
    struct mt_number w;
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            w.text[at++] = ',';
        w.text[at++] = digits[i];
    }
    w.text[at] = 0;
    return w;
}

/* Rounds halves up. */
struct mt_number mt_number_decimals(double v, int decimals)
{
    struct mt_number w;
    snprintf(w.text, sizeof w.text, "%.*f", decimals, nextafter(v, INFINITY));
    return w;
}

struct mt_number mt_number_bytes(uint64_t n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)n;
    unsigned u = 0;
    for (; v >= 1024 && u < sizeof units / sizeof *units - 1; u++)
        v /= 1024;
    struct mt_number w, number = u ? mt_number_decimals(v, v < 10 ? 2 : v < 100 ? 1 : 0) : mt_number_count(n);
    snprintf(w.text, sizeof w.text, "%.40s %s", number.text, units[u]);
    return w;
}

struct mt_number mt_number_many(uint64_t n, const char *one, const char *more)
{
    struct mt_number w;
    snprintf(w.text, sizeof w.text, "%.40s %.20s", mt_number_count(n).text, n == 1 ? one : more);
    return w;
}

static void table_put(struct mt_table *t, char *text)
{
    if (!text)
        t->failed = 1;
    if (!text || t->count == 0 || t->at >= t->columns) {
        free(text);
        return;
    }
    for (char *p = text; *p; p++) /* kernel names are untrusted */
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    t->rows[t->count - 1].cell[t->at++] = text;
}

void mt_table_row(struct mt_table *t, uint64_t weight)
{
    if (mt_grow(&t->rows, &t->room, t->count + 1, sizeof *t->rows) != 0) {
        t->failed = 1;
        return;
    }
    t->rows[t->count] = (struct mt_table_row){.weight = weight, .number = t->count};
    t->count++;
    t->at = 0;
}

const char mt_table_halves[] =
    "accesses are those of the code that ran: clang may copy a float4 or an __int128 by two accesses of 8 "
    "bytes, nvcc does by one of 16";

static void table_head(struct mt_table *t, const char *head, size_t n)
{
    const unsigned right = *head == '>';
    if (t->columns == MT_TABLE_COLUMNS)
        return;
    t->right |= right << t->columns++;
    table_put(t, strndup(head + right, n - right));
}

void mt_table_init(struct mt_table *t, const char *title, const char *heads)
{
    memset(t, 0, sizeof *t);
    t->title = title;
    mt_table_row(t, UINT64_MAX);
    while (*heads) {
        size_t n = strcspn(heads, "|");
        table_head(t, heads, n);
        heads += n + (heads[n] == '|');
    }
}

void mt_table_head(struct mt_table *t, const char *head)
{
    table_head(t, words_head(head), strlen(words_head(head)));
}

void mt_table_text(struct mt_table *t, const char *text)
{
    table_put(t, strdup(text));
}

void mt_table_say(struct mt_table *t, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    table_put(t, text);
}

/* Returns the width on screen: bytes that begin a UTF-8 character. */
static int table_width_of(const char *s)
{
    int n = 0;
    for (; s && *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

/* The page (shortKernel in page/web/text.js) uses the same rule. */
char *mt_kernel_short(const char *name)
{
    enum { LONG = 40 };
    char *text;
    const char *open = strchr(name, '<'), *end = open > name ? open : name + strlen(name), *from = name;
    for (const char *p = name; (p = strstr(p, "::")) && p < end; p++)
        from = p + 2;
    if (open > name && table_width_of(from) > LONG)
        return asprintf(&text, "%.*s<…>", (int)(open - from), from) < 0 ? NULL : text;
    return strdup(from);
}

void mt_table_kernel(struct mt_table *t, const char *name)
{
    table_put(t, mt_kernel_short(name));
}

MT_ORDER_FUNCTION(by_weight, struct mt_table_row, MT_ORDER_DIFFER(y, x, weight) MT_ORDER_DIFFER(x, y, number))

static void print_row(const struct mt_table *t, const struct mt_table_row *row, const int *width, FILE *f)
{
    unsigned last = t->columns - 1; /* no padding after the last column */
    while (last > 0 && (!row->cell[last] || !*row->cell[last]))
        last--;
    fputs(" ", f);
    for (unsigned c = 0; c <= last; c++) {
        const char *text = row->cell[c] ? row->cell[c] : "";
        int fill = width[c] - table_width_of(text);
        if (t->right >> c & 1)
            fprintf(f, " %*s%s", fill, "", text);
        else
            fprintf(f, " %s%*s", text, c < last ? fill : 0, "");
        if (c < last)
            fputc(' ', f);
    }
    fputc('\n', f);
}

int mt_table_print(struct mt_table *t, FILE *f, size_t most)
{
    int width[MT_TABLE_COLUMNS] = {0}, failed = t->failed;
    if (!failed) {
        qsort(t->rows + 1, t->count - 1, sizeof *t->rows, by_weight);
        size_t shown = t->count - 1 > most ? most + 1 : t->count;
        for (size_t i = 0; i < shown; i++)
            for (unsigned c = 0; c < t->columns; c++)
                width[c] = table_width_of(t->rows[i].cell[c]) > width[c] ? table_width_of(t->rows[i].cell[c])
                                                                         : width[c];
        fprintf(f, "\n%s\n", t->title);
        for (size_t i = 0; i < shown && t->count > 1; i++)
            print_row(t, &t->rows[i], width, f);
        if (t->count == 1)
            fputs("  (none)\n", f);
        if (shown < t->count)
            fprintf(f, "  ... and %zu more\n", t->count - shown);
    }
    for (size_t i = 0; i < t->count; i++)
        for (unsigned c = 0; c < MT_TABLE_COLUMNS; c++)
            free(t->rows[i].cell[c]);
    free(t->rows);
    memset(t, 0, sizeof *t);
    return failed ? -1 : 0;
}

void mt_xml_text(FILE *f, const char *s)
{
    char *visible = mt_text_visible_copy(s, strlen(s)); /* XML does not allow control characters */
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
