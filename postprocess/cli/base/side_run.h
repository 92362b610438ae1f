/* One run of a program through all analyses, to its figures (analysis/versus/side.h): mt-compare --volumes,
 * mt-report A -- B. */
#ifndef MT_CLI_SIDE_RUN_H
#define MT_CLI_SIDE_RUN_H
#include "pipeline.h"
#include "analysis/onchip/onchip.h"
#include "analysis/versus/versus.h"

/* Two runs; static, for they are large. */
struct mt_two_runs {
    struct mt_pipeline *p[2]; /* the caller's: initialised, with options and inputs */
    struct mt_run_side side[2];
    struct mt_onchip onchip[2];
    struct mt_versus versus;
    int complete[2];
};
/* Reads both, one after the other, and puts them side by side. 0 or MT_EXIT_INPUT (what was whole is
 * compared; nothing, with versus.all.b NULL, if the first was interrupted), or another exit code after saying
 * why. */
int mt_two_runs_read(struct mt_two_runs *t);
/* Not the pipelines. */
void mt_two_runs_free(struct mt_two_runs *t);
#endif
