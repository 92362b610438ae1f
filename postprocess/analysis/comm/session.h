/* Interface for a program that runs as several processes that share one analysis: memtrace extract under
 * mpirun (analysis/mpi/ranks.c). NULL stands for a single process. All processes feed the same items. */
#ifndef MT_ANALYSIS_SESSION_H
#define MT_ANALYSIS_SESSION_H
#include <signal.h>
#include "memtrace/trace.h"
#include "team.h"

/* Section of a launch that has not been read: `count` records from byte `offset` of a raw trace on, or chunks
 * offset .. offset + count - 1 of a compact trace. */
struct mt_span {
    const char *path; /* one pointer per input; must live as long as the team */
    uint64_t offset, count;
    int chunks;
    int selected; /* 1: the section's launch is reported */
};

/* Analysis that each process feeds with its own part of the trace, after the team has finished. */
struct mt_share {
    const struct mt_analysis *of;
    void *self;
    const struct mt_run_launch *launches; /* by span; `begins` is relative to this part */
    size_t n;
    /* pack returns the results as *bytes bytes from malloc, or NULL without memory; merge adds those of the
     * next part and returns 0 or -1. */
    char *(*pack)(const struct mt_share *s, size_t *bytes);
    int (*merge)(const struct mt_share *s, const char *data, size_t bytes);
};

/* Traces that processes on different machines have, each its own: those of one job. */
struct mt_joined {
    size_t n;
    const char **paths;      /* of all processes, in their order */
    const char **companions; /* of traces elsewhere a copy */
    unsigned char *absent;   /* 1: elsewhere */
    unsigned *member;        /* that has it */
    int *copies;             /* descriptors of the copies, or -1 */
};

struct mt_session {
    /* First and last call of the process. *stop becomes 1 when the user stops the program; processes that
     * have agreed on it (stopped) set it as well. `together`: every process reaches its end with this code;
     * otherwise the call also ends the other processes. Returns the code. */
    void (*begin)(int *argc, char ***argv, volatile sig_atomic_t *stop);
    int (*end)(int code, int together);
    /* Returns 1 in the process that gets the results; it writes output and messages. */
    int (*reports)(void);
    int (*members)(void);
    /* Returns the code of the first process whose code is not 0, in all processes. */
    int (*agree)(int code);
    /* Finds the launches of all inputs jointly, for mt_source_options. Returns NULL if there is one launch,
     * or if an input is damaged, a compact trace without index or a host trace; each process then reads
     * everything. Freed by unsplit. */
    struct mt_launch_ends *(*split)(const char *const *paths, size_t npaths);
    void (*unsplit)(struct mt_launch_ends *ends, size_t npaths);
    /* Compares the processes' inputs, jointly. Returns 1 and fills *out if they have different traces of one
     * job, 0 if they have the same, or -1 without memory. `out` is freed by unjoin, `paths` are kept. */
    int (*join)(const char *const *paths, size_t npaths, struct mt_joined *out);
    void (*unjoin)(struct mt_joined *j);
    /* Creates a team with a member in each process, for the functions below. Returns NULL without memory. */
    struct mt_team *(*team)(const struct mt_comm_options *options);
    /* Switches from accesses to spans: each member reads part of them at any time. */
    int (*by_parts)(struct mt_team *t);
    /* Each member gets the records of its own traces only; of all others the launches and copies. */
    int (*apart)(struct mt_team *t, const struct mt_joined *j, const struct mt_source *source);
    /* Returns 1 in the process that reports if `mine` is 1 in any, with the first such `why`, jointly. */
    int (*any)(int mine, const char *why, char *out, size_t size);
    int (*span)(struct mt_team *t, const struct mt_span *span);
    /* Returns 1 after a failure if spans lead to damage: a process that reads everything can report it. */
    int (*again)(const struct mt_team *t);
    /* Returns 1 if all processes have agreed to stop because a user stopped one of them. A single process
     * never does; its source stops. */
    int (*stopped)(const struct mt_team *t);
    /* Feeds a share, jointly. `spans`: all launches of the trace, one span each, equal in all processes.
     * Parts are consecutive. Returns 0; 1 if a user stopped the program; -1 if all have failed. */
    int (*share)(struct mt_team *t, const struct mt_span *spans, const struct mt_share *share);
    /* Merges all results in the process that reports, jointly, after share. */
    int (*fold)(struct mt_team *t, const struct mt_share *share);
    /* Prints a table of each process's work to stderr, jointly. */
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
