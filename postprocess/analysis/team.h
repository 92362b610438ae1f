/* The communication analysis on several threads: each has a shard of the memory (comm.h) and goes through all
 * records for what lies in it. Fed like an analysis, by one thread; results are those of one analysis. What
 * is handed in is copied. Functions return 0, or -1 and mt_team_why says why. */
#ifndef MT_ANALYSIS_TEAM_H
#define MT_ANALYSIS_TEAM_H
#include <signal.h>
#include "comm.h"

/* Members are threads of this process (team.c) or, in mt-extract-mpi, ranks (team_mpi.c). All ranks feed the
 * same. */
struct mt_team;

/* The launches of all inputs, found by all members together, for mt_source_options; NULL when they are one,
 * or if an input is damaged, a container without index or one of host accesses: then each reads all. To be
 * freed with mt_team_unsplit. */
struct mt_launch_ends *mt_team_split(const char *const *paths, size_t npaths);
void mt_team_unsplit(struct mt_launch_ends *ends, size_t npaths);

/* First and last thing in the process. *stop becomes 1 when the user wants no more; members that have agreed
 * on that (mt_team_stopped) set it, too. `together`: every member comes to its end with this code; else it is
 * the others' end, too. Returns the code. */
void mt_team_begin(int *argc, char ***argv, volatile sig_atomic_t *stop);
int mt_team_end(int code, int together);
/* Does this process have the results in the end? It is the one who writes, and says what is to be said. */
int mt_team_reports(void);
int mt_team_members(void); /* processes */
/* The code of the first member whose code is not 0: all get the same. */
int mt_team_agree(int code);

/* `shards` >= 1; one works on the caller's thread. NULL without memory or threads. */
struct mt_team *mt_team_new(const struct mt_comm_options *options, unsigned shards);
void mt_team_free(struct mt_team *t);
int mt_team_launch(struct mt_team *t, const char *kernel, int selected);
int mt_team_records(struct mt_team *t, const struct mt_raw_record *records, size_t count);
int mt_team_runs(struct mt_team *t, const struct mt_access_run *runs, size_t count);
/* A stretch of a launch that nobody has read: `count` records from byte `offset` of a raw trace on, or chunks
 * offset .. offset + count - 1 of a container. */
struct mt_span {
    const char *path; /* one pointer per input; must live as long as the team */
    uint64_t offset, count;
    int chunks;
};
/* From now on spans are handed in, no accesses: each member reads a part of them, when it pleases. */
int mt_team_by_parts(struct mt_team *t);
int mt_team_span(struct mt_team *t, const struct mt_span *span);
/* After a failure: the spans lead to damage; one who reads all by itself can say more. */
int mt_team_again(const struct mt_team *t);
/* Work of each member on its own part of the trace, after mt_team_finish. All return 0 or -1, if not said
 * otherwise. */
struct mt_share_ops {
    /* What follows is of this span; begins: from its first access on */
    int (*launch)(void *arg, size_t span, int begins);
    int (*records)(void *arg, const struct mt_raw_record *records, size_t count);
    int (*runs)(void *arg, const struct mt_access_run *runs, size_t count);
    /* The results as *n bytes from malloc, NULL without memory; those of the next part are added to this
     * one's. */
    char *(*pack)(void *arg, size_t *n);
    int (*merge)(void *arg, const char *data, size_t n);
};
/* `spans`: all launches of the trace, a span each, the same for all members, who call it together. Parts are
 * one behind the other. 0; 1: a user wants no more, all end here; -1: all have failed. */
int mt_team_share(struct mt_team *t, const struct mt_span *spans, size_t n, const struct mt_share_ops *ops,
                  void *arg);
/* After it, together: all results come to the one that reports. */
int mt_team_fold(struct mt_team *t, const struct mt_share_ops *ops, void *arg);
/* Have all members agreed to end here, because the user wants no more of one of them? One alone never does:
 * its source stops. */
int mt_team_stopped(const struct mt_team *t);
int mt_team_copy(struct mt_team *t, const struct mt_copy_event *copy);
int mt_team_host(struct mt_team *t, const struct mt_host_access *accesses, size_t count);
/* Records and host accesses handed in so far. */
uint64_t mt_team_count(const struct mt_team *t);
/* Waits for the threads and puts the results together. They are the team's, and whole where
 * mt_team_reports; NULL on failure. Nothing may be
 * fed any more. */
struct mt_comm *mt_team_finish(struct mt_team *t);
const char *mt_team_why(const struct mt_team *t);
#endif
