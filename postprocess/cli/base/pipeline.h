/* Work shared by memtrace extract and memtrace report: opens the inputs, feeds the communication analysis and
 * the further ones side by side, on threads or (memtrace extract under MPI) on ranks, and collects the
 * results. Order of calls: mt_pipeline_init, mt_pipeline_option*, mt_pipeline_open, mt_feed_add for rows of
 * the command, mt_pipeline_read, mt_pipeline_finish, mt_pipeline_result, mt_pipeline_free. */
#ifndef MT_CLI_PIPELINE_H
#define MT_CLI_PIPELINE_H

#include "cli.h"
#include "analysis/base/runs.h"
#include "locality_run.h"
#include "analysis/comm/session.h"
#include "analysis/onchip/onchip.h"
#include "analysis/locality/estimates.h"

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
    struct mt_access_run *made;  /* converted runs of the current item */
    size_t room;
};

/* Adds a row and calls its init, with the feed's source. `why` NULL: the caller knows the reason. */
void mt_feed_add(struct mt_feed *f, const struct mt_analysis *of, void *self, const char *why);
/* Reads to the end, or until a row has enough. Returns 0 or a value of the enum above. All rows are finished,
 * unless one failed. */
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
void mt_pipeline_free(struct mt_pipeline *p);

#endif
