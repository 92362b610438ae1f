/* Bytes that collectives of libraries take from rank to rank (docs/definitions.md, "collectives"). */
#ifndef MT_OUTPUT_COLLECTIVES_H
#define MT_OUTPUT_COLLECTIVES_H
#include "memtrace/trace.h"

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
#endif
