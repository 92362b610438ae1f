/* Memory operations of streams on the CPU device: a stream writes a word, or waits for one to have a value. A
 * wait is a host function: it may last, and takes no worker of the device. */
#include "driver.h"
#include "api/copy/copy.h"
#include "api/device/device.h"
#include "trace/site.h"
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define LONGEST_NS 1000000

struct memory_op {
    void *at;
    uint64_t value;
    unsigned bytes; /* 4 or 8 */
    unsigned flags;
    int write, kept; /* kept: a graph may come to it again */
    CUstream stream;
    const struct mt_host_site *site;
};

static void memory_write(void *ctx)
{
    struct memory_op *m = ctx;
    if (m->bytes == 4)
        __atomic_store_n((uint32_t *)m->at, (uint32_t)m->value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint64_t *)m->at, m->value, __ATOMIC_SEQ_CST);
    mt_fill_note(&(struct mt_fill){m->at, m->bytes, m->bytes, m->bytes, 1, 1, (int)m->value, 1},
                 mt_stream_number((cudaStream_t)m->stream), m->site);
    if (!m->kept)
        free(m);
}

static int memory_has(const struct memory_op *m)
{
    int narrow = m->bytes == 4;
    uint64_t now = narrow ? __atomic_load_n((uint32_t *)m->at, __ATOMIC_SEQ_CST)
                          : __atomic_load_n((uint64_t *)m->at, __ATOMIC_SEQ_CST);
    uint64_t mask = narrow ? UINT32_MAX : UINT64_MAX, ahead = (now - m->value) & mask;
    switch (m->flags) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* of numbers that wrap around */
        return ahead <= mask >> 1;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == m->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & m->value) != 0;
    default:
        return (~(now | m->value) & mask) != 0;
    }
}

static void memory_wait(void *ctx)
{
    struct memory_op *m = ctx;
    struct timespec moment = {.tv_nsec = 1000};
    while (!memory_has(m)) {
        nanosleep(&moment, NULL);
        moment.tv_nsec = moment.tv_nsec * 2 < LONGEST_NS ? moment.tv_nsec * 2 : LONGEST_NS;
    }
    if (!m->kept)
        free(m);
}

static CUresult memory_start(CUstream stream, CUdeviceptr p, uint64_t value, unsigned bytes, unsigned flags,
                             int write)
{
    struct mt_block b;
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (!write && flags & CU_STREAM_WAIT_VALUE_FLUSH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (flags > (write ? 1u : 3u) || p % bytes || !mt_heap_find(MT_POINTER(p), &b))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult e = mt_driver_result(cudaStreamIsCapturing((cudaStream_t)stream, &capture));
    struct memory_op *m = e ? NULL : malloc(sizeof *m);
    if (!m)
        return e ? e : CUDA_ERROR_OUT_OF_MEMORY;
    *m = (struct memory_op){.at = MT_POINTER(p),
                            .value = value,
                            .bytes = bytes,
                            .flags = flags,
                            .write = write,
                            .kept = capture == cudaStreamCaptureStatusActive,
                            .stream = stream,
                            .site = mt_host_site_take()};
    e = mt_driver_result(cudaLaunchHostFunc((cudaStream_t)stream, write ? memory_write : memory_wait, m));
    if (e)
        free(m);
    return e;
}

#define VALUE(bits, write, wait)                                                                             \
    CUresult write(CUstream s, CUdeviceptr p, cuuint##bits##_t value, unsigned flags)                        \
    {                                                                                                        \
        return memory_start(s, p, value, (bits) / 8, flags, 1);                                              \
    }                                                                                                        \
    CUresult wait(CUstream s, CUdeviceptr p, cuuint##bits##_t value, unsigned flags)                         \
    {                                                                                                        \
        return memory_start(s, p, value, (bits) / 8, flags, 0);                                              \
    }
VALUE(32, drv_cuStreamWriteValue32, drv_cuStreamWaitValue32)
VALUE(64, drv_cuStreamWriteValue64, drv_cuStreamWaitValue64)
VALUE(32, drv_cuStreamWriteValue32_v2, drv_cuStreamWaitValue32_v2)
VALUE(64, drv_cuStreamWriteValue64_v2, drv_cuStreamWaitValue64_v2)

static CUresult memory_batched(CUstream s, const CUstreamBatchMemOpParams *p)
{
    switch ((int)p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return memory_start(s, p->waitValue.address, p->waitValue.value, 4, p->waitValue.flags, 0);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return memory_start(s, p->waitValue.address, p->waitValue.value64, 8, p->waitValue.flags, 0);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return memory_start(s, p->writeValue.address, p->writeValue.value, 4, p->writeValue.flags, 1);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return memory_start(s, p->writeValue.address, p->writeValue.value64, 8, p->writeValue.flags, 1);
    case 6: /* CU_STREAM_MEM_OP_BARRIER: they are in order anyway */
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult drv_cuStreamBatchMemOp_v2(CUstream s, unsigned n, CUstreamBatchMemOpParams *p, unsigned flags)
{
    CUresult e = flags || (n && !p) || n > 256 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (unsigned i = 0; i < n && !e; i++)
        e = memory_batched(s, &p[i]);
    return e;
}

CUresult drv_cuStreamBatchMemOp(CUstream s, unsigned n, CUstreamBatchMemOpParams *p, unsigned flags)
{
    return drv_cuStreamBatchMemOp_v2(s, n, p, flags);
}
