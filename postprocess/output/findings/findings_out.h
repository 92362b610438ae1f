/* Findings as text for a terminal, as JSON, and as SARIF 2.1.0, which GitHub and editors show at the line. */
#ifndef MT_OUTPUT_FINDINGS_OUT_H
#define MT_OUTPUT_FINDINGS_OUT_H

#include "analysis/check/findings.h"
#include "output/json/json.h"
#include <stdio.h>

/* A finding in words: "off_by_one reads 4 bytes, 0 bytes after `a` (16384 bytes, app.cu:79): 1 access, first
 * by CTA 31, thread 127". */

/* The first finding of each kind, and how many more there are: a sentence each, to `say`; look: it deserves
 * one; it returns 0, or -1 without memory, and so does this one. */
int mt_findings_summary(const struct mt_findings *x, int (*say)(void *arg, int look, const char *sentence),
                        void *arg);

/* What is said of the whole. */
struct mt_findings_head {
    const char *program; /* "" is not known */
    const char *const *notes;
    size_t nnotes;
    size_t suppressed;
    int complete;
};

/* A line each, up to a thousand and then how many more there are; hints too if `hints`. colours: of a
 * terminal. 0, or -1 without memory. */
int mt_findings_write_text(FILE *f, const struct mt_findings *x, int hints, int colours);

/* 0, or -1 without memory. */
int mt_findings_write_json(struct mt_json *j, const struct mt_findings *x,
                           const struct mt_findings_head *head);

int mt_findings_write_sarif(struct mt_json *j, const struct mt_findings *x,
                            const struct mt_findings_head *head);

#endif
