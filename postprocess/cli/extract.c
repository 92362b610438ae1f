/* mt-extract: traces in, comm.json out. */
#define _GNU_SOURCE
#include "cli.h"
#include "extract_formats.h"
#include "extract_more.h"
#include "mpirun.h"
#include "../analysis/addresses.h"
#include "../analysis/team.h"
#include "../output/comm_json.h"
#include "../output/estimates_json.h"
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADDRESSES_BUDGET = 1 << 30 }; /* bytes of operations in memory, of the section addresses */
enum { THREADS_MOST = 1024, THREADS_DEFAULT = 32 };

static const char help[] =
    "Usage: mt-extract [OPTION]... TRACE...\n"
    "Extracts from memory traces who communicated with whom: bytes that one CTA wrote and another one read.\n"
    "\n"
    "  mt-extract /tmp/MemTrace-pipe-0 > comm.json        one CUDA stream\n"
    "  mt-extract -o comm.json /tmp/MemTrace-pipe-?       all streams of a program, in launch order\n"
    "  mkfifo /tmp/MemTrace-pipe-0; ./app & mt-extract /tmp/MemTrace-pipe-0 > comm.json    while it runs\n"
    "  zstd -dc trace.zst | mt-extract - > comm.json      from a pipe\n"
    "  mt-extract MemTrace-pipe-0 MemTrace-host.mtc > comm.json    kernels and the host code around them\n"
    "  jq '.KCV' comm.json                                loads and stores per kernel and superstep\n"
    "\n"
    "TRACE is a file, a FIFO, or - for standard input. TRACE.meta, the companion that the traced program "
    "wrote, is\n"
    "read when it is there: it orders the launches of several streams and tells what the host copied. A host "
    "trace\n"
    "(compact container, .mtc) of the same process may stand among the TRACEs: then the host is told by file "
    "and\n"
    "line, and copies carry along who wrote the bytes.\n"
    "\n"
    "What comes out:\n"
    "  KDV CDV SDV   data volume: all bytes loaded and stored, per kernel, CTA and SM of each superstep "
    "(launch)\n"
    "  KCV CCV SCV   communication volume: of these, the bytes that a CTA read and another CTA had written\n"
    "  HDV HCV       the same for host code, per file:line (with a host trace only)\n"
    "  transfers     source kernel, CTA, superstep -> reader's kernel, CTA, superstep: bytes and accesses\n"
    "  estimates     of a trace made with MEMTRACE_SAMPLE: data volumes scaled to all CTAs\n"
    "  addresses     each address involved in communication with all operations on it (a second pass: the "
    "slow one)\n"
    "Further analyses, only when --sections names them:\n"
    "  lines         volumes per source line, variable and allocation\n"
    "  coalescing    sectors and lines per request of a warp, strides of lanes (compact traces)\n"
    "  reuse         reuse distances and working sets of CTAs, SMs and the device\n"
    "  sharing       cache lines that CTAs share: for reading, truly, falsely\n"
    "  conflicts     accesses of two CTAs of one launch to the same bytes, at least one a plain store\n"
    "  placement     bytes that would cross if the CTAs ran on several devices\n"
    "\n"
    "Options:\n"
    "  -o, --output=FILE       write to FILE instead of standard output\n"
    "  -s, --sections=LIST     of KCV,KDV,CCV,CDV,SCV,SDV,HCV,HDV,transfers,addresses, or all (default), or\n"
    "                          quick: all but addresses, or more: the six further analyses\n"
    "      --line-size=N           cache line of reuse and sharing, a power of two from 32 to 4096 (128)\n"
    "      --sample=N              reuse: look at one of N lines, a power of two (1: all)\n"
    "      --top=N                 sharing: name so many lines per launch (10)\n"
    "      --devices=N             placement: so many devices (2)\n"
    "      --format=text           tables for people instead of JSON: volumes by kernel, and the further "
    "analyses\n"
    "  -k, --kernels=REGEX     report launches of kernels whose name matches (POSIX extended)\n"
    "  -t, --supersteps=A:B    report launches A to B-1 (A: and :B and A alone work too)\n"
    "                          Both filters choose what is reported. Every record is still read, because any "
    "of\n"
    "                          them may be the last writer of what a reported kernel loads. Transfers are "
    "reported\n"
    "                          by their reader.\n"
    "      --same-cta=local    the same CTA of different supersteps is one CTA: what it reads of itself is "
    "no\n"
    "                          communication (default: instance, each launch has its own CTAs)\n"
    "      --strict            leave out what is written and read in one superstep: CUDA does not order its "
    "CTAs,\n"
    "                          so such a pair depends on the order of the trace (it is marked "
    "\"unordered\")\n"
    "      --no-host           do not read host copies from the companion, nor host accesses; a FIFO is then "
    "read\n"
    "                          without a spool file\n" MT_FORMAT_HELP
    "      --threads=N         use N threads (default: as many as there are processors, at most 32)\n"
    "      --companion=FILE    the companion of the first TRACE; again for the second, and so on\n"
    "      --no-companion      do as if there were no companion\n"
    "      --live              what programs start themselves when MEMTRACE_SINK asks for it\n"
    "  -h, --help              this text\n"
    "  -V, --version           the version\n"
    "\n"
    "Exit code: 0 fine, 1 failure, 2 wrong usage, 3 the trace is truncated, corrupt or incomplete, or "
    "reading was\n"
    "interrupted (Ctrl-C): what was whole is in the output, which then says \"complete\": false and why.\n"
    "Definitions with a worked example: docs/definitions.md.\n";

struct extract {
    struct mt_inputs inputs;
    struct mt_filter filter;
    struct mt_comm_options options;
    unsigned sections; /* a bit per enum mt_section */
    struct mt_output out;
    struct mt_source *source;
    struct mt_launch_ends *ends; /* of the inputs' launches, when members read a part each */
    int by_parts;                /* they may; the same everywhere */
    struct mt_team *team;
    struct mt_comm *comm; /* its results */
    unsigned threads;
    struct mt_json json;
    struct mt_progress progress;
    struct mt_addresses addresses;
    int no_addresses;                      /* reading was interrupted */
    int live;                              /* --live */
    const char **streams;                  /* the paths of its inputs */
    const struct mt_launch_event **events; /* of each launch, NULL: no companion tells */
    size_t nevents, event_room;
    const char *why; /* of a failure that is not the team's */
    struct mt_estimates estimates;
    struct mt_extract_more more;
    struct mt_formats formats;
    int chosen; /* --sections was given */
};

#define DATA_VOLUMES (1u << MT_KDV | 1u << MT_CDV | 1u << MT_SDV | 1u << MT_HDV)
enum { OPT_SAME = 256, OPT_STRICT, OPT_NO_HOST, OPT_LIVE, OPT_THREADS };
static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                        {"sections", required_argument, NULL, 's'},
                                        {"same-cta", required_argument, NULL, OPT_SAME},
                                        {"strict", no_argument, NULL, OPT_STRICT},
                                        {"no-host", no_argument, NULL, OPT_NO_HOST},
                                        {"live", no_argument, NULL, OPT_LIVE},
                                        MT_MORE_OPTIONS,
                                        MT_FORMAT_OPTIONS,
                                        {"threads", required_argument, NULL, OPT_THREADS},
                                        MT_COMMON_OPTIONS};

static int parse_sections(struct extract *x, const char *text)
{
    x->sections = x->more.options.chosen = 0;
    while (*text) {
        size_t n = strcspn(text, ",");
        unsigned i = 0;
        while (i < MT_SECTIONS &&
               (strlen(mt_section_names[i]) != n || strncasecmp(text, mt_section_names[i], n) != 0))
            i++;
        if (i < MT_SECTIONS)
            x->sections |= 1u << i;
        else if (n == 3 && strncasecmp(text, "all", 3) == 0)
            x->sections |= (1u << MT_SECTIONS) - 1;
        else if (n == 5 && strncasecmp(text, "quick", 5) == 0)
            x->sections |= ((1u << MT_SECTIONS) - 1) & ~(1u << MT_ADDRESSES);
        else if (!mt_extract_more_section(&x->more, text, n))
            return mt_cli_usage("'%.*s' is no section", (int)n, text);
        text += n + (text[n] == ',');
    }
    return x->sections | x->more.options.chosen ? 0 : mt_cli_usage("no section chosen");
}

static int parse_threads(struct extract *x, const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n < 1 || n > THREADS_MOST)
        return mt_cli_usage("--threads is a number from 1 to %d, not '%s'", THREADS_MOST, text);
    x->threads = (unsigned)n;
    return 0;
}

/* Those that this process may use. */
static unsigned processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > THREADS_DEFAULT ? THREADS_DEFAULT : (unsigned)n;
}

/* What can be told when everything is read once. */
static int check_live(struct extract *x, const char *output)
{
    if (!output)
        return mt_cli_usage("--live needs --output");
    if (x->formats.format != MT_FORMAT_JSON)
        return mt_cli_usage("--live writes JSON");
    if (x->more.options.chosen || (x->chosen && x->sections & 1u << MT_ADDRESSES))
        return mt_cli_usage("--live gives the volumes and transfers (-s quick) or some of them");
    x->sections &= ~(1u << MT_ADDRESSES);
    return 0;
}

/* 0: go on; -1: done, exit with 0; else the exit code. */
static int parse(struct extract *x, int argc, char **argv, const char **output)
{
    int rc = 0, o;
    while (rc == 0 && (o = getopt_long(argc, argv, "o:s:" MT_COMMON_SHORT, options, NULL)) != -1) {
        switch (o) {
        case 'o':
            *output = optarg;
            break;
        case 's':
            x->chosen = 1;
            rc = parse_sections(x, optarg);
            break;
        case MT_OPT_FORMAT:
        case MT_OPT_BY:
        case MT_OPT_EDGES:
        case MT_OPT_TAG:
            rc = mt_formats_option(&x->formats, o, optarg);
            break;
        case OPT_SAME:
            x->options.local = strcmp(optarg, "local") == 0;
            if (!x->options.local && strcmp(optarg, "instance") != 0)
                rc = mt_cli_usage("--same-cta is local or instance, not '%s'", optarg);
            break;
        case OPT_STRICT:
            x->options.strict = 1;
            break;
        case OPT_NO_HOST:
            x->inputs.flags |= MT_SOURCE_NO_HOST;
            break;
        case OPT_LIVE:
            x->live = 1;
            break;
        case MT_OPT_LINE_SIZE:
        case MT_OPT_SAMPLE:
        case MT_OPT_DEVICES:
        case MT_OPT_TOP:
            rc = mt_extract_more_option(&x->more, o, optarg);
            break;
        case OPT_THREADS:
            rc = parse_threads(x, optarg);
            break;
        default:
            rc = mt_common_option(o, &x->inputs, &x->filter, help);
        }
    }
    return rc == 0 && x->live ? check_live(x, *output) : rc;
}

/* ---- reading ---- */

static int read_failed(const struct mt_error *err)
{
    mt_cli_say("%s", err->message);
    return mt_cli_exit_code(err);
}

static int more_failed(struct extract *x, int rc)
{
    if (rc != 0)
        x->why = "no memory for the further analyses";
    return rc;
}

static int launch_begins(struct extract *x, const struct mt_item *item, int selected)
{
    if (x->nevents == x->event_room) {
        size_t room = x->nevents ? 2 * x->nevents : 64;
        void *more = realloc(x->events, room * sizeof *x->events);
        if (!more) {
            x->why = "no memory for the launches";
            return -1;
        }
        x->events = more;
        x->event_room = room;
    }
    x->events[x->nevents++] = item->launch;
    return mt_team_launch(x->team, item->kernel, selected);
}

static int feed(struct extract *x, const struct mt_item *item)
{
    if (item->kind == MT_ITEM_COPY)
        return mt_team_copy(x->team, item->copy);
    if (item->kind == MT_ITEM_HOST)
        return mt_team_host(x->team, item->host, item->count);
    int selected = mt_filter_match(&x->filter, item->kernel, item->superstep);
    if ((item->flags & MT_BATCH_BEGIN) && launch_begins(x, item, selected) != 0)
        return -1;
    /* Both at a time, on the same batch. */
    int more = mt_team_reports() ? mt_extract_more_begin(&x->more, item, selected) : 0;
    int rc = item->kind == MT_ITEM_RUNS ? mt_team_runs(x->team, item->runs, item->count)
             : x->inputs.ends
                 ? mt_team_places(x->team, x->inputs.paths[item->input], item->offset, item->count)
                 : mt_team_records(x->team, item->records, item->count);
    more |= mt_extract_more_wait(&x->more);
    return rc ? rc : more_failed(x, more);
}

static int analyse(struct extract *x)
{
    struct mt_item item;
    struct mt_error err;
    int rc = 0, ok = 0;
    while (ok == 0 && (rc = mt_source_next(x->source, &item, &err)) > 0) {
        ok = feed(x, &item);
        mt_progress_step(&x->progress, x->source, mt_team_count(x->team));
    }
    mt_progress_end(&x->progress);
    if (ok != 0 && mt_team_again(x->team))
        return MT_EXIT_FAILURE; /* nothing to say yet */
    if (ok != 0 || !(x->comm = mt_team_finish(x->team))) {
        mt_cli_say("%s", x->why ? x->why : mt_team_why(x->team));
        return MT_EXIT_FAILURE;
    }
    return rc < 0 ? read_failed(&err) : 0;
}

static int addresses_failed(const struct mt_addresses *a)
{
    mt_cli_say("%s%s%s", a->why ? a->why : "no memory for the addresses", a->sys ? ": " : "",
               a->sys ? strerror(a->sys) : "");
    return MT_EXIT_FAILURE;
}

/* The second pass over all records: finds the operations on the addresses that the first one found. */
static int address_pass(struct extract *x)
{
    struct mt_item item;
    struct mt_error err;
    int rc, ok = 0;
    if (mt_keyset_index(&x->comm->keys) != 0 ||
        mt_addresses_init(&x->addresses, &x->comm->keys, ADDRESSES_BUDGET) != 0)
        return addresses_failed(&x->addresses);
    if (x->comm->keys.count == 0)
        return 0;
    if (mt_source_rewind(x->source, &err) != 0)
        return read_failed(&err);
    while (ok == 0 && (rc = mt_source_next(x->source, &item, &err)) > 0) {
        if (item.kind == MT_ITEM_BATCH)
            ok = mt_addresses_records(&x->addresses, item.records, item.count, item.superstep);
        else if (item.kind == MT_ITEM_RUNS)
            ok = mt_addresses_runs(&x->addresses, item.runs, item.count, item.superstep);
        mt_progress_step(&x->progress, x->source, x->addresses.records);
    }
    mt_progress_end(&x->progress);
    if (ok != 0)
        return addresses_failed(&x->addresses);
    if (rc < 0)
        return read_failed(&err);
    if (!mt_cli_stop && x->addresses.records != x->comm->records) {
        mt_cli_say("the input changed while it was read");
        return MT_EXIT_FAILURE;
    }
    return 0;
}

/* ---- writing ---- */

static void write_head(struct extract *x, int complete, uint64_t untraced, uint64_t untraced_launches)
{
    struct mt_json *j = &x->json;
    size_t notes;
    int ignored;
    const char *const *note = mt_source_notes(x->source, &notes, &ignored);
    mt_json_text(j, "format", "memtrace-comm");
    mt_json_u64(j, "version", 1);
    mt_json_array(j, "inputs", 1);
    for (size_t i = 0; i < x->inputs.npaths; i++)
        mt_json_text(j, NULL, x->inputs.paths[i]);
    mt_json_end(j);
    mt_json_bool(j, "complete", complete);
    mt_json_array(j, "notes", 0);
    for (size_t i = 0; i < notes; i++)
        mt_json_text(j, NULL, note[i]);
    if (x->no_addresses)
        mt_json_text(j, NULL, "addresses are left out: reading was interrupted");
    mt_extract_more_notes(&x->more, j);
    mt_json_end(j);
    mt_json_object(j, "options", 1);
    mt_json_text(j, "same-cta", x->options.local ? "local" : "instance");
    mt_json_bool(j, "strict", x->options.strict);
    mt_json_bool(j, "host", !(x->inputs.flags & MT_SOURCE_NO_HOST));
    mt_json_text(j, "kernels", x->filter.kernels_text);
    mt_json_text(j, "supersteps", x->filter.supersteps_text);
    mt_json_end(j);
    mt_json_u64(j, "launches", x->comm->nlaunches);
    mt_json_u64(j, "records", x->comm->records);
    if (x->options.host)
        mt_json_u64(j, "host_accesses", x->comm->host_accesses);
    mt_json_u64(j, "unknown", x->comm->unknown);
    mt_json_u64(j, "untraced", untraced);
    mt_json_u64(j, "untraced_launches", untraced_launches);
}

/* The section addresses; 1 if it was cut short. -1: *code says why. */
static int write_addresses(struct extract *x, int *code)
{
    struct mt_json *j = &x->json;
    mt_json_object(j, mt_section_names[MT_ADDRESSES], 0);
    int rc = x->no_addresses ? 0 : mt_addresses_write(j, &x->addresses, x->comm, &mt_cli_stop);
    mt_json_end(j);
    if (rc < 0)
        *code = addresses_failed(&x->addresses);
    if (rc > 0 && !j->error) { /* the head stands already */
        mt_cli_say("interrupted: not all addresses are in the output");
        mt_json_bool(j, "interrupted", 1);
    }
    return rc;
}

static int cannot_write(const struct extract *x, int error)
{
    mt_cli_say("%s: cannot write: %s", x->out.path ? x->out.path : "standard output", strerror(error));
    return MT_EXIT_FAILURE;
}

static int write_text(struct extract *x, int complete)
{
    size_t notes;
    int ignored, error, code = mt_output_ready(&x->out);
    if (code)
        return code;
    const char *const *note = mt_source_notes(x->source, &notes, &ignored);
    const struct mt_extract_text head = {note, notes, complete, x->sections != 0};
    if (mt_extract_more_text(&x->more, x->out.fd, x->comm, &head, &error) == 0)
        return MT_EXIT_OK;
    if (error)
        return cannot_write(x, error);
    mt_cli_say("no memory to sort the results");
    return MT_EXIT_FAILURE;
}

/* Returns the exit code. */
static int write_all(struct extract *x, int complete)
{
    struct mt_json *j = &x->json;
    uint64_t untraced, untraced_launches;
    struct mt_error err;
    int cut = 0, code = mt_output_ready(&x->out);
    if (code)
        return code;
    if (mt_source_untraced(x->source, &untraced, &untraced_launches, &err) != 0)
        return read_failed(&err);
    mt_json_open(j, x->out.fd);
    mt_json_object(j, NULL, 0);
    write_head(x, complete, untraced, untraced_launches);
    if (mt_estimates_gather(&x->estimates, x->source, x->inputs.npaths) != 0 ||
        mt_estimates_write(j, &x->estimates, x->comm, x->events) != 0 ||
        mt_comm_write(j, x->comm, x->sections) != 0 || mt_extract_more_write(&x->more, j, x->comm) != 0) {
        mt_cli_say("no memory to sort the results");
        return MT_EXIT_FAILURE;
    }
    if (x->sections & 1u << MT_ADDRESSES)
        cut = write_addresses(x, &code);
    mt_json_end(j);
    if (mt_json_close(j) != 0)
        return cannot_write(x, j->error);
    return code ? code : cut ? MT_EXIT_INPUT : 0;
}

static int write_other(struct extract *x, int *complete)
{
    struct mt_comm_result r = {.comm = x->comm,
                               .source = x->source,
                               .events = x->events,
                               .inputs = x->inputs.paths,
                               .ninputs = x->inputs.npaths,
                               .sections = x->sections,
                               .complete = *complete};
    if (mt_comm_merged(x->comm) != 0) {
        mt_cli_say("no memory for the transfers");
        return MT_EXIT_FAILURE;
    }
    int interrupted = 0, code = mt_formats_write(&x->formats, &r, &x->out, &x->progress, &interrupted);
    *complete &= !interrupted;
    return code;
}

/* The inputs are known now. */
static int live_ended(struct extract *x)
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

static int once_more(struct extract *x);

static int run(struct extract *x)
{
    int complete, code = analyse(x);
    if (code && x->inputs.ends && mt_team_again(x->team))
        code = once_more(x);
    if (code || !mt_team_reports())
        return code;
    if (x->live && (code = live_ended(x)) != 0)
        return code;
    int input = mt_inputs_finish(x->source, &complete);
    /* Their order must not depend on the number of threads. */
    if (mt_extract_more_has(&x->more, MT_MORE_PLACEMENT) && mt_comm_merged(x->comm) != 0)
        x->why = "no memory to sort the transfers";
    if (x->why || more_failed(x, mt_extract_more_finish(&x->more, x->comm)) != 0) {
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
    code = x->formats.format == MT_FORMAT_JSON   ? write_all(x, complete)
           : x->formats.format == MT_FORMAT_TEXT ? write_text(x, complete)
                                                 : write_other(x, &complete);
    if (x->live && !code && write(STDIN_FILENO, "", 1) != 1) /* the program waits for this */
        code = MT_EXIT_FAILURE;
    return code ? code : input ? input : complete ? MT_EXIT_OK : MT_EXIT_INPUT;
}

/* The host has a part of its own when its accesses are read. */
static void with_host(struct extract *x)
{
    x->options.host = mt_source_host(x->source);
    /* The filters know it by its name. */
    if (!x->filter.has_kernels || mt_filter_match(&x->filter, MT_HOST_NAME, x->filter.first)) {
        x->options.host_first = x->filter.first;
        x->options.host_end = x->filter.end;
    }
}

/* Every rank reads the inputs by itself. */
static int check_inputs(const struct extract *x)
{
    struct stat st;
    for (size_t i = 0; mt_team_members() > 1 && i < x->inputs.npaths; i++)
        if (strcmp(x->inputs.paths[i], "-") == 0 ||
            (stat(x->inputs.paths[i], &st) == 0 && !S_ISREG(st.st_mode)))
            return mt_cli_usage("%s is no file: several ranks cannot all read it", x->inputs.paths[i]);
    return 0;
}

/* What follows from the options; the exit code. */
static int prepare(struct extract *x, int argc, char **argv, const char *output)
{
    x->options.transfers =
        x->sections & 1u << MT_TRANSFERS || mt_extract_more_has(&x->more, MT_MORE_PLACEMENT);
    x->options.addresses = (x->sections & 1u << MT_ADDRESSES) != 0;
    if (x->options.addresses)
        x->inputs.flags |= MT_SOURCE_REWIND;
    x->inputs.flags |= MT_SOURCE_HOST;
    x->inputs.flags |= MT_SOURCE_OWN_RUNS; /* with lane masks and sites, where the trace has them */
    x->by_parts = mt_team_members() > 1 && !x->more.options.chosen;
    if (!mt_team_reports())
        x->more.options.chosen = 0; /* rank 0 has them to itself */
    mt_inputs_take(&x->inputs, argc, argv);
    int code = check_inputs(x);
    return code || !mt_team_reports() ? code : mt_output_open(&x->out, output, &x->inputs);
}

/* Opens the inputs and begins the analysis; the exit code. */
static int open_all(struct extract *x)
{
    int code;
    if (!(x->source = x->live ? mt_inputs_live(&x->inputs, &code) : mt_inputs_source(&x->inputs, &code)))
        return code;
    mt_progress_init(&x->progress);
    x->progress.on &= mt_team_reports() && !x->live;
    with_host(x);
    x->options.volumes =
        mt_team_members() == 1 && !(x->sections & ~DATA_VOLUMES) && !x->options.transfers &&
        !x->options.host &&
        x->formats.format == MT_FORMAT_JSON; /* others show both kinds of volume side by side */
    const unsigned threads = x->threads;
    if (x->options.volumes)
        x->threads = 1; /* who reads can add up */
    /* One thread reads. With two in all, the other one has the whole analysis. */
    x->team = mt_team_new(&x->options, x->threads > 2 ? x->threads - 1 : 1);
    if (x->team && mt_extract_more_start(&x->more, x->source, x->inputs.npaths) == 0 &&
        mt_extract_more_threads(&x->more, threads) == 0)
        return 0;
    mt_cli_say("no memory or no threads for the analysis");
    return MT_EXIT_FAILURE;
}

/* Members that read a part each found damage: each reads all, as one alone does, and finds what is whole. */
static int once_more(struct extract *x)
{
    mt_team_free(x->team);
    x->team = NULL;
    mt_source_close(x->source);
    x->inputs.ends = NULL;
    x->nevents = 0;
    int code = open_all(x);
    return code ? code : analyse(x);
}

/* The inputs are opened in step: where all read a part, none may be missing. */
static int open_together(struct extract *x)
{
    if (x->by_parts)
        x->inputs.ends = x->ends = mt_team_split(x->inputs.paths, x->inputs.npaths);
    return mt_team_agree(open_all(x));
}

static void close_all(struct extract *x)
{
    mt_output_abandon(&x->out);
    mt_addresses_free(&x->addresses);
    mt_team_free(x->team);
    mt_estimates_free(&x->estimates);
    free(x->events);
    free(x->streams);
    mt_extract_more_free(&x->more);
    mt_source_close(x->source);
    mt_team_unsplit(x->ends, x->inputs.npaths);
    mt_filter_free(&x->filter);
    free(x->inputs.companions);
}

int main(int argc, char **argv)
{
    static struct extract x; /* holds the output buffer */
    const char *output = NULL;
    mt_cli_start("mt-extract");
#ifndef MEMTRACE_MPI
    /* What a rank's program starts (always with this word first) has that program to itself. */
    int other = argc > 1 && !strcmp(argv[1], "--live") ? 0 : mt_mpirun_hand_over(argv);
    if (other)
        return other;
#endif
    mt_team_begin(&argc, &argv);
    mt_cli_quiet = !mt_team_reports(); /* all would say the same */
    opterr = !mt_cli_quiet;
    mt_filter_init(&x.filter);
    mt_extract_more_init(&x.more);
    x.threads = processors();
    x.formats.top = 200;
    x.sections = (1u << MT_SECTIONS) - 1;
    int code = parse(&x, argc, argv, &output);
    if (code == 0 && x.formats.format != MT_FORMAT_JSON && x.formats.format != MT_FORMAT_TEXT &&
        x.more.options.chosen)
        code = mt_cli_usage("the further analyses come out as --format=json or text only");
    if (code == 0)
        code = mt_formats_check(&x.formats, &x.sections, x.chosen, output, &x.inputs.flags);
    if (code == 0)
        code = prepare(&x, argc, argv, output);
    code = mt_team_agree(code);
    if (code == 0)
        code = open_together(&x);
    mt_cli_quiet = 0;
    int together = code != 0;
    if (code == 0)
        code = run(&x);
    together |= code == 0 || x.comm != NULL; /* behind the end of the analysis nobody waits for another */
    if (!together)
        mt_output_abandon(&x.out);
    code = mt_team_end(code < 0 ? MT_EXIT_OK : code, together);
    close_all(&x);
    return code;
}
