/* What mt-extract and mt-report do alike: traces through the analyses. */
#include "pipeline.h"
#include "output/json/comm_json.h"
#include "output/text/words.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

static const char MORE_FAILED[] = "no memory for the further analyses";

static int team_host(struct mt_team *t, const struct mt_host_access *accesses, size_t count)
{
    return t->kind->host(t, accesses, count);
}

void mt_pipeline_init(struct mt_pipeline *p)
{
    mt_filter_init(&p->filter);
    mt_locality_run_init(&p->more);
    p->threads = mt_cli_processors();
}

int mt_pipeline_option(struct mt_pipeline *p, int o)
{
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
    case MT_OPT_LINE_SIZE:
    case MT_OPT_DATA_CACHE:
    case MT_OPT_SAMPLE:
    case MT_OPT_DEVICES:
    case MT_OPT_TOPOLOGY:
    case MT_OPT_COLLECTIVES:
    case MT_OPT_TOP:
        p->further = 1;
        return mt_locality_run_option(&p->more, o, optarg);
    case MT_OPT_THREADS:
        return mt_cli_threads_option(&p->threads, optarg);
    default:
        return mt_common_option(o, &p->inputs, &p->filter);
    }
}

void mt_pipeline_host(struct mt_pipeline *p)
{
    p->options.host = mt_source_host(p->source);
    p->options.threads = mt_source_threads(p->source);
    if (p->options.threads)
        mt_words_of_threads();
    /* The filters know it by its name. */
    if (!p->filter.has_kernels || mt_filter_match(&p->filter, MT_HOST_NAME, p->filter.first)) {
        p->options.host_first = p->filter.first;
        p->options.host_end = p->filter.end;
    }
}

int mt_pipeline_start(struct mt_pipeline *p, unsigned threads)
{
    /* One thread reads. With two in all, the other one has the whole analysis. */
    p->team = p->session ? p->session->team(&p->options)
                         : mt_team_of_threads(&p->options, threads > 2 ? threads - 1 : 1);
    if (p->team && (!p->inputs.ends || p->session->by_parts(p->team) == 0) &&
        mt_locality_run_start(&p->more, p->source, p->inputs.npaths) == 0 &&
        mt_locality_run_threads(&p->more, p->threads) == 0)
        return 0;
    return mt_cli_fail("no memory or no threads for the analysis");
}

static int pipeline_launch(struct mt_pipeline *p, const struct mt_item *item)
{
    p->selected = mt_filter_match(&p->filter, item->kernel, item->superstep);
    if (mt_grow(&p->events, &p->event_room, p->nevents + 1, sizeof *p->events) != 0) {
        p->why = "no memory for the launches";
        return -1;
    }
    p->events[p->nevents++] = item->launch;
    return mt_team_launch(p->team, item->kernel, p->selected);
}

int mt_item_global(struct mt_item *item, struct mt_access_run **room, size_t *size, int copy)
{
    size_t n = 0;
    while (n < item->count && mt_rec_space(item->runs[n].meta >> 28) == MT_IN_GLOBAL)
        n++;
    if (n == item->count && !copy)
        return 0;
    if (mt_grow(room, size, item->count, sizeof **room) != 0)
        return -1;
    if (n)
        memcpy(*room, item->runs, n * sizeof **room);
    for (size_t i = n; i < item->count; i++)
        if (mt_rec_space(item->runs[i].meta >> 28) == MT_IN_GLOBAL)
            (*room)[n++] = item->runs[i];
    item->runs = *room;
    item->count = n;
    return 0;
}

static uint64_t pipeline_count(const struct mt_item *item)
{
    uint64_t n = 0;
    if (item->kind != MT_ITEM_RUNS)
        return item->count;
    for (size_t i = 0; i < item->count; i++)
        n += item->runs[i].count;
    return n;
}

static int pipeline_feed(struct mt_pipeline *p, struct mt_item *item)
{
    if (p->bytes && mt_check_memory_item(p->bytes, item) != 0) {
        p->why = "no memory for what becomes of the bytes";
        return -1;
    }
    if ((item->kind == MT_ITEM_COPY || item->kind == MT_ITEM_HOST) &&
        mt_locality_run_begin(&p->more, item, 0) != 0) {
        p->why = MORE_FAILED;
        return -1;
    }
    if (item->kind == MT_ITEM_COPY) /* realloc may leave all where it is */
        return item->copy->kind == MT_COPY_D2D && item->copy->dst == item->copy->src
                   ? 0
                   : mt_team_copy(p->team, item->copy);
    if (item->kind == MT_ITEM_HOST)
        return team_host(p->team, item->host, item->count);
    if ((item->flags & MT_BATCH_BEGIN) && pipeline_launch(p, item) != 0)
        return -1;
    if (p->inputs.ends)
        return p->span(p->arg, item, p->selected);
    if (p->onchip && mt_onchip_item(p->onchip, item, p->selected) != 0) {
        p->why = "no memory for shared memory";
        return -1;
    }
    if (p->onchip && item->kind == MT_ITEM_RUNS &&
        mt_item_global(item, &p->global[p->turn], &p->global_room[p->turn], 0) != 0) {
        p->why = "no memory for the records of shared and local memory";
        return -1;
    }
    if (item->host_count && team_host(p->team, item->host, item->host_count) != 0)
        return -1;
    p->unread += item->unread;
    p->reported += p->selected ? pipeline_count(item) : 0;
    /* All at a time: the further analyses may still be at this batch when the next one comes. */
    int more = mt_locality_run_begin(&p->more, item, p->selected);
    p->turn = !p->turn;
    int rc = item->kind == MT_ITEM_RUNS ? mt_team_runs(p->team, item->runs, item->count)
                                        : mt_team_records(p->team, item->records, item->count);
    if (rc == 0 && p->beside)
        rc = p->beside(p->arg, item, p->selected);
    if (rc == 0 && more)
        p->why = MORE_FAILED;
    return rc | more ? -1 : 0;
}

int mt_pipeline_read(struct mt_pipeline *p)
{
    struct mt_item item;
    struct mt_error err;
    int rc = 0, ok = 0;
    while (ok == 0 && !mt_session_stopped(p->session, p->team) &&
           (rc = mt_source_next(p->source, &item, &err)) > 0) {
        ok = pipeline_feed(p, &item);
        mt_progress_step(&p->progress, p->source, mt_team_count(p->team));
    }
    if (mt_locality_run_wait(&p->more) != 0 && ok == 0) {
        p->why = MORE_FAILED;
        ok = -1;
    }
    mt_progress_end(&p->progress);
    if (mt_cli_stop && p->progress.terminal && p->progress.on)
        mt_cli_note("interrupted: results of what was read follow; once more ends it at once");
    if (ok == 0)
        p->comm = mt_team_finish(p->team);
    if (p->comm)
        p->comm->records += p->unread;
    if (p->comm)
        p->comm->reported = !p->comm->partial ? p->comm->records
                            : p->inputs.ends  ? p->comm->reported /* ranks count spans */
                                              : p->reported;
    if (mt_session_stopped(p->session, p->team)) {
        mt_source_stop(p->source);
        rc = 0;
    }
    if (!p->comm && mt_session_again(p->session, p->team))
        return MT_EXIT_FAILURE; /* nothing to say yet */
    if (!p->comm)
        return mt_cli_fail("%s", p->why ? p->why : mt_team_why(p->team));
    return rc < 0 ? mt_cli_failed(&err) : 0;
}

void mt_pipeline_free(struct mt_pipeline *p)
{
    mt_output_abandon(&p->out);
    mt_team_free(p->team);
    mt_estimates_free(&p->estimates);
    free(p->events);
    mt_locality_run_free(&p->more);
    free(p->global[0]);
    free(p->global[1]);
    mt_source_close(p->source);
    mt_filter_free(&p->filter);
    mt_inputs_free(&p->inputs);
}
