/* The communication analysis by several members: each has a shard of the memory (comm.h) and goes through all
 * records for what lies in it. Members are threads of this process, or processes (session.h). Fed
 * like an analysis, by one thread; results are those of one analysis. What is handed in is copied. Functions
 * return 0, or -1 and mt_team_why says why. */
#ifndef MT_ANALYSIS_TEAM_H
#define MT_ANALYSIS_TEAM_H
#include "analysis/base/runs.h"
#include "comm.h"

struct mt_team {
    const struct mt_team_kind *kind;
    struct mt_comm *comm; /* the results, its own; NULL: it is not finished, or has failed */
};

struct mt_team_kind {
    struct mt_analysis fed; /* with the team; finish puts the members' results together */
    uint64_t (*count)(const struct mt_team *t);
    const char *(*why)(const struct mt_team *t);
};

/* `shards` >= 1; one works on the caller's thread. NULL without memory. */
struct mt_pool;
struct mt_team *mt_team_of_threads(const struct mt_comm_options *options, struct mt_pool *pool,
                                   unsigned shards);

/* realloc may leave all where it is: nothing is to be done then. */
static inline int mt_team_stays(const struct mt_copy_event *c)
{
    return c->kind == MT_COPY_D2D && c->dst == c->src;
}
static inline size_t mt_team_host_count(const struct mt_item *item)
{
    return item->kind == MT_ITEM_HOST ? item->count : item->host_count;
}
/* Records and host accesses handed in so far. */
static inline uint64_t mt_team_count(const struct mt_team *t)
{
    return t->kind->count(t);
}
static inline const char *mt_team_why(const struct mt_team *t)
{
    return t->kind->why(t);
}
#endif
