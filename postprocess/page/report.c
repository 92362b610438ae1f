/* The lists of a report, and what it takes over from the analysis and from companions. */
#define _GNU_SOURCE
#include "report.h"
#include "memtrace/grow.h"
#include "output/rows/sorted.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct any_list {
    char *at;
    size_t n, room;
};

void *mt_report_more(void *list, size_t size)
{
    struct any_list *l = list;
    if (mt_grow(&l->at, &l->room, l->n + 1, size) != 0)
        return NULL;
    return memset(l->at + l->n++ * size, 0, size);
}

struct mt_report_name {
    UT_hash_handle hh;
    uint32_t number;
    char text[];
};

uint32_t mt_report_kernel(struct mt_report *r, const char *name)
{
    struct mt_report_name *known;
    size_t n = strlen(name);
    HASH_FIND(hh, r->names, name, n, known);
    if (known)
        return known->number;
    struct mt_report_name *new = malloc(sizeof *new + n + 1);
    const char **at = new ? MT_REPORT_ADD(r->kernels) : NULL;
    if (!at) {
        free(new);
        return UINT32_MAX;
    }
    memcpy(new->text, name, n + 1);
    new->number = (uint32_t)(r->kernels.n - 1);
    *at = new->text;
    HASH_ADD_KEYPTR(hh, r->names, new->text, n, new);
    return new->number;
}

int mt_report_init(struct mt_report *r)
{
    memset(r, 0, sizeof *r);
    r->complete = 1;
    return mt_report_kernel(r, MT_HOST_NAME) == MT_REPORT_HOST ? 0 : -1;
}

void mt_report_free(struct mt_report *r)
{
    struct mt_report_name *name, *next;
    HASH_ITER(hh, r->names, name, next)
    {
        HASH_DEL(r->names, name);
        free(name);
    }
    mt_gaps_free(&r->gaps);
    free(r->kernels.at);
    free(r->launches.at);
    free(r->ctas.at);
    free(r->sms.at);
    free(r->transfers.at);
    free(r->ranges.at);
    free(r->untraced.at);
    free(r->copies.at);
    free(r->sites.at);
    free(r->texts.at);
    memset(r, 0, sizeof *r);
}

/* ---- of the analysis ---- */

void mt_report_add_volume(struct mt_report_volume *to, const struct mt_report_volume *v)
{
    to->load += v->load;
    to->store += v->store;
    to->comm_load += v->comm_load;
    to->comm_store += v->comm_store;
    to->same_launch += v->same_launch;
    to->same_cta += v->same_cta;
}

static int take_launch(struct mt_report *r, const struct mt_comm *c, uint32_t superstep)
{
    const struct mt_comm_launch *l = &c->launches[superstep];
    size_t ctas = r->ctas.n, sms = r->sms.n;
    struct mt_report_launch *launch = MT_REPORT_ADD(r->launches);
    if (!launch)
        return -1;
    launch->superstep = superstep;
    launch->kernel = mt_report_kernel(r, l->kernel);
    if (launch->kernel == UINT32_MAX)
        return -1;
    for (uint32_t i = l->first; i < l->end; i++) {
        const struct mt_actor *a = &c->actors[i];
        struct mt_report_part *cta = MT_REPORT_ADD(r->ctas), *sm = MT_REPORT_ADD(r->sms);
        if (!cta || !sm)
            return -1;
        cta->superstep = sm->superstep = superstep;
        cta->key = mt_cta_order(a->cta);
        sm->key = a->smid;
        cta->volume = sm->volume = (struct mt_report_volume){a->load,
                                                             a->store,
                                                             mt_actor_comm_load(a),
                                                             a->comm_store,
                                                             a->from[MT_FROM_SAME_LAUNCH],
                                                             a->from[MT_FROM_SAME_CTA]};
        mt_report_add_volume(&launch->volume, &cta->volume);
    }
    if (l->end > l->first) {
        r->ctas.n = ctas + mt_report_merge_parts(r->ctas.at + ctas, r->ctas.n - ctas);
        r->sms.n = sms + mt_report_merge_parts(r->sms.at + sms, r->sms.n - sms);
    }
    launch->ctas = (uint32_t)(r->ctas.n - ctas);
    launch->sms = (uint32_t)(r->sms.n - sms);
    return 0;
}

static struct mt_report_end end_of(const struct mt_comm *c, const uint32_t *kernels, uint32_t id)
{
    if (id & MT_ENTRY_HOST)
        return (struct mt_report_end){MT_REPORT_HOST, c->hosts[id & MT_ENTRY_MAX].superstep,
                                      MT_REPORT_NO_CTA};
    const struct mt_actor *a = &c->actors[id];
    return (struct mt_report_end){kernels[a->launch], a->launch, mt_cta_order(a->cta)};
}

/* kernels[superstep], of all launches: those left out by a filter may be writers. */
static uint32_t *number_kernels(struct mt_report *r, const struct mt_comm *c)
{
    uint32_t *kernels = malloc((c->nlaunches + 1) * sizeof *kernels);
    for (size_t i = 0; kernels && i < c->nlaunches; i++) {
        int again = i > 0 && c->launches[i].kernel == c->launches[i - 1].kernel;
        kernels[i] = again ? kernels[i - 1] : mt_report_kernel(r, c->launches[i].kernel);
        if (kernels[i] == UINT32_MAX) {
            free(kernels);
            return NULL;
        }
    }
    return kernels;
}

int mt_report_take_comm(struct mt_report *r, const struct mt_comm *c)
{
    r->has = MT_REPORT_DATA_VOLUMES | MT_REPORT_COMM_VOLUMES | MT_REPORT_CTAS | MT_REPORT_SMS |
             MT_REPORT_TRANSFERS | MT_REPORT_SENDERS | MT_REPORT_PART_SENDERS;
    r->records = c->records;
    r->reported = c->reported;
    r->run_launches = c->nlaunches;
    r->unknown = c->unknown;
    r->host_accesses = c->host_accesses;
    for (uint32_t i = 0; i < c->nlaunches; i++)
        if (c->launches[i].selected && take_launch(r, c, i) != 0)
            return -1;
    uint32_t *kernels = number_kernels(r, c);
    int rc = kernels ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < c->ntransfers; i++) {
        const struct mt_transfer *t = &c->transfers[i];
        struct mt_report_transfer *out = MT_REPORT_ADD(r->transfers);
        if (out)
            *out = (struct mt_report_transfer){end_of(c, kernels, t->src), end_of(c, kernels, t->dst),
                                               t->size, t->count};
        rc = out ? 0 : -1;
    }
    free(kernels);
    return rc;
}

/* ---- of companions ---- */

MT_ORDER_2(by_seq, struct mt_copy_event, seq, dst)

MT_ORDER_1(by_id, struct mt_site_event, id)

MT_ORDER_POINTED_1(by_launch, struct mt_launch_event, seq)

MT_ORDER_2(by_begin, struct mt_range_event, begin, seq)

/* Events of no stream are in every companion of a process: each once. */
static void drop_doubles(struct mt_report *r)
{
    r->copies.n = mt_order_once(r->copies.at, r->copies.n, sizeof *r->copies.at, by_seq);
    r->sites.n = mt_order_once(r->sites.at, r->sites.n, sizeof *r->sites.at, by_id);
    r->ranges.n = mt_order_once(r->ranges.at, r->ranges.n, sizeof *r->ranges.at, by_begin);
    r->untraced.n = mt_order_once(r->untraced.at, r->untraced.n, sizeof *r->untraced.at, by_launch);
}

static int report_append(void *list, const void *items, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        void *at = mt_report_more(list, size);
        if (!at)
            return -1;
        memcpy(at, (const char *)items + i * size, size);
    }
    return 0;
}

int mt_report_take_companion(struct mt_report *r, const struct mt_companion *c)
{
    if (!r->companion || (!*r->companion->device && *c->device)) /* a host trace knows no device */
        r->companion = c;
    r->lost += c->lost;
    r->companions++;
    for (size_t i = 0; i < c->nlaunches; i++) {
        if (c->launches[i].traced)
            continue;
        const struct mt_launch_event **at = MT_REPORT_ADD(r->untraced);
        if (!at || mt_report_kernel(r, c->launches[i].kernel) == UINT32_MAX)
            return -1;
        *at = &c->launches[i];
    }
    if (report_append(&r->copies, c->copies, c->ncopies, sizeof *c->copies) != 0 ||
        report_append(&r->sites, c->sites, c->nsites, sizeof *c->sites) != 0 ||
        report_append(&r->ranges, c->ranges, c->nranges, sizeof *c->ranges) != 0 ||
        (c->own && report_append(&r->texts, c->texts, c->ntexts, sizeof *c->texts) != 0))
        return -1;
    drop_doubles(r);
    return 0;
}
