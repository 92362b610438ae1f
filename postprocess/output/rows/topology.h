/* How the devices of a machine are connected: the table of `nvidia-smi topo -m`, or one of our own of that
 * kind. Speeds are those of data sheets, in bytes a second and direction. */
#ifndef MT_OUTPUT_TOPOLOGY_H
#define MT_OUTPUT_TOPOLOGY_H
#include <stddef.h>
#include <stdint.h>

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
