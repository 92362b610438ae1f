/* Numbers as people read them, in sentences. */
#ifndef MT_OUTPUT_NUMBERS_H
#define MT_OUTPUT_NUMBERS_H
#include <stdint.h>

struct mt_number {
    char text[64];
};
struct mt_number mt_number_count(uint64_t n);                    /* 1,234,567 */
struct mt_number mt_number_decimals(double v, int decimals);     /* halves are rounded up */
struct mt_number mt_number_bytes(uint64_t n);                    /* 1.50 KiB */
struct mt_number mt_number_percent(uint64_t part, uint64_t all); /* 100 % is all of it, 0 % is nothing */
struct mt_number mt_number_duration(double ns);                  /* 1.50 µs */
struct mt_number mt_number_many(uint64_t n, const char *one, const char *more); /* 2 launches */
#endif
