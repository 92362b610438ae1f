/* What stands out, in sentences: those of "At a glance" of the page (page/web/), for a terminal. A
 * sentence is only where the trace knows enough for it. */
#ifndef MT_OUTPUT_SUMMARY_H
#define MT_OUTPUT_SUMMARY_H
#include "results.h"
#include "analysis/check/findings.h"

/* The summary under way. */
struct mt_summary {
    const struct mt_comm_result *r;
    uint32_t *rank; /* of each launch's kernel among the kernels */
    const char **kernels;
    size_t nkernels;
    int failed; /* no memory */
    /* state */
    struct mt_sentence *list;
    size_t n, room;
    uint32_t *first; /* of each kernel: which one was launched first; those that filters left before */
    size_t selected; /* launches that filters left */
};

/* A sentence. `look`: it deserves one, and comes before those that do not; `place`: among these, in ascending
 * order. */
__attribute__((format(printf, 4, 5))) void mt_summary_say(struct mt_summary *s, int place, int look,
                                                          const char *format, ...);

/* What an analysis has to say: 0, 1 or more sentences. */
#define MT_ANALYSIS(NAME, name, ...)                                                                         \
    int mt_##name##_json(struct mt_json *j, const struct mt_comm_result *r);                                 \
    int mt_##name##_text(struct mt_text *t);                                                                 \
    void mt_##name##_sentence(struct mt_summary *s);
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
void mt_locality_sentences(struct mt_summary *s); /* all of these */
void mt_placement_sentence(struct mt_summary *s);
/* Of bank conflicts and of hazards in shared memory; s->r->onchip is there. */
void mt_banks_sentence(struct mt_summary *s);
void mt_hazards_sentence(struct mt_summary *s);

/* A line each, those that deserve a look first, marked "! ". `r` has its transfers and all further analyses.
 * findings: of what no other sentence speaks of. 0, or -1 without memory; write errors are the stream's. */
int mt_summary_write(FILE *f, const struct mt_comm_result *r, const struct mt_estimates *estimates,
                     const struct mt_findings *findings);
#endif
