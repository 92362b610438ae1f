/* The communication analysis by several members: each has a shard of the memory (comm.h) and examines all
 * records for bytes in it. Members are threads of this process, or processes (session.h). Fed like an
 * analysis, by one thread; the results equal those of a single analysis. Input is copied. Functions return 0,
 * or -1; mt_team_why returns the reason. */
#ifndef MT_ANALYSIS_TEAM_H
#define MT_ANALYSIS_TEAM_H
#include "analysis/base/runs.h"
#include "comm.h"

struct mt_team {
    const struct mt_team_kind *kind;
    struct mt_comm *comm; /* results, owned by the team; NULL: not finished, or failed */
};

struct mt_team_kind {
    struct mt_analysis fed; /* operations on the team; finish merges the members' results */
    uint64_t (*count)(const struct mt_team *t);
    const char *(*why)(const struct mt_team *t);
};

/* Creates a team of `shards` >= 1 members, which threads of the pool and the feeding thread, while it waits,
 * serve. Returns NULL without memory. */
struct mt_pool;
struct mt_team *mt_team_of_threads(const struct mt_comm_options *options, struct mt_pool *pool,
                                   unsigned shards);

/* Returns 1 if a copy leaves the data in place, as realloc may: nothing is to be done then. */
static inline int mt_team_stays(const struct mt_copy_event *c)
{
    return c->kind == MT_COPY_D2D && c->dst == c->src;
}
static inline size_t mt_team_host_count(const struct mt_item *item)
{
    return item->kind == MT_ITEM_HOST ? item->count : item->host_count;
}
/* Returns the number of records and host accesses fed so far. */
static inline uint64_t mt_team_count(const struct mt_team *t)
{
    return t->kind->count(t);
}
static inline const char *mt_team_why(const struct mt_team *t)
{
    return t->kind->why(t);
}
#endif
