/* What if the CTAs ran on several devices: bytes that would cross from one to another. Nodes are CTA
 * instances, edges what one loads of another's bytes. Each launch is dealt out to all devices, none getting
 * more than its share (CTAs / devices, rounded up). Knows no analysis: its user enters launches, CTAs and
 * edges. All is deterministic: no randomness, no clock. */
#ifndef MT_ANALYSIS_PLACEMENT_H
#define MT_ANALYSIS_PLACEMENT_H
#include <stddef.h>
#include <stdint.h>
#include "analysis/comm/shadow.h"

enum mt_placement_policy {
    MT_PLACE_BLOCK,  /* CTA i of n (z-major) on device i * devices / n */
    MT_PLACE_ROBIN,  /* on device i % devices */
    MT_PLACE_MINCUT, /* heuristic: never worse than these two */
    MT_PLACE_POLICIES
};

enum { MT_PLACE_MOST_DEVICES = 256 };

struct mt_placement_launch {
    size_t first, end; /* its nodes, ascending CTA */
    uint64_t load;     /* bytes on edges into it */
    uint64_t cross[MT_PLACE_POLICIES], distinct[MT_PLACE_POLICIES];
};

struct mt_placement_edge {
    uint32_t src, dst;
    uint64_t bytes;
};

struct mt_placement {
    unsigned devices;
    struct mt_placement_launch *launches;
    uint64_t *ctas; /* z-major number, by node */
    struct mt_placement_edge *edges;
    size_t nlaunches, nnodes, nedges;
    /* results */
    uint16_t *device[MT_PLACE_POLICIES]; /* by node */
    uint64_t load, cross[MT_PLACE_POLICIES];
    uint64_t *traffic[MT_PLACE_POLICIES]; /* [from * devices + to] */
    int ran_known;                        /* the run had several devices */
    uint64_t ran; /* what crossed as it ran; mt_placement_init clears it, its user adds */
    /* of these that cross, each byte once for each launch and device that reads it: the first time */
    int distinct_known;
    uint64_t distinct[MT_PLACE_POLICIES], *distinct_traffic[MT_PLACE_POLICIES];
    /* state */
    size_t launch_room, node_room, edge_room;
    size_t *offset; /* neighbours by node: [offset[i], offset[i + 1]) */
    struct mt_neighbour {
        uint32_t node;
        uint64_t bytes;
    } *neighbours;
    uint64_t budget; /* steps left for the heuristic */
};

/* Functions return 0, or -1 without memory (or with 2^32 nodes). */
int mt_placement_init(struct mt_placement *p, unsigned devices);
/* The next launch; its CTAs come next. */
int mt_placement_launch(struct mt_placement *p);
/* A CTA of the last launch, by ascending z-major number. Its node is p->nnodes before the call. */
int mt_placement_cta(struct mt_placement *p, uint64_t order);
/* After all launches. */
int mt_placement_edge(struct mt_placement *p, uint32_t src, uint32_t dst, uint64_t bytes);
int mt_placement_solve(struct mt_placement *p);
/* After it: who read which bytes (sets 1 .. n - 1), whose numbers are indices into `node`. */
int mt_placement_distinct(struct mt_placement *p, const struct mt_read_set *sets, size_t n,
                          const uint32_t *node);
void mt_placement_free(struct mt_placement *p);
#endif
