/* Placement of CTAs on several devices: bytes that would cross between them. Nodes are CTA instances; an edge
 * is the number of bytes written by one and loaded by another. Each launch is divided among all devices; none
 * gets more than its share (CTAs / devices, rounded up). Deterministic: no randomness, no clock. */
#ifndef MT_ANALYSIS_PLACEMENT_H
#define MT_ANALYSIS_PLACEMENT_H
#include <stddef.h>
#include <stdint.h>
#include "analysis/comm/comm.h"

enum mt_placement_policy {
    MT_PLACE_BLOCK,  /* CTA i of n (z-major) on device i * devices / n */
    MT_PLACE_ROBIN,  /* CTA i on device i % devices */
    MT_PLACE_MINCUT, /* heuristic; never worse than the other two */
    MT_PLACE_POLICIES
};

enum { MT_PLACE_MOST_DEVICES = 256 };

struct mt_placement_launch {
    size_t first, end; /* nodes of the launch, ascending CTA */
    uint64_t load;     /* bytes on edges that end in it */
    uint64_t cross[MT_PLACE_POLICIES], distinct[MT_PLACE_POLICIES];
};

struct mt_placement_edge {
    uint32_t src, dst;
    uint64_t bytes;
};

struct mt_placement {
    unsigned devices;
    struct mt_placement_launch *launches;
    uint64_t *ctas; /* z-major number of the CTA, by node */
    struct mt_placement_edge *edges;
    size_t nlaunches, nnodes, nedges;
    /* results */
    uint16_t *device[MT_PLACE_POLICIES]; /* device by node */
    uint64_t load, cross[MT_PLACE_POLICIES];
    uint64_t *traffic[MT_PLACE_POLICIES]; /* bytes, indexed by [from * devices + to] */
    int ran_known;                        /* 1: the run used several devices */
    uint64_t ran;                         /* bytes that crossed in the actual run; */
    /* crossing bytes, each counted once per launch and reading device, at the first read */
    int distinct_known;
    uint64_t distinct[MT_PLACE_POLICIES], *distinct_traffic[MT_PLACE_POLICIES];
    /* state */
    size_t launch_room, node_room, edge_room;
    size_t *offset; /* neighbours of node i: [offset[i], offset[i + 1]) */
    struct mt_neighbour {
        uint32_t node;
        uint64_t bytes;
    } *neighbours;
    uint64_t budget; /* steps left to the heuristic */
};

/* Places the CTAs of all launches. `ran`: device of each launch in the actual run, -1 if unknown; NULL: it
 * used one. Returns 0, or -1 without memory (or with 2^32 nodes). */
int mt_placement_make(struct mt_placement *p, const struct mt_comm *c, unsigned devices, const int64_t *ran,
                      size_t nran);
void mt_placement_free(struct mt_placement *p);
#endif
