/* Concurrent feeding of the analyses of runs: an idle thread of the pool takes one, with all runs. */
#ifndef MT_ANALYSIS_CREW_H
#define MT_ANALYSIS_CREW_H
#include "locality.h"

struct mt_crew;

/* Returns NULL without memory. */
struct mt_pool;
struct mt_crew *mt_crew_new(struct mt_locality *m, struct mt_pool *pool);
/* Starts to feed a launch (or NULL) and runs, which must stay valid until mt_crew_wait. Call mt_crew_wait
 * before the next one. */
void mt_crew_begin(struct mt_crew *c, const struct mt_run_launch *launch, const struct mt_access_run *runs,
                   size_t n);
/* Helps with the work and waits for its end; allowed without work in progress. Returns 0, or -1 without
 * memory (now or before). */
int mt_crew_wait(struct mt_crew *c);
void mt_crew_free(struct mt_crew *c); /* NULL is allowed */
#endif
