/* What a run did that it should not have done: a list of findings, each once for a place in the program. */
#ifndef MT_ANALYSIS_FINDINGS_H
#define MT_ANALYSIS_FINDINGS_H

#include "analysis/base/buffers.h"
#include "analysis/base/sites.h"
#include "analysis/locality/conflicts.h"
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

/* One side of it. Texts are the source's; "" or 0: not known. */
struct mt_finding_side {
    const char *file, *at; /* at: of machine code, or in a module of the program */
    const char *callers;   /* of that, a line each; NULL: not known */
    const char *op;        /* "load", "store", "atomic" */
    uint64_t line;
    uint64_t cta[3], thread[3];
    int known; /* of cta and thread: 1 cta, 2 both */
};

struct mt_finding {
    enum mt_finding_kind kind;
    const char *kernel, *var, *other_kernel; /* other_kernel: of the other side's launch, "": a copy */
    struct mt_finding_side here, other;
    uint64_t size;     /* of an access */
    uint64_t count;    /* accesses; of races words, of calls and copies how many, of use bytes */
    uint64_t launches; /* with it */
    uint64_t launch;   /* which one, counted from 1: launches are then counted here; 0: they are known */
    const struct mt_alloc_event *alloc; /* NULL: none */
    const char *side;                   /* where it is beside that ("after", "before", "freed" …) */
    uint64_t distance;                  /* so many bytes */
    const char *words;                  /* the runtime's */
    const char *call, *error;
    size_t number; /* in the order found; the list's */
};

struct mt_findings {
    struct mt_finding *list;
    size_t count, room;
    char **texts; /* of mt_findings_text */
    size_t ntexts, text_room;
    struct mt_companion *beside; /* of mt_findings_beside */
    uint64_t ordered;            /* conflicts of CTAs that atomics may order, which are not in the list */
    uint64_t unjudged; /* of memory: launches after which all counts as written, for not all is recorded */
};

/* Of a source's companions the one that has most of the process's events: that of a stream which ended early
 * has few. NULL: there is none. */
/* NULL, too, of several processes. */
const struct mt_companion *mt_findings_companion(const struct mt_findings *f, const struct mt_source *s);
/* Takes the fullest of the companion files beside the inputs, too, if it is of the same run: a container's
 * own lines end with its stream. */
void mt_findings_beside(struct mt_findings *f, const struct mt_source *s);
/* 0, or -1 without memory. */
int mt_findings_add(struct mt_findings *f, const struct mt_finding *x);
/* Adds all of the other list, with texts of their own. 0, or -1 without memory. */
int mt_findings_take(struct mt_findings *f, const struct mt_findings *from);
/* By level, file, line and kind; those of one kind, kernel and places are the first one with all
 * counts. Races of a CTA's threads and those of two CTAs are two. */
void mt_findings_finish(struct mt_findings *f);
/* A copy of n characters that lives as long as the list; NULL without memory. */
const char *mt_findings_text(struct mt_findings *f, const char *text, size_t n);
void mt_findings_free(struct mt_findings *f);
/* How many of a level. */
size_t mt_findings_of(const struct mt_findings *f, enum mt_finding_level level);

/* Findings that others have found already: the runtime (events of companions), and the analyses of threads
 * of one CTA and of CTAs of one launch. All give 0, or -1 without memory; texts are the source's. */

/* Bad accesses, calls and launches that failed, lines with many small copies. After the reading. */
int mt_check_events(struct mt_findings *f, struct mt_source *s);
/* buffers: to be asked where an address was. */
int mt_check_threads(struct mt_findings *f, const struct mt_onchip *x, struct mt_buffers *buffers);
int mt_check_conflicts(struct mt_findings *f, const struct mt_conflicts *x, const struct mt_sites *sites,
                       struct mt_buffers *buffers);
/* Takes out reads of what nobody wrote where a race says already that they come too early. 0, or -1
 * without memory. */
int mt_check_early(struct mt_findings *f);

#endif
