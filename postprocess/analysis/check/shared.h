/* Reads of shared memory that nothing in the CTA wrote before, in the launch under way. Fed with the runs of
 * a source that has MT_SOURCE_SPACES. */
#ifndef MT_ANALYSIS_CHECK_SHARED_H
#define MT_ANALYSIS_CHECK_SHARED_H
#include "padding.h"
#include "unwritten.h"

enum { MT_SHARED_CTAS = 1 << 14 }; /* that are under way at once; older ones are not judged any more */

/* Zero-initialised is empty. */
struct mt_check_shared {
    struct mt_written *written; /* of CTA number % MT_SHARED_CTAS */
    struct mt_pairmap numbers;  /* of CTAs, in the order of their first access */
    uint64_t count;
    struct mt_members members; /* all CTAs have the same variables */
    int blind;                 /* not all that is written in this launch is seen */
};

/* blind: its trace lacks accesses. */
void mt_check_shared_launch(struct mt_check_shared *x, int blind);
/* whole: it copies structs. 0, or -1 without memory. */
int mt_check_shared_run(struct mt_check_shared *x, const struct mt_access_run *r, int whole,
                        struct mt_unwritten *u);
void mt_check_shared_free(struct mt_check_shared *x);
#endif
