/* What the figures of a whole trace lack all the same, in sentences: the same words in text, summary and
 * page. */
#ifndef MT_OUTPUT_GAPS_H
#define MT_OUTPUT_GAPS_H
#include <stdint.h>
#include "analysis/comm/comm.h"
#include "analysis/locality/traffic.h"
#include "analysis/base/parts.h"
#include "memtrace/trace.h"
#include "output/json/json.h"

enum mt_gap {
    MT_GAP_LAUNCHES,  /* not traced */
    MT_GAP_UNTRACED,  /* accesses without a record */
    MT_GAP_FAILED,    /* launches */
    MT_GAP_HOST,      /* host code may have written what kernels read */
    MT_GAP_PARTED,    /* requests that may be parts of one */
    MT_GAP_UNGROUPED, /* accesses that are no requests */
    MT_GAP_LIBRARY,   /* accesses of libraries, left out by memtrace host */
    MT_GAP_CHILDREN,  /* processes that a host program began */
    MT_GAPS
};
struct mt_gaps {
    char *sentence[MT_GAPS]; /* NULL: there is no such gap */
    char **apart;            /* kernels of MT_GAP_PARTED and MT_GAP_UNGROUPED */
    size_t napart;
};

/* After the end of the source. `traffic`: what kernels read; NULL: not known. 0, or -1 without memory;
 * mt_gaps_free in any case. */
int mt_gaps_find(struct mt_gaps *g, struct mt_source *source, const struct mt_comm *c,
                 const struct mt_traffic *traffic);
/* The first one, of a number of launches; `of_run`: filters leave some of them out. The same. */
int mt_gaps_launches(struct mt_gaps *g, uint64_t launches, int of_run);
/* The second one. The same. */
int mt_gaps_untraced(struct mt_gaps *g, const struct mt_untraced *u, int of_run);
/* One more kernel, unless it is there. The same. */
int mt_gaps_apart(struct mt_gaps *g, const char *kernel);
/* The members "gaps" of the object under way: an array of the sentences; and, if there are any, "apart". */
void mt_gaps_write(struct mt_json *j, const struct mt_gaps *g);
void mt_gaps_free(struct mt_gaps *g);
#endif
