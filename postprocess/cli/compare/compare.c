/* memtrace compare: compares traces, graphs or volumes of runs. */
#define _GNU_SOURCE
#include "cli/base/cli.h"
#include "output/dot/dot.h"
#include "cli/base/graph_input.h"
#include "cli/base/commands.h"
#include "cli/base/two_runs.h"
#include "analysis/graph/sequence.h"
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Saved graphs (memtrace graph --format=json), read as sequences ---- */

struct saved {
    const char *path;
    json_t *root;
    uint32_t *tokens;  /* tokens of the nodes */
    uint64_t *buffers; /* buffers of the nodes, numbered as in the graph */
    size_t n;
};

static int graph_json_bad(const struct saved *g, const char *what)
{
    return mt_cli_refuse("%s: %s", g->path, what);
}

static int compare_no_memory(const struct saved *g)
{
    return mt_cli_fail("%s: no memory for the graph", g->path);
}

static const json_t *graph_json_node(const struct saved *g, size_t i)
{
    return json_array_get(json_object_get(g->root, "nodes"), i);
}

/* Returns 1 if the graph's nodes have this field. */
static int graph_json_has(const struct saved *g, const char *field)
{
    const json_t *fields = json_object_get(g->root, "node");
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const char *s = json_string_value(json_array_get(fields, i));
        if (s && strcmp(s, field) == 0)
            return 1;
    }
    return 0;
}

/* Returns the token of node i, or UINT32_MAX without memory. */
static uint32_t token_of(struct saved *g, struct mt_sequence *s, size_t i)
{
    uint64_t name;
    if (g->tokens[i] != UINT32_MAX)
        return g->tokens[i];
    const char *type = json_string_value(json_object_get(graph_json_node(g, i), "type"));
    uint32_t t = 0;
    while (t < 3 && (!type || strcmp(type, mt_stride_graph_types[t]) != 0))
        t++;
    if (mt_sequence_buffer(s, g->buffers[i], &name) != 0)
        return UINT32_MAX;
    g->tokens[i] = mt_token_of(s->alphabet, name,
                               json_integer_value(json_object_get(graph_json_node(g, i), "stride")), t);
    return g->tokens[i];
}

static uint64_t graph_json_number(const json_t *o, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(o, key));
    return n > 0 ? (uint64_t)n : 0;
}

static int take_sequence(struct saved *g, struct mt_sequence *s, const json_t *runs)
{
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        json_int_t actor = json_integer_value(json_array_get(run, 0)),
                   at = json_integer_value(json_array_get(run, 1));
        json_int_t count = json_integer_value(json_array_get(run, 2));
        if (json_array_size(run) != 3 || at < 0 || (uint64_t)at >= g->n || count < 1)
            return graph_json_bad(g, "a run of its sequence is not [actor, node, count]");
        uint32_t token = token_of(g, s, (size_t)at);
        if (token == UINT32_MAX || mt_sequence_run(s, (uint64_t)actor, token, (uint64_t)count) != 0)
            return compare_no_memory(g);
    }
    return 0;
}

/* Reads nodes as 1-grams, edges as 2-grams. */
static int compare_take_counts(struct saved *g, struct mt_sequence *s)
{
    const json_t *edges = json_object_get(g->root, "edges");
    unsigned n = s->alphabet->n;
    s->has_order = 0;
    s->has_grams = n <= 2;
    for (size_t i = 0; i < g->n; i++) { /* tokens of all nodes, in order of allocation */
        uint32_t token = token_of(g, s, i);
        uint64_t count = graph_json_number(graph_json_node(g, i), "count");
        if (token == UINT32_MAX || mt_sequence_count(s, token, count) != 0 ||
            (n == 1 && mt_sequence_gram(s, mt_gram_of(s->alphabet, 0, token), count) != 0))
            return compare_no_memory(g);
    }
    for (size_t i = 0; n == 2 && i < json_array_size(edges); i++) {
        const json_t *e = json_array_get(edges, i);
        uint64_t from = graph_json_number(e, "from"), to = graph_json_number(e, "to");
        if (from >= g->n || to >= g->n)
            return graph_json_bad(g, "an edge leads to a node that it does not have");
        uint32_t first = mt_gram_of(s->alphabet, 0, g->tokens[from]);
        if (!first || mt_sequence_gram(s, mt_gram_of(s->alphabet, first, g->tokens[to]),
                                       graph_json_number(e, "count")) != 0)
            return compare_no_memory(g);
    }
    return 0;
}

static int graph_json_take(struct saved *g, struct mt_sequence *s, int *complete)
{
    const json_t *runs = json_object_get(g->root, "sequence");
    const json_t *whole = json_object_get(g->root, "complete");
    *complete = json_is_null(whole) ? -1 : !json_is_false(whole);
    if (!graph_json_has(g, "buffer") || !graph_json_has(g, "stride") || !graph_json_has(g, "type"))
        return graph_json_bad(
            g, "was made with other nodes: memtrace compare needs memtrace graph --node buffer,stride,type");
    g->n = json_array_size(json_object_get(g->root, "nodes"));
    g->tokens = malloc((g->n + 1) * sizeof *g->tokens);
    g->buffers = malloc((g->n + 1) * sizeof *g->buffers);
    if (!g->tokens || !g->buffers)
        return compare_no_memory(g);
    for (size_t i = 0; i < g->n; i++) {
        const json_t *buffer = json_object_get(graph_json_node(g, i), "buffer");
        g->tokens[i] = UINT32_MAX;
        g->buffers[i] = json_is_integer(buffer) ? (uint64_t)json_integer_value(buffer) : MT_BUFFER_NONE;
    }
    int code = runs ? take_sequence(g, s, runs) : compare_take_counts(g, s);
    return code;
}

/* Fills `s`, which was initialised. A graph with "sequence" (memtrace graph --sequence) has everything; one
 * without has n-grams up to n = 2 (nodes and edges), buffers in order of allocation, and has_order 0. Returns
 * 0, or an exit code after a message; *complete is from the graph. */
static int compare_graph_load(const char *path, struct mt_sequence *s, int *complete)
{
    json_error_t why;
    struct saved g = {.path = path, .root = json_load_file(path, 0, &why)};
    int code;
    if (g.root) {
        code = graph_json_take(&g, s, complete);
    } else {
        mt_cli_say("%s: line %d: %s", path, why.line, why.text);
        code = MT_EXIT_USAGE;
    }
    free(g.tokens);
    free(g.buffers);
    json_decref(g.root);
    return code;
}

static const struct mt_command command = {
    .of = MT_OF_COMPARE,
    .before =
        "Usage: memtrace compare [OPTION]... TRACE TRACE...\n"
        "       memtrace compare --volumes [OPTION]... BEFORE AFTER\n"
        "Says how alike traces walk through memory: a matrix of similarities, 1 for the same, 0 for nothing "
        "in common.\n"
        "\n"
        "  memtrace compare before.mtc after.mtc                     two runs of a program\n"
        "  memtrace compare runs/*.mtc > matrix.txt                  many\n"
        "  memtrace compare run-1 run-2                              folders: the newest run in each\n"
        "  memtrace compare --format json --ngram 4 a.mtc b.mtc      also the n-grams that are frequent\n"
        "  memtrace compare --volumes before/ after/                 what moved, by kernel, line and buffer\n"
        "\n"
        "TRACE is a raw or compact trace (.mtc), a MAT text trace of host code, or a graph "
        "saved with\n"
        "memtrace graph --format=json --sequence. Each becomes the sequence of its nodes (buffer, stride, "
        "type), "
        "in the order in\n"
        "which they came, CTA by CTA or thread by thread. Buffers are named by the order of their first use, "
        "so that neither\n"
        "addresses nor numbers of allocations matter.\n"
        "\n"
        "Two measures:\n"
        "  levenshtein   1 - edit distance / length of the longer sequence. If a sequence is longer than "
        "--cap, runs of\n"
        "                equal nodes count as one in all of them, and of more runs than --cap only the first "
        "are compared;\n"
        "                the output says so.\n"
        "  ngrams        n nodes in a row: of those that make up at least --threshold percent of a trace, "
        "what two traces\n"
        "                have in common\n"
        "\n"
        "With --volumes BEFORE and AFTER are each a trace, or a folder of traces (the newest run in it). The "
        "third line says\n"
        "whether less is moved. Only --format (text, json), --output, --kernels, --launches and the "
        "companions go with it.\n",
    .after = "Exit code: 0 fine, 1 failure, 2 wrong usage, 3 a trace is truncated, corrupt or incomplete, or "
             "reading was\n"
             "interrupted: what was whole is compared.\n",
};

struct options {
    struct mt_compare *compare;
    struct mt_inputs inputs;
    struct mt_filter filter;
    const char *output;
    enum { TEXT, CSV, JSON } format;
    struct mt_compare_view view;
    int all, lanes;
    int volumes, of_walks;            /* --volumes; an option that is incompatible with it */
    const char *of_threads, *of_ctas; /* traces of kernels with strides of threads, and of CTAs */
};

static int compare_word(const char *const *names, const char *list, unsigned *chosen)
{
    int i = mt_cli_word(optarg, names);
    *chosen = i < 0 ? *chosen : (unsigned)i;
    return i < 0 ? mt_cli_usage("'%s' is not one of %s", optarg, list) : 0;
}

static int compare_number(uint64_t most, uint64_t *n)
{
    if (mt_cli_number(optarg, 1, most, n))
        return 0;
    return mt_cli_usage("'%s' is not a number from 1 to %llu", optarg, (unsigned long long)most);
}

static int compare_percent(const char *text, double *share)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end || !(x >= 0 && x <= 100))
        return mt_cli_usage("'%s' is not a percentage from 0 to 100", text);
    *share = x / 100;
    return 0;
}

/* Returns 1 for options of walks, which are incompatible with --volumes. */
static int compare_is_of_walks(int o)
{
    return o == MT_OPT_MEASURE || o == MT_OPT_DISTANCE || o == MT_OPT_NGRAM || o == MT_OPT_THRESHOLD ||
           o == MT_OPT_CAP || o == MT_OPT_ALL || o == MT_OPT_LANES;
}

static int compare_option(void *arg, int o)
{
    static const char *const formats[] = {"text", "csv", "json", NULL};
    static const char *const measures[] = {"levenshtein", "ngrams", NULL};
    struct options *x = arg;
    unsigned chosen = 0;
    uint64_t n = 0;
    int rc;
    x->of_walks |= compare_is_of_walks(o);
    switch (o) {
    case MT_OPT_VOLUMES:
        x->volumes = 1;
        return 0;
    case MT_OPT_FORMAT:
        rc = compare_word(formats, "text, csv, json", &chosen);
        x->format = chosen;
        x->view.csv = x->format == CSV;
        return rc;
    case MT_OPT_MEASURE:
        rc = compare_word(measures, "levenshtein, ngrams", &chosen);
        x->view.grams = (int)chosen;
        return rc;
    case MT_OPT_DISTANCE:
        x->view.distance = 1;
        return 0;
    case MT_OPT_NGRAM:
        rc = compare_number(MT_NGRAM_MAX, &n);
        x->compare->alphabet.n = (unsigned)n;
        return rc;
    case MT_OPT_THRESHOLD:
        return compare_percent(optarg, &x->compare->threshold);
    case MT_OPT_CAP:
        rc = compare_number(1 << 24, &n);
        x->compare->cap = n;
        return rc;
    case MT_OPT_OUTPUT:
        x->output = optarg;
        return 0;
    case MT_OPT_ALL:
        x->all = 1;
        return 0;
    case MT_OPT_LANES:
        x->lanes = 1;
        return 0;
    default:
        return mt_common_option(o, &x->inputs, &x->filter);
    }
}

/* ---- reading ---- */

struct watch {
    struct mt_sequence *sequence;
    struct mt_stride_graph *graph;
    uint64_t launch;
};

static int compare_see(void *arg, const struct mt_stride_graph_access *a, int64_t stride, size_t node)
{
    struct watch *w = arg;
    if (w->launch != w->graph->launches) {
        w->launch = w->graph->launches;
        mt_sequence_launch(w->sequence);
    }
    return mt_sequence_add(w->sequence, a->actor, a->buffer, stride, a->type);
}

static int read_trace(struct options *x, struct mt_compare_row *r, size_t i)
{
    struct mt_stride_graph_input in = {
        .all = x->all, .lanes = x->lanes, .filter = x->filter, .inputs.flags = x->inputs.flags};
    struct mt_stride_graph graph = {0};
    if (i < x->inputs.ncompanions) {
        in.inputs.companions = &x->inputs.companions[i];
        in.inputs.ncompanions = 1;
    }
    int code = mt_stride_graph_input_open(&in, &r->path, 1);
    if (code == 0) {
        struct watch w = {&r->sequence, &graph, 0};
        mt_stride_graph_init(&graph, MT_NODE_BUFFER | MT_NODE_STRIDE | MT_NODE_TYPE,
                             mt_stride_graph_input_buffers(&in));
        graph.watch = compare_see;
        graph.watch_arg = &w;
        code = mt_stride_graph_input_read(&in, &graph);
        r->complete = in.complete;
        r->stride = mt_stride_graph_input_stride(&in, &graph);
        if (in.kind == MT_KIND_TRACE && graph.records)
            *(graph.threads ? &x->of_threads : &x->of_ctas) = r->path;
    }
    mt_stride_graph_free(&graph);
    mt_stride_graph_input_close(&in);
    in.inputs.companions = NULL; /* x owns the companions */
    mt_inputs_free(&in.inputs);
    return code;
}

/* Reads all traces. Returns 0, MT_EXIT_INPUT (still comparable), or another exit code. */
static int compare_read_all(struct options *x, struct mt_compare *c)
{
    int worst = 0;
    for (size_t i = 0; i < c->n; i++) {
        struct mt_compare_row *r = &c->rows[i];
        enum mt_kind kind = mt_kind_of(r->path);
        r->kind = mt_kind_name(kind);
        int code = kind == MT_KIND_GRAPH ? compare_graph_load(r->path, &r->sequence, &r->complete)
                                         : read_trace(x, r, i);
        if (code == 0 && !r->complete)
            code = MT_EXIT_INPUT;
        if (code && code != MT_EXIT_INPUT)
            return code;
        worst = code ? code : worst;
        if (!r->sequence.has_order || !r->sequence.has_grams)
            mt_cli_say("%s: was saved without --sequence: its edit distances%s are not known", r->path,
                       r->sequence.has_grams ? "" : ", and n-grams of more than 2,");
        else if (r->sequence.elements == 0)
            mt_cli_say("%s: has no nodes", r->path);
    }
    if (x->of_threads && x->of_ctas && !x->lanes) {
        if (asprintf(&c->note,
                     "%s has threads and %s does not: their strides differ even if the programs are the same",
                     x->of_threads, x->of_ctas) < 0)
            c->note = NULL;
        mt_cli_say("%s", c->note ? c->note : "no memory for a note");
    } else if (x->of_threads && !x->lanes)
        mt_cli_note("note: this compares the sequence of accesses of each thread; --lanes compares the lanes "
                    "of a warp (coalescing)");
    return worst;
}

/* ---- writing ---- */

static int compare_write_all(const struct options *x, const struct mt_compare *c, struct mt_output *out)
{
    static struct mt_json json; /* static: it contains the output buffer */
    FILE *f;
    int code = mt_output_ready(out);
    if (code == 0 && x->format == JSON) {
        mt_json_open(&json, out->fd);
        mt_compare_write_json(&json, c);
        code = mt_output_json(out, &json);
    } else if (code == 0) {
        if (!(f = mt_output_stream(out)))
            return MT_EXIT_FAILURE;
        mt_compare_write(f, c, &x->view);
        code = mt_output_close(out, f);
    }
    return code;
}

static int compare_run(struct options *x, struct mt_compare *c, struct mt_output *out)
{
    c->n = x->inputs.npaths;
    c->rows = calloc(c->n, sizeof *c->rows);
    c->edit = calloc(c->n * c->n, sizeof *c->edit);
    c->gram = calloc(c->n * c->n, sizeof *c->gram);
    if (!c->rows || !c->edit || !c->gram)
        return mt_cli_fail("no memory for the comparison");
    for (size_t i = 0; i < c->n; i++) {
        c->rows[i].path = x->inputs.paths[i];
        c->rows[i].complete = 1;
        mt_sequence_init(&c->rows[i].sequence, &c->alphabet, c->cap);
    }
    int input = compare_read_all(x, c);
    if (input && input != MT_EXIT_INPUT)
        return input;
    if (mt_compare_all(c) != 0)
        return mt_cli_fail("no memory for the comparison");
    int code = compare_write_all(x, c, out);
    return code ? code : input;
}

/* Implements --volumes: compares what two runs moved. */
static int compare_volumes(const struct options *x, struct mt_output *out)
{
    static struct mt_pipeline asked, p[2];
    static struct mt_two_runs t = {.p = {&p[0], &p[1]}};
    int code = 0;
    mt_pipeline_init(&asked);
    mt_locality_run_section(&asked.more, "more", 4);
    asked.inputs.flags = x->inputs.flags;
    asked.filter = x->filter;
    t.words = (struct mt_versus_words){{x->inputs.paths, x->inputs.paths + 1}, {1, 1}, .title = NULL};
    for (size_t i = 0; i < 2; i++) {
        code = code ? code : mt_two_runs_ask(&p[i], &asked);
        p[i].inputs.paths = &x->inputs.paths[i];
        p[i].inputs.npaths = 1;
        if (code == 0 && i < x->inputs.ncompanions)
            code = mt_inputs_companion(&p[i].inputs, x->inputs.companions[i]);
    }
    if (code == 0)
        code = mt_two_runs_run(&t, out, x->format == JSON ? NULL : mt_versus_text);
    mt_pipeline_free(&p[0]);
    mt_pipeline_free(&p[1]);
    return code;
}

static void compare_release(struct mt_compare *c)
{
    for (size_t i = 0; c->rows && i < c->n; i++) {
        mt_sequence_free(&c->rows[i].sequence);
        free(c->rows[i].grams);
    }
    mt_alphabet_free(&c->alphabet);
    free(c->rows);
    free(c->edit);
    free(c->note);
    free(c->gram);
}

/* Returns 0, or the exit code of a usage error. */
static int compare_wrong(const struct options *x)
{
    if (x->volumes && (x->inputs.npaths != 2 || x->of_walks || x->format == CSV))
        return mt_cli_usage(
            "--volumes takes two runs and --format=text or json; it has no measures and no lanes");
    if (x->inputs.npaths < 2)
        return mt_cli_usage("give at least two traces to compare");
    if (x->inputs.ncompanions > x->inputs.npaths)
        return mt_cli_usage("%zu companions for %zu traces", x->inputs.ncompanions, x->inputs.npaths);
    return 0;
}

int mt_compare_command(int argc, char **argv)
{
    struct mt_compare c = {.cap = 65536, .threshold = 0.01};
    struct options x = {.compare = &c};
    struct mt_output out = {0};
    mt_stop_begin();
    mt_filter_init(&x.filter);
    mt_alphabet_init(&c.alphabet, 3);
    int code = mt_cli_options(&command, argc, argv, compare_option, &x);
    if (code == 0) {
        mt_inputs_take(&x.inputs, argc, argv);
        code = compare_wrong(&x);
    }
    if (code == 0)
        code = mt_output_open(&out, x.output);
    if (code == 0)
        code = x.volumes ? compare_volumes(&x, &out) : compare_run(&x, &c, &out);
    mt_output_abandon(&out);
    compare_release(&c);
    mt_filter_free(&x.filter);
    mt_inputs_free(&x.inputs);
    return code < 0 ? MT_EXIT_OK : code;
}
