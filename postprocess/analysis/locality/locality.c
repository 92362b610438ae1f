#include "locality.h"
#include <string.h>

/* What each analysis of runs has, as functions of all of them. */
struct ops {
    int (*launch)(struct mt_locality *m, const struct mt_run_launch *l);
    int (*runs)(struct mt_locality *m, const struct mt_access_run *runs, size_t n);
};

#define OPS(name)                                                                                            \
    static int name##_launch(struct mt_locality *m, const struct mt_run_launch *l)                           \
    {                                                                                                        \
        return mt_##name##_launch(&m->name, l);                                                              \
    }                                                                                                        \
    static int name##_runs(struct mt_locality *m, const struct mt_access_run *runs, size_t n)                \
    {                                                                                                        \
        return mt_##name##_runs(&m->name, runs, n);                                                          \
    }
OPS(lines)
OPS(coalescing)
OPS(reuse)
OPS(sharing)
OPS(conflicts)

static const struct ops all_ops[MT_LOCALITY_OF_RUNS] = {
    [MT_LOCALITY_LINES] = {lines_launch, lines_runs},
    [MT_LOCALITY_COALESCING] = {coalescing_launch, coalescing_runs},
    [MT_LOCALITY_REUSE] = {reuse_launch, reuse_runs},
    [MT_LOCALITY_SHARING] = {sharing_launch, sharing_runs},
    [MT_LOCALITY_CONFLICTS] = {conflicts_launch, conflicts_runs},
};

int mt_locality_init(struct mt_locality *m, const struct mt_locality_options *options,
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

static int is_longer(const struct mt_access_run *r)
{
    return mt_run_size(r) > MT_LOCALITY_LONGEST;
}

/* All but the longest, in stretches of runs that stand together. */
static int feed_shorter(struct mt_locality *m, int s, const struct mt_access_run *runs, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && !is_longer(&runs[end]);)
            end++;
        if (end > i && all_ops[s].runs(m, runs + i, end - i) != 0)
            return -1;
        for (; end < n && is_longer(&runs[end]); end++)
            m->longer[s] += runs[end].count;
    }
    return 0;
}

uint64_t mt_locality_longer(const struct mt_locality *m)
{
    uint64_t most = 0; /* they are the same ones in each */
    for (int s = 0; s < MT_LOCALITY_OF_RUNS; s++)
        most = m->longer[s] > most ? m->longer[s] : most;
    return most;
}

int mt_locality_feed(struct mt_locality *m, unsigned sections, const struct mt_run_launch *launch,
                     const struct mt_access_run *runs, size_t n)
{
    for (int s = 0; s < MT_LOCALITY_OF_RUNS; s++) {
        if (!(m->options.chosen & sections & 1u << s))
            continue;
        int all = s == MT_LOCALITY_LINES || s == MT_LOCALITY_COALESCING;
        if ((launch && all_ops[s].launch(m, launch) != 0) ||
            (all ? all_ops[s].runs(m, runs, n) : feed_shorter(m, s, runs, n)) != 0)
            return -1;
    }
    return 0;
}

int mt_locality_launch(struct mt_locality *m, const struct mt_run_launch *l)
{
    return mt_locality_feed(m, ~0u, l, NULL, 0);
}

int mt_locality_runs(struct mt_locality *m, const struct mt_access_run *runs, size_t n)
{
    return mt_locality_feed(m, ~0u, NULL, runs, n);
}

int mt_locality_merge(struct mt_locality *into, struct mt_locality *from)
{
    for (int s = 0; s < MT_LOCALITY_OF_RUNS; s++)
        into->longer[s] += from->longer[s];
    return mt_lines_merge(&into->lines, &from->lines) != 0 ||
                   mt_coalescing_merge(&into->coalescing, &from->coalescing) != 0 ||
                   mt_reuse_merge(&into->reuse, &from->reuse) != 0 ||
                   mt_sharing_merge(&into->sharing, &from->sharing) != 0 ||
                   mt_conflicts_merge(&into->conflicts, &from->conflicts) != 0
               ? -1
               : 0;
}

void mt_locality_pack(struct mt_parcel *p, const struct mt_locality *m)
{
    mt_lines_pack(p, &m->lines);
    mt_coalescing_pack(p, &m->coalescing);
    mt_reuse_pack(p, &m->reuse);
    mt_sharing_pack(p, &m->sharing);
    mt_conflicts_pack(p, &m->conflicts);
    mt_parcel_bytes(p, m->longer, sizeof m->longer);
}

void mt_locality_unpack(struct mt_unpack *u, struct mt_locality *m)
{
    mt_lines_unpack(u, &m->lines);
    mt_coalescing_unpack(u, &m->coalescing);
    mt_reuse_unpack(u, &m->reuse);
    mt_sharing_unpack(u, &m->sharing);
    mt_conflicts_unpack(u, &m->conflicts);
    mt_unpack_bytes(u, m->longer, sizeof m->longer);
    u->failed |= u->at != u->end;
}

int mt_locality_finish(struct mt_locality *m)
{
    return mt_reuse_finish(&m->reuse) != 0 || mt_sharing_finish(&m->sharing) != 0 ||
                   mt_conflicts_finish(&m->conflicts) != 0
               ? -1
               : 0;
}

void mt_locality_free(struct mt_locality *m)
{
    mt_lines_free(&m->lines);
    mt_coalescing_free(&m->coalescing);
    mt_reuse_free(&m->reuse);
    mt_sharing_free(&m->sharing);
    mt_conflicts_free(&m->conflicts);
    memset(m, 0, sizeof *m);
}
