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

/* Returns the bytes that its rank receives from rank `from`. */
uint64_t mt_collective_bytes(const struct mt_collective *c, enum mt_collective_way way, uint64_t from);

/* Device of each rank. */
struct mt_collective_places {
    struct mt_communicator_event *list; /* sorted by communicator and rank */
    size_t n, room;
};
int mt_collective_places_add(struct mt_collective_places *p, const struct mt_companion *c);
void mt_collective_places_order(struct mt_collective_places *p);
/* Finds the device of a rank. Returns 0, or -1 if it is unknown. */
int mt_collective_place(const struct mt_collective_places *p, uint64_t comm, uint64_t rank, int64_t *device);
void mt_collective_places_free(struct mt_collective_places *p);

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
    char name[48]; /* "NVLink 0 to 1", "PCIe from 0" */
    double speed;  /* speed in bytes per second */
};

/* Reads a topology. `name` is a preset for `devices` devices, such as "nvlink", or a file. Returns 0, or -1
 * with a sentence in why. */
int mt_topology_read(struct mt_topology *t, const char *name, unsigned devices, char *why, size_t size);
/* Computes the links from one device to another, or to the host (-1), in order. Returns their number, 0 if a
 * device is not in the table or both are the same. */
unsigned mt_topology_route(const struct mt_topology *t, int64_t from, int64_t to,
                           struct mt_topology_link out[MT_TOPOLOGY_ROUTE]);

#endif
