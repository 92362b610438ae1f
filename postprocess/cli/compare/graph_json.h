/* Reading saved graphs (memtrace graph --format=json) back as sequences. */
#ifndef MT_CLI_GRAPH_JSON_H
#define MT_CLI_GRAPH_JSON_H
#include "analysis/graph/sequence.h"

/* Fills `s`, which was initialised. With "sequence" (memtrace graph --sequence) all is known; without it
 * n-grams up to n = 2 are (nodes and edges), buffers being named in order of allocation, and has_order is 0.
 * Returns an exit code after saying why; *complete as the graph says. */
int mt_stride_graph_json_load(const char *path, struct mt_sequence *s, int *complete);
#endif
