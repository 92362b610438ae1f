/* Functions that a GPU runs before the traced instructions of a program: NVIDIA's API calls them for the
 * lanes that are about to run an instruction, with the launch's context as `data` (NULL: the launch is not
 * traced; MT_CONTEXT_IN_PARTS as in a hidden parameter). patch.def assigns them to instructions.
 *
 * They always return success (else the warp would be ended), use no shared memory and no stack, and name
 * only parameters that all versions of the API have. Tests compile the file for the host. */
#ifdef __CUDACC__
#include "format/cta_rule.h"
#include "device/warp.h"
#else
#include "format/cta_rule.h" /* a replacement for warp.h was included before */
#endif
#include "device/write.h"
#include "gpu/patch/polls.h"
#include "device/tally.h"

#ifdef __CUDACC__
#define PATCH_OUTER extern "C" __device__ __noinline__ int
#define PATCH_INNER static __device__ __noinline__ int
#define PATCH_INLINE static __device__ __forceinline__
#else
#define PATCH_OUTER int
#define PATCH_INNER static int
#define PATCH_INLINE static inline
#endif
enum { PATCH_OK = 0 }; /* value of SANITIZER_PATCH_SUCCESS */
/* Defines a patch whose first parameter is `data`. A function saves registers when it begins, those that its
 * longest path needs. So launches that are not traced, and those where polls are counted, have their own. */
#define PATCH(name, parameters, arguments)                                                                   \
    PATCH_INLINE int name##_body parameters;                                                                 \
    PATCH_INNER name##_traced parameters                                                                     \
    {                                                                                                        \
        data = (void *)((uint64_t)data & ~(uint64_t)MT_CONTEXT_POLLS);                                       \
        return name##_body arguments;                                                                        \
    }                                                                                                        \
    PATCH_INNER name##_polled parameters                                                                     \
    {                                                                                                        \
        data = (void *)((uint64_t)data | MT_CONTEXT_POLLS);                                                  \
        return name##_body arguments;                                                                        \
    }                                                                                                        \
    PATCH_OUTER name parameters                                                                              \
    {                                                                                                        \
        return !data                               ? (int)PATCH_OK                                           \
               : (uint64_t)data & MT_CONTEXT_POLLS ? name##_polled arguments                                 \
                                                   : name##_traced arguments;                                \
    }                                                                                                        \
    PATCH_INLINE int name##_body parameters

/* Bits of an access's flags: SANITIZER_MEMORY_DEVICE_FLAG_READ, _WRITE, _PREFETCH, _ATOMIC_WRITE_ONLY (an
 * atomic with an unused result, which versions before 13.4 call a read and a write). */
enum { PATCH_READ = 1, PATCH_WRITE = 2, PATCH_PREFETCH = 8, PATCH_ATOMIC = 256 };
/* Sanitizer_CudaBarrierInstructionKind: operation on an mbarrier. */
enum { PATCH_INIT = 1, PATCH_ARRIVE = 2, PATCH_LAST_ARRIVE = 5, PATCH_WAIT = 6 };

/* ---- context and lanes of a record --------------------------------------------------------------- */

PATCH_INLINE struct mt_gpu_context *patch_whole(void *data)
{
    return (struct mt_gpu_context *)((uint64_t)data & ~MT_CONTEXT_FLAGS);
}

/* Returns NULL if nothing is to be recorded. */
PATCH_INLINE struct mt_gpu_context *patch_context(void *data)
{
    struct mt_gpu_context *c = patch_whole(data);
    if ((uint64_t)data & MT_CONTEXT_IN_PARTS) {
        const uint32_t at[3] = {mt_cta_x(), mt_cta_y(), mt_cta_z()};
        uint64_t linear = at[0] + (uint64_t)mt_grid_x() * (at[1] + (uint64_t)mt_grid_y() * at[2]);
        if (!mt_cta_is_traced((const struct mt_cta_rule *)c->ctas, linear, at))
            c = 0;
    }
    return c;
}

PATCH_INLINE uint32_t patch_site(const struct mt_gpu_context *c, uint64_t pc)
{
    return mt_packet_site_of(pc, c->code);
}

/* Returns the active lanes at this instruction: lanes at several ones may run a patch together. An
 * instruction has one size and kind, so comparing its address is enough. */
PATCH_INLINE uint32_t patch_lanes(uint64_t pc)
{
    return write_lanes_at((uint32_t)(pc / 16));
}

/* For an access made once for all active lanes, with equal parameters. */
PATCH_INLINE int patch_is_first(uint32_t mask)
{
    return mt_lane() == mt_lowest(mask);
}

/* ---- accesses ------------------------------------------------------------------------------------ */

/* Returns -1 if it is no access. */
PATCH_INLINE int patch_type(uint32_t flags)
{
    uint32_t both = flags & (PATCH_READ | PATCH_WRITE);
    return !both || flags & PATCH_PREFETCH ? -1
           : flags & PATCH_ATOMIC          ? MT_ATOMIC
           : both == PATCH_READ            ? MT_LOAD
           : both == PATCH_WRITE           ? MT_STORE
                                           : MT_ATOMIC;
}

/* Writes an access, or counts it as a repeat if `keeps`: it may be one of a thread that waits. Of launches
 * whose kernel may wait. */
PATCH_INNER patch_polled(struct mt_gpu_context *c, uint32_t mask, uint64_t address, uint32_t meta,
                         uint32_t site, int keeps)
{
    const struct write_ring r = write_ring_of(c);
    const struct write_shape s = write_shape_of(mask, address, meta & MT_RAW_MAX_SIZE);
    const struct write_head h = write_head_of(&r, mask, site, s.kind, meta >> 28, s.x, s.y);
    int repeats = 0;
    if (patch_is_first(mask)) {
        if (keeps && write_kind(&h) == MT_PACKET_REGULAR)
            repeats = poll_repeats(c, &r, &h);
        else
            poll_over(c, &r, mask, 0);
    }
    if (!mt_shuffle_half(mask, (uint32_t)repeats, mt_lowest(mask)))
        write_whole(&r, &h, s.value);
    return PATCH_OK;
}

/* Records the last repeat of an access by these lanes, which do something else now, or end. */
PATCH_INNER patch_over(struct mt_gpu_context *c, uint32_t mask, int ends)
{
    const struct write_ring r = write_ring_of(c);
    if (patch_is_first(mask))
        poll_over(c, &r, mask, ends);
    mt_meet(mask); /* no lane goes on before */
    return PATCH_OK;
}

PATCH_INLINE int patch_polls(const void *data)
{
    return ((uint64_t)data & MT_CONTEXT_POLLS) != 0;
}

PATCH_INLINE void patch_write(void *data, uint64_t pc, uint64_t address, uint32_t meta, int keeps)
{
    struct mt_gpu_context *c = patch_whole(data);
    if (patch_polls(data))
        patch_polled(c, patch_lanes(pc), address, meta, patch_site(c, pc), keeps);
    else
        mt_write_access(c, patch_lanes(pc), address, meta, patch_site(c, pc));
}

PATCH_INLINE int patch_access(void *data, uint64_t pc, uint64_t address, uint32_t size, uint32_t flags,
                              enum mt_access_space space)
{
    struct mt_gpu_context *c = patch_context(data);
    int type = patch_type(flags);
    if (c && type >= 0)
        patch_write(data, pc, address, mt_rec_meta(mt_rec_type_in((uint32_t)type, space), size),
                    type != MT_STORE && !(flags & PATCH_ATOMIC));
    return PATCH_OK;
}

/* Records an access of an instruction with a known type. */
PATCH_INLINE void patch_record(void *data, uint64_t pc, uint64_t address, uint32_t size, uint32_t type)
{
    patch_write(data, pc, address, mt_rec_meta(type, size), 0);
}

/* Records one block of `bytes`, made by the lowest lane. Rare, and so one function for all. */
PATCH_INNER patch_block_of(struct mt_gpu_context *c, uint32_t mask, uint64_t address, uint64_t bytes,
                           uint32_t type, uint32_t site)
{
    if (bytes && patch_is_first(mask))
        mt_write_block(c, mask & (0 - mask), address, bytes, type, site);
    return PATCH_OK;
}

PATCH_INLINE void patch_block(void *data, uint64_t pc, uint64_t address, uint64_t bytes, uint32_t type)
{
    struct mt_gpu_context *c = patch_whole(data);
    uint32_t mask = patch_lanes(pc);
    if (patch_polls(data))
        patch_over(c, mask, 0);
    patch_block_of(c, mask, address, bytes, type, patch_site(c, pc));
}

/* Counts one access without a record, made by all lanes together. */
PATCH_INLINE void patch_note(struct mt_gpu_context *c, uint64_t pc)
{
    if (patch_is_first(patch_lanes(pc)))
        mt_count(&c->untraced, 1);
}

PATCH(mt_patch_global,
      (void *data, uint64_t pc, void *address, uint32_t size, uint32_t flags, const void *value),
      (data, pc, address, size, flags, value))
{
    (void)value;
    return patch_access(data, pc, (uint64_t)address, size, flags, MT_IN_GLOBAL);
}

PATCH(mt_patch_local,
      (void *data, uint64_t pc, void *address, uint32_t size, uint32_t flags, const void *value),
      (data, pc, address, size, flags, value))
{
    (void)value;
    return patch_access(data, pc, (uint64_t)address, size, flags, MT_IN_LOCAL);
}

/* ---- shared memory ------------------------------------------------------------------------------- */

/* Returns the address as in traces: an offset in the CTA's own shared memory, or in that of another CTA of
 * the cluster, with its rank + 1 in the upper half. The hardware has the rank in the bits above a 24-bit
 * offset. */
PATCH_INLINE uint64_t patch_cluster_address(uint32_t address)
{
    uint32_t rank = address >> 24, offset = address & 0xffffff;
    return rank == mt_cluster_rank() ? offset : (uint64_t)(rank + 1) << 32 | offset;
}

PATCH_INLINE uint32_t patch_shared_type(uint32_t type)
{
    return mt_rec_type_in(type, MT_IN_SHARED);
}

PATCH(mt_patch_shared,
      (void *data, uint64_t pc, void *address, uint32_t size, uint32_t flags, const void *value),
      (data, pc, address, size, flags, value))
{
    (void)value;
    return patch_access(data, pc, (uint64_t)address & 0xffffff, size, flags, MT_IN_SHARED);
}

PATCH(mt_patch_cluster,
      (void *data, uint64_t pc, void *address, uint32_t size, uint32_t flags, const void *value),
      (data, pc, address, size, flags, value))
{
    (void)value;
    return patch_access(data, pc, patch_cluster_address((uint32_t)(uint64_t)address), size, flags,
                        MT_IN_SHARED);
}

/* Each lane accesses a row of 16 bytes of a matrix: eight lanes for each of `count` matrices. */
PATCH(mt_patch_matrix,
      (void *data, uint64_t pc, uint32_t address, uint32_t size, uint32_t flags, uint32_t count),
      (data, pc, address, size, flags, count))
{
    return mt_lane() < 8 * count ? patch_access(data, pc, address & 0xffffff, size, flags, MT_IN_SHARED)
                                 : (int)PATCH_OK;
}

PATCH(mt_patch_async_store,
      (void *data, uint64_t pc, uint32_t address, uint32_t barrier, void *value, uint32_t size),
      (data, pc, address, barrier, value, size))
{
    (void)barrier, (void)value;
    return patch_access(data, pc, patch_cluster_address(address), size, PATCH_WRITE, MT_IN_SHARED);
}

PATCH(mt_patch_async_reduce, (void *data, uint64_t pc, uint32_t address, uint32_t barrier, uint32_t size),
      (data, pc, address, barrier, size))
{
    (void)barrier;
    return patch_access(data, pc, patch_cluster_address(address), size,
                        PATCH_READ | PATCH_WRITE | PATCH_ATOMIC, MT_IN_SHARED);
}

PATCH(mt_patch_fill, (void *data, uint64_t pc, uint32_t to, uint32_t words), (data, pc, to, words))
{
    struct mt_gpu_context *c = patch_context(data);
    if (c)
        patch_block(data, pc, to & 0xffffff, 8ull * words, patch_shared_type(MT_STORE));
    return PATCH_OK;
}

/* Operands read by tensor cores from shared memory; the lanes that read them are unknown. `warps` is 0 if the
 * instruction only ends a group. */
PATCH(mt_patch_operands,
      (void *data, uint64_t pc, uint32_t a, uint32_t a_bytes, uint32_t b, uint32_t b_bytes, uint32_t flags,
       uint32_t warps),
      (data, pc, a, a_bytes, b, b_bytes, flags, warps))
{
    struct mt_gpu_context *c = patch_context(data);
    (void)a, (void)a_bytes, (void)b, (void)b_bytes, (void)flags;
    if (c && warps)
        patch_note(c, pc);
    return PATCH_OK;
}

/* ---- copies -------------------------------------------------------------------------------------- */

/* cp.async; `from` is NULL if nothing is read and zeros are written. */
PATCH(mt_patch_copy, (void *data, uint64_t pc, void *from, uint32_t to, uint32_t size),
      (data, pc, from, to, size))
{
    struct mt_gpu_context *c = patch_context(data);
    if (c && from)
        patch_record(data, pc, (uint64_t)from, size, MT_LOAD);
    if (c && c->spaces)
        patch_record(data, pc, to & 0xffffff, size, patch_shared_type(MT_STORE));
    return PATCH_OK;
}

/* To shared memory of this CTA, or of each CTA of the cluster with a bit in `size`'s upper half. */
PATCH(mt_patch_bulk_load,
      (void *data, uint64_t pc, uint64_t from, uint32_t to, uint32_t barrier, uint32_t size,
       uint32_t multicast),
      (data, pc, from, to, barrier, size, multicast))
{
    struct mt_gpu_context *c = patch_context(data);
    uint32_t bytes = (size & 0xffff) * 16, ctas = multicast ? size >> 16 : 1;
    (void)barrier;
    if (c)
        patch_block(data, pc, from, bytes, MT_LOAD);
    for (uint32_t rank = 0; c && c->spaces && ctas >> rank; rank++)
        if (ctas >> rank & 1)
            patch_block(data, pc, patch_cluster_address(multicast ? rank << 24 | (to & 0xffffff) : to), bytes,
                        patch_shared_type(MT_STORE));
    return PATCH_OK;
}

/* From shared memory: a store to, or an atomic on, global memory. */
PATCH_INLINE int patch_bulk_out(void *data, uint64_t pc, uint64_t to, uint32_t from, uint32_t blocks,
                                uint32_t type)
{
    struct mt_gpu_context *c = patch_context(data);
    uint32_t bytes = (blocks & 0xffff) * 16;
    if (c && c->spaces)
        patch_block(data, pc, patch_cluster_address(from), bytes, patch_shared_type(MT_LOAD));
    if (c)
        patch_block(data, pc, to, bytes, type);
    return PATCH_OK;
}

PATCH(mt_patch_bulk_store, (void *data, uint64_t pc, uint64_t to, uint32_t from, uint32_t blocks),
      (data, pc, to, from, blocks))
{
    return patch_bulk_out(data, pc, to, from, blocks, MT_STORE);
}

PATCH(mt_patch_bulk_reduce, (void *data, uint64_t pc, uint64_t to, uint32_t from, uint32_t blocks),
      (data, pc, to, from, blocks))
{
    return patch_bulk_out(data, pc, to, from, blocks, MT_ATOMIC);
}

/* Between CTAs of a cluster. */
PATCH_INLINE int patch_bulk_across(void *data, uint64_t pc, uint32_t from, uint32_t to, uint32_t blocks,
                                   uint32_t type)
{
    struct mt_gpu_context *c = patch_context(data);
    uint32_t bytes = (blocks & 0xffff) * 16;
    if (!c)
        return PATCH_OK;
    patch_block(data, pc, patch_cluster_address(from), bytes, patch_shared_type(MT_LOAD));
    patch_block(data, pc, patch_cluster_address(to), bytes, patch_shared_type(type));
    return PATCH_OK;
}

PATCH(mt_patch_bulk_move,
      (void *data, uint64_t pc, uint32_t from, uint32_t to, uint32_t barrier, uint32_t blocks),
      (data, pc, from, to, barrier, blocks))
{
    (void)barrier;
    return patch_bulk_across(data, pc, from, to, blocks, MT_STORE);
}

PATCH(mt_patch_bulk_add,
      (void *data, uint64_t pc, uint32_t from, uint32_t to, uint32_t barrier, uint32_t blocks),
      (data, pc, from, to, barrier, blocks))
{
    (void)barrier;
    return patch_bulk_across(data, pc, from, to, blocks, MT_ATOMIC);
}

/* A box of a tensor, whose bytes only the tensor map tells. */
PATCH(mt_patch_tensor, (void *data, uint64_t pc), (data, pc))
{
    struct mt_gpu_context *c = patch_context(data);
    if (c)
        patch_note(c, pc);
    return PATCH_OK;
}

/* ---- barriers ------------------------------------------------------------------------------------ */

PATCH_INLINE int patch_sync(void *data, uint64_t pc, enum mt_access_sync kind, uint32_t size, uint64_t what)
{
    struct mt_gpu_context *c = patch_context(data);
    if (c)
        patch_record(data, pc, what, size, kind);
    return PATCH_OK;
}

PATCH(mt_patch_barrier, (void *data, uint64_t pc, uint32_t number, uint32_t threads, uint32_t flags),
      (data, pc, number, threads, flags))
{
    (void)threads, (void)flags;
    return patch_sync(data, pc, MT_SYNC_BARRIER, MT_SYNC_OF_NUMBER, number);
}

PATCH(mt_patch_warp, (void *data, uint64_t pc, uint32_t mask), (data, pc, mask))
{
    return patch_sync(data, pc, MT_SYNC_WARP, MT_SYNC_OF_LANES, mask);
}

PATCH(mt_patch_cluster_arrive, (void *data, uint64_t pc), (data, pc))
{
    return patch_sync(data, pc, MT_SYNC_ARRIVE, MT_SYNC_OF_NUMBER, MT_BARRIER_CLUSTER);
}

PATCH(mt_patch_cluster_wait, (void *data, uint64_t pc), (data, pc))
{
    return patch_sync(data, pc, MT_SYNC_BARRIER, MT_SYNC_OF_NUMBER, MT_BARRIER_CLUSTER);
}

/* An operation on an mbarrier, whose address is a pointer, or an offset in shared memory, in the lower bits.
 * The phase of arrivals and waits is unknown. */
PATCH_INLINE int patch_object(void *data, uint64_t pc, uint64_t object, uint32_t kind)
{
    if (kind == PATCH_INIT)
        return patch_sync(data, pc, MT_SYNC_ARRIVE, MT_SYNC_OF_OBJECT,
                          (object & 0xfffff8) | MT_MBARRIER_INIT);
    return kind < PATCH_ARRIVE || kind > PATCH_WAIT
               ? (int)PATCH_OK
               : patch_sync(data, pc, kind == PATCH_WAIT ? MT_SYNC_BARRIER : MT_SYNC_ARRIVE,
                            MT_SYNC_OF_NUMBER, MT_BARRIER_UNKNOWN);
}

PATCH(mt_patch_object, (void *data, uint64_t pc, void *object, uint32_t kind), (data, pc, object, kind))
{
    return patch_object(data, pc, (uint64_t)object, kind);
}

/* A wait that may have to be retried: only the successful one counts. */
PATCH(mt_patch_attempt, (void *data, uint64_t pc, void *object, uint32_t kind, uint32_t count, uint32_t over),
      (data, pc, object, kind, count, over))
{
    (void)count;
    return kind == PATCH_WAIT && !over ? (int)PATCH_OK : patch_object(data, pc, (uint64_t)object, kind);
}

/* cp.async.mbarrier.arrive, tcgen05.commit. */
PATCH(mt_patch_copy_arrive, (void *data, uint64_t pc, uint32_t object), (data, pc, object))
{
    return patch_object(data, pc, object, PATCH_ARRIVE);
}

PATCH(mt_patch_tensor_arrive, (void *data, uint64_t pc, uint32_t object), (data, pc, object))
{
    return patch_object(data, pc, object, PATCH_ARRIVE);
}

/* ---- totals in place of records: NAME_total for the patches of global memory ------------------------- */

/* Counts an access of an instruction with a known type. */
PATCH_INLINE void patch_total(struct mt_gpu_context *c, uint64_t pc, uint64_t address, uint32_t size,
                              uint32_t type)
{
    mt_tally_access(c, patch_lanes(pc), address, mt_rec_meta(type, size), pc);
}

PATCH_INLINE int patch_total_block(void *data, uint64_t pc, uint64_t address, uint32_t blocks, uint32_t type)
{
    struct mt_gpu_context *c = patch_context(data);
    uint64_t bytes = (blocks & 0xffff) * 16;
    if (c && bytes && patch_is_first(patch_lanes(pc)))
        mt_tally_block(c, address, bytes, type, pc);
    return PATCH_OK;
}

PATCH(mt_patch_global_total,
      (void *data, uint64_t pc, void *address, uint32_t size, uint32_t flags, const void *value),
      (data, pc, address, size, flags, value))
{
    struct mt_gpu_context *c = patch_context(data);
    int type = patch_type(flags);
    (void)value;
    if (c && type >= 0)
        patch_total(c, pc, (uint64_t)address, size, (uint32_t)type);
    return PATCH_OK;
}

PATCH(mt_patch_copy_total, (void *data, uint64_t pc, void *from, uint32_t to, uint32_t size),
      (data, pc, from, to, size))
{
    struct mt_gpu_context *c = patch_context(data);
    (void)to;
    if (c && from)
        patch_total(c, pc, (uint64_t)from, size, MT_LOAD);
    return PATCH_OK;
}

PATCH(mt_patch_bulk_load_total,
      (void *data, uint64_t pc, uint64_t from, uint32_t to, uint32_t barrier, uint32_t blocks,
       uint32_t multicast),
      (data, pc, from, to, barrier, blocks, multicast))
{
    (void)to, (void)barrier, (void)multicast;
    return patch_total_block(data, pc, from, blocks, MT_LOAD);
}

PATCH(mt_patch_bulk_store_total, (void *data, uint64_t pc, uint64_t to, uint32_t from, uint32_t blocks),
      (data, pc, to, from, blocks))
{
    (void)from;
    return patch_total_block(data, pc, to, blocks, MT_STORE);
}

PATCH(mt_patch_bulk_reduce_total, (void *data, uint64_t pc, uint64_t to, uint32_t from, uint32_t blocks),
      (data, pc, to, from, blocks))
{
    (void)from;
    return patch_total_block(data, pc, to, blocks, MT_ATOMIC);
}

/* ---- ends ---------------------------------------------------------------------------------------- */

/* The last of the launch: all that its threads have counted is before this. */
PATCH_INNER patch_ended(struct mt_gpu_context *c)
{
    mt_store(&c->exits, 0); /* for the next launch that gets this context */
    mt_fence();
    mt_write_exit(c);
    return PATCH_OK;
}

/* Called in every CTA, traced or not: a launch has ended when all of its threads have. Lanes that end at
 * different places may count together. */
PATCH(mt_patch_exit, (void *data, uint64_t pc), (data, pc))
{
    struct mt_gpu_context *c = patch_whole(data);
    uint32_t mask = mt_active();
    (void)pc;
    if (patch_polls(data))
        patch_over(c, mask, 1);
    if (!((uint64_t)data & MT_CONTEXT_EXITS))
        return PATCH_OK;
    mt_meet(mask);
    if (patch_is_first(mask)) {
        uint64_t all = mt_threads(), before = mt_atomic_add_last(&c->exits, mt_bits(mask));
        if (before < all && before + mt_bits(mask) >= all)
            patch_ended(c);
    }
    return PATCH_OK;
}
