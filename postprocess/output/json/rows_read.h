/* Reads a comm.json: members that match a pattern, and the table rows (rows/relations.def) that they contain,
 * as the `json` of the columns says. Keys, numbers and strings come from the file and may be hostile. */
#ifndef MT_OUTPUT_ROWS_READ_H
#define MT_OUTPUT_ROWS_READ_H
#include <jansson.h>
#include "output/rows/comm_formats.h"

enum { MT_FOUND_STARS = 7 };

/* A match of a pattern. The caller sets root, arg and why; the rest is zero. */
struct mt_found {
    const json_t *root;
    void *arg;
    char *why; /* buffer of 300 bytes for the reason of a failure */
    /* Set for each match: */
    const char *pattern;
    unsigned depth;                       /* number of stars matched so far */
    const char *key[MT_FOUND_STARS + 1];  /* key that each star matches; NULL: an element of an array */
    const json_t *at[MT_FOUND_STARS + 1]; /* value that each star matches; [0] is the root */
    const json_t *here;                   /* value that the whole pattern matches */
    int failed;
};

/* Calls f for each match of a pattern: words separated by '/', in which '*' matches every member or element.
 * Missing members and null do not match. Returns 0, or -1 with x->why. */
int mt_found_each(struct mt_found *x, const char *pattern, int (*f)(struct mt_found *x));
/* Returns the value at the words before the first '*', or NULL if it is missing or null. */
const json_t *mt_found_section(const char *pattern, const json_t *root);
/* Returns a member of x->here that must be a number. In the root it may be missing: returns 0. */
uint64_t mt_found_number(struct mt_found *x, const char *member);
/* Returns the key that a star matches, which must be a number, or "x,y,z" as its place in the order of CTAs.
 */
uint64_t mt_found_key(struct mt_found *x, unsigned star);
uint64_t mt_found_cta(struct mt_found *x, unsigned star);
/* Reports that the member is not as memtrace extract writes it. Returns -1. */
int mt_found_wrong(struct mt_found *x, const char *member);

/* Writes all rows of a table. Does not begin the table if the file has no section for it. Returns 1 if the
 * table exists, 0 if not, -1 with w->why. */
int mt_rows_read(struct mt_tuples *w, enum mt_relation_number number, const json_t *root);
/* Writes a sentence why a table is missing. root NULL: the input is a database. */
void mt_rows_missing(enum mt_relation_number number, const json_t *root, char *why, size_t room);
#endif
