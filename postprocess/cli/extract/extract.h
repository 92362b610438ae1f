/* The parts of mt-extract: options, reading (extract.c), writing. */
#ifndef MT_CLI_EXTRACT_H
#define MT_CLI_EXTRACT_H
#include "cli/base/cli.h"
#include "extract_formats.h"
#include "extract_live.h"
#include "cli/base/locality_run.h"
#include "extract_share.h"
#include "analysis/comm/addresses.h"
#include "analysis/comm/session.h"
#include "output/estimates_json.h"

struct mt_extract {
    struct mt_inputs inputs;
    struct mt_filter filter;
    struct mt_comm_options options;
    unsigned sections; /* a bit per enum mt_section */
    struct mt_output out;
    struct mt_source *source;
    struct mt_launch_ends *ends;      /* of the inputs' launches, when members read a part each */
    int by_parts;                     /* they may; the same everywhere */
    const struct mt_session *session; /* NULL: one process */
    struct mt_team *team;
    struct mt_comm *comm; /* its results */
    unsigned threads;
    struct mt_json json;
    struct mt_progress progress;
    struct mt_addresses addresses;
    int no_addresses;     /* reading was interrupted */
    int live;             /* --live: launches come as they are made, */
    int whole;            /* or traces when they are whole */
    const char **streams; /* the paths of its inputs */
    struct mt_live_traces traces;
    const struct mt_launch_event **events; /* of each launch, NULL: no companion tells */
    size_t nevents, event_room;
    const char *why; /* of a failure that is not the team's */
    struct mt_estimates estimates;
    struct mt_locality_run more;
    struct mt_extract_share share; /* of it, when members read a part each */
    int sharing;                   /* the others wait for this member */
    int no_more;                   /* the further analyses were interrupted */
    struct mt_formats formats;
    int chosen; /* --sections was given */
};

/* 0: go on; -1: done, exit with 0; else the exit code. */
int mt_extract_parse(struct mt_extract *x, int argc, char **argv, const char **output);

/* Says why, returns the exit code. */
int mt_extract_read_failed(const struct mt_error *err);
int mt_extract_addresses_failed(const struct mt_addresses *a);

/* The result as JSON, as text, or in another format. Returns the exit code; *complete becomes 0 when not all
 * came out. */
int mt_extract_write(struct mt_extract *x, int complete);
int mt_extract_write_text(struct mt_extract *x, int complete);
int mt_extract_write_other(struct mt_extract *x, int *complete);
#endif
