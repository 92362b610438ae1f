/* mt-extract: traces in, comm.json out. */
#define _GNU_SOURCE
#include "extract.h"
#include "reader/grow.h"
#ifdef MEMTRACE_MPI
#include "analysis/mpi/ranks.h"
#else
#include "mpirun.h"
#endif
#include "output/comm_json.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADDRESSES_BUDGET = 1 << 30 }; /* bytes of operations in memory, of the section addresses */
#define DATA_VOLUMES (1u << MT_KDV | 1u << MT_CDV | 1u << MT_SDV | 1u << MT_HDV)

/* ---- reading ---- */

static int locality_run_failed(struct mt_extract *x, int rc)
{
    if (rc != 0)
        x->why = "no memory for the further analyses";
    return rc;
}

static int launch_begins(struct mt_extract *x, const struct mt_item *item, int selected)
{
    if (mt_grow(&x->events, &x->event_room, x->nevents + 1, sizeof *x->events) != 0) {
        x->why = "no memory for the launches";
        return -1;
    }
    x->events[x->nevents++] = item->launch;
    return mt_team_launch(x->team, item->kernel, selected);
}

static int extract_feed(struct mt_extract *x, const struct mt_item *item)
{
    if (item->kind == MT_ITEM_COPY)
        return mt_team_copy(x->team, item->copy);
    if (item->kind == MT_ITEM_HOST)
        return mt_team_host(x->team, item->host, item->count);
    int selected = mt_filter_match(&x->filter, item->kernel, item->superstep);
    if ((item->flags & MT_BATCH_BEGIN) && launch_begins(x, item, selected) != 0)
        return -1;
    if (x->inputs.ends) {
        const struct mt_span span = {x->inputs.paths[item->input], item->offset, item->count,
                                     item->kind == MT_ITEM_RUNS};
        return x->session->span(x->team, &span) != 0
                   ? -1
                   : locality_run_failed(x,
                                         mt_extract_share_note(&x->share, &x->more, item, &span, selected));
    }
    /* Both at a time, on the same batch. */
    int more = mt_locality_run_begin(&x->more, item, selected);
    int rc = item->kind == MT_ITEM_RUNS ? mt_team_runs(x->team, item->runs, item->count)
                                        : mt_team_records(x->team, item->records, item->count);
    more |= mt_locality_run_wait(&x->more);
    return rc ? rc : locality_run_failed(x, more);
}

static int extract_analyse(struct mt_extract *x)
{
    struct mt_item item;
    struct mt_error err;
    int rc = 0, ok = 0;
    while (ok == 0 && !mt_session_stopped(x->session, x->team) &&
           (rc = mt_source_next(x->source, &item, &err)) > 0) {
        ok = extract_feed(x, &item);
        mt_progress_step(&x->progress, x->source, mt_team_count(x->team));
    }
    mt_progress_end(&x->progress);
    if (ok == 0)
        x->comm = mt_team_finish(x->team);
    if (mt_session_stopped(x->session, x->team)) {
        mt_source_stop(x->source);
        rc = 0;
    }
    if (!x->comm && mt_session_again(x->session, x->team))
        return MT_EXIT_FAILURE; /* nothing to say yet */
    if (!x->comm) {
        mt_cli_say("%s", x->why ? x->why : mt_team_why(x->team));
        return MT_EXIT_FAILURE;
    }
    return rc < 0 ? mt_extract_read_failed(&err) : 0;
}

/* The second pass over all records: finds the operations on the addresses that the first one found. */
static int address_pass(struct mt_extract *x)
{
    struct mt_item item;
    struct mt_error err;
    int rc = 0, ok = 0;
    if (mt_keyset_index(&x->comm->keys) != 0 ||
        mt_addresses_init(&x->addresses, &x->comm->keys, ADDRESSES_BUDGET) != 0)
        return mt_extract_addresses_failed(&x->addresses);
    if (x->comm->keys.count == 0)
        return 0;
    if (mt_source_rewind(x->source, &err) != 0)
        return mt_extract_read_failed(&err);
    while (ok == 0 && !mt_cli_stop && (rc = mt_source_next(x->source, &item, &err)) > 0) {
        if (item.kind == MT_ITEM_BATCH)
            ok = mt_addresses_records(&x->addresses, item.records, item.count, item.superstep);
        else if (item.kind == MT_ITEM_RUNS)
            ok = mt_addresses_runs(&x->addresses, item.runs, item.count, item.superstep);
        mt_progress_step(&x->progress, x->source, x->addresses.records);
    }
    mt_progress_end(&x->progress);
    if (ok != 0)
        return mt_extract_addresses_failed(&x->addresses);
    if (rc < 0)
        return mt_extract_read_failed(&err);
    if (!mt_cli_stop && x->addresses.records != x->comm->records) {
        mt_cli_say("the input changed while it was read");
        return MT_EXIT_FAILURE;
    }
    return 0;
}

/* The inputs are known now. */
static int live_ended(struct mt_extract *x)
{
    if (!mt_source_live_done(x->source))
        return MT_EXIT_INPUT; /* the program was killed: no result, and nobody to tell */
    size_t n = mt_source_inputs(x->source);
    x->streams = malloc((n + 1) * sizeof *x->streams);
    if (!x->streams) {
        mt_cli_say("no memory for the inputs");
        return MT_EXIT_FAILURE;
    }
    for (size_t i = 0; i < n; i++)
        x->streams[i] = mt_source_path(x->source, i);
    x->inputs.paths = x->streams;
    x->inputs.npaths = n;
    return 0;
}

static int once_more(struct mt_extract *x);

/* What the members have still to do together; the exit code. */
static int extract_share(struct mt_extract *x)
{
    if (!x->inputs.ends || !mt_locality_run_of_runs(&x->more))
        return 0;
    mt_comm_forget(x->comm);
    x->sharing = 1;
    int rc = mt_session_stopped(x->session, x->team)
                 ? 1
                 : mt_extract_share(&x->share, &x->more, x->session, x->team);
    if (rc < 0) {
        mt_cli_say("%s", mt_team_why(x->team));
        return MT_EXIT_FAILURE;
    }
    x->sharing = 0;
    x->no_more = rc > 0;
    if (x->no_more && mt_session_stopped(x->session, x->team))
        mt_source_stop(x->source);
    return 0;
}

static int extract_run(struct mt_extract *x)
{
    int complete, code = extract_analyse(x);
    if (code && x->inputs.ends && mt_session_again(x->session, x->team))
        code = once_more(x);
    if (code == 0)
        code = extract_share(x);
    if (code || !mt_session_reports(x->session))
        return code;
    if (x->live && (code = live_ended(x)) != 0)
        return code;
    int input = mt_inputs_finish(x->source, &complete);
    uint64_t chosen = 0;
    for (uint32_t i = 0; i < x->comm->nlaunches; i++)
        chosen += (uint64_t)x->comm->launches[i].selected;
    if (!x->options.host)
        mt_filter_explain(&x->filter, x->comm->nlaunches, chosen);
    /* Their order must not depend on the number of threads. */
    if (mt_locality_run_has(&x->more, MT_LOCALITY_PLACEMENT) && mt_comm_merged(x->comm) != 0)
        x->why = "no memory to sort the transfers";
    if (x->no_more) {
        mt_cli_say("interrupted: the further analyses are left out");
        mt_locality_run_drop(&x->more);
    }
    if (x->why || locality_run_failed(x, mt_locality_run_finish(&x->more, x->comm)) != 0) {
        mt_cli_say("%s", x->why);
        return MT_EXIT_FAILURE;
    }
    if (x->sections & 1u << MT_ADDRESSES) {
        mt_comm_forget(x->comm);
        if (!mt_cli_stop && (code = address_pass(x)) != 0)
            return code;
        if (mt_cli_stop) {
            mt_cli_say("interrupted: addresses are left out");
            x->no_addresses = 1;
            complete = 0;
        }
    }
    code = x->formats.format == MT_FORMAT_JSON   ? mt_extract_write(x, complete)
           : x->formats.format == MT_FORMAT_TEXT ? mt_extract_write_text(x, complete)
                                                 : mt_extract_write_other(x, &complete);
    if ((x->live || x->whole) && !code && mt_live_say(STDIN_FILENO, MT_LIVE_WRITTEN) != 0)
        code = MT_EXIT_FAILURE; /* the program waits for this */
    return code ? code : input ? input : complete ? MT_EXIT_OK : MT_EXIT_INPUT;
}

/* The host has a part of its own when its accesses are read. */
static void with_host(struct mt_extract *x)
{
    x->options.host = mt_source_host(x->source);
    /* The filters know it by its name. */
    if (!x->filter.has_kernels || mt_filter_match(&x->filter, MT_HOST_NAME, x->filter.first)) {
        x->options.host_first = x->filter.first;
        x->options.host_end = x->filter.end;
    }
}

/* Every rank reads the inputs by itself. */
static int check_inputs(const struct mt_extract *x)
{
    struct stat st;
    for (size_t i = 0; mt_session_members(x->session) > 1 && i < x->inputs.npaths; i++)
        if (strcmp(x->inputs.paths[i], "-") == 0 ||
            (stat(x->inputs.paths[i], &st) == 0 && !S_ISREG(st.st_mode)))
            return mt_cli_usage("%s is not a regular file: several ranks cannot all read it",
                                x->inputs.paths[i]);
    return 0;
}

/* What follows from the options; the exit code. */
static int extract_prepare(struct mt_extract *x, int argc, char **argv, const char *output)
{
    x->options.transfers =
        x->sections & 1u << MT_TRANSFERS || mt_locality_run_has(&x->more, MT_LOCALITY_PLACEMENT);
    x->options.addresses = (x->sections & 1u << MT_ADDRESSES) != 0;
    if (x->options.addresses)
        x->inputs.flags |= MT_SOURCE_REWIND;
    x->inputs.flags |= MT_SOURCE_HOST;
    x->inputs.flags |= MT_SOURCE_OWN_RUNS; /* with lane masks and sites, where the trace has them */
    x->inputs.threads = x->threads > 2 ? x->threads - 1 : 1; /* the analysis is the other one */
    x->inputs.on = mt_session_members(x->session) > 1;       /* they end together */
    x->by_parts = mt_session_members(x->session) > 1;
    mt_inputs_take(&x->inputs, argc, argv);
    int code = mt_inputs_folders(&x->inputs);
    if (!code)
        code = check_inputs(x);
    return code || !mt_session_reports(x->session) ? code : mt_output_open(&x->out, output, &x->inputs);
}

/* The program is told what to send; whole traces are waited for. */
static int begin_live(struct mt_extract *x)
{
    if (x->inputs.npaths)
        return mt_cli_usage("--live reads standard input alone");
    if (mt_live_say(STDIN_FILENO, x->whole ? MT_LIVE_WANTS_TRACES : MT_LIVE_WANTS_RUNS) != 0)
        return MT_EXIT_INPUT;
    if (!x->whole)
        return 0;
    if (mt_live_traces(&x->traces, STDIN_FILENO) != 0)
        return MT_EXIT_INPUT; /* the program was killed: no result, and nobody to tell */
    x->inputs.paths = (const char *const *)x->traces.paths;
    x->inputs.npaths = x->traces.n;
    x->inputs.fds = x->traces.fds;
    return 0;
}

/* Opens the inputs and begins the analysis; the exit code. */
static int open_all(struct mt_extract *x)
{
    int code;
    if (!x->inputs.ends && !mt_session_reports(x->session))
        x->more.options.chosen = 0; /* rank 0 has them to itself */
    if (!(x->source = x->live ? mt_inputs_live(&x->inputs, &code) : mt_inputs_source(&x->inputs, &code)))
        return code;
    mt_progress_init(&x->progress);
    x->progress.on &= mt_session_reports(x->session) && !x->live && !x->whole;
    with_host(x);
    x->options.volumes =
        mt_session_members(x->session) == 1 && !(x->sections & ~DATA_VOLUMES) && !x->options.transfers &&
        !x->options.host &&
        x->formats.format == MT_FORMAT_JSON; /* others show both kinds of volume side by side */
    const unsigned threads = x->threads;
    if (x->options.volumes)
        x->threads = 1; /* who reads can add up */
    /* One thread reads. With two in all, the other one has the whole analysis. */
    x->team = x->session ? x->session->team(&x->options)
                         : mt_team_of_threads(&x->options, x->threads > 2 ? x->threads - 1 : 1);
    if (x->team && (!x->inputs.ends || x->session->by_parts(x->team) == 0) &&
        mt_locality_run_start(&x->more, x->source, x->inputs.npaths) == 0 &&
        mt_locality_run_threads(&x->more, threads) == 0)
        return 0;
    mt_cli_say("no memory or no threads for the analysis");
    return MT_EXIT_FAILURE;
}

/* Members that read a part each found damage: each reads all, as one alone does, and finds what is whole. */
static int once_more(struct mt_extract *x)
{
    mt_team_free(x->team);
    x->team = NULL;
    mt_source_close(x->source);
    x->inputs.ends = NULL;
    x->nevents = 0;
    mt_extract_share_free(&x->share);
    mt_locality_run_again(&x->more);
    int code = open_all(x);
    return code ? code : extract_analyse(x);
}

/* The inputs are opened in step: where all read a part, none may be missing. */
static int open_together(struct mt_extract *x)
{
    if (x->by_parts)
        x->inputs.ends = x->ends = x->session->split(x->inputs.paths, x->inputs.npaths);
    return mt_session_agree(x->session, open_all(x));
}

static void close_all(struct mt_extract *x)
{
    mt_output_abandon(&x->out);
    mt_addresses_free(&x->addresses);
    mt_team_free(x->team);
    mt_estimates_free(&x->estimates);
    free(x->events);
    free(x->streams);
    mt_live_traces_free(&x->traces);
    mt_extract_share_free(&x->share);
    mt_locality_run_free(&x->more);
    mt_source_close(x->source);
    if (x->ends)
        x->session->unsplit(x->ends, x->inputs.npaths);
    mt_filter_free(&x->filter);
    mt_inputs_free(&x->inputs);
}

int main(int argc, char **argv)
{
    static struct mt_extract x; /* holds the output buffer */
    const char *output = NULL;
    mt_cli_start("mt-extract");
#ifdef MEMTRACE_MPI
    x.session = &mt_ranks_session;
    x.session->begin(&argc, &argv, &mt_cli_stop);
#else
    /* What a rank's program starts (always with this word first) has that program to itself. */
    int other = argc > 1 && !strcmp(argv[1], "--live") ? 0 : mt_mpirun_hand_over(argv);
    if (other)
        return other;
#endif
    mt_cli_quiet = !mt_session_reports(x.session); /* all would say the same */
    opterr = !mt_cli_quiet;
    mt_filter_init(&x.filter);
    mt_locality_run_init(&x.more);
    x.threads = mt_cli_processors();
    x.formats.top = 200;
    x.sections = (1u << MT_SECTIONS) - 1;
    int code = mt_extract_parse(&x, argc, argv, &output);
    if (code == 0 && x.formats.format != MT_FORMAT_JSON && x.formats.format != MT_FORMAT_TEXT &&
        x.more.options.chosen)
        code = mt_cli_usage("the further analyses come out as --format=json or text only");
    if (code == 0)
        code = mt_formats_check(&x.formats, &x.sections, x.chosen, output, &x.inputs.flags);
    if (code == 0)
        code = extract_prepare(&x, argc, argv, output);
    if (code == 0 && (x.live || x.whole))
        code = begin_live(&x);
    code = mt_session_agree(x.session, code);
    if (code == 0)
        code = open_together(&x);
    mt_cli_quiet = 0;
    int together = code != 0;
    if (code == 0)
        code = extract_run(&x);
    together |= code == 0 ||
                (x.comm != NULL && !x.sharing); /* after the end of the analysis nobody waits for another */
    if (!together)
        mt_output_abandon(&x.out);
    code = code < 0 ? MT_EXIT_OK : code;
    if (x.session)
        code = x.session->end(code, together);
    close_all(&x);
    return code;
}
