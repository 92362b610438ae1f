/* What the patches are called with, and what must come of it. The patches themselves are compiled here, too.
 */
#include "host_warp.h"
#include "patch_calls.h"
#include "gpu/patch/patch.cu"

/* Flags that an access of memory can have: a load, a store, an atomic, one of the system, a prefetch, an
 * atomic whose result is not read. */
static const uint32_t flags_of[] = {1, 2, 3, 7, 8, 9, 0x102};
static const int type_of[] = {0, 1, 2, 2, -1, -1, 2};
#define FLAGS(a) ((a)->choice % 7)
#define WARPS(a) ((a)->choice % 2 ? ~0u : 0u) /* none: wgmma ends a group and reads nothing */
#define MATRICES(a) (1u << (a)->choice % 3)
#define BLOCKS(a) ((a)->choice + 1)
#define MULTICAST(a) ((a)->choice % 2 ? 0x9u : 0u)
#define KIND(a) ((a)->choice % 9) /* of what is done to an mbarrier: 0 and 8 are none that we know */
#define ADDRESS32(a) ((uint32_t)(a)->address & 0x3ffffff) /* rank 0 to 3 of a cluster */

int patch_is_uniform(enum patch_call call)
{
    return (call >= PATCH_CALL_fill && call <= PATCH_CALL_operands) ||
           (call >= PATCH_CALL_bulk_load && call <= PATCH_CALL_tensor);
}

void patch_settle(enum patch_call call, struct patch_arguments *a, unsigned lane)
{
    if (call == PATCH_CALL_copy) /* the same lanes read in one call: see patch_comes */
        a->address |= 1ull << 40;
    if (call >= PATCH_CALL_bulk_load && call <= PATCH_CALL_bulk_reduce)
        a->address |= 1ull << 40;
    (void)lane;
}

int patch_comes(enum patch_call call, const struct patch_arguments *a, unsigned lane)
{
    switch (call) {
    case PATCH_CALL_global:
    case PATCH_CALL_local:
    case PATCH_CALL_shared:
    case PATCH_CALL_cluster:
        return type_of[FLAGS(a)] >= 0;
    case PATCH_CALL_matrix:
        return type_of[FLAGS(a)] >= 0 && lane < 8 * MATRICES(a);
    case PATCH_CALL_operands:
        return WARPS(a) != 0;
    case PATCH_CALL_object:
        return KIND(a) >= 1 && KIND(a) <= 6;
    case PATCH_CALL_attempt:
        return KIND(a) >= 1 && KIND(a) <= 6 && (KIND(a) != 6 || (a)->over);
    default:
        return 1;
    }
}

static void one(struct patch_records *r, uint32_t type, uint32_t size, uint64_t address)
{
    r->meta[r->n] = type << 28 | size;
    r->address[r->n++] = address;
}

/* Of the CTA itself an offset, of another one its rank + 1 above it. */
static uint64_t in_cluster(uint32_t address, uint32_t own)
{
    uint32_t rank = address >> 24, offset = address & 0xffffff;
    return rank == own ? offset : ((uint64_t)rank + 1) << 32 | offset;
}

static void object(struct patch_records *r, const struct patch_arguments *a, uint32_t kind)
{
    if (kind == 1)
        one(r, 13, 8, (a->address & 0xfffff8) | 2);
    else
        one(r, kind == 6 ? 12 : 13, 1, 0xff);
}

struct patch_records patch_expected(enum patch_call call, const struct patch_arguments *a, unsigned lane,
                                    int lowest, int spaces, uint32_t own)
{
    struct patch_records r = {0};
    uint32_t type = type_of[FLAGS(a)] < 0 ? 0 : (uint32_t)type_of[FLAGS(a)], bytes = BLOCKS(a) * 16;
    (void)lane;
    switch (call) {
    case PATCH_CALL_global:
        one(&r, type, a->size, a->address);
        break;
    case PATCH_CALL_local:
        one(&r, 8 + type, a->size, a->address);
        break;
    case PATCH_CALL_shared:
        one(&r, 4 + type, a->size, a->address & 0xffffff);
        break;
    case PATCH_CALL_cluster:
        one(&r, 4 + type, a->size, in_cluster(ADDRESS32(a), own));
        break;
    case PATCH_CALL_matrix:
        one(&r, 4 + type, 16, ADDRESS32(a) & 0xffffff);
        break;
    case PATCH_CALL_async_store:
        one(&r, 5, 8, in_cluster(ADDRESS32(a), own));
        break;
    case PATCH_CALL_async_reduce:
        one(&r, 6, 4, in_cluster(ADDRESS32(a), own));
        break;
    case PATCH_CALL_fill:
        if (lowest)
            one(&r, 5, BLOCKS(a) * 8, ADDRESS32(a) & 0xffffff);
        break;
    case PATCH_CALL_operands: /* each warp reads some: nobody says what */
    case PATCH_CALL_tensor:
        r.untraced = lowest != 0;
        break;
    case PATCH_CALL_copy:
        one(&r, 0, 16, a->address);
        if (spaces)
            one(&r, 5, 16, ADDRESS32(a) & 0xffffff);
        break;
    case PATCH_CALL_bulk_load:
        if (!lowest)
            break;
        one(&r, 0, bytes, a->address);
        for (uint32_t rank = 0; rank < 16 && spaces; rank++)
            if (MULTICAST(a) >> rank & 1)
                one(&r, 5, bytes, in_cluster(rank << 24 | (ADDRESS32(a) & 0xffffff), own));
        if (spaces && !MULTICAST(a))
            one(&r, 5, bytes, in_cluster(ADDRESS32(a), own));
        break;
    case PATCH_CALL_bulk_store:
    case PATCH_CALL_bulk_reduce:
        if (lowest && spaces)
            one(&r, 4, bytes, in_cluster(ADDRESS32(a), own));
        if (lowest)
            one(&r, call == PATCH_CALL_bulk_store ? 1 : 2, bytes, a->address);
        break;
    case PATCH_CALL_bulk_move:
    case PATCH_CALL_bulk_add:
        if (!lowest)
            break;
        one(&r, 4, bytes, in_cluster(ADDRESS32(a), own));
        one(&r, call == PATCH_CALL_bulk_move ? 5 : 6, bytes, in_cluster(ADDRESS32(a) ^ 0x1000000, own));
        break;
    case PATCH_CALL_barrier:
        one(&r, 12, 1, a->choice % 16);
        break;
    case PATCH_CALL_warp:
        one(&r, 14, 4, (uint32_t)a->address);
        break;
    case PATCH_CALL_object:
    case PATCH_CALL_attempt:
        object(&r, a, KIND(a));
        break;
    case PATCH_CALL_copy_arrive:
    case PATCH_CALL_tensor_arrive:
        one(&r, 13, 1, 0xff);
        break;
    case PATCH_CALL_cluster_arrive:
        one(&r, 13, 1, 0xfe);
        break;
    case PATCH_CALL_cluster_wait:
        one(&r, 12, 1, 0xfe);
        break;
    default:
        break;
    }
    return r;
}

int patch_call(enum patch_call call, void *data, const struct patch_arguments *a)
{
    uint32_t flags = flags_of[FLAGS(a)];
    void *p = (void *)(uintptr_t)a->address;
    switch (call) {
    case PATCH_CALL_exit:
        return mt_patch_exit(data, a->pc);
    case PATCH_CALL_global:
        return mt_patch_global(data, a->pc, p, a->size, flags, 0);
    case PATCH_CALL_local:
        return mt_patch_local(data, a->pc, p, a->size, flags, 0);
    case PATCH_CALL_shared:
        return mt_patch_shared(data, a->pc, p, a->size, flags, 0);
    case PATCH_CALL_cluster:
        return mt_patch_cluster(data, a->pc, (void *)(uintptr_t)ADDRESS32(a), a->size, flags, 0);
    case PATCH_CALL_matrix:
        return mt_patch_matrix(data, a->pc, ADDRESS32(a), 16, flags, MATRICES(a));
    case PATCH_CALL_async_store:
        return mt_patch_async_store(data, a->pc, ADDRESS32(a), 0, 0, 8);
    case PATCH_CALL_async_reduce:
        return mt_patch_async_reduce(data, a->pc, ADDRESS32(a), 0, 4);
    case PATCH_CALL_fill:
        return mt_patch_fill(data, a->pc, ADDRESS32(a), BLOCKS(a));
    case PATCH_CALL_operands:
        return mt_patch_operands(data, a->pc, ADDRESS32(a), 1024, ADDRESS32(a), 2048, 1, WARPS(a));
    case PATCH_CALL_tensor:
        return mt_patch_tensor(data, a->pc);
    case PATCH_CALL_copy:
        return mt_patch_copy(data, a->pc, p, ADDRESS32(a), 16);
    case PATCH_CALL_bulk_load:
        return mt_patch_bulk_load(data, a->pc, a->address, ADDRESS32(a), 0, MULTICAST(a) << 16 | BLOCKS(a),
                                  MULTICAST(a) != 0);
    case PATCH_CALL_bulk_store:
        return mt_patch_bulk_store(data, a->pc, a->address, ADDRESS32(a), BLOCKS(a));
    case PATCH_CALL_bulk_reduce:
        return mt_patch_bulk_reduce(data, a->pc, a->address, ADDRESS32(a), BLOCKS(a));
    case PATCH_CALL_bulk_move:
        return mt_patch_bulk_move(data, a->pc, ADDRESS32(a), ADDRESS32(a) ^ 0x1000000, 0, BLOCKS(a));
    case PATCH_CALL_bulk_add:
        return mt_patch_bulk_add(data, a->pc, ADDRESS32(a), ADDRESS32(a) ^ 0x1000000, 0, BLOCKS(a));
    case PATCH_CALL_barrier:
        return mt_patch_barrier(data, a->pc, a->choice % 16, 0, 0);
    case PATCH_CALL_warp:
        return mt_patch_warp(data, a->pc, (uint32_t)a->address);
    case PATCH_CALL_object:
        return mt_patch_object(data, a->pc, p, KIND(a));
    case PATCH_CALL_attempt:
        return mt_patch_attempt(data, a->pc, p, KIND(a), 1, (a)->over);
    case PATCH_CALL_copy_arrive:
        return mt_patch_copy_arrive(data, a->pc, ADDRESS32(a));
    case PATCH_CALL_tensor_arrive:
        return mt_patch_tensor_arrive(data, a->pc, ADDRESS32(a));
    case PATCH_CALL_cluster_arrive:
        return mt_patch_cluster_arrive(data, a->pc);
    default:
        return mt_patch_cluster_wait(data, a->pc);
    }
}
