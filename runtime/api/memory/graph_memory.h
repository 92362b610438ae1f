/* Memory of allocation nodes of graphs: at one address for all launches. */
#ifndef MT_API_GRAPH_MEMORY_H
#define MT_API_GRAPH_MEMORY_H
#include <stddef.h>

struct mt_graph_memory {
    int refs;
    int freed; /* a node of its graph frees it; else the program does, and the next launch allocates anew */
    int live;  /* allocated as the program sees it; the address stays the graph's when it is not */
    void *p;
    size_t bytes;
};
/* With one reference; NULL: out of memory. */
struct mt_graph_memory *mt_graph_memory_new(void *p, size_t bytes);
/* A launch allocates it again when the program has freed it. */
void mt_graph_memory_renew(struct mt_graph_memory *m);
void mt_graph_memory_release(struct mt_graph_memory *m);
/* 1 when a graph allocated the memory at `p` and still has its address: then it is freed now as far as the
 * program can see. -1: it was already. 0: not a graph's. */
int mt_graph_gave_back(void *p);
#endif
