/* Text tables: columns as wide as needed, words left-aligned, numbers right-aligned. Rows are sorted by
 * descending weight, rows of equal weight in the order of input. */
#ifndef MT_OUTPUT_TABLE_H
#define MT_OUTPUT_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Words for kernels, and for host programs, whose threads correspond to CTAs ---- */

/* 1: the traces are of a host program. Set before any output. */
extern int mt_of_threads;

#define MT_EITHER(kernels, threads) (mt_of_threads ? (threads) : (kernels))

/* ---- Numbers in sentences ---- */

struct mt_number {
    char text[64];
};

struct mt_number mt_number_count(uint64_t n);                /* with commas: 1,234,567 */
struct mt_number mt_number_decimals(double v, int decimals); /* halves are rounded up */
struct mt_number mt_number_bytes(uint64_t n);                /* with its unit: 1.50 KiB */
struct mt_number mt_number_many(uint64_t n, const char *one,
                                const char *more); /* with the right noun: 2 launches */
enum { MT_TABLE_COLUMNS = 12 };

struct mt_table {
    const char *title;
    unsigned columns;
    struct mt_table_row {
        char *cell[MT_TABLE_COLUMNS];
        uint64_t weight;
        size_t number;
    } *rows; /* rows[0] contains the heads */
    size_t count, room;
    unsigned at;    /* next column of the last row */
    unsigned right; /* a bit per column of numbers */
    int failed;     /* 1: out of memory, so nothing is printed */
};

/* Begins a table. `heads`: column titles separated by '|'; a title that begins with '>' marks numbers. */
void mt_table_init(struct mt_table *t, const char *title, const char *heads);

/* Adds a column, before the first row. */
void mt_table_head(struct mt_table *t, const char *head);

void mt_table_row(struct mt_table *t, uint64_t weight);

/* Adds the next cell of the row. */
void mt_table_text(struct mt_table *t, const char *text);

/* Returns a kernel's name without namespaces and, if still long, without template arguments; to be freed,
 * NULL: no memory. The second function adds it as a cell. */
char *mt_kernel_short(const char *name);

void mt_table_kernel(struct mt_table *t, const char *name);
__attribute__((format(printf, 2, 3))) void mt_table_say(struct mt_table *t, const char *format, ...);

/* Remark below tables of accesses of 4 or 8 bytes that are 16 bytes apart, or that have bank conflicts. */
extern const char mt_table_halves[];

/* Prints at most `most` rows and how many more there are, or "(none)", and frees the table. Returns 0, or -1
 * without memory. Write errors show in the stream. */
int mt_table_print(struct mt_table *t, FILE *f, size_t most);

/* Writes `s` as XML text, also usable in an attribute in double quotes. Characters that XML does not allow
 * become blanks. */
void mt_xml_text(FILE *f, const char *s);

#endif
