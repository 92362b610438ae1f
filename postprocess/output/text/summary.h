/* What stands out, in sentences: those of "At a glance" of the page (page/web/glance.js), for a terminal. */
#ifndef MT_OUTPUT_SUMMARY_H
#define MT_OUTPUT_SUMMARY_H
#include <stdio.h>
#include "output/rows/comm_formats.h"
#include "analysis/check/findings.h"
#include "analysis/locality/estimates.h"

/* Of buffers of equal size that take turns, in *sentence, which the caller frees; NULL: there are none.
 * `rank`: of each launch's kernel among `kernels`. 0, or -1 without memory. */
int mt_turns_sentence(const struct mt_comm_result *r, const uint32_t *rank, const char *const *kernels,
                      char **sentence);

/* Of kernels whose accesses go to falsely shared cache lines, the same; *look: it deserves one. */
int mt_falsely_sentence(const struct mt_comm_result *r, const uint32_t *rank, const char *const *kernels,
                        char **sentence, int *look);

/* Of several devices, the same (summary_devices.c). */
int mt_devices_sentence(const struct mt_comm_result *r, char **sentence);

/* Of bank conflicts and of hazards in shared memory, the same (summary_onchip.c). */
int mt_banks_sentence(const struct mt_onchip_rows *x, char **sentence, int *look);
int mt_hazards_sentence(const struct mt_onchip_rows *x, char **sentence, int *look);

/* A line each, those that deserve a look first, marked "! ". `r` has its transfers and all further analyses.
 * findings: of what no other sentence speaks of. 0, or -1 without memory; write errors are the stream's. */
int mt_summary_write(FILE *f, const struct mt_comm_result *r, const struct mt_estimates *estimates,
                     const struct mt_findings *findings);
#endif
