/* What goes over the links of a topology (topology.h), by launch. */
#ifndef MT_OUTPUT_LINKS_H
#define MT_OUTPUT_LINKS_H
#include "flows.h"
#include "topology.h"

struct mt_link_load {
    struct mt_topology_link link;
    uint64_t superstep; /* as of mt_device_flow */
    const char *kernel;
    enum mt_device_flow_how how;
    uint64_t bytes;
};

/* By the link's name, then in the order of mt_device_flows. *n is 0 without topology; *outside: bytes to or
 * from devices that it does not have. To be freed; NULL without memory. */
struct mt_link_load *mt_link_loads(const struct mt_comm_result *r, size_t *n, uint64_t *outside);
#endif
