/* See strong.h. */
#include "strong.h"
#include "analysis/base/runs.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_SITES = 1 << 24 };

static int strong_input(struct mt_check_strong *x, size_t input, const struct mt_companion *c)
{
    uint64_t most = 0;
    for (size_t i = 0; c && i < c->nsites; i++)
        if (c->sites[i].strong && c->sites[i].id < MOST_SITES && c->sites[i].id >= most)
            most = c->sites[i].id + 1;
    if (!most)
        return 0;
    if (!(x->inputs[input] = calloc(most, 1)))
        return -1;
    x->sites[input] = most;
    for (size_t i = 0; i < c->nsites; i++)
        if (c->sites[i].strong && c->sites[i].id < most)
            x->inputs[input][c->sites[i].id] = 1;
    return 0;
}

int mt_check_strong_init(struct mt_check_strong *x, const struct mt_source *s)
{
    x->ninputs = mt_source_inputs(s);
    x->inputs = calloc(x->ninputs + 1, sizeof *x->inputs);
    x->sites = calloc(x->ninputs + 1, sizeof *x->sites);
    int rc = x->inputs && x->sites ? 0 : -1;
    for (size_t i = 0; i < x->ninputs && rc == 0; i++)
        rc = strong_input(x, i, mt_source_companion(s, i));
    return rc;
}

const uint8_t *mt_check_strong_of(const struct mt_check_strong *x, size_t input, size_t *n)
{
    *n = input < x->ninputs ? x->sites[input] : 0;
    return *n ? x->inputs[input] : NULL;
}

void mt_check_strong_mark(const struct mt_check_strong *x, size_t input, struct mt_access_run *runs, size_t n)
{
    size_t nsites;
    const uint8_t *strong = mt_check_strong_of(x, input, &nsites);
    for (size_t i = 0; i < n && strong; i++)
        if (runs[i].site < nsites && strong[runs[i].site])
            runs[i].meta = (runs[i].meta & MT_RAW_MAX_SIZE) | (uint32_t)MT_ATOMIC << 28;
}

void mt_check_strong_free(struct mt_check_strong *x)
{
    for (size_t i = 0; x->inputs && i < x->ninputs; i++)
        free(x->inputs[i]);
    free((void *)x->inputs);
    free(x->sites);
    memset(x, 0, sizeof *x);
}
