/* Bytes that go from device to device, and between devices and the host. */
#ifndef MT_OUTPUT_FLOWS_H
#define MT_OUTPUT_FLOWS_H
#include "comm_formats.h"

#define MT_FLOW_NO_LAUNCH UINT64_MAX
/* In the order of the output. */
enum mt_device_flow_how {
    MT_FLOW_LOAD,
    MT_FLOW_STORE,
    MT_FLOW_ATOMIC,
    MT_FLOW_UNKNOWN,
    MT_FLOW_COPY,
    MT_FLOW_COLLECTIVE,
    MT_FLOWS
};
extern const char *const mt_device_flow_names[MT_FLOWS];

struct mt_device_flow {
    uint64_t superstep; /* of kernels and collectives; MT_FLOW_NO_LAUNCH: of copies */
    const char *kernel; /* NULL: copies */
    enum mt_device_flow_how how;
    int64_t from, to; /* devices, or MT_DEVICES_HOST; an atomic goes from the kernel's to the memory's */
    uint64_t accesses, bytes; /* accesses: or copies, or ranks of which a collective takes something */
};

/* By launch, then how, from and to; copies of all launches are one. *n is 0 where there is one device. To be
 * freed; NULL without memory. `joined`: launches are not told apart. */
struct mt_device_flow *mt_device_flows(const struct mt_comm_result *r, int joined, size_t *n);
/* "0", "host" */
struct mt_device_flow_place {
    char text[24];
};
struct mt_device_flow_place mt_device_flow_place(int64_t device);
#endif
