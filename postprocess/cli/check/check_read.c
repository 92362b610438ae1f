/* The trace of a checked program, read once. */
#include "check.h"
#include "analysis/check/collect.h"
#include "analysis/check/memory.h"
#include "analysis/check/order.h"
#include "analysis/check/strong.h"
#include "cli/base/locality_run.h"
#include "cli/base/pipeline.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

struct reading {
    struct mt_source *source;
    const struct mt_check_choice *choice;
    struct mt_findings *findings;
    struct mt_onchip onchip;
    struct mt_check_memory memory;
    struct mt_check_strong strong;
    struct mt_pairmap lines; /* of sites: hazards.h */
    struct mt_progress progress;
    uint64_t records;
    int races, bytes, init; /* what is looked for */
    struct mt_access_run *global;
    size_t room;
};
static struct mt_locality_run locality; /* large */

static int read_line_order(const void *a, const void *b)
{
    const struct mt_site_event *x = *(const struct mt_site_event *const *)a,
                               *y = *(const struct mt_site_event *const *)b;
    int d = strcmp(x->file, y->file);
    d = d ? d : (x->line > y->line) - (x->line < y->line);
    d = d ? d : strcmp(x->at, y->at);
    return d ? d : (x->id > y->id) - (x->id < y->id);
}

/* The first site of each site's line. 0, or -1 without memory. */
static int read_lines_of(struct reading *r, size_t input, const struct mt_companion *c)
{
    const struct mt_site_event **list = malloc((c->nsites + 1) * sizeof *list), *first = NULL;
    int rc = list ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < c->nsites; i++)
        list[i] = &c->sites[i];
    if (rc == 0)
        qsort(list, c->nsites, sizeof *list, read_line_order);
    for (size_t i = 0; rc == 0 && i < c->nsites; i++) {
        if (!first || first->line != list[i]->line || strcmp(first->file, list[i]->file) != 0 ||
            strcmp(first->at, list[i]->at) != 0)
            first = list[i];
        rc = mt_pairmap_get(&r->lines, list[i]->id, input, first->id) ? 0 : -1;
    }
    free((void *)list);
    return rc;
}

static int read_lines(struct reading *r)
{
    const struct mt_companion *c;
    int rc = 0;
    for (size_t i = 0; r->races && rc == 0 && i < mt_source_inputs(r->source); i++)
        if ((c = mt_source_companion(r->source, i)))
            rc = read_lines_of(r, i, c);
    return rc;
}

static int read_start(struct reading *r)
{
    r->init = mt_check_wants_group(r->choice, MT_FINDING_INIT);
    r->races = mt_check_wants_group(r->choice, MT_FINDING_RACE) || r->init;
    r->bytes = r->races || r->init || mt_check_wants_group(r->choice, MT_FINDING_USE);
    mt_locality_run_init(&locality);
    locality.quiet = 1;
    if (r->races)
        mt_locality_run_section(&locality, "conflicts", strlen("conflicts"));
    mt_progress_init(&r->progress);
    int onchip = mt_onchip_init(&r->onchip);
    r->onchip.hazards.words = 1;
    r->onchip.hazards.lines = &r->lines;
    return onchip == 0 && mt_check_memory_init(&r->memory, r->source, r->findings) == 0 &&
                   mt_check_strong_init(&r->strong, r->source) == 0 && read_lines(r) == 0 &&
                   mt_locality_run_start(&locality, r->source, mt_source_inputs(r->source)) == 0
               ? 0
               : -1;
}

static void read_end(struct reading *r)
{
    mt_progress_end(&r->progress);
    mt_onchip_free(&r->onchip);
    mt_check_memory_free(&r->memory);
    mt_check_strong_free(&r->strong);
    mt_pairmap_free(&r->lines);
    mt_locality_run_free(&locality);
    free(r->global);
}

/* Threads of a CTA. What they do to global memory can be judged where barriers are recorded. */
static int read_threads(struct reading *r, const struct mt_item *item)
{
    struct mt_hazards *h = &r->onchip.hazards;
    h->strong = mt_check_strong_of(&r->strong, item->input, &h->nstrong);
    h->global = item->launch && item->launch->barriers;
    return mt_onchip_item(&r->onchip, item, 1);
}

static int read_item(struct reading *r, struct mt_item *item)
{
    r->records += item->count;
    mt_progress_step(&r->progress, r->source, r->records);
    if (item->kind != MT_ITEM_RUNS)
        return r->bytes ? mt_check_memory_item(&r->memory, item) : 0;
    const struct mt_item whole = *item;
    if (r->races && read_threads(r, item) != 0)
        return -1;
    if (mt_item_global(item, &r->global, &r->room, 1) != 0 ||
        (r->bytes && mt_check_memory_item(&r->memory, item) != 0) ||
        (r->init && mt_check_memory_shared(&r->memory, &whole) != 0))
        return -1;
    mt_check_strong_mark(&r->strong, item->input, r->global, item->count);
    return r->races &&
                   (mt_locality_run_begin(&locality, item, 1) != 0 || mt_locality_run_wait(&locality) != 0)
               ? -1
               : 0;
}

static int read_order(struct reading *r, struct mt_check_order *order, const struct mt_item *item)
{
    mt_check_strong_mark(&r->strong, item->input, r->global, item->count);
    return mt_check_order_item(order, item);
}

/* Conflicts that the program itself orders are none: for that the trace is read again. An exit code, or 0. */
static int read_again(struct reading *r)
{
    struct mt_conflicts *x = &locality.more.conflicts;
    struct mt_check_order order;
    struct mt_error err = {0};
    struct mt_item item;
    int more = 0, rc = mt_locality_finish(&locality.more);
    if (rc != 0 || !x->count)
        return rc == 0 ? 0 : mt_cli_fail("no memory for what the trace says");
    if (mt_source_rewind(r->source, &err) != 0)
        return mt_cli_failed(&err);
    rc = mt_check_order_init(&order, x, r->source);
    while (rc == 0 && (more = mt_source_next(r->source, &item, &err)) > 0)
        rc = item.kind != MT_ITEM_RUNS                             ? 0
             : mt_item_global(&item, &r->global, &r->room, 1) != 0 ? -1
                                                                   : read_order(r, &order, &item);
    r->findings->ordered += mt_check_order_finish(&order, x);
    mt_check_order_free(&order);
    return more < 0 ? mt_cli_failed(&err) : rc ? mt_cli_fail("no memory for what the trace says") : 0;
}

static int read_collect(struct reading *r)
{
    struct mt_onchip_rows rows = {0};
    int rc = r->bytes ? mt_check_memory_finish(&r->memory) : 0;
    if (rc == 0)
        rc = mt_check_events(r->findings, r->source);
    if (rc == 0 && r->races)
        rc = mt_onchip_rows_make(&rows, &r->onchip, r->source) != 0 ||
                     mt_check_conflicts(r->findings, &locality.more.conflicts, &locality.sites,
                                        &r->memory.buffers) != 0 ||
                     mt_check_threads(r->findings, &r->onchip, &rows, &r->memory.buffers) != 0
                 ? -1
                 : 0;
    mt_onchip_rows_free(&rows);
    return rc == 0 ? mt_check_early(r->findings) : rc;
}

/* What nobody asked for goes. */
static void read_choose(struct mt_findings *f, const struct mt_check_choice *choice)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++)
        if (mt_check_wants(choice, f->list[i].kind))
            f->list[n++] = f->list[i];
    f->count = n;
}

int mt_check_read(struct mt_source *source, const struct mt_check_choice *choice, int ran,
                  struct mt_findings *f, int *complete)
{
    struct reading r = {.source = source, .choice = choice, .findings = f};
    struct mt_error err = {0};
    struct mt_item item;
    mt_findings_beside(f, source);
    int more = 0, rc = read_start(&r);
    while (rc == 0 && (more = mt_source_next(source, &item, &err)) > 0)
        rc = read_item(&r, &item);
    int code = more < 0 ? mt_cli_failed(&err) : rc == 0 && r.races ? read_again(&r) : 0;
    if (rc == 0 && !code)
        rc = read_collect(&r);
    if (rc == 0 && !code)
        code = mt_inputs_finish(source, complete);
    read_end(&r);
    if (rc != 0)
        return mt_cli_fail("no memory for what the trace says");
    read_choose(f, choice);
    if (ran)
        mt_check_places(f);
    mt_findings_finish(f);
    return code;
}
