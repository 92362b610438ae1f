/* What an event is, on both devices; api/launch/event.c makes them. */
#ifndef MT_API_STREAMS_EVENT_H
#define MT_API_STREAMS_EVENT_H
#include "base/fd.h"
#include "device/gpu.h"
#include <cuda_runtime_api.h>
#include <stdint.h>

struct mt_event {
    cudaEvent_t handle;
    uint64_t id; /* in companions */
    unsigned flags;
    int device;                     /* of the CPU device (trace/devices.h) */
    struct mt_gpu_point point;      /* its last record, on the way that a GPU's records take */
    struct mt_mark *mark;           /* the CPU device: its last record; NULL: none yet */
    struct mt_shared_event *shared; /* cudaEventInterprocess: its state in all processes, or NULL */
    struct mt_fd shared_file;       /* in the process that made it; ino 0 in others */
    /* Recorded in a stream that was captured: where in the graph. */
    struct mt_capture *capture;
    uint64_t capture_id;
    struct CUgraphNode_st **nodes;
    size_t nnodes;
};
#endif
