/* Warps as vectors: a function's blocks while they are being ordered (blocks.c, exits.c). */
#ifndef MT_PASS_VECTOR_ORDER_H
#define MT_PASS_VECTOR_ORDER_H
#include "vector.h"
#include "lower/loops.h"

struct vec_order {
    struct vec *v;
    LLVMBasicBlockRef *block; /* blocks in the function's order */
    uint32_t *loop, *parents;
    unsigned n, nloops;
    unsigned *rank;   /* number in a depth-first search */
    unsigned *header; /* header of each loop, from 1 */
    unsigned *in;     /* number of unplaced ways into a node: blocks, then loops (from n + 1) */
    unsigned nplaced;
    struct vec_order_place {
        LLVMBasicBlockRef block;
        unsigned at;
    } *place;
};

unsigned vec_order_index(const struct vec_order *o, LLVMBasicBlockRef block);
/* exits.c: makes blocks and loops part of a loop if they run between leaving it and the place where all
 * leaving lanes meet, so that lanes run them in the round in which they leave, as on a GPU. `next`: block
 * where all ways from a block meet; `taken` has room for a mark per block. */
void vec_take_exits(struct vec_order *o, const struct mt_loop_shape *shape, const LLVMBasicBlockRef *next,
                    unsigned char *taken);
#endif
