/* memtrace extract: traces in, comm.json out. */
#define _GNU_SOURCE
#include "extract.h"
#include "analysis/check/collect.h"
#include "cli/base/commands.h"
#include "extract_tables.h"
#include "mpirun.h"
#include "output/json/comm_json.h"
#include "memtrace/container.h"
#include "memtrace/host.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int session_agree(const struct mt_session *s, int code)
{
    return s ? s->agree(code) : code;
}

static int session_members(const struct mt_session *s)
{
    return s ? s->members() : 1;
}

static int session_reports(const struct mt_session *s)
{
    return !s || s->reports();
}

enum { ADDRESSES_BUDGET = 1 << 30 }; /* bytes of operations in memory, of the section addresses */
enum { ADDRESSES_MOST = 1000000 };   /* operations that are listed unasked: some 100 MB of JSON */
#define DATA_VOLUMES (1u << MT_KDV | 1u << MT_CDV | 1u << MT_SDV | 1u << MT_HDV)

/* ---- reading ---- */

/* Members read parts of what is not read here. */
static int extract_place(void *self, const struct mt_item *item)
{
    struct mt_extract *x = self;
    const struct mt_run_launch *l = &x->p.feed.launch;
    const struct mt_span span = {x->p.inputs.paths[item->input], item->offset, item->count,
                                 item->kind == MT_ITEM_RUNS, l->selected};
    if (x->p.session->span(x->p.team, &span) != 0)
        return -1;
    if (mt_extract_share_note(&x->share, &x->p.more, &span) == 0)
        return 0;
    x->p.why = "no memory for the further analyses";
    return -1;
}

static const struct mt_analysis extract_places = {.needs = MT_NEEDS_ALL | MT_NEEDS_PLACES,
                                                  .place = extract_place};

/* Nobody asked for the section, and it would be longer than most tools can load. */
static int too_many_addresses(struct mt_extract *x)
{
    x->many_addresses =
        !x->chosen && (x->p.comm->keys.count > ADDRESSES_MOST || x->addresses.operations > ADDRESSES_MOST);
    return x->many_addresses;
}

static int address_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_extract *x = self;
    x->superstep = l->superstep;
    return 0;
}

static int address_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_extract *x = self;
    return mt_addresses_runs(&x->addresses, runs, n, x->superstep);
}

static int address_records(void *self, const struct mt_raw_record *records, size_t n)
{
    struct mt_extract *x = self;
    return mt_addresses_records(&x->addresses, records, n, x->superstep);
}

static int address_enough(void *self)
{
    return mt_cli_stop || too_many_addresses(self);
}

static const struct mt_analysis extract_addresses = {.needs = MT_NEEDS_ALL,
                                                     .launch = address_launch,
                                                     .runs = address_runs,
                                                     .records = address_records,
                                                     .enough = address_enough};

/* The second pass over all records: finds the operations on the addresses that the first one found. */
static int address_pass(struct mt_extract *x)
{
    struct mt_feed f = {.source = x->p.source, .progress = &x->p.progress, .again = 1};
    if (too_many_addresses(x))
        return 0;
    if (mt_keyset_index(&x->p.comm->keys) != 0 ||
        mt_addresses_init(&x->addresses, &x->p.comm->keys, ADDRESSES_BUDGET) != 0)
        return mt_extract_addresses_failed(&x->addresses);
    if (x->p.comm->keys.count == 0)
        return 0;
    mt_feed_add(&f, &extract_addresses, x, NULL);
    int rc = mt_feed_read(&f);
    if (rc == MT_FEED_FAILED)
        return mt_extract_addresses_failed(&x->addresses);
    if (rc)
        return mt_feed_failed(&f, rc);
    if (!mt_cli_stop && !x->many_addresses && x->addresses.records != x->p.comm->records)
        return mt_cli_fail("the input changed while it was read");
    return 0;
}

static int once_more(struct mt_extract *x);

/* What the members have still to do together; the exit code. */
static int extract_share(struct mt_extract *x)
{
    if (!x->p.inputs.ends || !mt_locality_run_of_runs(&x->p.more))
        return 0;
    mt_comm_forget(x->p.comm);
    x->sharing = 1;
    int rc = mt_session_stopped(x->p.session, x->p.team)
                 ? 1
                 : mt_extract_share(&x->share, &x->p.more, x->p.session, x->p.team);
    if (rc < 0)
        return mt_cli_fail("%s", mt_team_why(x->p.team));
    x->sharing = 0;
    x->no_more = rc > 0;
    if (x->no_more && mt_session_stopped(x->p.session, x->p.team))
        mt_source_stop(x->p.source);
    return 0;
}

static int extract_run(struct mt_extract *x)
{
    int complete, code = mt_pipeline_read(&x->p);
    if (code && x->p.inputs.ends && mt_session_again(x->p.session, x->p.team))
        code = once_more(x);
    if (code == 0)
        code = extract_share(x);
    if (code || !session_reports(x->p.session))
        return code;
    int input = mt_inputs_finish(x->p.source, &complete), known = complete;
    if (!x->p.options.host)
        mt_filter_explain(&x->p.filter, x->p.comm->nlaunches, mt_comm_reported_launches(x->p.comm));
    /* Their order must not depend on the number of threads. */
    if (mt_locality_run_has(&x->p.more, MT_LOCALITY_PLACEMENT) && mt_comm_merged(x->p.comm) != 0)
        x->p.why = "no memory to sort the transfers";
    if (x->no_more) {
        mt_cli_say("interrupted: the further analyses are left out");
        mt_locality_run_drop(&x->p.more);
    }
    if (!x->p.why && mt_locality_run_finish(&x->p.more, x->p.comm) != 0)
        x->p.why = "no memory for the further analyses";
    if (!x->p.why && x->judges && mt_check_events(&x->findings, x->p.source) != 0)
        x->p.why = "no memory for what becomes of the bytes";
    mt_findings_finish(&x->findings);
    if (x->p.why)
        return mt_cli_fail("%s", x->p.why);
    if (x->sections & 1u << MT_ADDRESSES) {
        mt_comm_forget(x->p.comm);
        if (!mt_cli_stop && (code = address_pass(x)) != 0)
            return code;
        if (x->many_addresses)
            mt_cli_say("%s", MT_MANY_ADDRESSES);
        if (mt_cli_stop) {
            mt_cli_say("interrupted: addresses are left out");
            x->no_addresses = 1;
            complete = 0;
        }
    }
    code = x->formats.format == MT_FORMAT_JSON ? mt_extract_write(x, complete)
           : x->formats.format == MT_FORMAT_TEXT || x->formats.format == MT_FORMAT_SUMMARY
               ? mt_extract_write_text(x, complete)
               : mt_extract_write_other(x, &complete);
    return code ? code : input ? input : complete == known ? MT_EXIT_OK : MT_EXIT_INPUT;
}

/* Every rank reads the inputs by itself. */
static int check_inputs(const struct mt_extract *x)
{
    struct stat st;
    for (size_t i = 0; session_members(x->p.session) > 1 && i < x->p.inputs.npaths; i++)
        if (strcmp(x->p.inputs.paths[i], "-") == 0 ||
            (stat(x->p.inputs.paths[i], &st) == 0 && !S_ISREG(st.st_mode)))
            return mt_cli_usage("%s is not a regular file: several ranks cannot all read it",
                                x->p.inputs.paths[i]);
    return 0;
}

/* 0, or MT_EXIT_USAGE after saying what to do: no input can have accesses to shared or local memory. */
static int extract_has_spaces(const struct mt_inputs *in)
{
    for (size_t i = 0; i < in->npaths; i++)
        if (strcmp(in->paths[i], "-") == 0)
            return 0;
    if (mt_inputs_spaces(in))
        return 0;
    return mt_cli_usage(
        "%s: has no records of shared or local memory: its kernels use none, or were not compiled with "
        "--mt-spaces=global,shared,local (memtrace run: --spaces) and run with MEMTRACE_FORMAT=compact",
        in->npaths ? in->paths[0] : "no input");
}

/* Launches that the filter leaves out are not read where the trace has an index and nothing is asked of them.
 * Earlier ones have written what is transferred; what later ones load makes stores communication; the
 * footprint and the CTAs to be placed are those of the run. */
static void extract_passes(struct mt_extract *x)
{
    const int text = x->formats.format == MT_FORMAT_TEXT; /* has both kinds of volume */
    const unsigned few = 1u << MT_TRANSFERS | (text ? 0 : DATA_VOLUMES);
    if ((x->formats.format != MT_FORMAT_JSON && !text) || x->sections & ~few ||
        mt_locality_run_has(&x->p.more, MT_LOCALITY_REUSE) ||
        mt_locality_run_has(&x->p.more, MT_LOCALITY_PLACEMENT))
        return;
    x->p.inputs.first = x->sections & 1u << MT_TRANSFERS ? 0 : x->p.filter.first;
    x->p.inputs.end = x->p.filter.end;
}

static void extract_wants(struct mt_extract *x)
{
    static const unsigned wants[MT_SECTIONS] = {
        [MT_KCV] = MT_WANTS_COMM,           [MT_CCV] = MT_WANTS_COMM,     [MT_SCV] = MT_WANTS_COMM,
        [MT_HCV] = MT_WANTS_COMM,           [MT_SENDERS] = MT_WANTS_COMM, [MT_TRANSFERS] = MT_WANTS_TRANSFERS,
        [MT_ADDRESSES] = MT_WANTS_ADDRESSES};
    if (x->formats.format != MT_FORMAT_JSON)
        x->p.wants |= MT_WANTS_COMM; /* both kinds of volume are side by side */
    if (mt_locality_run_has(&x->p.more, MT_LOCALITY_PLACEMENT))
        x->p.wants |= MT_WANTS_READERS;
    for (int i = 0; i < MT_SECTIONS; i++)
        x->p.wants |= x->sections >> i & 1 ? wants[i] : 0;
}

/* What follows from the options; the exit code. */
static int extract_prepare(struct mt_extract *x, int argc, char **argv)
{
    extract_wants(x);
    if (x->sections & 1u << MT_ADDRESSES)
        x->p.inputs.flags |= MT_SOURCE_REWIND;
    x->p.inputs.flags |= MT_SOURCE_HOST;
    x->p.inputs.flags |= MT_SOURCE_OWN_RUNS; /* with lane masks and sites, where the trace has them */
    x->p.inputs.threads = x->p.threads > 2 ? x->p.threads - 1 : 1; /* the analysis is the other one */
    x->p.inputs.on = session_members(x->p.session) > 1;            /* they end together */
    x->by_parts = session_members(x->p.session) > 1;
    int alone = session_members(x->p.session) == 1;
    if (x->shared && (!alone || (x->formats.format != MT_FORMAT_JSON && x->formats.format != MT_FORMAT_TEXT)))
        return alone ? mt_cli_usage("the section shared is for --format=json and text")
                     : mt_cli_usage("the section shared is one process's work: start it without mpirun");
    if (alone)
        extract_passes(x);
    if (x->shared || (x->formats.format == MT_FORMAT_SUMMARY && alone)) {
        x->p.spaces = 1;
    }
    mt_inputs_take(&x->p.inputs, argc, argv);
    int code = mt_inputs_folders(&x->p.inputs);
    if (!code)
        code = check_inputs(x);
    if (!code && x->shared)
        code = extract_has_spaces(&x->p.inputs);
    if (code || !session_reports(x->p.session))
        return code;
    if (x->formats.folder)
        return mt_tables_folder(x->output);
    return mt_output_open(&x->p.out, x->output);
}

/* Besides the pipeline's own. */
static void extract_rows(struct mt_extract *x)
{
    if (x->p.inputs.ends)
        mt_feed_add(&x->p.feed, &extract_places, x, NULL);
    x->bytes.findings = &x->findings;
    if (x->judges)
        mt_feed_add(&x->p.feed, &mt_check_memory_analysis, &x->bytes,
                    "no memory for what becomes of the bytes");
}

/* Opens the inputs and begins the analysis; the exit code. */
static int open_all(struct mt_extract *x)
{
    if (!x->p.inputs.ends && !session_reports(x->p.session))
        x->p.more.options.chosen = 0; /* rank 0 has them to itself */
    x->judges =
        x->formats.format == MT_FORMAT_SUMMARY && x->p.spaces && !(x->p.inputs.flags & MT_SOURCE_NO_HOST);
    int code = mt_pipeline_open(&x->p);
    if (code == 0)
        extract_rows(x);
    return code;
}

/* Members that read a part each found damage: each reads all, as one alone does, and finds what is whole. */
static int once_more(struct mt_extract *x)
{
    mt_feed_free(&x->p.feed);
    x->p.team = NULL;
    mt_locality_run_again(&x->p.more);
    mt_source_close(x->p.source);
    x->p.inputs.ends = NULL;
    x->p.nevents = 0;
    mt_extract_share_free(&x->share);
    int code = open_all(x);
    return code ? code : mt_pipeline_read(&x->p);
}

/* The inputs are opened in step: where all read a part, none may be missing. */
static int open_together(struct mt_extract *x)
{
    if (x->by_parts)
        x->p.inputs.ends = x->ends = x->p.session->split(x->p.inputs.paths, x->p.inputs.npaths);
    return session_agree(x->p.session, open_all(x));
}

static void close_all(struct mt_extract *x)
{
    size_t n = x->p.inputs.npaths;
    mt_addresses_free(&x->addresses);
    mt_extract_share_free(&x->share);
    mt_pipeline_free(&x->p);
    mt_findings_free(&x->findings);
    if (x->ends)
        x->p.session->unsplit(x->ends, n);
}

/* What it took. */
static void extract_stats(const struct mt_extract *x)
{
    struct timespec busy;
    if (x->p.session) {
        x->p.session->stats();
        return;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &busy);
    mt_cli_say("%.3f s of processor time for %llu accesses",
               (double)busy.tv_sec + (double)busy.tv_nsec * 1e-9,
               x->p.team ? (unsigned long long)mt_team_count(x->p.team) : 0);
}

int mt_extract_command(int argc, char **argv)
{
    int other = mt_mpirun_hand_over(argv);
    return other ? other : mt_extract_run(argc, argv, NULL);
}

int mt_extract_run(int argc, char **argv, const struct mt_session *session)
{
    static struct mt_extract x; /* holds the output buffer */
    mt_cli_start("mt-extract");
    x.p.session = session;
    if (session)
        session->begin(&argc, &argv, &mt_cli_stop);
    mt_cli_quiet = !session_reports(x.p.session); /* all would say the same */
    opterr = !mt_cli_quiet;
    mt_pipeline_init(&x.p);
    x.formats.top = 200;
    x.sections = (1u << MT_SECTIONS) - 1;
    int code = mt_extract_parse(&x, argc, argv);
    x.p.more.options.chosen |= x.p.more.meant;
    if (code == 0)
        code = mt_formats_check(&x.formats, &x.sections, &x.p.more.options.chosen, x.chosen, x.output,
                                &x.p.inputs.flags);
    if (code == 0)
        code = extract_prepare(&x, argc, argv);
    code = session_agree(x.p.session, code);
    if (code == 0)
        code = open_together(&x);
    mt_cli_quiet = 0;
    int together = code != 0;
    if (code == 0)
        code = extract_run(&x);
    together |= code == 0 ||
                (x.p.comm != NULL && !x.sharing); /* after the end of the analysis nobody waits for another */
    if (!together)
        mt_output_abandon(&x.p.out);
    code = code < 0 ? MT_EXIT_OK : code;
    if (x.stats && together)
        extract_stats(&x);
    if (x.p.session)
        code = x.p.session->end(code, together);
    close_all(&x);
    return code;
}
