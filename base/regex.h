/* Regular expressions from users. */
#ifndef MT_BASE_REGEX_H
#define MT_BASE_REGEX_H
#include <regex.h>
#include <stddef.h>

/* Compiles a POSIX extended expression for yes or no. Returns 0, or -1 with the reason in `why`. Expressions
 * that the C library would answer with a stack overflow or without end are refused: more than 200 open
 * parentheses, or repeat counts ({1,99}) whose product exceeds 100,000. */
int mt_regex(regex_t *re, const char *text, char *why, size_t size);
#endif
