/* The further analyses (analysis/locality/) on a source: what memtrace extract and memtrace report have in
 * common. */
#ifndef MT_CLI_LOCALITY_RUN_H
#define MT_CLI_LOCALITY_RUN_H
#include "cli.h"
#include "analysis/comm/comm.h"
#include "analysis/locality/crew.h"
#include "analysis/locality/estimates.h"
#include "analysis/locality/locality.h"
#include "analysis/locality/placement.h"
#include "output/text/gaps.h"
#include "output/json/json.h"
#include "output/results/results.h"
#include "output/rows/topology.h"

enum { MT_LOCALITY_RUN_NOTES = 4 };

struct mt_locality_run {
    struct mt_locality_options options;
    unsigned devices;
    struct mt_topology topology; /* devices 0: not given */
    unsigned
        meant; /* a bit for each section that an option says how to make: who gives it wants the section */
    enum mt_collective_way way;
    int quiet;   /* notes are not said */
    int beside;  /* of each other, on the threads of the source */
    size_t rows; /* of a table for people, at most */
    /* state */
    struct mt_source *source;
    struct mt_locality more;
    struct mt_sites sites;
    struct mt_site_table *tables; /* by input */
    int *known;
    size_t ninputs;
    struct mt_placement placement;
    int64_t *ran; /* by launch: its device, -1 if there is one */
    size_t nran, ran_room;
    struct mt_collective_launch *collectives;
    size_t ncollectives, collective_room;
    struct mt_crew *crew; /* when `beside` */
    struct mt_run_launch launch;
    const struct mt_run_launch
        *begins; /* with the next accesses: it, or what has changed in it; NULL: nothing */
    char notes[MT_LOCALITY_RUN_NOTES][200];
};

void mt_locality_run_init(struct mt_locality_run *x);
/* Chooses the section of this name, or all of them ("more"). 0: there is none. */
int mt_locality_run_section(struct mt_locality_run *x, const char *name, size_t length);
/* An option of one of them: 0, or an exit code after saying why; -1: it is none. */
int mt_locality_run_option(struct mt_locality_run *x, int option, const char *value);
static inline int mt_locality_run_has(const struct mt_locality_run *x, enum mt_locality_section s)
{
    return x->options.chosen >> s & 1;
}

/* Is one of those chosen that look at accesses? */
static inline int mt_locality_run_of_runs(const struct mt_locality_run *x)
{
    return (x->options.chosen & ((1u << MT_LOCALITY_OF_RUNS) - 1)) != 0;
}

/* The value of --threads: 0, or an exit code after saying why. */
int mt_cli_threads_option(unsigned *threads, const char *value);
/* All those that were chosen, as one: what it is given must stay until `wait`. A launch is told with the runs
 * that come next. */
extern const struct mt_analysis mt_locality_run_analysis;
/* Functions below return 0, or -1 without memory; they do nothing when no section was chosen. */
int mt_locality_run_finish(struct mt_locality_run *x, const struct mt_comm *comm);
/* What is above tables and sentences. */
struct mt_extract_text {
    const char *const *notes;
    size_t nnotes;
    int complete;
    struct mt_gaps gaps;
};
void mt_locality_run_head(const struct mt_locality_run *x, FILE *f, const struct mt_comm *comm,
                          const struct mt_extract_text *head);
/* Members of the array of notes under way. */
void mt_locality_run_notes(const struct mt_locality_run *x, struct mt_json *j);
/* --topology; NULL: it was not given. */
const struct mt_topology *mt_locality_run_topology(const struct mt_locality_run *x);
/* What kernels read and wrote; NULL: that was not looked at. */
const struct mt_traffic *mt_locality_run_traffic(const struct mt_locality_run *x);
void mt_locality_run_free(struct mt_locality_run *x);
/* The analyses of runs are left out: nobody fed them. */
void mt_locality_run_drop(struct mt_locality_run *x);
/* As before its init. */
void mt_locality_run_again(struct mt_locality_run *x);
#endif
