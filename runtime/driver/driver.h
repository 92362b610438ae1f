/* The driver API (libcuda.so.1) over the runtime API of this library. Each function of cuda.h is exported;
 * what it does is, on a GPU, the real driver's function, or gpu_<name> of this folder, which calls that; on
 * the CPU device drv_<name> of this folder, or the function of the runtime API that a SAME row of driver.def
 * names; what has neither returns CUDA_ERROR_NOT_SUPPORTED and says its name once. gen_driver.py makes table
 * and functions from the header.
 */
#ifndef MT_DRIVER_H
#define MT_DRIVER_H
#define __CUDA_API_VERSION_INTERNAL /* names as they are exported, each version its own */
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_runtime_api.h>
#include <cuda_profiler_api.h>
#include <stddef.h>
#include "driver_entries.h"

struct mt_driver_entry {
    const char *name;
    void (*own)(void);      /* the CPU device's, or NULL */
    void (*gpu)(void);      /* before the real driver's in a traced process on a GPU, or NULL */
    void (*exported)(void); /* what programs call */
    void *real[2]; /* the real driver's, when they were looked up; [1]: for per-thread default streams */
    int said;      /* that it is missing, or that it is called */
    int needs;     /* enum mt_driver_needs: what must be so before */
};
enum mt_driver_needs {
    MT_NEEDS_CONTEXT, /* a current context; all that have no other row */
    MT_NEEDS_INIT,    /* cuInit (NOW rows) */
    MT_NEEDS_NOTHING, /* FREE rows */
};
extern struct mt_driver_entry mt_driver_entries[MT_DRIVER_ENTRIES];

/* One call of a program, between entering and leaving. */
struct mt_driver_call {
    CUresult result;       /* when there is no function to call */
    int held, clean;       /* the runtime's last error of this thread: calls below do not change it */
    int called;            /* mt_entry_called: not by what is called below */
    int per_thread, outer; /* a variant for per-thread default streams */
    int watched;           /* the call is told to api/device/device.h */
};
/* What is to be called for entry `index`, or NULL with c->result. */
void *mt_driver_enter(struct mt_driver_call *c, enum mt_driver_index index, int per_thread,
                      const void *caller);
CUresult mt_driver_leave(struct mt_driver_call *c, CUresult result);
/* The driver's code for an error of the runtime API. */
CUresult mt_driver_result(cudaError_t e);

/* context.c: CUDA_SUCCESS when a function with these needs may be called now in this thread. */
CUresult mt_context_check(enum mt_driver_needs needs);
/* A context of the device: the current one, if it is. */
CUcontext mt_context_on(int device);
/* memory.c: a copy in the runtime's terms. Widths and x positions become elements where an array takes part.
 * CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_HANDLE. */
CUresult mt_driver_copy_params(struct cudaMemcpy3DParms *p, const CUDA_MEMCPY3D_v2 *c);

/* Somebody asks for NVIDIA's private tables. */
void mt_driver_asks(const void *caller);

/* Tells a program what it asked to be told (CU_JIT_ERROR_LOG_BUFFER and the like); `why` may be NULL. */
void mt_driver_log(unsigned n, const CUjit_option *options, void **values, const char *why);

#define MT_POINTER(address) ((void *)(uintptr_t)(address))
#endif
