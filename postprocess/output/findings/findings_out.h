/* Findings as text for a terminal, as JSON, and as SARIF 2.1.0, which GitHub and editors show at the source
 * line. */
#ifndef MT_OUTPUT_FINDINGS_OUT_H
#define MT_OUTPUT_FINDINGS_OUT_H

#include "analysis/check/findings.h"
#include "output/json/json.h"
#include <stdio.h>

/* Example of a sentence: "off_by_one reads 4 bytes, 0 bytes after `a` (16384 bytes, app.cu:79): 1 access,
 * first by CTA 31, thread 127". */

/* The run that the findings belong to. */
struct mt_findings_head {
    const char *program; /* name of the program; "": unknown */
    const char *const *notes;
    size_t nnotes;
    size_t suppressed;
    int complete;
};

/* Writes a line for each of the first thousand findings, then how many more there are. `hints` includes
 * hints; `colours` uses colours of a terminal. Returns 0, or -1 without memory. */
int mt_findings_write_text(FILE *f, const struct mt_findings *x, int hints, int colours);

/* Writes JSON or SARIF. Returns 0, or -1 without memory. */
int mt_findings_write(struct mt_json *j, const struct mt_findings *x, const struct mt_findings_head *head,
                      int sarif);
/* Calls `say` with a sentence for the first finding of each kind, which says how many more there are. `look`
 * is 1 for sentences that deserve attention. `say` returns 0, or -1 without memory, as this function does. */
int mt_findings_summary(const struct mt_findings *x, int (*say)(void *arg, int look, const char *sentence),
                        void *arg);
#endif
