/* What the kernels of several devices load from and store into each other's memory, by launch. Whose memory
 * an address is, the allocation says that it lies in: a device's, or the host's (pinned and managed); all
 * else, such as `__device__` variables, counts as the launch's own. Fed and merged as runs.h says; the order
 * of accesses does not matter. */
#ifndef MT_ANALYSIS_DEVICES_H
#define MT_ANALYSIS_DEVICES_H
#include "analysis/base/buffers.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include "parcel.h"

#define MT_DEVICES_HOST (-1)

struct mt_devices_cell {
    uint64_t superstep;
    const char *kernel;
    int64_t device, owner;          /* of the launch; of the memory: MT_DEVICES_HOST, or a device */
    uint64_t accesses[4], bytes[4]; /* by type */
};

struct mt_devices {
    struct mt_devices_cell *cells; /* in no order */
    size_t count;
    /* state */
    size_t room;
    struct mt_pairmap index; /* superstep, owner -> place in `cells` */
    struct mt_buffers buffers;
    struct mt_run_launch launch;
};

extern const struct mt_analysis mt_devices_analysis;
#endif
