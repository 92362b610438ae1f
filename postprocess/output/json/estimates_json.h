/* The member "estimates" of comm.json: data volumes as they would be if all CTAs were traced. */
#ifndef MT_OUTPUT_ESTIMATES_JSON_H
#define MT_OUTPUT_ESTIMATES_JSON_H
#include "json.h"
#include "analysis/comm/comm.h"
#include "analysis/locality/estimates.h"

/* Nothing when `e` is empty. `events` has one per launch of `c`; NULL where no companion has it. 0, or -1
 * without memory. */
int mt_estimates_write(struct mt_json *j, const struct mt_estimates *e, const struct mt_comm *c,
                       const struct mt_launch_event *const *events);
#endif
