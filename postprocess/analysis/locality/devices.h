/* Loads and stores of kernels of several devices in each other's memory, by launch. The allocation of an
 * address determines its owner: a device, or the host (pinned and managed); everything else, such as
 * `__device__` variables, counts as the launch's own device. Fed and merged as runs.h describes; the order of
 * accesses does not matter. */
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
    int64_t device, owner;          /* device of the launch; owner of the memory, or MT_DEVICES_HOST */
    uint64_t accesses[4], bytes[4]; /* by type */
};

struct mt_devices {
    struct mt_devices_cell *cells; /* unordered */
    size_t count;
    /* state */
    size_t room;
    struct mt_pairmap index; /* map from (superstep, owner) to index in `cells` */
    struct mt_buffers buffers;
    struct mt_run_launch launch;
};

extern const struct mt_analysis mt_devices_analysis;
#endif
