/* The further analyses by parts: each member of the team has those of its part of the trace, and all come
 * together at the one that reports. */
#define _GNU_SOURCE
#include "extract_share.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

int mt_extract_share_note(struct mt_extract_share *s, const struct mt_locality_run *x,
                          const struct mt_span *span)
{
    if (!mt_locality_run_of_runs(x))
        return 0;
    size_t room = s->room; /* both arrays have it */
    if (mt_grow(&s->launches, &room, s->count + 1, sizeof *s->launches) != 0 ||
        mt_grow(&s->spans, &s->room, s->count + 1, sizeof *s->spans) != 0)
        return -1;
    s->launches[s->count] = x->launch;
    s->spans[s->count++] = *span;
    return 0;
}

static char *extract_share_pack(const struct mt_share *s, size_t *n)
{
    const struct mt_locality_run *x = s->self;
    struct mt_parcel p;
    mt_parcel_init(&p, s->launches, s->n);
    mt_locality_pack(&p, &x->more);
    char *data = p.failed ? NULL : p.data;
    *n = p.used;
    if (data)
        p.data = NULL;
    mt_parcel_free(&p);
    return data;
}

static int extract_share_merge(const struct mt_share *s, const char *data, size_t n)
{
    struct mt_locality_run *x = s->self;
    struct mt_locality *m = &x->more, from;
    struct mt_unpack u = {data, data + n, 0, s->launches, s->n};
    int rc = mt_locality_init(&from, &m->options, m->allocs, m->nallocs);
    if (rc == 0)
        mt_locality_unpack(&u, &from);
    rc = rc == 0 && !u.failed ? mt_locality_merge(m, &from) : -1;
    mt_locality_free(&from);
    return rc;
}

int mt_extract_share(struct mt_extract_share *s, struct mt_locality_run *x, const struct mt_session *session,
                     struct mt_team *team)
{
    const struct mt_share share = {&mt_locality_run_analysis, x, s->launches, s->count, extract_share_pack,
                                   extract_share_merge};
    if (!mt_locality_run_of_runs(x))
        return 0;
    int rc = session->share(team, s->spans, &share);
    return rc ? rc : session->fold(team, &share);
}

void mt_extract_share_free(struct mt_extract_share *s)
{
    free(s->launches);
    free(s->spans);
    memset(s, 0, sizeof *s);
}
