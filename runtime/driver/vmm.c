/* Virtual memory management of the driver API on the CPU device: an address range is reserved, a file without
 * a name holds the memory, and mapping puts one into the other. */
#define _GNU_SOURCE
#include "driver.h"
#include "api/device/device.h"
#include "trace/objects.h"
#include "trace/devices.h"
#include "base/fd.h"
#include "base/fork.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define VMM_GRANULARITY ((size_t)2 << 20)

struct vmm_memory {
    struct vmm_memory *next;
    size_t bytes;
    unsigned refs; /* handles and mappings */
    int fd;
    CUmemAllocationProp prop;
};
struct vmm_range {
    struct vmm_range *next;
    uint64_t base;
    size_t bytes;
    struct vmm_memory *memory; /* of mappings; NULL: a reservation */
    uint64_t readers;          /* bit: that device may touch it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_MODULES);
static struct vmm_memory *memories;
static struct vmm_range *reserved, *mapped;

static struct vmm_memory *vmm_memory_of(CUmemGenericAllocationHandle handle)
{
    struct vmm_memory *m = memories;
    while (m && m != MT_POINTER(handle))
        m = m->next;
    return m;
}

static void vmm_drop(struct vmm_memory *m)
{
    if (--m->refs)
        return;
    struct vmm_memory **at = &memories;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    close(m->fd);
    free(m);
}

/* The range of the list that holds [p, p + bytes), at *at. */
static struct vmm_range *vmm_within(struct vmm_range *list, uint64_t p, size_t bytes)
{
    for (; list; list = list->next)
        if (p >= list->base && bytes <= list->bytes && p - list->base <= list->bytes - bytes)
            return list;
    return NULL;
}

static struct vmm_range *vmm_meets(struct vmm_range *list, uint64_t p, size_t bytes)
{
    for (; list; list = list->next)
        if (p < list->base + list->bytes && list->base < p + bytes)
            return list;
    return NULL;
}

static CUresult vmm_add(struct vmm_range **list, uint64_t base, size_t bytes, struct vmm_memory *memory)
{
    struct vmm_range *r = malloc(sizeof *r);
    if (!r)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *r = (struct vmm_range){*list, base, bytes, memory, 0};
    *list = r;
    return CUDA_SUCCESS;
}

CUresult drv_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                           CUmemAllocationGranularity_flags option)
{
    if (!granularity || !prop)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = VMM_GRANULARITY;
    return CUDA_SUCCESS;
}

/* ---- addresses ---- */

CUresult drv_cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wanted,
                                 unsigned long long flags)
{
    size_t align = alignment > VMM_GRANULARITY ? alignment : VMM_GRANULARITY;
    if (!out || !bytes || bytes % VMM_GRANULARITY || (alignment & (alignment - 1)) || bytes + align < bytes ||
        flags)
        return CUDA_ERROR_INVALID_VALUE;
    char *at = mmap(MT_POINTER(wanted), bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *base = (char *)(((uintptr_t)at + align - 1) / align * align);
    if (base > at)
        munmap(at, (size_t)(base - at));
    munmap(base + bytes, (size_t)(at + align - base));
    pthread_mutex_lock(&lock);
    CUresult e = vmm_add(&reserved, (uintptr_t)base, bytes, NULL);
    pthread_mutex_unlock(&lock);
    if (e)
        munmap(base, bytes);
    else
        *out = (CUdeviceptr)(uintptr_t)base;
    return e;
}

CUresult drv_cuMemAddressFree(CUdeviceptr p, size_t bytes)
{
    CUresult e = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (struct vmm_range **at = &reserved; *at; at = &(*at)->next)
        if ((*at)->base == p && (*at)->bytes == bytes && !vmm_meets(mapped, p, bytes)) {
            struct vmm_range *r = *at;
            *at = r->next;
            free(r);
            munmap(MT_POINTER(p), bytes);
            e = CUDA_SUCCESS;
            break;
        }
    pthread_mutex_unlock(&lock);
    return e;
}

/* ---- memory ---- */

CUresult drv_cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                         unsigned long long flags)
{
    if (!out || !prop || !bytes || bytes % VMM_GRANULARITY || flags ||
        prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !mt_device_there(prop->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    struct vmm_memory *m = calloc(1, sizeof *m);
    int fd = m ? memfd_create("memtrace-device-memory", MFD_CLOEXEC) : -1;
    if (fd < 0 || bytes > mt_device_memory() || ftruncate(fd, (off_t)bytes)) {
        if (fd >= 0)
            close(fd);
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *m = (struct vmm_memory){NULL, bytes, 1, fd, *prop};
    pthread_mutex_lock(&lock);
    m->next = memories;
    memories = m;
    pthread_mutex_unlock(&lock);
    *out = (CUmemGenericAllocationHandle)(uintptr_t)m;
    return CUDA_SUCCESS;
}

CUresult drv_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    pthread_mutex_lock(&lock);
    struct vmm_memory *m = vmm_memory_of(handle);
    if (m)
        vmm_drop(m);
    pthread_mutex_unlock(&lock);
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *p)
{
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct vmm_range *r = vmm_within(mapped, (uintptr_t)p, 1);
    if (r) {
        r->memory->refs++;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)r->memory;
    }
    pthread_mutex_unlock(&lock);
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                    CUmemGenericAllocationHandle handle)
{
    pthread_mutex_lock(&lock);
    struct vmm_memory *m = prop ? vmm_memory_of(handle) : NULL;
    if (m)
        *prop = m->prop;
    pthread_mutex_unlock(&lock);
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- one in the other ---- */

static int vmm_device(const struct vmm_memory *m)
{
    return m->prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? m->prop.location.id : 0;
}

CUresult drv_cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags)
{
    CUresult e = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct vmm_memory *m = vmm_memory_of(handle);
    if (m && bytes && !(p % VMM_GRANULARITY) && !(bytes % VMM_GRANULARITY) && !(offset % VMM_GRANULARITY) &&
        bytes <= m->bytes && offset <= m->bytes - bytes && vmm_within(reserved, p, bytes) &&
        !vmm_meets(mapped, p, bytes)) {
        e = vmm_add(&mapped, p, bytes, m);
        if (!e && mmap(MT_POINTER(p), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, m->fd, (off_t)offset) ==
                      MAP_FAILED) {
            struct vmm_range *r = mapped;
            mapped = r->next;
            free(r);
            e = CUDA_ERROR_OUT_OF_MEMORY;
        }
        m->refs += !e;
    }
    pthread_mutex_unlock(&lock);
    if (!e && !mt_heap_adopt(vmm_device(m), MT_POINTER(p), bytes, MT_HEAP_DEVICE, 0))
        mt_heap_identify(MT_POINTER(p),
                         mt_object_add(MT_POINTER(p), bytes, "cudaMalloc", vmm_device(m), NULL));
    return e;
}

/* What all of `access` say. CUDA_SUCCESS, or an error. */
static CUresult vmm_read(const CUmemAccessDesc *access, size_t n, int *most, uint64_t *with,
                         uint64_t *without)
{
    *most = 0;
    *with = *without = 0;
    for (size_t i = 0; i < n; i++) {
        int device = access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE ? access[i].location.id : 0;
        if (!mt_device_there(device))
            return CUDA_ERROR_INVALID_DEVICE;
        *(access[i].flags ? with : without) |= 1ull << device;
        *most |= (int)access[i].flags;
    }
    return CUDA_SUCCESS;
}

CUresult drv_cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    int flags = 0;
    uint64_t with, without, at = p;
    CUresult e = access && n ? vmm_read(access, n, &flags, &with, &without) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    while (!e && at < p + bytes) {
        struct vmm_range *r = vmm_within(mapped, at, 1);
        at = r ? r->base + r->bytes : at;
        e = r ? e : CUDA_ERROR_INVALID_VALUE;
        if (!r)
            break;
        r->readers = (r->readers | with) & ~without;
        flags = !flags && r->readers ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : flags;
        if (mt_devices() > 1)
            mt_heap_open(MT_POINTER(r->base), r->readers);
    }
    int protection = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                     : flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                 : PROT_NONE;
    if (!e && mprotect(MT_POINTER(p), bytes, protection))
        e = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&lock);
    return e;
}

CUresult drv_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr p)
{
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct vmm_range *r = vmm_within(mapped, p, 1);
    pthread_mutex_unlock(&lock);
    int other = r && mt_devices() > 1 && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
                (location->id < 0 || location->id >= MT_DEVICES_MAX || !(r->readers >> location->id & 1));
    *flags = other ? CU_MEM_ACCESS_FLAGS_PROT_NONE : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuMemUnmap(CUdeviceptr p, size_t bytes)
{
    CUresult e = mt_driver_result(cudaDeviceSynchronize()), found = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (struct vmm_range **at = &mapped; *at && !e;) {
        struct vmm_range *r = *at;
        if (r->base < p || r->base - p + r->bytes > bytes) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        mt_object_done(mt_object_take(MT_POINTER(r->base)),
                       mt_heap_free(MT_POINTER(r->base), 1u << MT_HEAP_DEVICE));
        mmap(MT_POINTER(r->base), r->bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        vmm_drop(r->memory);
        free(r);
        found = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return e ? e : found;
}
