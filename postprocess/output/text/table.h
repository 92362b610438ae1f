/* Tables of text for people: columns as wide as they need to be, words to the left, numbers to the right.
 * Rows come out by descending weight, those of equal weight in the order in which they came. */
#ifndef MT_OUTPUT_TABLE_H
#define MT_OUTPUT_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Two texts side by side: of kernels, and of a host program, whose threads are what CTAs are to a kernel. */

/* 1: the traces are of a host program. Set before anything is written. */
extern int mt_of_threads;

#define MT_EITHER(kernels, threads) (mt_of_threads ? (threads) : (kernels))

/* The word for an access type (a code of record.def): one of a host program that reads and writes, with LOCK
 * or without, is an update. */
const char *mt_words_type(unsigned type);

/* A CTA as "x,y,z", a thread as its number, into out[64]; `order` as mt_cta_order makes it. */
const char *mt_words_cta(char *out, uint64_t order);

/* ---- Numbers as people read them, in sentences ---- */

struct mt_number {
    char text[64];
};

struct mt_number mt_number_count(uint64_t n);                    /* 1,234,567 */
struct mt_number mt_number_decimals(double v, int decimals);     /* halves are rounded up */
struct mt_number mt_number_bytes(uint64_t n);                    /* 1.50 KiB */
struct mt_number mt_number_percent(uint64_t part, uint64_t all); /* 100 % is all of it, 0 % is nothing */
struct mt_number mt_number_duration(double ns);                  /* 1.50 µs */
struct mt_number mt_number_many(uint64_t n, const char *one, const char *more); /* 2 launches */
enum { MT_TABLE_COLUMNS = 12 };

struct mt_table {
    const char *title;
    unsigned columns;
    struct mt_table_row {
        char *cell[MT_TABLE_COLUMNS];
        uint64_t weight;
        size_t number;
    } *rows; /* rows[0]: the heads */
    size_t count, room;
    unsigned at;    /* column that comes next in the last row */
    unsigned right; /* a bit per column of numbers */
    int failed;     /* no memory: nothing is printed then */
};

/* `heads`: column titles separated by '|'; one that begins with '>' is of numbers. */
void mt_table_init(struct mt_table *t, const char *title, const char *heads);

/* One more, before the first row. */
void mt_table_head(struct mt_table *t, const char *head);

void mt_table_row(struct mt_table *t, uint64_t weight);

/* The next cell of the row. */
void mt_table_text(struct mt_table *t, const char *text);

/* A kernel's name in short: without its namespaces, and where that is still long,
 * without template arguments; to be freed, NULL without memory. And as a cell. */
char *mt_kernel_short(const char *name);

void mt_table_kernel(struct mt_table *t, const char *name);
__attribute__((format(printf, 2, 3))) void mt_table_say(struct mt_table *t, const char *format, ...);

/* Below tables of accesses of 4 or 8 bytes that lie 16 apart, or that have bank conflicts. */
extern const char mt_table_halves[];

/* At most `most` rows and how many there are besides; "(none)" for an empty one. Frees the table. 0, or -1
 * without memory. Errors of writing are the stream's. */
int mt_table_print(struct mt_table *t, FILE *f, size_t most);

#endif
