/* Findings that others have found already: the runtime (events of companions), and the analyses of threads
 * of one CTA and of CTAs of one launch. All give 0, or -1 without memory; texts are the source's. */
#ifndef MT_ANALYSIS_CHECK_COLLECT_H
#define MT_ANALYSIS_CHECK_COLLECT_H
#include "analysis/base/buffers.h"
#include "analysis/base/sites.h"
#include "analysis/locality/conflicts.h"
#include "analysis/onchip/onchip.h"
#include "findings.h"

/* Bad accesses, calls and launches that failed, lines with many small copies. After the reading. */
int mt_check_events(struct mt_findings *f, struct mt_source *s);
/* buffers: to be asked where an address was. */
int mt_check_threads(struct mt_findings *f, const struct mt_onchip *x, struct mt_buffers *buffers);
int mt_check_conflicts(struct mt_findings *f, const struct mt_conflicts *x, const struct mt_sites *sites,
                       struct mt_buffers *buffers);
/* Takes out reads of what nobody wrote where a race says already that they come too early. 0, or -1
 * without memory. */
int mt_check_early(struct mt_findings *f);
#endif
