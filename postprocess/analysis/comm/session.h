/* A program that runs as several processes, which share one analysis: memtrace extract under mpirun
 * (analysis/mpi/ranks.c). NULL stands for one process alone. All processes feed the same. */
#ifndef MT_ANALYSIS_SESSION_H
#define MT_ANALYSIS_SESSION_H
#include <signal.h>
#include "team.h"

/* A stretch of a launch that nobody has read: `count` records from byte `offset` of a raw trace on, or chunks
 * offset .. offset + count - 1 of a container. */
struct mt_span {
    const char *path; /* one pointer per input; must live as long as the team */
    uint64_t offset, count;
    int chunks;
    int selected; /* its launch is reported */
};

/* An analysis that each process feeds with its own part of the trace, after the team has finished. */
struct mt_share {
    const struct mt_analysis *of;
    void *self;
    const struct mt_run_launch *launches; /* of each span; `begins`: in this part, for whom it is fed */
    size_t n;
    /* The results as *bytes from malloc, NULL without memory; those of the next part are added to this one's:
     * 0 or -1. */
    char *(*pack)(const struct mt_share *s, size_t *bytes);
    int (*merge)(const struct mt_share *s, const char *data, size_t bytes);
};

struct mt_session {
    /* First and last thing in the process. *stop becomes 1 when the user wants no more; processes that have
     * agreed on that (stopped) set it, too. `together`: every process comes to its end with this code; else
     * it is the others' end, too. Returns the code. */
    void (*begin)(int *argc, char ***argv, volatile sig_atomic_t *stop);
    int (*end)(int code, int together);
    /* Does this process have the results in the end? It is the one who writes,
     * and says what is to be said. */
    int (*reports)(void);
    int (*members)(void);
    /* The code of the first process whose code is not 0: all get the same. */
    int (*agree)(int code);
    /* The launches of all inputs, found by all together, for mt_source_options; NULL when they are one, or if
     * an input is damaged, a container without index or one of host accesses: then each reads all. To be
     * freed with unsplit. */
    struct mt_launch_ends *(*split)(const char *const *paths, size_t npaths);
    void (*unsplit)(struct mt_launch_ends *ends, size_t npaths);
    /* A member in each process. NULL without memory. The following functions take such a team. */
    struct mt_team *(*team)(const struct mt_comm_options *options);
    /* From now on spans are handed in, no accesses: each member reads a part of them, when it pleases. */
    int (*by_parts)(struct mt_team *t);
    int (*span)(struct mt_team *t, const struct mt_span *span);
    /* After a failure: the spans lead to damage; one who reads all by itself can say more. */
    int (*again)(const struct mt_team *t);
    /* Have all agreed to end here, because the user wants no more of one of them? One alone never does: its
     * source stops. */
    int (*stopped)(const struct mt_team *t);
    /* `spans`: all launches of the trace, a span each, the same for all, who call it together. Parts are one
     * after the other. 0; 1: a user wants no more, all end here; -1: all have failed. */
    int (*share)(struct mt_team *t, const struct mt_span *spans, const struct mt_share *share);
    /* After it, together: all results come to the one that reports. */
    int (*fold)(struct mt_team *t, const struct mt_share *share);
    /* Together: a table of what each of them did, on stderr. */
    void (*stats)(void);
};

static inline int mt_session_again(const struct mt_session *s, const struct mt_team *t)
{
    return s && s->again(t);
}
static inline int mt_session_stopped(const struct mt_session *s, const struct mt_team *t)
{
    return s && s->stopped(t);
}
#endif
