/* The control flow of a function: its blocks that can be reached, in an order in which lanes of a warp that
 * part and meet again go through them, and the edges between. */
#ifndef MT_PASS_FLOW_H
#define MT_PASS_FLOW_H
#include <llvm-c/Core.h>

struct mt_flow_edge {
    unsigned from, to; /* numbers of blocks */
};
struct mt_flow {
    /* A block comes after those that lead to it, back edges of loops apart, and after all blocks of a loop
     * that it is not in itself. */
    LLVMBasicBlockRef *block;
    unsigned n, nedges;
    struct mt_flow_edge *out, *in; /* all edges, by from and by to */
    unsigned *out_at, *in_at;      /* per block: its first edge; n + 1 entries */
    struct mt_flow_place *place;   /* blocks by address */
};

/* 0, or -1: no memory. mt_flow_free() in any case. */
int mt_flow_make(struct mt_flow *f, LLVMValueRef function);
void mt_flow_free(struct mt_flow *f);
/* The number of a block, or -1: it cannot be reached. */
int mt_flow_index(const struct mt_flow *f, LLVMBasicBlockRef block);
#endif
