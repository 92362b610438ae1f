/* The further analyses (analysis/locality/) on a source, for memtrace extract and memtrace report. */
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
    struct mt_topology topology; /* topology of --topology; devices is 0 without it */
    unsigned meant;              /* a bit for each section chosen by one of its options */
    enum mt_collective_way way;
    int quiet;   /* 1: prints no notes */
    int beside;  /* 1: analyses run in parallel, on the source's threads */
    size_t rows; /* most rows of a text table */
    /* Internal state: */
    struct mt_source *source;
    struct mt_locality more;
    struct mt_sites sites;
    struct mt_site_table *tables; /* site tables by input */
    int *known;
    size_t ninputs;
    struct mt_placement placement;
    int64_t *ran; /* device of each launch, -1 if there is only one */
    size_t nran, ran_room;
    struct mt_collective_launch *collectives;
    size_t ncollectives, collective_room;
    struct mt_crew *crew; /* parallel execution, used if `beside` */
    struct mt_run_launch launch;
    const struct mt_run_launch
        *begins; /* launch passed with the next accesses: the whole launch, or its changes; NULL: none */
    char notes[MT_LOCALITY_RUN_NOTES][200];
};

void mt_locality_run_init(struct mt_locality_run *x);
/* Chooses a section by name, or all of them ("more"). Returns 0 if there is none. */
int mt_locality_run_section(struct mt_locality_run *x, const char *name, size_t length);
/* Handles an option of an analysis. Returns 0, an exit code after a message, or -1 if it is none of theirs.
 */
static inline int mt_locality_run_has(const struct mt_locality_run *x, enum mt_locality_section s)
{
    return x->options.chosen >> s & 1;
}

/* Returns 1 if a chosen analysis reads accesses. */
static inline int mt_locality_run_of_runs(const struct mt_locality_run *x)
{
    return (x->options.chosen & ((1u << MT_LOCALITY_OF_RUNS) - 1)) != 0;
}

/* All chosen analyses as one. Its input must stay valid until `wait`. A launch is passed together with the
 * next runs. */
extern const struct mt_analysis mt_locality_run_analysis;
/* The functions below return 0, or -1 without memory; they do nothing if no section was chosen. */
int mt_locality_run_finish(struct mt_locality_run *x, const struct mt_comm *comm);
/* Text above the tables and sentences. */
struct mt_extract_text {
    const char *const *notes;
    size_t nnotes;
    int complete;
    struct mt_gaps gaps;
};
/* Returns what kernels read and wrote, or NULL if that was not analysed. */
const struct mt_traffic *mt_locality_run_traffic(const struct mt_locality_run *x);
void mt_locality_run_free(struct mt_locality_run *x);
#endif
