/* memtrace convert: raw traces to containers and back, containers of host traces to text, and packed anew. */
#define _GNU_SOURCE
#include "convert.h"
#include "cli/base/commands.h"
#include "cli/base/kind.h"
#include "convert_sim.h"
#include "merge_text.h"
#include "reader/container/container.h" /* windows on files are not part of the public interface */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct mt_command command = {
    .of = MT_OF_CONVERT,
    .before =
        "Usage: memtrace convert [OPTION]... TRACE...\n"
        "Turns a raw trace of kernels into a compact container and back, a container of host accesses into "
        "text, or packs\n"
        "a container anew.\n"
        "\n"
        "  memtrace convert -o trace.mtc MemTrace-pipe-0        with what MemTrace-pipe-0.meta says\n"
        "  memtrace convert -o MemTrace-pipe-0 trace.mtc        and MemTrace-pipe-0.meta, if the container "
        "has its lines\n"
        "  memtrace convert --kernels stencil -o some.mtc trace.mtc\n"
        "  memtrace convert --to ramulator -o run.trace run-2   all streams of the newest run in a folder\n"
        "  memtrace convert -o trace.txt host.mtc               the text of the mode that it was traced in\n"
        "  memtrace convert --to mtc --level 9 -o small.mtc trace.mtc\n"
        "  memtrace convert --order=time memory_trace.out       an atomic text trace (memtrace host atomic) "
        "sorted by\n"
        "                                                       timestamp while it is written: a file, a "
        "FIFO, or -\n",
    .after = "One TRACE, or for ramulator and gem5 all streams of a run, in launch order: their traces, or a "
             "folder of them.\n"
             "TRACE is a file; a FIFO or - will do for --to mtc and raw, and for --order file, if no "
             "launches are chosen.\n"
             "A raw FIFO needs --to mtc or -o FILE.mtc, and its launches are numbered as they come, without "
             "companion.\n"
             "Exit code: 0 fine, 1 failure, 2 wrong usage, 3 the trace is truncated, corrupt or incomplete, "
             "or reading was\n"
             "interrupted: what was whole is in the output.\n",
};

enum format { BY_MODE, MAT, ATOMIC, INSN, MTC, RAW, SIM };
static const char *const formats[] = {
    "",           "mat",      "atomic",    "insn", "mtc", "raw",
    "drmemtrace", "champsim", "ramulator", "gem5", NULL}; /* from SIM on: enum mt_sim */

struct options {
    const char *output, *input, *companion;
    struct mt_inputs inputs; /* `input` is the first, and the only one but for kernels to simulators */
    struct mt_filter filter;
    struct mt_convert_choice choice;
    int raw, no_companion; /* raw: the input is */
    int kernels;           /* the inputs have them, and go to a simulator */
    enum format to;
    enum mt_host_order order;
    int by_time; /* --order=time was given: text traces are merged */
    int keep;    /* --keep-timestamps */
    int all, level;
    uint64_t thread; /* UINT64_MAX: all */
};

static int convert_chooses(const struct options *x)
{
    return x->filter.kernels_text || x->filter.supersteps_text || x->choice.has_stream;
}

/* What the input is, and what it becomes if nothing else was said. 0, or an exit code. */
static int convert_settle(struct options *x)
{
    size_t n = x->output ? strlen(x->output) : 0;
    int to_mtc = n > 4 && strcmp(x->output + n - 4, ".mtc") == 0;
    uint64_t features = strcmp(x->input, "-") == 0 ? 0 : mt_container_features(x->input);
    x->raw = mt_convert_is_raw(x->input); /* a FIFO shows later what it is */
    if (x->to == BY_MODE)
        x->to = to_mtc || x->raw ? MTC : features & MT_MTC_HAS_DEVICE ? RAW : BY_MODE;
    int kernels = x->raw || (features & MT_MTC_HAS_DEVICE) != 0;
    if (!kernels && mt_is_container(x->input) && convert_chooses(x))
        return mt_cli_usage("%s: has host code: --kernels, --launches and --stream are for launches",
                            x->input);
    if (features & MT_MTC_HAS_SPACES && x->to != MTC)
        mt_cli_note("%s: what it has of shared and local memory is left out: that is for containers alone",
                    x->input);
    if (kernels && (x->to == SIM + MT_SIM_DRMEMTRACE || x->to == SIM + MT_SIM_CHAMPSIM))
        return mt_cli_usage(
            "%s: has accesses of kernels: --to ramulator and gem5 take these, %s takes host code", x->input,
            formats[x->to]);
    if (kernels && x->to >= SIM) {
        x->kernels = 1;
        return x->thread == UINT64_MAX
                   ? 0
                   : mt_cli_usage("%s: has accesses of kernels: --thread is for host code", x->input);
    }
    if (x->companion && x->to != RAW && mt_is_container(x->input))
        return mt_cli_usage("%s: is a container and has its lines itself: --companion is for raw traces",
                            x->input);
    if (x->inputs.npaths > 1)
        return mt_cli_usage("%zu traces, %s and others: --to ramulator and gem5 take all streams of a run of "
                            "kernels, what else there is one trace at a time",
                            x->inputs.npaths, x->input);
    if (x->raw && x->to != MTC)
        return mt_cli_usage("%s: is a raw trace of kernels: it can become --to mtc, ramulator or gem5",
                            x->input);
    if (x->raw && convert_chooses(x))
        return mt_cli_usage("%s: launches are chosen from a container: convert it first", x->input);
    if (features & MT_MTC_HAS_DEVICE && x->to != MTC && x->to != RAW)
        return mt_cli_usage(
            "%s: has accesses of kernels: it can become --to raw or mtc, and ramulator or gem5", x->input);
    return 0;
}

static int convert_option(void *arg, int o)
{
    static const char *const orders[] = {"file", "time", NULL};
    struct options *x = arg;
    uint64_t n = 0;
    int i;
    switch (o) {
    case MT_OPT_OUTPUT:
        x->output = optarg;
        return 0;
    case MT_OPT_TO:
    case MT_OPT_FORMAT:
        if ((i = mt_cli_word(optarg, formats)) <= BY_MODE)
            return mt_cli_usage(
                "'%s' is not a format: raw, mat, atomic, insn, mtc, drmemtrace, champsim, ramulator or gem5",
                optarg);
        x->to = (enum format)i;
        return 0;
    case MT_OPT_ORDER:
        if ((i = mt_cli_word(optarg, orders)) < 0)
            return mt_cli_usage("'%s' is not an order: time or file", optarg);
        x->order = i ? MT_HOST_BY_TIME : MT_HOST_BY_FILE;
        x->by_time = i;
        return 0;
    case MT_OPT_KEEP_TIMESTAMPS:
        x->keep = 1;
        return 0;
    case MT_OPT_ALL:
        x->all = 1;
        return 0;
    case MT_OPT_LEVEL:
        if (!mt_cli_number(optarg, 0, 19, &n))
            return mt_cli_usage("'%s' is not a level: 0 to 19", optarg);
        x->level = (int)n;
        return 0;
    case MT_OPT_STREAM:
        if (!mt_cli_number(optarg, 0, UINT32_MAX, &n))
            return mt_cli_usage("'%s' is not a stream: a number", optarg);
        x->choice.stream = (uint32_t)n;
        x->choice.has_stream = 1;
        return 0;
    case MT_OPT_THREAD:
        return mt_cli_number(optarg, 0, UINT64_MAX - 1, &x->thread)
                   ? 0
                   : mt_cli_usage("'%s' is not a thread: a number", optarg);
    case MT_OPT_COMPANION:
        x->companion = optarg;
        return 0;
    case MT_OPT_NO_COMPANION:
        x->no_companion = x->choice.no_beside = 1;
        return 0;
    default:
        return mt_common_option(o, NULL, &x->filter);
    }
}

/* Are the inputs text traces, whose threads' lines are merged as they come? */
static int convert_merges(struct options *x)
{
    for (size_t i = 0; i < x->inputs.npaths; i++)
        x->by_time &= !mt_is_container(x->inputs.paths[i]);
    x->by_time &= x->to == BY_MODE;
    return x->by_time;
}

static int convert_text(struct options *x, struct mt_output *out)
{
    static const char *const standard[] = {"-"};
    size_t n = x->inputs.npaths;
    int code = mt_output_open(out, x->output);
    return code ? code : mt_merge_text(n ? x->inputs.paths : standard, n ? n : 1, x->keep, out);
}

/* As an option. */
static int convert_parse(struct options *x, int argc, char **argv)
{
    int rc = mt_cli_options(&command, argc, argv, convert_option, x);
    if (rc)
        return rc;
    if (argc == optind && !x->by_time)
        return mt_cli_usage("no trace given");
    mt_inputs_take(&x->inputs, argc, argv);
    if (convert_merges(x))
        return 0;
    if ((rc = mt_inputs_folders(&x->inputs)) != 0)
        return rc;
    x->input = x->inputs.paths[0];
    if ((rc = convert_settle(x)) != 0)
        return rc;
    int binary = x->to >= SIM && x->to != SIM + MT_SIM_RAMULATOR;
    if (binary && (!x->output || strcmp(x->output, "-") == 0) && isatty(STDOUT_FILENO))
        return mt_cli_usage("%s is not written to a terminal: give -o FILE", formats[x->to]);
    if ((x->to == MTC || x->to == RAW) && (!x->output || strcmp(x->output, "-") == 0) &&
        isatty(STDOUT_FILENO))
        return mt_cli_usage("%s is not written to a terminal: give -o FILE",
                            x->to == MTC ? "a container" : "a raw trace");
    return 0;
}

int mt_convert_next(struct mt_host_reader *r, struct mt_host_item *item, int *code)
{
    struct mt_error err;
    int rc;
    while ((rc = mt_host_next(r, item, &err)) < 0) {
        *code = mt_cli_failed(&err);
        if (err.code == MT_E_SYSTEM || err.code == MT_E_STOPPED)
            return -1;
    }
    return rc;
}

static int by_mode(struct options *x, struct mt_host_reader *r)
{
    const char *mode = mt_host_companion(r)->mode;
    for (x->to = MAT; x->to <= INSN; x->to++)
        if (strcmp(mode, formats[x->to]) == 0)
            return 0;
    return mt_cli_usage("%s: does not say what it was traced as: give --to mat, atomic or insn", x->input);
}

/* Is the stream one of those whose launches `c` has? */
static int convert_has_stream(const struct mt_companion *c, uint64_t stream)
{
    size_t i = 0;
    while (i < c->nlaunches && (!c->launches[i].traced || c->launches[i].stream != stream))
        i++;
    return c->stream == stream || i < c->nlaunches;
}

/* Streams of the process that are in other traces, or in none. A copy of one stream's trace is whole, and
 * says of itself what else there is. */
static int convert_streams(const char *path, const struct mt_companion *c)
{
    const struct mt_stream_event *other = NULL, *none = NULL;
    size_t others = 0;
    for (size_t i = 0; i < c->nstreams; i++) {
        const struct mt_stream_event *e = &c->streams[i];
        if (e->why) {
            none = none ? none : e;
        } else if (!convert_has_stream(c, e->stream)) {
            other = other ? other : e;
            others++;
        }
    }
    if (none)
        mt_cli_say("%s: incomplete: stream %llu of the process has no trace: %s", path,
                   (unsigned long long)none->stream, none->why);
    if (others)
        mt_cli_note("%s: is a part of the run: the launches of %zu other stream%s are in %s%s; the copy says "
                    "so, too",
                    path, others, others == 1 ? "" : "s", other->trace, others == 1 ? "" : " and the like");
    return none ? MT_EXIT_INPUT : 0;
}

/* Says what the trace's own lines say is missing: that the program was killed, or what was lost. What was
 * whole has been written all the same. 0, or MT_EXIT_INPUT. */
static int convert_complete(const char *path, const struct mt_companion *c)
{
    int code = convert_streams(path, c);
    if (c->bad_lines)
        mt_cli_say("%s: %llu meta lines cannot be read, the first: %s", path,
                   (unsigned long long)c->bad_lines, c->bad.message);
    if (!c->has_end)
        mt_cli_say("%s: the trace has no end: " MT_NO_END, path);
    else if (c->lost)
        mt_cli_say("%s: incomplete: %llu accesses are missing: %s", path, (unsigned long long)c->lost,
                   c->lost_why);
    else if (!c->complete)
        mt_cli_say("%s: the trace says that it is incomplete%s%s", path, *c->lost_why ? ": " : "",
                   c->lost_why);
    return c->bad_lines || c->lost || !c->has_end || !c->complete ? MT_EXIT_INPUT : code;
}

int mt_convert_complete_if_known(const char *path, const struct mt_companion *c)
{
    return c && (c->has_header || c->has_end || c->bad_lines) ? convert_complete(path, c) : 0;
}

/* The companion that the program wrote beside its container, if it is of the same run. 0, or an exit code. */
static int convert_load_beside(const char *path, const struct mt_companion *own, struct mt_companion **beside)
{
    struct mt_error err;
    char *meta = NULL;
    *beside = NULL;
    if (strcmp(path, "-") == 0)
        return 0;
    if (asprintf(&meta, "%s.meta", path) < 0)
        return mt_cli_fail("no memory");
    struct mt_companion *c = mt_companion_load(meta, &err);
    free(meta);
    if (!c)
        return err.code == MT_E_INPUT && err.sys == ENOENT ? 0 : mt_cli_failed(&err);
    if (c->pid == own->pid && c->start_ns == own->start_ns)
        *beside = c;
    else
        mt_companion_free(c);
    return 0;
}

/* A whole companion has lines that the container lacks: it ends between two chunks. */
static int convert_cut(const char *path, const struct mt_companion *beside)
{
    struct stat st;
    mt_cli_say("%s: is cut off at byte %llu: %s has the end of its lines", path,
               stat(path, &st) == 0 ? (unsigned long long)st.st_size : 0, beside->path);
    return MT_EXIT_INPUT;
}

int mt_convert_container_complete(const char *path, const struct mt_companion *own, int look_beside)
{
    struct mt_companion *b = NULL;
    int code = look_beside && own->has_header ? convert_load_beside(path, own, &b) : 0;
    if (b && b->has_end && !own->has_end) {
        code = convert_complete(b->path, b);
        code = code ? code : convert_cut(path, b);
    } else if (code == 0) {
        code = mt_convert_complete_if_known(path, own);
    }
    if (code == 0 && b && (!b->complete || b->lost > own->lost || b->bad_lines)) {
        mt_cli_say("%s: says otherwise than %s: that the trace is incomplete%s%s", b->path, path,
                   *b->lost_why ? ": " : "", b->lost_why);
        code = MT_EXIT_INPUT;
    }
    mt_companion_free(b);
    return code;
}

/* Nothing is written yet: what is wrong with the command line is said here. 0, or an exit code. */
static int convert_text_order(struct options *x, struct mt_host_reader *r)
{
    struct mt_error err;
    enum mt_host_order order = MT_HOST_BY_FILE;
    int timed = (mt_host_reader_head(r)->features & MT_MTC_HAS_TIMES) != 0;
    int code = x->to == BY_MODE ? by_mode(x, r) : 0;
    if (code == 0 && x->to == ATOMIC)
        order = x->order;
    else if (code == 0)
        order = x->to == MAT || (x->to >= SIM && !timed) ? MT_HOST_BY_SEQ : MT_HOST_BY_TIME;
    if (code == 0 && x->to != MAT && x->to < SIM && !timed)
        code = mt_cli_usage("%s: its records have no times: it can become --to mat", x->input);
    if (code == 0 && x->to == SIM + MT_SIM_CHAMPSIM && x->thread == UINT64_MAX)
        code = mt_convert_sim_one_thread(r);
    if (code == 0 && mt_host_reader_order(r, order, &err) != 0)
        code = mt_cli_failed(&err);
    return code;
}

static int to_text(struct options *x, FILE *f)
{
    struct mt_error err;
    struct mt_host_reader *r = mt_host_reader_open(x->input, &mt_cli_stop, &err);
    if (!r)
        return mt_cli_failed(&err);
    int code = convert_text_order(x, r);
    int started = code == 0;
    if (started && x->to == MAT)
        code = mt_convert_mat(r, f, x->all);
    else if (started && x->to == ATOMIC)
        code = mt_convert_atomic(r, f);
    else if (started && x->to >= SIM)
        code = mt_convert_sim_host(r, f, (enum mt_sim)(x->to - SIM), x->thread);
    else if (started)
        code = mt_convert_insn(r, f);
    if (started && code != MT_EXIT_FAILURE && !ferror(f)) {
        int missing = convert_complete(x->input, mt_host_companion(r));
        code = code ? code : missing;
    }
    mt_host_reader_close(r);
    return code;
}

/* The path of the companion beside `path`, to be freed; NULL: none. */
static char *convert_beside(const struct options *x, const char *path)
{
    char *text = NULL;
    if (x->no_companion || (!x->companion && (!path || strcmp(path, "-") == 0)))
        return NULL;
    if (x->companion)
        return strdup(x->companion);
    return asprintf(&text, "%s.meta", path) < 0 ? NULL : text;
}

/* Nothing belongs beside /dev/null. */
static int is_device(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode));
}

static int from_raw(struct options *x, struct mt_window *in, FILE *f)
{
    /* The companion of a trace that is still being written says too little. */
    char *meta = in->regular || x->companion ? convert_beside(x, x->input) : NULL;
    int code = mt_convert_from_raw(in, meta, !x->companion, f, x->level);
    free(meta);
    return code;
}

static int convert_input(struct options *x, FILE *f, int fd)
{
    if (x->to == RAW) {
        char *meta = x->companion || !is_device(fd) ? convert_beside(x, x->output) : NULL;
        int code = mt_convert_to_raw(x->input, f, meta, x->companion != NULL, &x->choice);
        free(meta);
        return code;
    }
    if (x->kernels) {
        int code = x->companion ? mt_inputs_companion(&x->inputs, x->companion) : 0;
        x->inputs.flags = x->no_companion ? MT_SOURCE_NO_COMPANION : 0;
        return code ? code : mt_convert_sim_kernels(&x->inputs, &x->choice, f, (enum mt_sim)(x->to - SIM));
    }
    if (x->to != MTC)
        return to_text(x, f);
    struct mt_window in;
    struct mt_error err;
    if (mt_window_open(&in, x->input, &mt_cli_stop, &err) != 0)
        return mt_cli_failed(&err);
    int raw = mt_convert_window_is_raw(&in);
    int code = raw && convert_chooses(x)
                   ? mt_cli_usage("%s: launches are chosen from a container: convert it first", x->input)
               : raw ? from_raw(x, &in, f)
                     : mt_convert_repack(&in, f, x->level, &x->choice);
    mt_window_close(&in);
    return code;
}

static int convert_run(struct options *x, struct mt_output *out)
{
    FILE *f = mt_output_stream(out);
    if (!f)
        return MT_EXIT_FAILURE;
    setvbuf(f, NULL, _IOFBF, 1 << 18);
    int code = convert_input(x, f, out->fd);
    if (code == 0 || code == MT_EXIT_INPUT) /* also when there is nothing to write */
        code = mt_output_ready(out) ? MT_EXIT_FAILURE : code;
    int failed = mt_output_close(out, f);
    return failed ? failed : code;
}

/* The companion is read or written beside the trace. 0, or an exit code after saying that one is an input. */
static int convert_clashes(const struct options *x)
{
    if (x->to != RAW && x->companion)
        mt_output_spare(x->companion);
    char *written = x->to == RAW ? convert_beside(x, x->output) : NULL;
    int code = written ? mt_output_other(written) : 0;
    free(written);
    return code;
}

/* 0 for what could be a trace or a container. */
static int convert_kind(const char *path)
{
    enum mt_kind kind = mt_kind_of(path);
    return kind == MT_KIND_TRACE || kind == MT_KIND_CONTAINER
               ? 0
               : mt_kind_refuse(path, kind, "a container or a trace of kernels");
}

int mt_convert_command(int argc, char **argv)
{
    struct options x = {.order = MT_HOST_BY_TIME, .level = 3, .thread = UINT64_MAX};
    struct mt_output out = {0};
    mt_stop_begin();
    mt_filter_init(&x.filter);
    x.choice.filter = &x.filter;
    int code = convert_parse(&x, argc, argv), merged = code == 0 && x.by_time;
    if (merged)
        code = convert_text(&x, &out);
    for (size_t i = 0; code == 0 && !merged && i < x.inputs.npaths; i++)
        if (strcmp(x.inputs.paths[i], "-") != 0 && access(x.inputs.paths[i], R_OK) != 0) {
            mt_cli_say("%s: cannot open: %s", x.inputs.paths[i], strerror(errno));
            code = MT_EXIT_USAGE;
        } else {
            code = convert_kind(x.inputs.paths[i]);
        }
    if (code == 0 && !merged)
        code = convert_clashes(&x);
    if (code == 0 && !merged)
        code = mt_output_open(&out, x.output);
    if (code == 0 && !merged)
        code = convert_run(&x, &out);
    mt_output_abandon(&out);
    mt_filter_free(&x.filter);
    mt_inputs_free(&x.inputs);
    return code < 0 ? MT_EXIT_OK : code;
}
