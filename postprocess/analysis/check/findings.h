/* List of findings (errors and waste in a run), each once per place in the program. */
#ifndef MT_ANALYSIS_FINDINGS_H
#define MT_ANALYSIS_FINDINGS_H

#include "analysis/base/buffers.h"
#include "analysis/base/sites.h"
#include "analysis/onchip/onchip.h"
#include "format/finding.h"
#include "memtrace/trace.h"

#include <stddef.h>
#include <stdint.h>

enum mt_finding_level { MT_FINDING_ERROR, MT_FINDING_WARNING, MT_FINDING_HINT };
enum mt_finding_group {
    MT_FINDING_MEMORY,
    MT_FINDING_CALLS,
    MT_FINDING_INIT,
    MT_FINDING_RACE,
    MT_FINDING_SYNC,
    MT_FINDING_USE,
    MT_FINDING_GROUPS
};
struct mt_finding_rule {
    const char *word, *rule;
    enum mt_finding_level level;
    enum mt_finding_group group;
};
extern const struct mt_finding_rule mt_finding_rules[MT_FINDING_KINDS];
extern const char *const mt_finding_groups[MT_FINDING_GROUPS + 1]; /* "memory" …, NULL */
extern const char *const mt_finding_levels[];                      /* "error", "warning", "hint" */

/* One side of a finding. Texts are owned by the source; "" or 0: not known. */
struct mt_finding_side {
    const char *file, *at; /* at: location in machine code, or in a module of the program */
    const char *callers;   /* callers of `at`, one per line; NULL: not known */
    const char *stack; /* who led to the place, innermost first: "app.cu:12 in make", one per line; NULL: not
                        * known. Of an access in a kernel: what its function is inlined into */
    const char *op;    /* "load", "store", "atomic" */
    uint64_t line;
    uint64_t cta[3], thread[3];
    int known; /* 1: cta is known, 2: cta and thread are */
};

struct mt_finding {
    enum mt_finding_kind kind;
    const char *kernel, *var, *other_kernel; /* other_kernel: kernel of the other side's launch, "": a copy */
    struct mt_finding_side here, other;
    uint64_t size;     /* bytes of a single access */
    uint64_t count;    /* number of accesses, words (races), calls, copies, or unused bytes; of
                        * `unordered` the most bytes of all occurrences */
    uint64_t launches; /* number of launches with the finding */
    uint64_t launch;   /* number of the launch, from 1: counted in `launches` by the list; 0: it is given */
    struct mt_finding_side launched;    /* call that launched the kernel */
    uint64_t total;                     /* bytes of all blocks, if the finding is about blocks */
    const struct mt_alloc_event *alloc; /* allocation near the access, or NULL. Its `callers` are a stack if
                                         * its `stack` is not 0 */
    const char *side;                   /* position relative to `alloc` ("after", "before", "freed" …) */
    uint64_t distance;                  /* bytes between the access and `alloc` */
    const char *words;                  /* explanation from the runtime */
    const char *call, *error;
    int unfenced;  /* 1: a fence before an atomic would order the two; 2: or one after it */
    int narrow;    /* race: 1: both sides are strong, and the scope of one does not include the other */
    size_t number; /* serial number; set by the list */
};

struct mt_findings {
    struct mt_finding *list;
    size_t count, room;
    char **texts; /* texts allocated by mt_findings_text */
    size_t ntexts, text_room;
    struct mt_companion *beside; /* companion file found by mt_findings_beside */
    int holes; /* 1: a part of the trace is lost: no races within launches, and no uninitialised reads */
    uint64_t uncompared; /* launches and copies that were not, or not completely, compared with others */
    uint64_t unraced;    /* accesses that were not judged for races */
    uint64_t unjudged; /* uninitialised reads: launches after which all memory counts as written, because not
                        * all accesses are recorded */
};

/* Returns the companion with the most events of the process, since a stream that ended early has few. NULL if
 * there is none, or with several processes. */
const struct mt_companion *mt_findings_companion(const struct mt_findings *f, const struct mt_source *s);
/* Also considers the companion files beside the inputs, if they are of the same run: the lines inside a
 * compact trace end with its stream. */
void mt_findings_beside(struct mt_findings *f, const struct mt_source *s);
/* Adds a finding. Returns 0, or -1 without memory. */
int mt_findings_add(struct mt_findings *f, const struct mt_finding *x);
/* Adds all findings of the other list, with copies of its texts. Returns 0, or -1 without memory. */
int mt_findings_take(struct mt_findings *f, const struct mt_findings *from);
/* Sorts findings by level, file, line and kind. Findings of one kind, kernel and places are merged into the
 * first one, with the sum of the counts. Races between threads of a CTA and between CTAs stay separate. */
void mt_findings_finish(struct mt_findings *f);
/* Copies n characters; the copy lives as long as the list. Returns NULL without memory. */
const char *mt_findings_text(struct mt_findings *f, const char *text, size_t n);
void mt_findings_free(struct mt_findings *f);
/* Returns the number of findings of a level. */
size_t mt_findings_of(const struct mt_findings *f, enum mt_finding_level level);

/* Functions that add findings of others: of the runtime (events of companion files), and of the analyses of a
 * CTA's threads and of CTAs of a launch. All return 0, or -1 without memory; texts are owned by the
 * source. */

/* Adds bad accesses, failed calls and launches, and lines with many small copies. After reading. */
int mt_check_events(struct mt_findings *f, struct mt_source *s);
/* Adds races; fenced: those that are left if fences are assumed; buffers: finds the allocation of an
 * address. */
int mt_check_races(struct mt_findings *f, const struct mt_hazards *x, const struct mt_hazards *fenced,
                   const struct mt_source *s, struct mt_buffers *buffers);
/* Sets the launch of a finding. l: NULL is allowed */
void mt_finding_launched(struct mt_finding *x, const struct mt_launch_event *l);
/* Removes uninitialised reads that a race explains as too early, or of shared memory outside of a variable.
 * Returns 0, or -1 without memory. */
int mt_check_early(struct mt_findings *f);

#endif
