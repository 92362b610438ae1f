/* Launches by the driver API on a GPU: of functions that are known with a version with record calls
 * (traced.c) that one runs. Others run as they are, and are counted: a trace that lacks them is not complete.
 */
#include "launch.h"
#include "api/device.h"
#include "api/launch.h"
#include "api/module.h"
#include "api/plain.h"
#include "api/stream.h"
#include "base/fork.h"
#include <pthread.h>
#include <stdlib.h>

#define REAL(name) ((__typeof__(&name))mt_driver_real(MT_D_##name))

/* Of all functions that come out of the driver. */
static struct mt_module counted_module = {
    .why = "it was loaded by the driver API, and only the CPU device traces such",
    .ended = 1,
    .loaded = 1,
    .tried = 1,
    .lazy.made = 1,
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_MODULES);

/* What is known of a function: its name. Several threads may come with a new one. */
void mt_driver_know(CUfunction f)
{
    const char *name = NULL;
    if (mt_function_find(f))
        return;
#if CUDA_VERSION >= 12030
    if (REAL(cuFuncGetName) && REAL(cuFuncGetName)(&name, f))
        name = NULL;
#endif
    pthread_mutex_lock(&lock);
    if (!mt_function_find(f))
        __cudaRegisterFunction((void **)&counted_module, (const char *)f, NULL,
                               name ? name : "a kernel of the driver API", -1, NULL, NULL, NULL, NULL, NULL);
    pthread_mutex_unlock(&lock);
}

/* The driver's streams come to be known by what is launched in them. */
void mt_driver_know_stream(CUstream stream)
{
    if (!mt_stream_get((cudaStream_t)stream))
        mt_stream_add((cudaStream_t)stream, cudaStreamNonBlocking, 0);
}

struct counted_call {
    CUresult (*launch)(const struct counted_call *c);
    CUfunction f;
    const struct mt_launch_config *config;
    const CUlaunchConfig *whole;
    void **params, **extra;
    CUresult result;
};

static cudaError_t counted_run(void *call, const void *version, void **args)
{
    struct counted_call *c = call, with = *c;
    struct mt_function *f = mt_function_find(version);
    if (f && f->has_traced && version == mt_traced_of(f)) {
        with.f = f->of_driver;
        with.params = args; /* with the context after the last one */
        with.extra = NULL;
    }
    c->result = with.launch(&with);
    return (cudaError_t)c->result; /* the numbers are the same */
}

static CUresult counted_launch(struct counted_call *c)
{
    struct mt_driver_arguments a;
    mt_driver_know(c->f);
    mt_driver_know_stream((CUstream)c->config->stream);
    if (mt_driver_arguments(&a, c->f, c->params, c->extra))
        c->result = c->launch(c); /* says what is wrong */
    else
        mt_launch_traced(c->f, c->config, a.args, counted_run, c);
    free(a.made);
    return c->result;
}

static CUresult counted_plain(const struct counted_call *c)
{
    const struct mt_launch_config *l = c->config;
    return REAL(cuLaunchKernel)(c->f, l->grid.x, l->grid.y, l->grid.z, l->block.x, l->block.y, l->block.z,
                                (unsigned)l->shared, (CUstream)l->stream, c->params, c->extra);
}

CUresult GPU(cuLaunchKernel)(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    struct mt_launch_config l = {{gx, gy, gz}, {bx, by, bz}, shared, (cudaStream_t)stream, 0, {0}};
    struct counted_call c = {.launch = counted_plain, .f = f, .config = &l, .params = params, .extra = extra};
    return counted_launch(&c);
}

static CUresult counted_together(const struct counted_call *c)
{
    const struct mt_launch_config *l = c->config;
    return REAL(cuLaunchCooperativeKernel)(c->f, l->grid.x, l->grid.y, l->grid.z, l->block.x, l->block.y,
                                           l->block.z, (unsigned)l->shared, (CUstream)l->stream, c->params);
}

CUresult GPU(cuLaunchCooperativeKernel)(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                        unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                        void **params)
{
    struct mt_launch_config l = {{gx, gy, gz}, {bx, by, bz}, shared, (cudaStream_t)stream, 1, {0}};
    struct counted_call c = {.launch = counted_together, .f = f, .config = &l, .params = params};
    return counted_launch(&c);
}

#if CUDA_VERSION >= 11080
static CUresult counted_whole(const struct counted_call *c)
{
    return REAL(cuLaunchKernelEx)(c->whole, c->f, c->params, c->extra);
}

CUresult GPU(cuLaunchKernelEx)(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    if (!config)
        return REAL(cuLaunchKernelEx)(config, f, params, extra);
    struct mt_launch_config l = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                                 config->sharedMemBytes,
                                 (cudaStream_t)config->hStream,
                                 0,
                                 {0}};
    mt_launch_attributes(&l, (cudaLaunchAttribute *)(void *)config->attrs, config->numAttrs);
    struct counted_call c = {
        .launch = counted_whole, .f = f, .config = &l, .whole = config, .params = params, .extra = extra};
    return counted_launch(&c);
}
#endif
