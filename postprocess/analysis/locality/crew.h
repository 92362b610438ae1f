/* The analyses of runs fed side by side: a free thread of the pool takes one of them, with all runs. */
#ifndef MT_ANALYSIS_CREW_H
#define MT_ANALYSIS_CREW_H
#include "locality.h"

struct mt_crew;

/* NULL without memory. */
struct mt_pool;
struct mt_crew *mt_crew_new(struct mt_locality *m, struct mt_pool *pool);
/* Begins on a launch (or NULL) and runs, which must stay until mt_crew_wait; that comes before the next. */
void mt_crew_begin(struct mt_crew *c, const struct mt_run_launch *launch, const struct mt_access_run *runs,
                   size_t n);
/* Helps, and waits for the rest. 0, or -1 without memory (now or ever before). Nothing under way is fine. */
int mt_crew_wait(struct mt_crew *c);
void mt_crew_free(struct mt_crew *c); /* NULL is fine */
#endif
