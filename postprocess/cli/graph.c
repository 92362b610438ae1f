/* mt-graph: traces in, the memory (stride) graph out. */
#define _GNU_SOURCE
#include "cli.h"
#include "../output/graph_out.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: mt-graph [OPTION]... TRACE...\n"
    "Draws how kernels walk through their buffers: which strides, in which order.\n"
    "\n"
    "  mt-graph /tmp/MemTrace-pipe-0 | dot -Tsvg > graph.svg\n"
    "  mt-graph --kernels '^matmul' --min-count 1000 /tmp/MemTrace-pipe-0 > matmul.dot\n"
    "  mt-graph --format json --node stride,type -o graph.json /tmp/MemTrace-pipe-?\n"
    "\n"
    "A node is (buffer, stride, type). stride = address - previous address of the same CTA in the same "
    "buffer; the\n"
    "first access there has no stride and makes no node. Its label reads: buffer, stride, bytes of the "
    "buffer, kernel\n"
    "- count. Writes are gray, reads white, atomics octagons. An edge a -> b says how often a CTA's next "
    "node after a\n"
    "was b. Buffers are the allocations that the companion (TRACE.meta) tells, in order of allocation: an "
    "address that\n"
    "is used again is another buffer. Without companion all memory is buffer 0.\n"
    "\n"
    "Options:\n"
    "  -f, --format=FORMAT     dot (default) or json\n"
    "  -o, --output=FILE       write to FILE instead of standard output\n"
    "  -n, --node=LIST         what makes a node, of buffer,stride,type,size,site (default: "
    "buffer,stride,type);\n"
    "                          size: bytes of the buffer; site: the kernel\n"
    "  -m, --min-count=N       leave out nodes and edges counted less than N times\n"
    "  -k, --kernels=REGEX     only launches of kernels whose name matches (POSIX extended)\n"
    "  -t, --supersteps=A:B    only launches A to B-1\n"
    "      --companion=FILE    the companion of the first TRACE; again for the second, and so on\n"
    "      --no-companion      do as if there were no companion\n"
    "  -h, --help              this text\n"
    "  -V, --version           the version\n"
    "\n"
    "Exit code: 0 fine, 1 failure, 2 wrong usage, 3 the trace is truncated, corrupt or incomplete, or "
    "reading was\n"
    "interrupted: what was whole is in the output.\n";

struct options {
    struct mt_inputs inputs;
    struct mt_filter filter;
    const char *output;
    int json;
    unsigned key;
    uint64_t min_count;
};

enum { OPT_COMPANION = 256, OPT_NO_COMPANION };
static const struct option long_options[] = {{"format", required_argument, NULL, 'f'},
                                             {"output", required_argument, NULL, 'o'},
                                             {"node", required_argument, NULL, 'n'},
                                             {"min-count", required_argument, NULL, 'm'},
                                             {"kernels", required_argument, NULL, 'k'},
                                             {"supersteps", required_argument, NULL, 't'},
                                             {"companion", required_argument, NULL, OPT_COMPANION},
                                             {"no-companion", no_argument, NULL, OPT_NO_COMPANION},
                                             {"help", no_argument, NULL, 'h'},
                                             {"version", no_argument, NULL, 'V'},
                                             {NULL, 0, NULL, 0}};

static int parse_node(struct options *x, const char *text)
{
    x->key = 0;
    while (*text) {
        size_t n = strcspn(text, ",");
        unsigned i = 0;
        while (i < 5 && (strlen(mt_node_fields[i]) != n || strncmp(text, mt_node_fields[i], n) != 0))
            i++;
        if (i == 5)
            return mt_cli_usage("'%.*s' is no part of a node", (int)n, text);
        x->key |= 1u << i;
        text += n + (text[n] == ',');
    }
    return x->key ? 0 : mt_cli_usage("--node needs at least one of buffer,stride,type,size,site");
}

static int parse_count(struct options *x, const char *text)
{
    char *end;
    errno = 0;
    x->min_count = strtoull(text, &end, 10);
    return errno || end == text || *end || *text == '-' ? mt_cli_usage("'%s' is no count", text) : 0;
}

/* 0: go on; -1: done, exit with 0; else the exit code. */
static int parse(struct options *x, int argc, char **argv)
{
    int rc = 0, o;
    while (rc == 0 && (o = getopt_long(argc, argv, "f:o:n:m:k:t:hV", long_options, NULL)) != -1) {
        switch (o) {
        case 'f':
            x->json = strcmp(optarg, "json") == 0;
            if (!x->json && strcmp(optarg, "dot") != 0)
                rc = mt_cli_usage("'%s' is no format: dot or json", optarg);
            break;
        case 'o':
            x->output = optarg;
            break;
        case 'n':
            rc = parse_node(x, optarg);
            break;
        case 'm':
            rc = parse_count(x, optarg);
            break;
        case 'k':
            rc = mt_filter_kernels(&x->filter, optarg);
            break;
        case 't':
            rc = mt_filter_supersteps(&x->filter, optarg);
            break;
        case OPT_COMPANION:
            rc = mt_inputs_companion(&x->inputs, optarg);
            break;
        case OPT_NO_COMPANION:
            x->inputs.flags |= MT_SOURCE_NO_COMPANION;
            break;
        case 'h':
            fputs(help, stdout);
            return -1;
        case 'V':
            mt_cli_version();
            return -1;
        default:
            rc = mt_cli_usage("unknown or incomplete option");
        }
    }
    return rc;
}

static int read_all(struct options *x, struct mt_source *s, struct mt_graph *g, uint64_t *launches)
{
    struct mt_item item;
    struct mt_error err;
    struct mt_progress progress;
    int rc, selected = 0;
    mt_progress_init(&progress);
    while ((rc = mt_source_next(s, &item, &err)) > 0) {
        if (item.kind != MT_ITEM_BATCH)
            continue;
        if (item.flags & MT_BATCH_BEGIN) {
            selected = mt_filter_match(&x->filter, item.kernel, item.superstep);
            *launches += (uint64_t)selected;
            if (selected)
                mt_graph_launch(g, item.kernel, item.launch ? item.launch->seq : MT_SEQ_NONE);
        }
        if (selected && mt_graph_records(g, item.records, item.count) != 0) {
            mt_progress_end(&progress);
            mt_cli_say("no memory for the graph");
            return MT_EXIT_FAILURE;
        }
        mt_progress_step(&progress, s, g->records);
    }
    mt_progress_end(&progress);
    if (rc < 0) {
        mt_cli_say("%s", err.message);
        return mt_cli_exit_code(&err);
    }
    return 0;
}

static int write_out(struct options *x, struct mt_source *s, struct mt_graph *g, struct mt_output *out,
                     uint64_t launches)
{
    static struct mt_json json; /* holds the output buffer */
    struct mt_graph_words words = {
        .inputs = x->inputs.paths, .ninputs = x->inputs.npaths, .launches = launches};
    int code = mt_output_ready(out), error = 0;
    if (code)
        return code;
    words.notes = mt_source_notes(s, &words.nnotes, &words.complete);
    if (x->json) {
        mt_json_open(&json, out->fd);
        mt_graph_write_json(&json, g, &words);
        error = mt_json_close(&json) != 0 ? json.error : 0;
    } else {
        int fd = dup(out->fd);
        FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
        if (f)
            mt_graph_write_dot(f, g, &words);
        int bad = !f || ferror(f);
        if (f && fclose(f) != 0)
            error = errno;
        else if (bad)
            error = EIO;
    }
    if (error)
        mt_cli_say("%s: cannot write: %s", x->output ? x->output : "standard output", strerror(error));
    return error ? MT_EXIT_FAILURE : 0;
}

static int run(struct options *x, struct mt_source *s, struct mt_output *out)
{
    struct mt_graph graph;
    struct mt_buffers buffers;
    size_t nallocs;
    const struct mt_alloc_event *allocs = mt_source_allocs(s, &nallocs);
    int known = 0, complete;
    uint64_t launches = 0;
    for (size_t i = 0; i < x->inputs.npaths; i++)
        known |= mt_source_companion(s, i) != NULL;
    int code = 0, input = 0;
    if (mt_buffers_init(&buffers, allocs, nallocs) != 0) {
        mt_cli_say("no memory for the buffers");
        code = MT_EXIT_FAILURE;
    }
    mt_graph_init(&graph, x->key, known ? &buffers : NULL);
    if (code == 0)
        code = read_all(x, s, &graph, &launches);
    if (code == 0)
        input = mt_inputs_finish(s, &complete);
    if (code == 0 && !known)
        mt_cli_say("no companion: buffers are not known, all memory counts as buffer 0");
    if (code == 0 && mt_graph_finish(&graph, x->min_count) != 0) {
        mt_cli_say("no memory for the graph");
        code = MT_EXIT_FAILURE;
    }
    if (code == 0)
        code = write_out(x, s, &graph, out, launches);
    mt_graph_free(&graph);
    mt_buffers_free(&buffers);
    return code ? code : input;
}

int main(int argc, char **argv)
{
    struct options x = {.key = MT_NODE_BUFFER | MT_NODE_STRIDE | MT_NODE_TYPE};
    struct mt_output out = {0};
    struct mt_source *s = NULL;
    mt_cli_start("mt-graph");
    mt_filter_init(&x.filter);
    int code = parse(&x, argc, argv);
    if (code == 0) {
        x.inputs.paths = (const char *const *)argv + optind;
        x.inputs.npaths = (size_t)(argc - optind);
        code = mt_output_open(&out, x.output, &x.inputs);
    }
    if (code == 0 && (s = mt_inputs_open(&x.inputs, argc, argv, &code)))
        code = run(&x, s, &out);
    mt_output_abandon(&out);
    mt_source_close(s);
    mt_filter_free(&x.filter);
    free(x.inputs.companions);
    return code < 0 ? MT_EXIT_OK : code;
}
