/* Warps as vectors: a function's blocks while their order is being found (blocks.c, exits.c). */
#ifndef MT_PASS_VECTOR_ORDER_H
#define MT_PASS_VECTOR_ORDER_H
#include "vector.h"
#include "lower/loops.h"

struct vec_order {
    struct vec *v;
    LLVMBasicBlockRef *block; /* in the order of the function */
    uint32_t *loop, *parents;
    unsigned n, nloops;
    unsigned *rank;   /* of a depth-first search */
    unsigned *header; /* of each loop, from 1 */
    unsigned *in;     /* ways into a node that have not been placed: blocks, then loops (from n + 1) */
    unsigned nplaced;
    struct vec_order_place {
        LLVMBasicBlockRef block;
        unsigned at;
    } *place;
};

unsigned vec_order_index(const struct vec_order *o, LLVMBasicBlockRef block);
/* exits.c: what lanes do between leaving a loop and the place where all that leave it meet, they do in the
 * round in which they leave, as on a GPU: such blocks, and loops, are part of the loop. `next`: where all
 * ways from a block meet; `taken` has room for a mark for each block. */
void vec_take_exits(struct vec_order *o, const struct mt_loop_shape *shape, const LLVMBasicBlockRef *next,
                    unsigned char *taken);
#endif
