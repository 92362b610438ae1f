/* What memtrace extract and memtrace report do alike: inputs opened, the communication analysis and the
 * further ones fed side by side, on threads or (memtrace extract under MPI) by ranks, and their results.
 *
 *   mt_pipeline_init, mt_pipeline_option*, mt_pipeline_open, mt_feed_add of the tool's own,
 * mt_pipeline_read, mt_pipeline_free */
#ifndef MT_CLI_PIPELINE_H
#define MT_CLI_PIPELINE_H

#include "cli.h"
#include "analysis/base/runs.h"
#include "locality_run.h"
#include "analysis/comm/session.h"
#include "analysis/onchip/onchip.h"
#include "analysis/locality/estimates.h"

/* A source, read to its end by analyses (analysis/base/runs.h) side by side: the one loop over
 * mt_source_next. An item goes to one row after the other. A row that works on threads of its own has until
 * the next item. */

enum { MT_FEED_ROWS = 8 };
enum { MT_FEED_FAILED = -1 /* a row did: `why` */, MT_FEED_UNREADABLE = -2 /* the source did: `err` */ };

struct mt_feed {
    struct mt_source *source;
    const struct mt_filter *filter; /* NULL: all launches are selected */
    struct mt_progress *progress;   /* NULL: none is shown */
    int again;                      /* the source was read before */
    struct {
        const struct mt_analysis *of;
        void *self;
        const char *why; /* what there was no memory for */
    } rows[MT_FEED_ROWS];
    size_t nrows;
    unsigned needs, lacks; /* of all rows together */
    int makes;             /* a row takes runs alone: of records they are made */
    /* what came */
    uint64_t launches, chosen;   /* of these, selected ones */
    uint64_t accesses, reported; /* of kernels and host code; of selected launches */
    uint64_t unread;             /* accesses of launches that were passed over */
    const char *why;             /* of the row that failed; NULL: it has none */
    int failed;                  /* one did when it was added */
    struct mt_error err;
    /* state */
    struct mt_run_launch launch; /* under way */
    struct mt_access_run *made;  /* an item's runs as they are not in the source */
    size_t room;
};

/* Its init comes at once, with the feed's source. `why` NULL: the caller knows. */
void mt_feed_add(struct mt_feed *f, const struct mt_analysis *of, void *self, const char *why);
/* 0: to its end, or until a row had enough; or enum above. All rows are finished, unless one failed. */
int mt_feed_read(struct mt_feed *f);
/* Says what that means; returns an exit code. */
int mt_feed_failed(const struct mt_feed *f, int rc);
/* Frees what the rows have. */
void mt_feed_free(struct mt_feed *f);

/* What results ask of the communication analysis beside data volumes, which are always there. */
enum {
    MT_WANTS_COMM = 1,                         /* who wrote what is loaded */
    MT_WANTS_TRANSFERS = 2 | MT_WANTS_COMM,    /* from whom to whom */
    MT_WANTS_READERS = 4 | MT_WANTS_TRANSFERS, /* which bytes they read in common */
    MT_WANTS_ADDRESSES = 8 | MT_WANTS_COMM     /* at which addresses */
};

struct mt_pipeline {
    struct mt_inputs inputs;
    struct mt_filter filter;
    struct mt_comm_options options;
    struct mt_locality_run more;
    unsigned threads, wants;
    int further; /* an option of the further analyses was given */
    struct mt_output out;
    struct mt_source *source;
    const struct mt_session *session; /* NULL: one process */
    struct mt_team *team;
    struct mt_comm *comm; /* its results */
    struct mt_progress progress;
    struct mt_estimates estimates;
    int spaces; /* shared and local memory are looked at */
    struct mt_onchip onchip;
    const struct mt_launch_event **events; /* of each launch, NULL: no companion tells */
    size_t nevents, event_room;
    const char *why; /* of a failure that is not the team's */
    struct mt_feed feed;
};

void mt_pipeline_init(struct mt_pipeline *p);
/* Options that memtrace extract and memtrace report both have: as mt_common_option. */
int mt_pipeline_option(struct mt_pipeline *p, int o);
/* After the options: was anything asked for that only traces can answer? */
int mt_pipeline_asked(const struct mt_pipeline *p);
/* Opens the inputs and begins the analyses, for p->wants. 0, or an exit code after saying why. */
int mt_pipeline_open(struct mt_pipeline *p);
/* Reads all, and finishes the communication analysis. 0, or an exit code after saying why. */
int mt_pipeline_read(struct mt_pipeline *p);
/* After that: the inputs' end (*complete: 1, 0, or -1 for not known), all other analyses, transfers in an
 * order that does not depend on the number of threads. An exit code. */
int mt_pipeline_finish(struct mt_pipeline *p, int *complete);
/* What writers of results get, after the end of all analyses. `notes` has room for MT_LOCALITY_RUN_NOTES. */
struct mt_comm_result mt_pipeline_result(const struct mt_pipeline *p, int complete, const char **notes);
void mt_pipeline_free(struct mt_pipeline *p);

#endif
