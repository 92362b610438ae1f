/* A comm.json read back: its members by a pattern, and rows of tables (rows/relations.def) made of them, as
 * the `json` of the columns says. Keys, numbers and texts are the file's, and may be anything. */
#ifndef MT_OUTPUT_ROWS_READ_H
#define MT_OUTPUT_ROWS_READ_H
#include <jansson.h>
#include "output/rows/comm_formats.h"

enum { MT_FOUND_STARS = 7 };

/* Where a pattern has led. Zero-initialised but for root, arg and why. */
struct mt_found {
    const json_t *root;
    void *arg;
    char *why; /* room for 300 */
    /* set on the way: */
    const char *pattern;
    unsigned depth;                       /* stars so far */
    const char *key[MT_FOUND_STARS + 1];  /* what each star stands for; NULL: an element of an array */
    const json_t *at[MT_FOUND_STARS + 1]; /* its value; [0] is the root */
    const json_t *here;                   /* what the whole pattern stands for */
    int failed;
};

/* Calls for all that the pattern stands for: words between '/', of which '*' is each member or element; a
 * member that is not there, or null, has none. 0, or -1 with x->why. */
int mt_found_each(struct mt_found *x, const char *pattern, int (*f)(struct mt_found *x));
/* What the words before the first '*' lead to; NULL: it is not there, or null. */
const json_t *mt_found_section(const char *pattern, const json_t *root);
/* The member of x->here, which is to be a number; in the root it may not be there: 0. */
uint64_t mt_found_number(struct mt_found *x, const char *member);
/* The key of a star, which is to be a number; "x,y,z" as its place in the order of CTAs. */
uint64_t mt_found_key(struct mt_found *x, unsigned star);
uint64_t mt_found_cta(struct mt_found *x, unsigned star);
/* Says that this is not as memtrace extract writes it; -1. */
int mt_found_wrong(struct mt_found *x, const char *member);

/* All rows of the table; it is not begun where the file has no section for it. 1: it is there; 0: it is not;
 * -1 with w->why. */
int mt_rows_read(struct mt_tuples *w, enum mt_relation_number number, const json_t *root);
/* Why it is not there: a sentence. root: NULL of a database. */
void mt_rows_missing(enum mt_relation_number number, const json_t *root, char *why, size_t room);
#endif
