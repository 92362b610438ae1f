/* What mt-extract does for the further analyses (analysis/more.h, analysis/placement.h). */
#ifndef MT_CLI_EXTRACT_MORE_H
#define MT_CLI_EXTRACT_MORE_H
#include "cli.h"
#include "../analysis/comm.h"
#include "../analysis/crew.h"
#include "../analysis/more.h"
#include "../analysis/placement.h"
#include "../output/json.h"
#include "../output/more_json.h"

enum { MT_EXTRACT_RUNS = 1 << 14, MT_EXTRACT_NOTES = 3 };

struct mt_extract_more {
    struct mt_more_options options;
    unsigned devices;
    int quiet; /* notes are not said */
    /* state */
    const struct mt_source *source;
    struct mt_more more;
    struct mt_sites sites;
    struct mt_site_table *tables; /* by input */
    int *known;
    size_t ninputs;
    struct mt_placement placement;
    struct mt_crew *crew; /* NULL: one thread does it all */
    struct mt_run_launch launch;
    struct mt_access_run runs[MT_EXTRACT_RUNS]; /* of records */
    char notes[MT_EXTRACT_NOTES][200];
};

enum { MT_OPT_LINE_SIZE = 768, MT_OPT_SAMPLE, MT_OPT_DEVICES, MT_OPT_TOP };
#define MT_MORE_OPTIONS                                                                                      \
    {"line-size", required_argument, NULL, MT_OPT_LINE_SIZE},                                                \
        {"sample", required_argument, NULL, MT_OPT_SAMPLE},                                                  \
        {"devices", required_argument, NULL, MT_OPT_DEVICES},                                                \
    {                                                                                                        \
        "top", required_argument, NULL, MT_OPT_TOP                                                           \
    }

void mt_extract_more_init(struct mt_extract_more *x);
/* Chooses the section of this name, or all of them ("more"). 0: there is none. */
int mt_extract_more_section(struct mt_extract_more *x, const char *name, size_t length);
/* One of MT_MORE_OPTIONS: 0, or an exit code after saying why. */
int mt_extract_more_option(struct mt_extract_more *x, int option, const char *value);
static inline int mt_extract_more_has(const struct mt_extract_more *x, enum mt_more_section s)
{
    return x->options.chosen >> s & 1;
}

/* Is one of those chosen that look at accesses? */
static inline int mt_extract_more_of_runs(const struct mt_extract_more *x)
{
    return (x->options.chosen & ((1u << MT_MORE_OF_RUNS) - 1)) != 0;
}

/* Functions below return 0, or -1 without memory; they do nothing when no section was chosen. */
int mt_extract_more_start(struct mt_extract_more *x, struct mt_source *source, size_t ninputs);
/* The value of --threads: 0, or an exit code after saying why. */
int mt_extract_threads_option(unsigned *threads, const char *value);
/* After the start: `threads` of its own from now on (1: none). */
int mt_extract_more_threads(struct mt_extract_more *x, unsigned threads);
/* Begins on a batch or runs; other items do not matter. The item must stay until mt_extract_more_wait. */
int mt_extract_more_begin(struct mt_extract_more *x, const struct mt_item *item, int selected);
int mt_extract_more_wait(struct mt_extract_more *x);
/* Both. */
int mt_extract_more_item(struct mt_extract_more *x, const struct mt_item *item, int selected);
/* For who feeds x->more by himself: the launch that the item begins; accesses of the one fed last. */
struct mt_run_launch mt_extract_more_launch(struct mt_extract_more *x, const struct mt_item *item,
                                            int selected);
int mt_extract_more_records(struct mt_extract_more *x, const struct mt_raw_record *records, size_t count);
int mt_extract_more_runs(struct mt_extract_more *x, const struct mt_access_run *runs, size_t count);
int mt_extract_more_finish(struct mt_extract_more *x, const struct mt_comm *comm);
/* Members of the object, and of the array of notes, under way. */
int mt_extract_more_write(struct mt_extract_more *x, struct mt_json *j, const struct mt_comm *comm);
/* What stands above the tables. */
struct mt_extract_text {
    const char *const *notes;
    size_t nnotes;
    int complete, volumes; /* volumes: a table of these, too */
};
/* Everything as tables to `fd`. -1: *error is an errno, or 0 for no memory. */
int mt_extract_more_text(struct mt_extract_more *x, int fd, const struct mt_comm *comm,
                         const struct mt_extract_text *head, int *error);
void mt_extract_more_notes(const struct mt_extract_more *x, struct mt_json *j);
void mt_extract_more_free(struct mt_extract_more *x);
/* The analyses of runs are left out: nobody fed them. */
void mt_extract_more_drop(struct mt_extract_more *x);
/* As before mt_extract_more_start. */
void mt_extract_more_again(struct mt_extract_more *x);
#endif
