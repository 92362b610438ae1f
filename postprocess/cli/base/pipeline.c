/* What memtrace extract and memtrace report do alike: traces through the analyses. */
#include "pipeline.h"
#include "output/json/comm_json.h"
#include "output/text/words.h"
#include "memtrace/grow.h"
#include "reader/base/pool.h"
#include <stdlib.h>
#include <string.h>

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

/* The host has a part of its own when its accesses are read. */
static void pipeline_host(struct mt_pipeline *p)
{
    p->options.host = mt_source_host(p->source);
    p->options.threads = mt_source_threads(p->source);
    if (p->options.threads)
        mt_of_threads = 1;
    /* The filters know it by its name. */
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
    if (p->more.options.chosen) /* first: its threads work while this one goes on */
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
    /* One thread reads. With two in all, the other one has the whole analysis; who reads can add up volumes.
     */
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
        mt_cli_note("interrupted: results of what was read follow; once more ends it at once");
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
        return MT_EXIT_FAILURE; /* nothing to say yet */
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
