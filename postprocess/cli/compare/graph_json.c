/* Reading saved graphs (memtrace graph --format=json) back as sequences. */
#define _GNU_SOURCE
#include "graph_json.h"
#include "cli/base/cli.h"
#include "output/dot/graph_out.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct saved {
    const char *path;
    json_t *root;
    uint32_t *tokens;  /* of the nodes */
    uint64_t *buffers; /* of the nodes, in the graph's numbers */
    size_t n;
};

static int graph_json_bad(const struct saved *g, const char *what)
{
    return mt_cli_refuse("%s: %s", g->path, what);
}

static int no_memory(const struct saved *g)
{
    return mt_cli_fail("%s: no memory for the graph", g->path);
}

static const json_t *graph_json_node(const struct saved *g, size_t i)
{
    return json_array_get(json_object_get(g->root, "nodes"), i);
}

/* Do its nodes have it? */
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

/* Token of node i, UINT32_MAX without memory. */
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
            return no_memory(g);
    }
    return 0;
}

/* Nodes are 1-grams, edges 2-grams. */
static int take_counts(struct saved *g, struct mt_sequence *s)
{
    const json_t *edges = json_object_get(g->root, "edges");
    unsigned n = s->alphabet->n;
    s->has_order = 0;
    s->has_grams = n <= 2;
    for (size_t i = 0; i < g->n; i++) { /* all tokens, in order of allocation */
        uint32_t token = token_of(g, s, i);
        uint64_t count = graph_json_number(graph_json_node(g, i), "count");
        if (token == UINT32_MAX || mt_sequence_count(s, token, count) != 0 ||
            (n == 1 && mt_sequence_gram(s, mt_gram_of(s->alphabet, 0, token), count) != 0))
            return no_memory(g);
    }
    for (size_t i = 0; n == 2 && i < json_array_size(edges); i++) {
        const json_t *e = json_array_get(edges, i);
        uint64_t from = graph_json_number(e, "from"), to = graph_json_number(e, "to");
        if (from >= g->n || to >= g->n)
            return graph_json_bad(g, "an edge leads to a node that it does not have");
        uint32_t first = mt_gram_of(s->alphabet, 0, g->tokens[from]);
        if (!first || mt_sequence_gram(s, mt_gram_of(s->alphabet, first, g->tokens[to]),
                                       graph_json_number(e, "count")) != 0)
            return no_memory(g);
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
        return no_memory(g);
    for (size_t i = 0; i < g->n; i++) {
        const json_t *buffer = json_object_get(graph_json_node(g, i), "buffer");
        g->tokens[i] = UINT32_MAX;
        g->buffers[i] = json_is_integer(buffer) ? (uint64_t)json_integer_value(buffer) : MT_BUFFER_NONE;
    }
    int code = runs ? take_sequence(g, s, runs) : take_counts(g, s);
    return code;
}

int mt_stride_graph_json_load(const char *path, struct mt_sequence *s, int *complete)
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
