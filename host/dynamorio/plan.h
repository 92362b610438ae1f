/* The plan of insertions into a block of code, made before any insertion. */
#ifndef MT_HOST_DYNAMORIO_PLAN_H
#define MT_HOST_DYNAMORIO_PLAN_H
#include "client.h"

enum mt_plan_kind {
    MT_STEP_NONE,     /* touches no memory, or is not traced */
    MT_STEP_APPEND,   /* operands with addresses known before it: inserted code appends them */
    MT_STEP_CALL,     /* such operands, but by a function call */
    MT_STEP_SWAP,     /* compare-and-swap: its site is known after it */
    MT_STEP_ELEMENTS, /* masks or index vectors determine what it touches */
    MT_STEP_LOST,     /* touches memory in an unknown way */
    MT_STEP_LEFT,     /* left out, and counted when it executes */
};

/* One instruction of the program in a block. The entries of consecutive steps lie in a window, one piece
 * of the buffer. `open`: room is made before this step; `close`: the window is complete after it. */
struct mt_step {
    instr_t *instr;
    const struct mt_insn *insn;
    enum mt_plan_kind kind;
    unsigned slot; /* position of its first entry in the window */
    unsigned open : 1, close : 1, last : 1 /* last step of the block */;
    unsigned exec : 1; /* insn mode: an entry for the instruction itself comes first */
    uint32_t
        avoid; /* registers that the window's addresses need or its code changes: bit 0 rax … bit 15 r15 */
    opnd_t operand[MT_X86_OPERANDS];
    uint32_t size[MT_X86_OPERANDS]; /* 0: the site's size */
    uint8_t which[MT_X86_OPERANDS]; /* index in insn of operand[i] */
    unsigned count;
};

struct mt_plan {
    struct mt_step *step;
    unsigned count, room;
    enum mt_core_code code;
    unsigned left;  /* accesses of the block that are left out, counted at its start */
    unsigned next;  /* step to insert next */
    int repeated;   /* 1: a rep instruction was made a loop here */
    unsigned begin; /* first step of the window */
    unsigned used;  /* number of its entries */
    uint32_t avoid;
    uint32_t written; /* registers that the program changed since the window was opened */
};

/* Plans all instructions of the program in the block. Returns NULL without memory. */
struct mt_plan *mt_plan_make(void *drcontext, instrlist_t *bb, int repeated);
/* Returns the step of this instruction, or NULL; called in order. */
const struct mt_step *mt_plan_step(struct mt_plan *p, const instr_t *instr);
void mt_plan_free(struct mt_plan *p);
#endif
