/* How the devices of a machine are connected: the table of `nvidia-smi topo -m`, or one of our own of that
 * kind. Speeds are those of data sheets, in bytes a second and direction. */
#ifndef MT_OUTPUT_TOPOLOGY_H
#define MT_OUTPUT_TOPOLOGY_H

#include "memtrace/trace.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes that collectives of libraries take from rank to rank (docs/definitions.md, "collectives"). */

/* How they go. */
enum mt_collective_way { MT_COLLECTIVE_DIRECT, MT_COLLECTIVE_RING, MT_COLLECTIVE_TREE, MT_COLLECTIVE_WAYS };
extern const char *const mt_collective_ways[MT_COLLECTIVE_WAYS];

/* A launch that is one. */
struct mt_collective_launch {
    uint64_t superstep;
    const char *kernel;
    const struct mt_launch_event *event;
};

/* What its rank takes from rank `from`. */
uint64_t mt_collective_bytes(const struct mt_collective *c, enum mt_collective_way way, uint64_t from);

/* Which device a rank is. */
struct mt_collective_places {
    struct mt_communicator_event *list; /* by communicator and rank */
    size_t n, room;
};
int mt_collective_places_add(struct mt_collective_places *p, const struct mt_companion *c);
void mt_collective_places_order(struct mt_collective_places *p);
/* 0, or -1: that is not known. */
int mt_collective_place(const struct mt_collective_places *p, uint64_t comm, uint64_t rank, int64_t *device);
void mt_collective_places_free(struct mt_collective_places *p);

enum { MT_TOPOLOGY_DEVICES = 64, MT_TOPOLOGY_ROUTE = 8 };

/* A cell of the table. */
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
    uint8_t width[MT_TOPOLOGY_DEVICES][MT_TOPOLOGY_DEVICES]; /* of NVLink: how many */
    uint8_t nvswitch[MT_TOPOLOGY_DEVICES]; /* so many of its NVLinks go to a switch; 0: none */
    uint8_t group[MT_TOPOLOGY_DEVICES];    /* the first device below its PCIe switch */
    uint8_t alone[MT_TOPOLOGY_DEVICES];    /* no other is there */
    uint8_t socket[MT_TOPOLOGY_DEVICES];   /* the first device at its processor */
};

/* A direction of a link: what two routes have in common if it is equal. */
struct mt_topology_link {
    enum mt_topology_kind kind;
    char name[48]; /* "NVLink 0 to 1", "PCIe from 0" */
    double speed;  /* bytes a second */
};

/* `name`: "nvlink" or another preset, for `devices`, or a file. 0, or -1 with a sentence in why. */
int mt_topology_read(struct mt_topology *t, const char *name, unsigned devices, char *why, size_t size);
/* The links between two devices, or a device and the host (-1), in the order of the way. 0: there is none, as
 * one of the two is not in the table, or they are the same. */
unsigned mt_topology_route(const struct mt_topology *t, int64_t from, int64_t to,
                           struct mt_topology_link out[MT_TOPOLOGY_ROUTE]);

#endif
