/* memtrace graph: writes the memory (stride) graph of traces. */
#define _GNU_SOURCE
#include "cli/base/graph_input.h"
#include "cli/base/commands.h"
#include "output/dot/dot.h"
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct mt_command command = {
    .of = MT_OF_GRAPH,
    .before = "Usage: memtrace graph [OPTION]... TRACE...\n"
              "Draws the strides with which a program walks through its buffers, and their order.\n"
              "\n"
              "  memtrace graph /tmp/MemTrace-pipe-0 | dot -Tsvg > graph.svg   kernels\n"
              "  memtrace graph run-2 | dot -Tsvg > graph.svg                  a folder: all of the newest "
              "run in it\n"
              "  memtrace graph --kernels '^matmul' --min-count 1000 /tmp/MemTrace-pipe-0 > matmul.dot\n"
              "  memtrace host mat -- ./app && memtrace graph mat_trace.mtc > app.dot   host code\n"
              "  mkfifo p; memtrace host mat -o p -- ./app & memtrace graph p > app.dot   while it "
              "runs, without storing a trace\n"
              "  memtrace graph --node buffer,stride,type,site mat_trace.mtc   a node per source line\n"
              "  memtrace graph --format json --node stride,type -o graph.json /tmp/MemTrace-pipe-?\n"
              "\n"
              "TRACE is a trace of kernels, raw or compact (several: all streams of a program), or one host "
              "trace: a compact\n(.mtc) or a MAT text trace.\n"
              "\n"
              "A node is (buffer, stride, type). stride = address - previous address in the same buffer of "
              "the same thread (raw\n"
              "traces know no threads: of the same CTA); the first access there has no stride and makes no "
              "node. Its label reads:\n"
              "buffer, stride, bytes of the buffer, kernel (host: file-line) - count. Writes are gray, reads "
              "white, atomics\n"
              "octagons. An edge a -> b says how often the next node after a was b. Buffers are allocations "
              "in order of allocation,\n"
              "as the companion (TRACE.meta) or the host trace lists them: an address that is used again is "
              "another buffer.\n"
              "Without companion all memory is buffer 0.\n",
    .after = "Exit code: 0 fine, 1 failure, 2 wrong usage, 3 the trace is truncated, corrupt or incomplete, "
             "or reading was\n"
             "interrupted: what was whole is in the output.\n",
};

struct options {
    struct mt_stride_graph_input in;
    const char *output, *svg;
    enum { DOT, JSON, GRAPHML } format;
    unsigned key;
    uint64_t min_count;
    int sequence;
    uint64_t top; /* most nodes to write; 0: all */
    int chosen;   /* 1: --top or --min-count was given, so pictures show all remaining nodes */
    size_t left_out;
};

enum { SEQUENCE_CAP = 1 << 20, DRAWN = 24 };

static int no_field(const char *text, size_t n)
{
    const char *all[6] = {NULL};
    memcpy(all, mt_node_fields, 5 * sizeof *all);
    mt_cli_hint(text, n, all);
    return mt_cli_usage("'%.*s' is not a part of a node", (int)n, text);
}

static int parse_node(struct options *x, const char *text)
{
    x->key = 0;
    while (*text) {
        size_t n = strcspn(text, ",");
        unsigned i = 0;
        while (i < 5 && (strlen(mt_node_fields[i]) != n || strncmp(text, mt_node_fields[i], n) != 0))
            i++;
        if (i == 5)
            return no_field(text, n);
        x->key |= 1u << i;
        text += n + (text[n] == ',');
    }
    return x->key ? 0 : mt_cli_usage("--node needs at least one of buffer,stride,type,size,site");
}

static int graph_count(uint64_t *count)
{
    return mt_cli_number(optarg, 0, UINT64_MAX, count) ? 0 : mt_cli_usage("'%s' is not a count", optarg);
}

static int graph_option(void *arg, int o)
{
    static const char *const formats[] = {"dot", "json", "graphml", NULL};
    struct options *x = arg;
    int format;
    switch (o) {
    case MT_OPT_FORMAT:
        if ((format = mt_cli_word(optarg, formats)) < 0)
            return mt_cli_usage("'%s' is not a format: dot, json or graphml", optarg);
        x->format = (unsigned)format;
        return 0;
    case MT_OPT_OUTPUT:
        x->output = optarg;
        return 0;
    case MT_OPT_SVG:
        x->svg = optarg;
        return *x->svg && strcmp(x->svg, "-") != 0 ? 0 : mt_cli_usage("--svg needs the name of a file");
    case MT_OPT_NODE:
        return parse_node(x, optarg);
    case MT_OPT_MIN_COUNT:
        x->chosen = 1;
        return graph_count(&x->min_count);
    case MT_OPT_TOP:
        x->chosen = 1;
        x->top = 0;
        return strcmp(optarg, "all") == 0 ? 0 : graph_count(&x->top);
    case MT_OPT_ALL:
        x->in.all = 1;
        return 0;
    case MT_OPT_LANES:
        x->in.lanes = 1;
        return 0;
    case MT_OPT_SEQUENCE:
        x->sequence = 1;
        return 0;
    default:
        return mt_common_option(o, &x->in.inputs, &x->in.filter);
    }
}

extern char **environ;

/* Keeps the `most` most frequent nodes (0: all). Returns 0, or -1 without memory. */
static int graph_top(struct options *x, struct mt_stride_graph *g, uint64_t most)
{
    size_t before = g->nnodes;
    int rc = most ? mt_stride_graph_top(g, most) : 0;
    x->left_out += before - g->nnodes;
    return rc;
}

/* Limits a picture to a legible number of nodes, unless the user chose, and says what is omitted. Returns an
 * exit code. */
static int graph_shorten(struct options *x, struct mt_stride_graph *g, struct mt_stride_graph_words *words)
{
    size_t all = g->nnodes;
    if (!x->chosen && graph_top(x, g, DRAWN) != 0)
        return mt_cli_fail("no memory for the graph");
    if (g->nnodes < all)
        mt_cli_say(
            "note: %zu of %zu kinds of access are drawn, the most frequent ones; --top=0 draws all, --top=N "
            "draws N",
            g->nnodes, all);
    words->left_out = x->left_out;
    return 0;
}

/* Draws the graph with dot. Returns an exit code. */
static int graph_draw(const struct options *x, const struct mt_stride_graph *g,
                      const struct mt_stride_graph_words *words)
{
    char *const argv[] = {"dot", "-Tsvg", "-o", (char *)x->svg, NULL};
    FILE *f = tmpfile(); /* a file, not a pipe, since dot may end before it has read all */
    posix_spawn_file_actions_t actions;
    pid_t dot;
    int status = -1, e = f ? posix_spawn_file_actions_init(&actions) : errno;
    if (e == 0) {
        mt_stride_graph_write(f, g, words, 0);
        e = fflush(f) != 0 || ferror(f) || fseek(f, 0, SEEK_SET) != 0 ? EIO : 0;
        if (e == 0)
            e = posix_spawn_file_actions_adddup2(&actions, fileno(f), STDIN_FILENO);
        if (e == 0)
            e = posix_spawnp(&dot, "dot", &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        while (e == 0 && waitpid(dot, &status, 0) < 0)
            e = errno == EINTR ? 0 : errno;
    }
    if (f)
        fclose(f);
    if (e == ENOENT)
        mt_cli_say("%s: not drawn, because dot is missing: install Graphviz", x->svg);
    else if (e)
        mt_cli_say("%s: is not drawn: %s", x->svg, strerror(e));
    else if (status != 0)
        mt_cli_say("%s: is not drawn: dot failed", x->svg);
    return e || status ? MT_EXIT_FAILURE : 0;
}

/* Most nodes for dot, whose time grows faster than the graph: with more it takes minutes, or does not end. */
enum { DRAWABLE = 1000 };

static void graph_warn(const struct options *x, const struct mt_stride_graph *g)
{
    if (g->nnodes > DRAWABLE && x->chosen && (x->format == DOT || x->svg))
        mt_cli_note("note: %zu nodes are more than dot can lay out in reasonable time (some %d): --top=N "
                    "keeps the most frequent ones, --min-count=N drops rarer ones",
                    g->nnodes, DRAWABLE);
}

static int graph_write_out(struct options *x, struct mt_stride_graph *g, const struct mt_sequence *sequence,
                           struct mt_output *out)
{
    static struct mt_json json; /* static: it contains the output buffer */
    const struct mt_stride_graph_input *in = &x->in;
    struct mt_stride_graph_words words = {.inputs = in->inputs.paths,
                                          .ninputs = in->inputs.npaths,
                                          .notes = (const char *const *)in->notes,
                                          .nnotes = in->nnotes,
                                          .complete = in->complete,
                                          .launches = in->launches,
                                          .sequence = x->sequence ? sequence : NULL,
                                          .stride = mt_stride_graph_input_stride(in, g),
                                          .places = in->kind != MT_KIND_TRACE,
                                          .allocs = in->known ? in->allocs : NULL,
                                          .nallocs = in->known ? in->nallocs : 0,
                                          .called = in->called};
    int code = mt_output_ready(out);
    if (code == 0 && x->format == DOT)
        code = graph_shorten(x, g, &words);
    if (code)
        return code;
    graph_warn(x, g);
    if (x->format == JSON) {
        mt_json_open(&json, out->fd);
        mt_stride_graph_write_json(&json, g, &words);
        code = mt_output_json(out, &json);
    } else {
        FILE *f = mt_output_stream(out);
        if (f)
            mt_stride_graph_write(f, g, &words, x->format == GRAPHML);
        code = f ? mt_output_close(out, f) : MT_EXIT_FAILURE;
    }
    if (!code && x->svg && x->format != DOT)
        code = graph_shorten(x, g, &words);
    return !code && x->svg ? graph_draw(x, g, &words) : code;
}

struct watch {
    struct mt_sequence sequence;
    const struct mt_stride_graph *graph;
    uint64_t launch;
};

static int graph_see(void *arg, const struct mt_stride_graph_access *a, int64_t stride, size_t node)
{
    struct watch *w = arg;
    if (w->launch != w->graph->launches) {
        w->launch = w->graph->launches;
        mt_sequence_launch(&w->sequence);
    }
    return mt_sequence_run(&w->sequence, a->actor, (uint32_t)node, 1);
}

static int graph_run(struct options *x, struct mt_output *out)
{
    struct mt_stride_graph graph;
    struct mt_alphabet alphabet;
    struct watch watch = {.graph = &graph};
    mt_stride_graph_init(&graph, x->key, mt_stride_graph_input_buffers(&x->in));
    mt_alphabet_init(&alphabet, 1);
    mt_sequence_init(&watch.sequence, &alphabet, SEQUENCE_CAP);
    if (x->sequence) {
        graph.watch = graph_see;
        graph.watch_arg = &watch;
    }
    int code = mt_stride_graph_input_read(&x->in, &graph), input = code;
    if (code == MT_EXIT_INPUT)
        code = 0;
    if (code == 0 &&
        (mt_stride_graph_finish(&graph, x->min_count) != 0 || graph_top(x, &graph, x->top) != 0)) {
        mt_cli_say("no memory for the graph");
        code = MT_EXIT_FAILURE;
    }
    if (code == 0)
        code = graph_write_out(x, &graph, &watch.sequence, out);
    mt_sequence_free(&watch.sequence);
    mt_alphabet_free(&alphabet);
    mt_stride_graph_free(&graph);
    return code ? code : input;
}

int mt_graph_command(int argc, char **argv)
{
    struct options x = {.key = MT_NODE_BUFFER | MT_NODE_STRIDE | MT_NODE_TYPE};
    struct mt_output out = {0};
    mt_stop_begin();
    x.in.pipes = 1;
    mt_filter_init(&x.in.filter);
    int code = mt_cli_options(&command, argc, argv, graph_option, &x);
    if (code == 0) {
        mt_inputs_take(&x.in.inputs, argc, argv);
        code = x.svg ? mt_output_other(x.svg) : 0;
        if (code == 0 && x.svg && x.output && strcmp(x.svg, x.output) == 0)
            code = mt_cli_usage("--svg and --output name one file, %s", x.svg);
        if (code == 0)
            code = mt_output_open(&out, x.output);
    }
    if (code == 0)
        code = mt_stride_graph_input_open(&x.in, x.in.inputs.paths, x.in.inputs.npaths);
    if (code == 0)
        code = graph_run(&x, &out);
    mt_output_abandon(&out);
    mt_stride_graph_input_close(&x.in);
    mt_filter_free(&x.in.filter);
    mt_inputs_free(&x.in.inputs);
    return code < 0 ? MT_EXIT_OK : code;
}
