#include "more.h"
#include <string.h>

int mt_more_init(struct mt_more *m, const struct mt_more_options *options,
                 const struct mt_alloc_event *allocs, size_t n)
{
    const struct mt_reuse_options reuse = {options->line_bits, options->sample_bits};
    const struct mt_sharing_options sharing = {options->line_bits, options->top};
    memset(m, 0, sizeof *m);
    m->options = *options;
    m->allocs = allocs;
    m->nallocs = n;
    return mt_lines_init(&m->lines, allocs, n) != 0 || mt_coalescing_init(&m->coalescing) != 0 ||
                   mt_reuse_init(&m->reuse, &reuse) != 0 ||
                   mt_sharing_init(&m->sharing, &sharing, allocs, n) != 0 ||
                   mt_conflicts_init(&m->conflicts) != 0
               ? -1
               : 0;
}

int mt_more_launch(struct mt_more *m, const struct mt_run_launch *l)
{
    if ((mt_more_has(m, MT_MORE_LINES) && mt_lines_launch(&m->lines, l) != 0) ||
        (mt_more_has(m, MT_MORE_COALESCING) && mt_coalescing_launch(&m->coalescing, l) != 0) ||
        (mt_more_has(m, MT_MORE_REUSE) && mt_reuse_launch(&m->reuse, l) != 0) ||
        (mt_more_has(m, MT_MORE_SHARING) && mt_sharing_launch(&m->sharing, l) != 0) ||
        (mt_more_has(m, MT_MORE_CONFLICTS) && mt_conflicts_launch(&m->conflicts, l) != 0))
        return -1;
    return 0;
}

int mt_more_runs(struct mt_more *m, const struct mt_access_run *runs, size_t n)
{
    if ((mt_more_has(m, MT_MORE_LINES) && mt_lines_runs(&m->lines, runs, n) != 0) ||
        (mt_more_has(m, MT_MORE_COALESCING) && mt_coalescing_runs(&m->coalescing, runs, n) != 0) ||
        (mt_more_has(m, MT_MORE_REUSE) && mt_reuse_runs(&m->reuse, runs, n) != 0) ||
        (mt_more_has(m, MT_MORE_SHARING) && mt_sharing_runs(&m->sharing, runs, n) != 0) ||
        (mt_more_has(m, MT_MORE_CONFLICTS) && mt_conflicts_runs(&m->conflicts, runs, n) != 0))
        return -1;
    return 0;
}

int mt_more_merge(struct mt_more *into, struct mt_more *from)
{
    return mt_lines_merge(&into->lines, &from->lines) != 0 ||
                   mt_coalescing_merge(&into->coalescing, &from->coalescing) != 0 ||
                   mt_reuse_merge(&into->reuse, &from->reuse) != 0 ||
                   mt_sharing_merge(&into->sharing, &from->sharing) != 0 ||
                   mt_conflicts_merge(&into->conflicts, &from->conflicts) != 0
               ? -1
               : 0;
}

int mt_more_finish(struct mt_more *m)
{
    return mt_reuse_finish(&m->reuse) != 0 || mt_sharing_finish(&m->sharing) != 0 ||
                   mt_conflicts_finish(&m->conflicts) != 0
               ? -1
               : 0;
}

void mt_more_free(struct mt_more *m)
{
    mt_lines_free(&m->lines);
    mt_coalescing_free(&m->coalescing);
    mt_reuse_free(&m->reuse);
    mt_sharing_free(&m->sharing);
    mt_conflicts_free(&m->conflicts);
    memset(m, 0, sizeof *m);
}
