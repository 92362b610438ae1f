/* Fields of CSV files, RFC 4180 with LF. */
#ifndef MT_OUTPUT_CSV_H
#define MT_OUTPUT_CSV_H
#include <stdio.h>

/* In quotes where that is needed. */
void mt_csv_text(FILE *f, const char *s);
#endif
