/* A report from a comm.json. */
#ifndef MT_CLI_REPORT_FROM_H
#define MT_CLI_REPORT_FROM_H
#include "output/results/summary.h"
#include "page/report.h"

/* What the report borrows. Zero-initialised is empty. */
struct mt_report_from {
    json_t *json;
    const char **inputs, **notes;
};

/* Fills `r`, which was initialised, and the summary with what the file says. 0; MT_EXIT_INPUT when the file
 * says that it is not complete; or an exit code after saying why. */
int mt_report_from(struct mt_report *r, struct mt_report_from *f, struct mt_summary *summary,
                   const char *path);
void mt_report_from_free(struct mt_report_from *f);
#endif
