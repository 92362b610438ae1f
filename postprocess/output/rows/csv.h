/* Fields of CSV files, RFC 4180 with LF. */
#ifndef MT_OUTPUT_CSV_H
#define MT_OUTPUT_CSV_H
#include <stdio.h>

/* In quotes where that is needed. A text that a spreadsheet would take for a formula (it begins with = + - or
 * @) gets an apostrophe in front; no field has a line's end or another control character in it. */
void mt_csv_text(FILE *f, const char *s);
#endif
