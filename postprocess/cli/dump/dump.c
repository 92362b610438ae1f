/* memtrace dump: a trace as text. */
#define _GNU_SOURCE
#include "cli/base/cli.h"
#include "cli/base/commands.h"
#include "dump.h"
#include "dump_host.h"
#include "cli/base/feed.h"
#include "memtrace/host.h"
#include "analysis/locality/estimates.h"
#include "output/rows/csv.h"
#include "base/text.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct mt_command command = {
    .of = MT_OF_DUMP,
    .before =
        "Usage: memtrace dump [OPTION]... TRACE...\n"
        "Shows memory traces as text: a line per kernel launch and per record.\n"
        "\n"
        "  memtrace dump --head 5 /tmp/MemTrace-pipe-0               the first five records of each launch\n"
        "  memtrace dump --stat run-2                                a folder: all of the newest run in it\n"
        "  memtrace dump --stat /tmp/MemTrace-pipe-*                 one line per kernel\n"
        "  memtrace dump --companion --head 0 /tmp/MemTrace-pipe-0   launches, allocations and copies only\n"
        "  memtrace dump --runs trace.mtc                            what each warp did at once\n"
        "  memtrace dump --stat --sites host.mtc                     host accesses: sums per thread, its "
        "sites\n"
        "\n"
        "Launch lines:  launch SUPERSTEP KERNEL\n"
        "Record lines:  TYPE BYTES ADDRESS cta X,Y,Z sm N       (TYPE: load, store, atomic, unknown)\n"
        "Host accesses:  THREAD OP BYTES ADDRESS [time N] seq N site N [of VARIABLE] [at FILE:LINE]; events "
        "by name\n"
        "Run lines:     TYPE BYTES x COUNT ADDRESS [STRIDE | ,ADDRESS...] cta X,Y,Z sm N [warp N] [mask M] "
        "[site N ...]\n"
        "Lines that begin with # are remarks. Several traces are shown in launch order, by their "
        "companions.\n",
    .after = "Exit code: 0 fine, 1 failure, 2 wrong usage, 3 the trace is truncated, corrupt or incomplete, "
             "or reading was\n"
             "interrupted: what was whole is shown.\n",
    .wrong = mt_cli_usage,
};

struct options {
    struct mt_inputs inputs;
    struct mt_filter filter;
    FILE *out;
    uint64_t head;
    int stat, counts, companion, sites, chunks, runs, csv;
};

static int dump_option(void *arg, int o)
{
    static const char *const formats[] = {"text", "csv", NULL};
    struct options *x = arg;
    switch (o) {
    case MT_OPT_FORMAT:
        return (x->csv = mt_cli_word(optarg, formats)) >= 0
                   ? 0
                   : mt_cli_usage("'%s' is not a format: text or csv", optarg);
    case MT_OPT_HEAD:
        return mt_cli_number(optarg, 0, UINT64_MAX, &x->head) ? 0
                                                              : mt_cli_usage("'%s' is not a count", optarg);
    case MT_OPT_STAT:
        x->stat = 1;
        return 0;
    case MT_OPT_COUNTS:
        x->counts = 1;
        return 0;
    case MT_OPT_COMPANION:
        x->companion = 1;
        return optarg ? mt_inputs_companion(&x->inputs, optarg) : 0;
    case MT_OPT_SITES:
        x->sites = 1;
        return 0;
    case MT_OPT_RUNS:
        x->runs = 1;
        return 0;
    case MT_OPT_CHUNKS:
        x->chunks = 1;
        return 0;
    default:
        return mt_common_option(o, &x->inputs, &x->filter);
    }
}

static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#include "memtrace/record.def"
};

static void show_record(FILE *f, const struct mt_raw_record *r)
{
    fprintf(f, "%s %u 0x%" PRIx64 " cta %u,%u,%u sm %u\n", types[mt_rec_type(r)], (unsigned)mt_rec_size(r),
            mt_rec_address(r), (unsigned)mt_rec_cta_x(r), (unsigned)mt_rec_cta_y(r),
            (unsigned)mt_rec_cta_z(r), (unsigned)mt_rec_smid(r));
}

/* Launches as they come. */
struct showing {
    const struct options *x;
    struct mt_source *source;
    const struct mt_run_launch *launch; /* under way */
    uint64_t shown;                     /* of its records (runs) */
    const char *unit;
};

static int show_launch(void *self, const struct mt_run_launch *l)
{
    struct showing *s = self;
    FILE *f = s->x->out;
    const struct mt_launch_event *e = l->event;
    s->launch = l;
    s->shown = 0;
    fprintf(f, "launch %" PRIu64 " %s\n", l->superstep, l->kernel);
    if (s->x->inputs.npaths > 1) {
        fputs("# of ", f);
        mt_text_put(f, s->x->inputs.paths[l->input]);
        putc('\n', f);
    }
    if (e)
        fprintf(f, "# grid %" PRIu64 ",%" PRIu64 ",%" PRIu64 " block %" PRIu64 ",%" PRIu64 ",%" PRIu64,
                e->grid[0], e->grid[1], e->grid[2], e->block[0], e->block[1], e->block[2]);
    if (e && *e->file) /* host code that mt-cc compiled, or Python */
        fprintf(f, " launched at %s:%" PRIu64, e->file, e->line);
    if (e)
        putc('\n', f);
    if (e && *e->library)
        fprintf(f, "# a call of the library %s\n", e->library);
    return 0;
}

static int show_records(void *self, const struct mt_raw_record *records, size_t n)
{
    struct showing *s = self;
    for (size_t i = 0; i < n && s->shown + i < s->x->head; i++)
        show_record(s->x->out, &records[i]);
    s->shown += n;
    s->unit = "records";
    return 0;
}

static int show_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct showing *s = self;
    const struct mt_companion *c = mt_source_companion(s->source, s->launch->input);
    for (size_t i = 0; i < n && s->shown + i < s->x->head; i++)
        mt_dump_run(s->x->out, &runs[i], c);
    s->shown += n;
    s->unit = "runs";
    return 0;
}

static int show_end(void *self)
{
    const struct showing *s = self;
    if (s->shown > s->x->head)
        fprintf(s->x->out, "# %" PRIu64 " more %s\n", s->shown - s->x->head, s->unit);
    return 0;
}

static int show_enough(void *self)
{
    const struct showing *s = self;
    return ferror(s->x->out);
}

static const struct mt_analysis dump_text = {.launch = show_launch,
                                             .records = show_records,
                                             .runs = show_runs,
                                             .end = show_end,
                                             .enough = show_enough};

/* The same as lines of CSV, launch by launch. */
static int csv_launch(void *self, const struct mt_run_launch *l)
{
    struct showing *s = self;
    s->launch = l;
    s->shown = 0;
    return 0;
}

static int csv_records(void *self, const struct mt_raw_record *records, size_t n)
{
    struct showing *s = self;
    FILE *f = s->x->out;
    for (size_t i = 0; i < n && s->shown + i < s->x->head; i++) {
        const struct mt_raw_record *r = &records[i];
        fprintf(f, "%" PRIu64 ",", s->launch->superstep);
        mt_csv_text(f, s->launch->kernel);
        fprintf(f, ",%s,%u,%" PRIu64 ",%u,%u,%u,%u\n", types[mt_rec_type(r)], (unsigned)mt_rec_size(r),
                mt_rec_address(r), (unsigned)mt_rec_cta_x(r), (unsigned)mt_rec_cta_y(r),
                (unsigned)mt_rec_cta_z(r), (unsigned)mt_rec_smid(r));
    }
    s->shown += n;
    return 0;
}

static const struct mt_analysis dump_csv = {
    .launch = csv_launch, .records = csv_records, .enough = show_enough};

/* 0, or the exit code of an output that takes no more. */
static int dump_flush(FILE *f)
{
    errno = 0;
    if (fflush(f) == 0 && !ferror(f))
        return 0;
    return mt_cli_fail("standard output: cannot write: %s", strerror(errno ? errno : EIO));
}

static int dump_run(struct options *x, struct mt_source *s)
{
    FILE *f = x->out;
    struct mt_stat stat = {0};
    struct mt_tally tally = {.f = f};
    struct showing showing = {.x = x, .source = s};
    struct mt_estimates estimates = {0};
    struct mt_progress progress;
    struct mt_feed feed = {.source = s, .filter = &x->filter};
    int ok = 0, complete;
    if (!x->runs && mt_inputs_spaces(&x->inputs))
        mt_cli_note(
            "what there is of shared and local memory is left out: --runs and memtrace extract -s shared "
            "show it");
    mt_progress_init(&progress);
    if (x->csv)
        fputs("launch,kernel,type,bytes,address,cta_x,cta_y,cta_z,sm\n", f);
    for (size_t i = 0; x->companion && i < x->inputs.npaths; i++)
        mt_dump_companion(f, x->inputs.paths[i], mt_source_companion(s, i));
    for (size_t i = 0; x->chunks && i < x->inputs.npaths; i++)
        if ((ok = mt_dump_chunks(f, x->inputs.paths[i])) != 0)
            return ok;
    if (x->stat)
        mt_feed_add(&feed, &mt_stat_analysis, &stat, NULL);
    else if (x->counts)
        mt_feed_add(&feed, &mt_tally_analysis, &tally, NULL);
    else
        mt_feed_add(&feed, x->csv ? &dump_csv : &dump_text, &showing, NULL);
    if (x->stat || x->counts)
        feed.progress = &progress;
    int rc = mt_feed_read(&feed);
    ok = rc == MT_FEED_FAILED;
    int code = dump_flush(f);
    if (code) { /* the trace was not read to its end: nothing is to be said of it */
        mt_stat_free(&stat);
        return code;
    }
    code = mt_inputs_finish(s, &complete);
    mt_filter_explain(&x->filter, feed.launches, feed.chosen);
    if (ok == 0 && x->stat) {
        mt_stat_show(f, &stat);
        ok = mt_estimates_gather(&estimates, s, x->inputs.npaths);
        mt_stat_show_estimates(f, &stat, &estimates);
    }
    mt_estimates_free(&estimates);
    mt_stat_free(&stat);
    int failed = dump_flush(f);
    if (failed) {
        code = failed;
    } else if (ok != 0) {
        mt_cli_say("no memory for the sums");
        code = MT_EXIT_FAILURE;
    } else if (rc)
        code = mt_feed_failed(&feed, rc);
    if (!code && tally.differ) {
        mt_cli_say("the records of a launch and the program's own count differ");
        code = MT_EXIT_FAILURE;
    }
    return code;
}

/* Containers of host accesses on the command line: all inputs, or none. How many, and *code. *device: a
 * source, if it was a FIFO with accesses of kernels. */
static int dump_containers(const struct options *x, int argc, char **argv, int *code,
                           struct mt_source **device)
{
    int n = 0;
    for (int i = optind; i < argc; i++)
        n += mt_dump_is_host(argv[i]);
    struct mt_dump_host o = {x->head,
                             x->stat,
                             x->companion,
                             x->sites,
                             x->chunks,
                             x->runs,
                             x->filter.kernels_text || x->filter.supersteps_text};
    int any_fifo = n == 1 && argc - optind == 1 && !mt_is_container(argv[optind]);
    if (n && n < argc - optind)
        *code = mt_cli_usage("containers and traces of kernels are shown one kind at a time");
    else if (!n && optind < argc && (x->sites || (x->chunks && !mt_is_container(argv[optind]))))
        *code = mt_cli_usage("--sites and --chunks are for containers (.mtc)");
    else if (x->csv && (x->stat || x->counts || x->companion || x->sites || x->chunks || x->runs))
        *code = mt_cli_usage(
            "--format=csv is of records alone; memtrace extract --format=csv has tables of sums");
    else if (x->csv && n && !any_fifo)
        *code = mt_cli_usage("--format=csv is of kernels' records: this is a container of host accesses");
    else if (x->runs && ((n && !any_fifo) || x->stat || x->counts))
        *code = mt_cli_usage("--runs shows accesses of kernels, no sums");
    else if (n && !any_fifo && (x->filter.kernels_text || x->filter.supersteps_text))
        *code = mt_cli_usage("a container of host accesses has no kernels to choose from");
    for (int i = optind; n && i < argc && *code != MT_EXIT_FAILURE && *code != MT_EXIT_USAGE; i++) {
        int one = mt_dump_host_show(x->out, argv[i], &o, device);
        *code = one ? one : *code;
    }
    if (n && (fflush(x->out) != 0 || ferror(x->out))) {
        mt_cli_say("standard output: cannot write: %s", strerror(errno));
        *code = MT_EXIT_FAILURE;
    }
    return n;
}

int mt_dump_command(int argc, char **argv)
{
    struct options x = {.head = UINT64_MAX, .out = mt_output_whole(dup(STDOUT_FILENO))};
    struct mt_source *s = NULL;
    mt_cli_start("mt-dump");
    mt_filter_init(&x.filter);
    int code = mt_cli_options(&command, argc, argv, dump_option, &x);
    if (code == 0 && !x.out)
        code = mt_cli_fail("no memory for the output");
    int host = code == 0 ? dump_containers(&x, argc, argv, &code, &s) : 0;
    if (code == 0 && !x.companion)
        x.inputs.flags |= MT_SOURCE_NO_HOST | MT_SOURCE_NO_MEMORY; /* one FIFO is shown as it comes */
    if (x.runs)
        x.inputs.flags |= MT_SOURCE_RUNS | MT_SOURCE_SPACES;
    if (code == 0 && s) {
        mt_inputs_take(&x.inputs, argc, argv);
        code = dump_run(&x, s);
    } else if (code == 0 && !host && (s = mt_inputs_open(&x.inputs, argc, argv, &code)))
        code = dump_run(&x, s);
    mt_source_close(s);
    mt_filter_free(&x.filter);
    mt_inputs_free(&x.inputs);
    return code < 0 ? MT_EXIT_OK : code;
}
