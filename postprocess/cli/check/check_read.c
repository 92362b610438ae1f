/* The trace of a checked program, read once. */
#include "check.h"
#include "analysis/check/collect.h"
#include "analysis/check/memory.h"
#include "analysis/check/order.h"
#include "analysis/check/strong.h"
#include "cli/base/locality_run.h"
#include "cli/base/feed.h"
#include "analysis/onchip/onchip.h"
#include "memtrace/grow.h"
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
    struct mt_feed feed;
    int races, bytes, init; /* what is looked for */
    /* who gets the runs of global memory with strong ones marked: a copy */
    const struct mt_analysis *of;
    void *self;
    size_t input; /* they are of */
    struct mt_access_run *global;
    size_t room;
};
static struct mt_locality_run locality; /* large */
static const char NO_MEMORY[] = "no memory for what the trace says";

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
    return mt_check_strong_init(&r->strong, r->source) == 0 ? read_lines(r) : -1;
}

static void read_end(struct reading *r)
{
    mt_progress_end(&r->progress);
    mt_feed_free(&r->feed);
    mt_check_strong_free(&r->strong);
    mt_pairmap_free(&r->lines);
    mt_locality_run_free(&locality);
    free(r->global);
}

/* ---- rows ---- */

/* 0, or an exit code after saying why. */
static int read_feed(struct mt_feed *f)
{
    int rc = mt_feed_read(f);
    return rc == MT_FEED_FAILED ? mt_cli_fail("%s", NO_MEMORY) : rc ? mt_feed_failed(f, rc) : 0;
}

/* Threads of a CTA. What they do to global memory can be judged where barriers are recorded. */
static int read_threads_launch(void *self, const struct mt_run_launch *l)
{
    struct reading *r = self;
    struct mt_hazards *h = &r->onchip.hazards;
    h->strong = mt_check_strong_of(&r->strong, l->input, &h->nstrong);
    h->global = l->event && l->event->barriers;
    return 0;
}

/* Of what the next row is told. */
static const struct mt_analysis read_threads = {.needs = MT_NEEDS_SPACES, .launch = read_threads_launch};

static int read_marked_init(void *self, const struct mt_run_options *o)
{
    struct reading *r = self;
    return r->of->init(r->self, o);
}

static int read_marked_launch(void *self, const struct mt_run_launch *l)
{
    struct reading *r = self;
    r->input = l->input;
    return r->of->launch(r->self, l);
}

static void read_marked_moves(void *self, const struct mt_run_launch *l)
{
    struct reading *r = self;
    if (r->of->moves)
        r->of->moves(r->self, l);
}

static int read_marked_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct reading *r = self;
    size_t kept = 0;
    if (mt_grow(&r->global, &r->room, n, sizeof *r->global) != 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (mt_rec_space(mt_run_type(&runs[i])) == MT_IN_GLOBAL)
            r->global[kept++] = runs[i];
    mt_check_strong_mark(&r->strong, r->input, r->global, kept);
    return r->of->runs(r->self, r->global, kept);
}

/* Strong loads and stores become atomics on the way. */
static const struct mt_analysis read_marked = {.needs = MT_NEEDS_SPACES,
                                               .init = read_marked_init,
                                               .launch = read_marked_launch,
                                               .moves = read_marked_moves,
                                               .runs = read_marked_runs};

static void read_mark(struct mt_feed *f, struct reading *r, const struct mt_analysis *of, void *self)
{
    r->of = of;
    r->self = self;
    mt_feed_add(f, &read_marked, r, NULL);
}

static int read_rows(struct reading *r)
{
    struct mt_feed *f = &r->feed;
    *f = (struct mt_feed){.source = r->source, .progress = &r->progress};
    r->memory.findings = r->findings;
    if (r->races) {
        mt_feed_add(f, &read_threads, r, NULL);
        mt_feed_add(f, &mt_onchip_analysis, &r->onchip, NULL);
        r->onchip.hazards.words = 1;
        r->onchip.hazards.lines = &r->lines;
    }
    if (r->bytes)
        mt_feed_add(f, &mt_check_memory_analysis, &r->memory, NULL);
    if (r->init)
        mt_feed_add(f, &mt_check_memory_shared_analysis, &r->memory, NULL);
    if (r->races)
        read_mark(f, r, &mt_locality_run_analysis, &locality);
    return read_feed(f);
}

/* Conflicts that the program itself orders are none: for that the trace is read again. An exit code, or 0. */
static int read_again(struct reading *r)
{
    struct mt_conflicts *x = &locality.more.conflicts;
    struct mt_check_order order = {.of = x};
    struct mt_feed f = {.source = r->source, .again = 1};
    int rc = mt_locality_finish(&locality.more);
    if (rc != 0 || !x->count)
        return rc == 0 ? 0 : mt_cli_fail("%s", NO_MEMORY);
    read_mark(&f, r, &mt_check_order_analysis, &order);
    int code = read_feed(&f);
    r->findings->ordered += mt_check_order_finish(&order, x);
    mt_check_order_free(&order);
    return code;
}

static int read_collect(struct reading *r)
{
    int rc = mt_check_events(r->findings, r->source);
    if (rc == 0 && r->races)
        rc = mt_check_conflicts(r->findings, &locality.more.conflicts, &locality.sites, &r->memory.buffers) !=
                         0 ||
                     mt_check_threads(r->findings, &r->onchip, &r->memory.buffers) != 0
                 ? -1
                 : 0;
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
    mt_findings_beside(f, source);
    int rc = read_start(&r), code = rc ? 0 : read_rows(&r);
    if (rc == 0 && !code && r.races)
        code = read_again(&r);
    if (rc == 0 && !code)
        rc = read_collect(&r);
    if (rc == 0 && !code)
        code = mt_inputs_finish(source, complete);
    read_end(&r);
    if (rc != 0)
        return mt_cli_fail("%s", NO_MEMORY);
    read_choose(f, choice);
    if (ran)
        mt_check_places(f);
    mt_findings_finish(f);
    return code;
}
