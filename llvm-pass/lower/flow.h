/* The control flow of a function: its reachable blocks, in an order in which diverging lanes of a warp run
 * them until they meet again, and the edges between. */
#ifndef MT_PASS_FLOW_H
#define MT_PASS_FLOW_H
#include <llvm-c/Core.h>

struct mt_flow_edge {
    unsigned from, to; /* block numbers */
};
struct mt_flow {
    /* Blocks, each after its predecessors (except by back edges) and after all blocks of loops that it is
     * not in. */
    LLVMBasicBlockRef *block;
    unsigned n, nedges;
    struct mt_flow_edge *out, *in; /* all edges, sorted by from and by to */
    unsigned *out_at, *in_at;      /* index of each block's first edge; n + 1 entries */
    struct mt_flow_place *place;   /* blocks sorted by address */
};

/* Returns 0, or -1 without memory. mt_flow_free() must follow in any case. */
int mt_flow_make(struct mt_flow *f, LLVMValueRef function);
void mt_flow_free(struct mt_flow *f);
/* Returns the number of a block, or -1 if it is unreachable. */
int mt_flow_index(const struct mt_flow *f, LLVMBasicBlockRef block);
#endif
