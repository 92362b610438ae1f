/* mt-report A -- B: the page of two runs. */
#ifndef MT_CLI_REPORT_VERSUS_H
#define MT_CLI_REPORT_VERSUS_H
#include "cli/base/pipeline.h"

struct mt_report_versus {
    struct mt_pipeline *a;       /* has its inputs and what was asked for */
    const char *const *paths[2]; /* as they were given */
    size_t npaths[2];
    const char *title, *output;
};
/* Reads both runs and writes the page; a->out is opened here. An exit code. */
int mt_report_versus(const struct mt_report_versus *r);
#endif
