/* The driver API (libcuda.so.1) on top of this library's runtime API. Each function of cuda.h is exported. On
 * a GPU it calls the real driver's function, or gpu_<name> of this folder, which calls that. On the CPU
 * device it calls drv_<name> of this folder, or the runtime function named by a SAME row of driver.def;
 * without either it returns CUDA_ERROR_NOT_SUPPORTED and prints its name once. gen_driver.py makes table and
 * functions from the header. */
#ifndef MT_DRIVER_H
#define MT_DRIVER_H
#define __CUDA_API_VERSION_INTERNAL /* exported names, one per version */
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_runtime_api.h>
#include <cuda_profiler_api.h>
#include <stddef.h>
#include "driver_entries.h"

struct mt_driver_entry {
    const char *name;
    void (*own)(void);      /* function for the CPU device, or NULL */
    void (*gpu)(void);      /* called instead of the real driver's in a traced process on a GPU, or NULL */
    void (*exported)(void); /* function that programs call */
    void *real[2]; /* functions of the real driver, once looked up; [1]: for per-thread default streams */
    int said;      /* reported as missing, or as called */
    int needs;     /* enum mt_driver_needs: requirements of a call */
};
enum mt_driver_needs {
    MT_NEEDS_CONTEXT, /* a current context; default without another row */
    MT_NEEDS_INIT,    /* cuInit (NOW rows) */
    MT_NEEDS_NOTHING, /* FREE rows */
};
extern struct mt_driver_entry mt_driver_entries[MT_DRIVER_ENTRIES];

/* One call of a program, between enter and leave. */
struct mt_driver_call {
    CUresult result;       /* result if there is no function to call */
    int held, clean;       /* the runtime's last error of this thread, which calls below do not change */
    int called;            /* value of mt_entry_called, which calls below do not change */
    int per_thread, outer; /* a variant for per-thread default streams */
    int watched;           /* the call is reported to api/device/device.h */
};
/* Returns the function to call for entry `index`, or NULL with c->result set. */
void *mt_driver_enter(struct mt_driver_call *c, enum mt_driver_index index, int per_thread,
                      const void *caller);
CUresult mt_driver_leave(struct mt_driver_call *c, CUresult result);
/* Returns the driver's code for an error of the runtime API. */
CUresult mt_driver_result(cudaError_t e);

/* context.c: returns CUDA_SUCCESS if a function with these needs may be called in this thread now. */
CUresult mt_context_check(enum mt_driver_needs needs);
/* Returns a context of the device, preferably the current one. */
CUcontext mt_context_on(int device);
/* memory.c: converts a copy to the runtime's terms. Widths and x positions become elements if an array takes
 * part. Returns CUDA_ERROR_INVALID_VALUE or CUDA_ERROR_INVALID_HANDLE on error. */
CUresult mt_driver_copy_params(struct cudaMemcpy3DParms *p, const CUDA_MEMCPY3D_v2 *c);

/* Reports that a program asks for NVIDIA's private tables. */
void mt_driver_asks(const void *caller);

/* Fills the log that a program asked for (CU_JIT_ERROR_LOG_BUFFER and the like); `why` may be NULL. */
void mt_driver_log(unsigned n, const CUjit_option *options, void **values, const char *why);

#define MT_POINTER(address) ((void *)(uintptr_t)(address))
#endif
