/* Connections of a machine's devices, from the table of `nvidia-smi topo -m` or a built-in one. Speeds come
 * from data sheets, in bytes per second and direction. */
#ifndef MT_OUTPUT_TOPOLOGY_H
#define MT_OUTPUT_TOPOLOGY_H

#include "memtrace/trace.h"

#include <stddef.h>
#include <stdint.h>

/* ---- Bytes that collectives move between ranks (docs/definitions.md, "collectives") ---- */

/* Algorithm of a collective. */
enum mt_collective_way { MT_COLLECTIVE_DIRECT, MT_COLLECTIVE_RING, MT_COLLECTIVE_TREE, MT_COLLECTIVE_WAYS };
extern const char *const mt_collective_ways[MT_COLLECTIVE_WAYS];

/* A launch that performs a collective. */
struct mt_collective_launch {
    uint64_t superstep;
    const char *kernel;
    const struct mt_launch_event *event;
};

enum { MT_TOPOLOGY_DEVICES = 64, MT_TOPOLOGY_ROUTE = 8 };

/* Kind of connection, a cell of the table. */
enum mt_topology_kind {
#define MT_TOPOLOGY_KIND(NAME, word, speed, what) MT_TOPOLOGY_##NAME,
#include "topology.def"
#undef MT_TOPOLOGY_KIND
    MT_TOPOLOGY_KINDS
};
extern const char *const mt_topology_words[MT_TOPOLOGY_KINDS];

struct mt_topology {
    unsigned devices;
    double speed[MT_TOPOLOGY_KINDS];
    uint8_t kind[MT_TOPOLOGY_DEVICES][MT_TOPOLOGY_DEVICES];
    uint8_t width[MT_TOPOLOGY_DEVICES][MT_TOPOLOGY_DEVICES]; /* number of NVLinks of a pair */
    uint8_t nvswitch[MT_TOPOLOGY_DEVICES];                   /* number of NVLinks to a switch; 0: none */
    uint8_t group[MT_TOPOLOGY_DEVICES];                      /* first device below the same PCIe switch */
    uint8_t alone[MT_TOPOLOGY_DEVICES];                      /* 1: no other device is below that switch */
    uint8_t socket[MT_TOPOLOGY_DEVICES];                     /* first device at the same processor */
};

/* One direction of a link. Routes with equal values share the link. */
struct mt_topology_link {
    enum mt_topology_kind kind;
    char name[96]; /* "NVLink 0 to 1", "PCIe from 0", "network from node1" */
    double speed;  /* speed in bytes per second */
};

/* Reads a topology. `name` is a preset for `devices` devices, such as "nvlink", or a file. Returns 0, or -1
 * with a sentence in why. */
int mt_topology_read(struct mt_topology *t, const char *name, unsigned devices, char *why, size_t size);

#endif
