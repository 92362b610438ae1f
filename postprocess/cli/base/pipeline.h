/* Work shared by memtrace extract and memtrace report: opens the inputs, feeds the communication analysis and
 * the further ones side by side, on threads or (memtrace extract under MPI) on ranks, and collects the
 * results. Order of calls: mt_pipeline_init, mt_pipeline_option*, mt_pipeline_open, mt_feed_add for rows of
 * the command, mt_pipeline_read, mt_pipeline_finish, mt_pipeline_result, mt_pipeline_free. */
#ifndef MT_CLI_PIPELINE_H
#define MT_CLI_PIPELINE_H

#include "cli.h"
#include "memory.h"
#include "analysis/comm/comm.h"
#include "analysis/base/parts.h"
#include "analysis/locality/locality.h"
#include "analysis/locality/placement.h"
#include "output/text/gaps.h"
#include "output/json/json.h"
#include "output/results/results.h"
#include "output/rows/topology.h"
#include "analysis/base/runs.h"
#include "analysis/comm/session.h"
#include "analysis/onchip/onchip.h"

/* The further analyses (analysis/locality/) on a source, for memtrace extract and memtrace report. */

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
    const struct mt_filter *filter; /* of totals; NULL: all */
    struct mt_locality more;
    struct mt_sites sites;
    struct mt_site_table *tables; /* site tables by input */
    struct mt_names kernels;      /* of totals that a GPU counted */
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
/* Returns the sites of an input, or NULL without companion or memory. */
const struct mt_site_table *mt_locality_run_sites(struct mt_locality_run *x, size_t input);
void mt_locality_run_free(struct mt_locality_run *x);

/* A source that analyses (analysis/base/runs.h) read side by side, in the only loop over mt_source_next. An
 * item goes to one row after another. A row with threads of its own may use the item until the next one. */

enum { MT_FEED_ROWS = 8 };
enum {
    MT_FEED_FAILED = -1 /* a row failed, see `why` */,
    MT_FEED_UNREADABLE = -2 /* the source failed, see `err` */
};

struct mt_feed {
    struct mt_source *source;
    const struct mt_filter *filter; /* filter; NULL: all launches are selected */
    struct mt_progress *progress;   /* progress display; NULL: none */
    int again;                      /* 1: the source was read before */
    struct {
        const struct mt_analysis *of;
        void *self;
        const char *why; /* what memory was needed for, if it ran out */
    } rows[MT_FEED_ROWS];
    size_t nrows;
    unsigned needs, lacks; /* needs and gaps of all rows together */
    int makes;             /* 1: a row accepts runs only, so records are converted */
    /* Counts: */
    uint64_t launches, chosen;   /* all launches, and the selected ones */
    uint64_t accesses, reported; /* accesses of kernels and host code, and those of selected launches */
    uint64_t unread;             /* accesses of launches that were skipped */
    const char *why;             /* of the row that failed; NULL: the row has no message */
    int failed;                  /* 1: a row failed when it was added */
    struct mt_error err;
    /* Internal state: */
    struct mt_run_launch launch; /* current launch */
    struct mt_memory memory;     /* as it was last looked at */
    uint64_t fed;                /* bytes that may have been needed since */
    struct mt_access_run *made;  /* converted runs of the current item */
    size_t room;
};

/* Adds a row and calls its init, with the feed's source. `why` NULL: the caller knows the reason. */
void mt_feed_add(struct mt_feed *f, const struct mt_analysis *of, void *self, const char *why);
/* Reads to the end, or until a row has enough, or as if interrupted (mt_cli_stop) until memory is short.
 * Returns 0 or a value of the enum above. All rows are finished, unless one failed. */
int mt_feed_read(struct mt_feed *f);
/* Prints the error of such a value; returns an exit code. */
int mt_feed_failed(const struct mt_feed *f, int rc);
/* Frees the rows. */
void mt_feed_free(struct mt_feed *f);

/* Results wanted from the communication analysis besides data volumes, which are always included. */
enum {
    MT_WANTS_COMM = 1,                         /* last writer of loaded bytes */
    MT_WANTS_TRANSFERS = 2 | MT_WANTS_COMM,    /* transfers between actors */
    MT_WANTS_READERS = 4 | MT_WANTS_TRANSFERS, /* bytes read by several actors */
    MT_WANTS_ADDRESSES = 8 | MT_WANTS_COMM     /* addresses of communication */
};

struct mt_pipeline {
    struct mt_inputs inputs;
    struct mt_filter filter;
    struct mt_comm_options options;
    struct mt_locality_run more;
    unsigned threads, wants;
    int further; /* 1: an option of the further analyses was given */
    struct mt_output out;
    struct mt_source *source;
    const struct mt_session *session; /* session of several processes; NULL: one process */
    const struct mt_joined *joined; /* traces of their machines, each read where it is; NULL: all have all */
    struct mt_team *team;
    struct mt_comm *comm; /* results of the communication analysis */
    struct mt_progress progress;
    struct mt_estimates estimates;
    int spaces; /* 1: shared and local memory are analysed */
    struct mt_onchip onchip;
    const struct mt_launch_event **events; /* event of each launch; NULL: no companion has it */
    size_t nevents, event_room;
    const char *why; /* reason of a failure outside the team */
    struct mt_feed feed;
};

void mt_pipeline_init(struct mt_pipeline *p);
/* Handles options of both memtrace extract and memtrace report; returns as mt_common_option does. */
int mt_pipeline_option(struct mt_pipeline *p, int o);
/* Returns 1, after the options, if one of them needs traces as input. */
int mt_pipeline_asked(const struct mt_pipeline *p);
/* Opens the inputs and begins the analyses for p->wants. Returns 0, or an exit code after a message. */
int mt_pipeline_open(struct mt_pipeline *p);
/* Reads all inputs and finishes the communication analysis. Returns 0, or an exit code after a message. */
int mt_pipeline_read(struct mt_pipeline *p);
/* Ends the inputs (*complete: 1, 0, or -1 if unknown) and all other analyses, and sorts transfers
 * independently of the number of threads. Returns an exit code. */
int mt_pipeline_finish(struct mt_pipeline *p, int *complete);
/* Returns the input of all writers, after the analyses have ended. `notes` has room for
 * MT_LOCALITY_RUN_NOTES. */
struct mt_comm_result mt_pipeline_result(const struct mt_pipeline *p, int complete, const char **notes);
/* Frees the results and the source; the inputs remain, for messages. */
void mt_pipeline_forget(struct mt_pipeline *p);
void mt_pipeline_free(struct mt_pipeline *p);

#endif
