/* What the patches are called with, and what must come of it, written from the document of NVIDIA's API and
 * docs/trace-format.md: one row per patch in patch_calls.c. */
#ifndef MT_TEST_PATCH_CALLS_H
#define MT_TEST_PATCH_CALLS_H
#include <stdint.h>

enum patch_call {
    PATCH_CALL_exit,
    PATCH_CALL_global,
    PATCH_CALL_local,
    PATCH_CALL_shared,
    PATCH_CALL_cluster,
    PATCH_CALL_matrix,
    PATCH_CALL_async_store,
    PATCH_CALL_async_reduce,
    PATCH_CALL_fill,
    PATCH_CALL_operands,
    PATCH_CALL_copy,
    PATCH_CALL_bulk_load,
    PATCH_CALL_bulk_store,
    PATCH_CALL_bulk_reduce,
    PATCH_CALL_bulk_move,
    PATCH_CALL_bulk_add,
    PATCH_CALL_tensor,
    PATCH_CALL_barrier,
    PATCH_CALL_warp,
    PATCH_CALL_object,
    PATCH_CALL_attempt,
    PATCH_CALL_copy_arrive,
    PATCH_CALL_tensor_arrive,
    PATCH_CALL_cluster_arrive,
    PATCH_CALL_cluster_wait,
    PATCH_CALLS
};
struct patch_arguments {
    uint64_t pc, address;
    uint32_t size, choice; /* choice: what else an instruction may vary, each in its own way */
    uint32_t over;         /* a wait that is tried: it was over */
};
/* Of a lane: records in this order, and accesses without a record. */
struct patch_records {
    unsigned n, untraced;
    uint32_t meta[20];
    uint64_t address[20];
};
/* Gives the arguments the form that the instruction can have. */
void patch_settle(enum patch_call call, struct patch_arguments *a, unsigned lane);
/* All active lanes have the same ones. */
int patch_is_uniform(enum patch_call call);
/* Does a lane with these come to record something? */
int patch_comes(enum patch_call call, const struct patch_arguments *a, unsigned lane);
struct patch_records patch_expected(enum patch_call call, const struct patch_arguments *a, unsigned lane,
                                    int lowest, int spaces, uint32_t cluster_rank);
/* Calls the patch; its result. */
int patch_call(enum patch_call call, void *data, const struct patch_arguments *a);
#endif
