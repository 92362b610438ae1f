/* The loops of a function as a warp runs them. */
#ifndef MT_PASS_LOOPS_H
#define MT_PASS_LOOPS_H

#include "lowering.h"

struct mt_shape_block {
    LLVMBasicBlockRef block;
    unsigned loop;    /* innermost loop, counted from 1; 0: none */
    unsigned inside;  /* innermost loop by control flow alone: ways out of a loop do not count as its
                       * blocks */
    unsigned written; /* position in the function */
};

struct mt_shape_loop {
    unsigned parent;  /* enclosing loop, counted from 1; 0: none */
    unsigned around;  /* enclosing loop by control flow alone (see `inside`) */
    unsigned header;  /* header block */
    unsigned meeting; /* block where the leaving lanes that stay in the enclosing loop meet; nblocks: none
                       * before the next iteration of that loop, or before they end */
};

/* Reachable blocks, each after its predecessors (except by back edges). The code of a lane on its way out
 * of a loop, while others go on in it, belongs to the loop: for example the block of a break, before the
 * ways meet again. */
struct mt_loop_shape {
    struct mt_shape_block *block;
    struct mt_shape_loop *loop; /* loop[i] has number i + 1 */
    unsigned nblocks, nloops;
    struct shape_name *name; /* private to loops.c */
};

/* Returns 0, or -1 without memory. */
int mt_shape_of(struct mt_loop_shape *s, LLVMValueRef function);

void mt_shape_free(struct mt_loop_shape *s);

/* Copies the code between a loop and the meeting place of its leaving lanes, one copy per way into
 * it, if it has accesses: lanes that come by different branches stay apart, as on a GPU. If that is too
 * much code, or lanes wait for one another in it, no copy is made, and the traced kernels that call the
 * function are marked `parted`. of: the function, or the one it is a copy of. kernel: 1 if parameters are
 * the same in all lanes. */
void mt_ways_apart(struct mt_lowering *l, LLVMValueRef function, LLVMValueRef of, int kernel);

#endif
