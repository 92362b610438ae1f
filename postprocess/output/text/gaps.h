/* Gaps: what is missing in the figures of a trace that is otherwise complete, as sentences. Text, summary and
 * page use the same words. */
#ifndef MT_OUTPUT_GAPS_H
#define MT_OUTPUT_GAPS_H
#include <stdint.h>
#include "analysis/comm/comm.h"
#include "analysis/locality/traffic.h"
#include "analysis/base/parts.h"
#include "memtrace/trace.h"
#include "output/json/json.h"

enum mt_gap {
    MT_GAP_LAUNCHES,  /* launches not traced */
    MT_GAP_UNTRACED,  /* accesses without a record */
    MT_GAP_FAILED,    /* failed launches */
    MT_GAP_HOST,      /* host code may have written what kernels read */
    MT_GAP_PARTED,    /* requests that may be parts of one */
    MT_GAP_UNGROUPED, /* accesses not grouped into requests */
    MT_GAP_LIBRARY,   /* accesses of libraries, excluded by memtrace host */
    MT_GAP_CHILDREN,  /* child processes of a host program */
    MT_GAP_REPEATED,  /* accesses of threads that waited */
    MT_GAP_ONLY,      /* totals in place of records */
    MT_GAPS
};
struct mt_gaps {
    char *sentence[MT_GAPS]; /* a sentence for each gap, or NULL */
    char **apart;            /* kernels of MT_GAP_PARTED and MT_GAP_UNGROUPED */
    size_t napart;
};

/* Finds the gaps, after the source has been read to its end. `traffic`: what kernels read; NULL: unknown.
 * Returns 0, or -1 without memory; call mt_gaps_free in any case. */
int mt_gaps_find(struct mt_gaps *g, struct mt_source *source, const struct mt_comm *c,
                 const struct mt_traffic *traffic);
/* Sets MT_GAP_LAUNCHES for a number of launches; `of_run`: filters exclude some of them. Returns 0, or -1
 * without memory. */
int mt_gaps_launches(struct mt_gaps *g, uint64_t launches, int of_run);
/* Sets MT_GAP_UNTRACED. Returns 0, or -1 without memory. */
int mt_gaps_untraced(struct mt_gaps *g, const struct mt_untraced *u, int of_run);
/* Adds a kernel to `apart` unless it is there. Returns 0, or -1 without memory. */
int mt_gaps_apart(struct mt_gaps *g, const char *kernel);
/* Writes the member "gaps" of the open object, an array of sentences, and "apart" if there are such kernels.
 */
void mt_gaps_write(struct mt_json *j, const struct mt_gaps *g);
void mt_gaps_free(struct mt_gaps *g);
#endif
