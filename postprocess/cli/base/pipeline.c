/* Runs traces through the analyses, for memtrace extract and memtrace report. */
#include "pipeline.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include "output/json/comm_json.h"
#include "output/text/table.h"
#include "reader/base/pool.h"

#include <stdlib.h>
#include <string.h>

static int feed_fail(struct mt_feed *f, size_t row)
{
    f->why = f->rows[row].why;
    return MT_FEED_FAILED;
}

void mt_feed_add(struct mt_feed *f, const struct mt_analysis *of, void *self, const char *why)
{
    const struct mt_run_options options = {.source = f->source};
    f->rows[f->nrows].of = of;
    f->rows[f->nrows].self = self;
    f->rows[f->nrows++].why = why;
    f->needs |= of->needs;
    f->lacks |= ~of->needs;
    f->makes |= of->runs && !of->records && !(of->needs & MT_NEEDS_SPACES);
    if (!f->failed && of->init && of->init(self, &options) != 0)
        f->failed = feed_fail(f, f->nrows - 1);
}

static int feed_wait(struct mt_feed *f)
{
    int rc = 0;
    for (size_t i = 0; i < f->nrows; i++)
        if (f->rows[i].of->wait && f->rows[i].of->wait(f->rows[i].self) != 0 && rc == 0)
            rc = feed_fail(f, i);
    return rc;
}

static int feed_enough(const struct mt_feed *f)
{
    for (size_t i = 0; i < f->nrows; i++)
        if (f->rows[i].of->enough && f->rows[i].of->enough(f->rows[i].self))
            return 1;
    return 0;
}

static uint64_t feed_count(const struct mt_item *item)
{
    uint64_t n = 0;
    if (item->kind != MT_ITEM_RUNS || !item->runs)
        return item->kind == MT_ITEM_COPY ? 0 : item->count;
    for (size_t i = 0; i < item->count; i++)
        n += item->runs[i].count;
    return n;
}

static int feed_room(struct mt_feed *f, size_t n, const char *why)
{
    if (mt_grow(&f->made, &f->room, n, sizeof *f->made) == 0)
        return 0;
    f->why = why;
    return MT_FEED_FAILED;
}

/* Keeps only runs of global memory in the item, in a copy if there are others. */
static int feed_global(struct mt_feed *f, struct mt_item *item)
{
    size_t n = 0;
    while (n < item->count && mt_rec_space(mt_run_type(&item->runs[n])) == MT_IN_GLOBAL)
        n++;
    if (n == item->count)
        return 0;
    if (feed_room(f, item->count, "no memory for the records of shared and local memory") != 0)
        return MT_FEED_FAILED;
    if (n)
        memcpy(f->made, item->runs, n * sizeof *f->made);
    for (size_t i = n; i < item->count; i++)
        if (mt_rec_space(mt_run_type(&item->runs[i])) == MT_IN_GLOBAL)
            f->made[n++] = item->runs[i];
    item->runs = f->made;
    item->count = n;
    return 0;
}

/* Converts an item of records to runs. */
static int feed_runs(struct mt_feed *f, struct mt_item *item)
{
    size_t taken;
    if (feed_room(f, item->count + 1, "no memory for the records as runs") != 0)
        return MT_FEED_FAILED;
    item->count = mt_runs_from_records(item->records, item->count, f->made, f->room, &taken);
    item->kind = MT_ITEM_RUNS;
    item->runs = f->made;
    return 0;
}

/* Makes the item for analyses of runs of global memory. */
static int feed_plain(struct mt_feed *f, struct mt_item *item)
{
    if (f->needs & MT_NEEDS_PLACES)
        return 0;
    if (item->kind == MT_ITEM_RUNS && f->needs & f->lacks & MT_NEEDS_SPACES)
        return feed_global(f, item);
    return item->kind == MT_ITEM_BATCH && f->makes ? feed_runs(f, item) : 0;
}

static void feed_launch(struct mt_feed *f, const struct mt_item *item)
{
    const struct mt_launch_event *e = item->launch;
    int selected = !f->filter || mt_filter_match(f->filter, item->kernel, item->superstep);
    f->launches++;
    f->chosen += (uint64_t)selected;
    f->launch = (struct mt_run_launch){.superstep = item->superstep,
                                       .kernel = item->kernel,
                                       .seq = e ? e->seq : MT_SEQ_NONE,
                                       .event = e,
                                       .single = (e && e->ungrouped) || item->flags & MT_BATCH_SINGLE,
                                       .input = item->input,
                                       .begins = 1,
                                       .selected = selected,
                                       .host = mt_source_threads(f->source),
                                       .cooperative = e && e->cooperative,
                                       .device = e ? e->device : -1};
}

/* Passes accesses of the current launch. */
static int feed_accesses(const struct mt_feed *f, const struct mt_analysis *of, void *self,
                         const struct mt_item *item)
{
    struct mt_run_launch now = f->launch;
    if (!f->launch.selected && !(of->needs & MT_NEEDS_ALL))
        return 0;
    if ((item->flags & MT_BATCH_BEGIN) && of->launch && of->launch(self, &f->launch) != 0)
        return -1;
    if (f->needs & MT_NEEDS_PLACES)
        return of->place ? of->place(self, item) : 0;
    if (item->host && of->moves) {
        now.seq = item->seq;
        now.life = item->life;
        now.moves = 1;
        of->moves(self, &now);
    }
    if (item->host_count && of->host && of->host(self, item) != 0)
        return -1;
    if (item->kind == MT_ITEM_RUNS ? of->runs && of->runs(self, item->runs, item->count) != 0
                                   : of->records && of->records(self, item->records, item->count) != 0)
        return -1;
    return (item->flags & MT_BATCH_END) && of->end ? of->end(self) : 0;
}

/* Passes an item to a row; `plain` is its form for most rows. */
static int feed_row(struct mt_feed *f, size_t row, const struct mt_item *item, const struct mt_item *plain)
{
    const struct mt_analysis *of = f->rows[row].of;
    void *self = f->rows[row].self;
    int rc = 0, spaces = (of->needs & MT_NEEDS_SPACES) != 0;
    if (item->kind == MT_ITEM_COPY)
        rc = of->copy && of->copy(self, item->copy) != 0;
    else if (item->kind == MT_ITEM_HOST)
        rc = of->host && of->host(self, item) != 0;
    else if (item->kind == MT_ITEM_RUNS || !spaces) /* raw traces contain global memory only */
        rc =
            feed_accesses(f, of, self, spaces || (item->kind == MT_ITEM_BATCH && of->records) ? item : plain);
    return rc ? feed_fail(f, row) : 0;
}

static int feed_item(struct mt_feed *f, const struct mt_item *item)
{
    struct mt_item plain = *item;
    int accesses = item->kind == MT_ITEM_RUNS || item->kind == MT_ITEM_BATCH, rc = feed_wait(f);
    if (rc == 0)
        rc = feed_plain(f, &plain);
    if (accesses && item->flags & MT_BATCH_BEGIN)
        feed_launch(f, item);
    const uint64_t n = feed_count(item->kind == MT_ITEM_BATCH ? item : &plain);
    f->accesses += n;
    f->reported += accesses && f->launch.selected ? n : 0;
    f->unread += accesses ? item->unread : 0;
    for (size_t i = 0; i < f->nrows && rc == 0; i++)
        rc = feed_row(f, i, item, &plain);
    return rc;
}

static int feed_finish(struct mt_feed *f)
{
    for (size_t i = 0; i < f->nrows; i++)
        if (f->rows[i].of->finish && f->rows[i].of->finish(f->rows[i].self) != 0)
            return feed_fail(f, i);
    return 0;
}

int mt_feed_read(struct mt_feed *f)
{
    struct mt_item item;
    int rc = f->failed, more = 0;
    if (f->again)
        mt_source_spaces(f->source, (f->needs & MT_NEEDS_SPACES) != 0);
    if (rc == 0 && f->again && mt_source_rewind(f->source, &f->err) != 0)
        return MT_FEED_UNREADABLE;
    while (rc == 0 && !feed_enough(f) && (more = mt_source_next(f->source, &item, &f->err)) > 0) {
        rc = feed_item(f, &item);
        if (f->progress)
            mt_progress_step(f->progress, f->source, f->accesses);
    }
    int late = feed_wait(f);
    if (f->progress)
        mt_progress_end(f->progress);
    free(f->made);
    f->made = NULL;
    f->room = 0;
    rc = rc ? rc : late ? late : feed_finish(f);
    return rc ? rc : more < 0 ? MT_FEED_UNREADABLE : 0;
}

void mt_feed_free(struct mt_feed *f)
{
    for (size_t i = 0; i < f->nrows; i++)
        if (f->rows[i].of->free)
            f->rows[i].of->free(f->rows[i].self);
    f->nrows = 0;
}

int mt_feed_failed(const struct mt_feed *f, int rc)
{
    return rc == MT_FEED_UNREADABLE ? mt_cli_failed(&f->err) : mt_cli_fail("%s", f->why);
}

void mt_pipeline_init(struct mt_pipeline *p)
{
    mt_filter_init(&p->filter);
    mt_locality_run_init(&p->more);
    p->threads = mt_cli_processors();
}

int mt_pipeline_option(struct mt_pipeline *p, int o)
{
    int code;
    switch (o) {
    case MT_OPT_SAME_CTA:
        p->options.local = strcmp(optarg, "local") == 0;
        return p->options.local || strcmp(optarg, "instance") == 0
                   ? 0
                   : mt_cli_usage("--same-cta is local or instance, not '%s'", optarg);
    case MT_OPT_STRICT:
        p->options.strict = 1;
        return 0;
    case MT_OPT_NO_HOST:
        p->inputs.flags |= MT_SOURCE_NO_HOST;
        return 0;
    case MT_OPT_THREADS:
        return mt_cli_threads_option(&p->threads, optarg);
    default:
        code = mt_locality_run_option(&p->more, o, optarg);
        p->further |= code >= 0;
        return code >= 0 ? code : mt_common_option(o, &p->inputs, &p->filter);
    }
}

int mt_pipeline_asked(const struct mt_pipeline *p)
{
    return p->filter.kernels_text || p->filter.supersteps_text || p->options.local || p->options.strict ||
           p->inputs.flags || p->inputs.ncompanions || p->further;
}

/* Adds host code as a launch of its own if its accesses are read. */
static void pipeline_host(struct mt_pipeline *p)
{
    p->options.host = mt_source_host(p->source);
    p->options.threads = mt_source_threads(p->source);
    if (p->options.threads)
        mt_of_threads = 1;
    /* Filters match the host by its name. */
    if (!p->filter.has_kernels || mt_filter_match(&p->filter, MT_HOST_NAME, p->filter.first)) {
        p->options.host_first = p->filter.first;
        p->options.host_end = p->filter.end;
    }
}

static int pipeline_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_pipeline *p = self;
    if (mt_grow(&p->events, &p->event_room, p->nevents + 1, sizeof *p->events) != 0)
        return -1;
    p->events[p->nevents++] = l->event;
    return 0;
}

static int pipeline_stopped(void *self)
{
    const struct mt_pipeline *p = self;
    return mt_session_stopped(p->session, p->team);
}

static const struct mt_analysis pipeline_launches = {
    .needs = MT_NEEDS_ALL, .launch = pipeline_launch, .enough = pipeline_stopped};

static void pipeline_feed(struct mt_pipeline *p)
{
    memset(&p->feed, 0, sizeof p->feed);
    p->feed.source = p->source;
    p->feed.filter = &p->filter;
    p->feed.progress = &p->progress;
    mt_feed_add(&p->feed, &pipeline_launches, p, "no memory for the launches");
    p->more.beside = p->threads > 1;
    if (p->more.options.chosen) /* first, so that its threads work meanwhile */
        mt_feed_add(&p->feed, &mt_locality_run_analysis, &p->more, "no memory for the further analyses");
    mt_feed_add(&p->feed, &p->team->kind->fed, p->team, NULL);
    if (p->spaces)
        mt_feed_add(&p->feed, &mt_onchip_analysis, &p->onchip, "no memory for shared memory");
}

static void pipeline_options(struct mt_pipeline *p)
{
    struct mt_comm_options *o = &p->options;
    o->transfers = (p->wants & MT_WANTS_TRANSFERS) == MT_WANTS_TRANSFERS;
    o->readers = (p->wants & MT_WANTS_READERS) == MT_WANTS_READERS;
    o->addresses = (p->wants & MT_WANTS_ADDRESSES) == MT_WANTS_ADDRESSES;
    o->volumes = !p->wants && !o->host && (!p->session || p->session->members() == 1);
}

int mt_pipeline_open(struct mt_pipeline *p)
{
    int code;
    p->inputs.flags |= p->spaces ? MT_SOURCE_SPACES : 0;
    if (!(p->source = mt_inputs_source(&p->inputs, &code)))
        return code;
    mt_progress_init(&p->progress);
    p->progress.on &= !p->session || p->session->reports();
    pipeline_host(p);
    pipeline_options(p);
    /* One thread reads. With two in total, the other one does the whole analysis; the reading thread can add
     * up volumes. */
    const unsigned threads = p->options.volumes ? 1 : p->threads;
    p->team = p->session
                  ? p->session->team(&p->options)
                  : mt_team_of_threads(&p->options, mt_source_pool(p->source), threads > 2 ? threads - 1 : 1);
    if (p->team)
        pipeline_feed(p);
    if (!p->team || (p->inputs.ends && p->session->by_parts(p->team) != 0))
        return mt_cli_fail("no memory or no threads for the analysis");
    return 0;
}

int mt_pipeline_read(struct mt_pipeline *p)
{
    int rc = mt_feed_read(&p->feed);
    if (mt_cli_stop && p->progress.terminal && p->progress.on)
        mt_cli_note("interrupted: results of the part that was read follow; a second signal ends at once");
    p->why = p->feed.why ? p->feed.why : p->why;
    p->comm = p->team->comm;
    if (p->comm)
        p->comm->records += p->feed.unread;
    if (p->comm)
        p->comm->reported = !p->comm->partial ? p->comm->records
                            : p->inputs.ends  ? p->comm->reported /* ranks count spans */
                                              : p->feed.reported;
    if (mt_session_stopped(p->session, p->team)) {
        mt_source_stop(p->source);
        rc = 0;
    }
    if (!p->comm && mt_session_again(p->session, p->team))
        return MT_EXIT_FAILURE; /* the caller prints the message */
    if (!p->comm)
        return mt_cli_fail("%s", p->why ? p->why : mt_team_why(p->team));
    return rc ? mt_feed_failed(&p->feed, rc) : 0;
}

int mt_pipeline_finish(struct mt_pipeline *p, int *complete)
{
    int code = mt_inputs_finish(p->source, complete);
    return mt_comm_merged(p->comm) == 0 && mt_locality_run_finish(&p->more, p->comm) == 0 &&
                   mt_estimates_gather(&p->estimates, p->source, p->inputs.npaths) == 0
               ? code
               : mt_cli_fail("no memory for the analyses");
}

struct mt_comm_result mt_pipeline_result(const struct mt_pipeline *p, int complete, const char **notes)
{
    const struct mt_locality_run *x = &p->more;
    struct mt_comm_result r = {.comm = p->comm,
                               .events = p->events,
                               .inputs = p->inputs.paths,
                               .ninputs = p->inputs.npaths,
                               .source = p->source,
                               .complete = complete,
                               .chosen = x->options.chosen,
                               .locality = &x->more,
                               .sites = &x->sites,
                               .topology = mt_locality_run_topology(x),
                               .collectives = x->collectives,
                               .ncollectives = x->ncollectives,
                               .way = x->way,
                               .placement = &x->placement,
                               .estimates = &p->estimates,
                               .onchip = p->spaces ? &p->onchip.rows : NULL,
                               .notes = notes};
    for (int i = 0; i < MT_LOCALITY_RUN_NOTES; i++)
        if (p->more.notes[i][0])
            notes[r.nnotes++] = p->more.notes[i];
    return r;
}

void mt_pipeline_free(struct mt_pipeline *p)
{
    mt_output_abandon(&p->out);
    mt_feed_free(&p->feed);
    mt_estimates_free(&p->estimates);
    free(p->events);
    mt_locality_run_free(&p->more);
    mt_source_close(p->source);
    mt_filter_free(&p->filter);
    mt_inputs_free(&p->inputs);
}
