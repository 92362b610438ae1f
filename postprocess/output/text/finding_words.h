/* A finding in words: "off_by_one reads 4 bytes, 0 bytes after `a` (16384 bytes, app.cu:79): 1 access, first
 * by CTA 31, thread 127". */
#ifndef MT_OUTPUT_FINDING_WORDS_H
#define MT_OUTPUT_FINDING_WORDS_H
#include "analysis/check/findings.h"

/* The sentence, without its place and kind; the caller frees it. NULL without memory. */
char *mt_finding_sentence(const struct mt_finding *f);
/* "app.cu:57": files below the current folder from there on. "?": not known. The caller frees it; NULL
 * without memory. */
char *mt_finding_place(const struct mt_finding_side *s);
/* The first finding of each kind, and how many more there are: a sentence each, to `say`; look: it deserves
 * one; it returns 0, or -1 without memory, and so does this one. */
int mt_findings_summary(const struct mt_findings *x, int (*say)(void *arg, int look, const char *sentence),
                        void *arg);
#endif
