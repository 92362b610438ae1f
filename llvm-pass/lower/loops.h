/* The loops of a function as a warp runs them. */
#ifndef MT_PASS_LOOPS_H
#define MT_PASS_LOOPS_H
#include "lower.h"

struct mt_shape_block {
    LLVMBasicBlockRef block;
    unsigned loop;    /* the innermost one, counted from 1; 0: none */
    unsigned inside;  /* the same, but for ways out of loops: as the control flow has it */
    unsigned written; /* the how manieth of the function it is */
};
struct mt_shape_loop {
    unsigned parent;  /* the loop around it, counted from 1; 0: none */
    unsigned around;  /* the same, but for ways out of loops */
    unsigned header;  /* block */
    unsigned meeting; /* block at which the lanes that leave it meet, of those that stay in the loop around
                         it; nblocks: none before that one's next iteration, or before they end */
};
/* Blocks that control can come to, each after those that it is reached from, back edges apart. What a lane
 * does on its way out of a loop, while others go on in it, belongs to the loop: the block of a break, before
 * the ways meet again. */
struct mt_loop_shape {
    struct mt_shape_block *block;
    struct mt_shape_loop *loop; /* loop[i] has number i + 1 */
    unsigned nblocks, nloops;
    struct shape_name *name; /* loops.c's */
};
/* 0, or -1: no memory. */
int mt_shape_of(struct mt_loop_shape *s, LLVMValueRef function);
void mt_shape_free(struct mt_loop_shape *s);
/* The block's number; nblocks: control cannot come there. */
unsigned mt_shape_number(const struct mt_loop_shape *s, LLVMBasicBlockRef block);
/* Marks the blocks that lanes which leave loop l come to before they meet; 0, or -1: no memory. */
int mt_shape_ways_out(struct mt_loop_shape *s, unsigned l, unsigned char *mark);
/* ways.c. Each way into the code between a loop and the place where the lanes that leave it meet gets code of
 * its own, if there are accesses in it: so lanes that come there by different branches stay apart, as on a
 * GPU. Where there is too much of it, or lanes wait for one another in it, they do not, and the traced
 * kernels that come to the function are `parted`. of: the function, or the one that it is a copy of. kernel:
 * parameters are the same in all lanes. */
void mt_ways_apart(struct mt_lowering *l, LLVMValueRef function, LLVMValueRef of, int kernel);
/* Is the block in loop l, or 0, as the control flow has it? */
int mt_shape_within(const struct mt_loop_shape *s, unsigned block, unsigned l);
#endif
