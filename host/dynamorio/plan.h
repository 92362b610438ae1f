/* What is inserted where in a block of code: decided before anything is inserted. */
#ifndef MT_HOST_DYNAMORIO_PLAN_H
#define MT_HOST_DYNAMORIO_PLAN_H
#include "client.h"

enum mt_plan_kind {
    MT_STEP_NONE,     /* touches no memory, or is not traced */
    MT_STEP_APPEND,   /* operands with addresses that are known before it: code appends them */
    MT_STEP_CALL,     /* such operands, but a function has to be called */
    MT_STEP_SWAP,     /* a compare-and-swap: its site is known after it */
    MT_STEP_ELEMENTS, /* masks or vectors of indices say what it touches */
    MT_STEP_LOST,     /* touches memory in a way that is not understood */
    MT_STEP_LEFT,     /* is left out, and counted where it is executed */
};

/* One instruction of the program in a block. The entries of steps that follow one another lie in a
 * window, one piece of the buffer. `open`: room is made before this one; `close`: the window is complete with
 * it. */
struct mt_step {
    instr_t *instr;
    const struct mt_insn *insn;
    enum mt_plan_kind kind;
    unsigned slot; /* of its first entry in the window */
    unsigned open : 1, close : 1, last : 1 /* of the block */;
    unsigned exec : 1; /* insn mode: an entry for the instruction itself comes first */
    uint32_t
        avoid; /* registers that the window's addresses need or its code changes: bit 0 rax … bit 15 r15 */
    opnd_t operand[MT_X86_OPERANDS];
    uint32_t size[MT_X86_OPERANDS]; /* 0: as the site says */
    uint8_t which[MT_X86_OPERANDS]; /* operand of insn that operand[i] is */
    unsigned count;
};

struct mt_plan {
    struct mt_step *step;
    unsigned count, room;
    enum mt_core_code code;
    unsigned left;  /* accesses of the block that are left out, to be counted at its begin */
    unsigned next;  /* the one that is inserted next */
    int repeated;   /* a rep instruction was made a loop here */
    unsigned begin; /* first step of the window */
    unsigned used;  /* entries of it */
    uint32_t avoid;
    uint32_t written; /* registers that the program changed since the window was opened */
};

/* Of all instructions of the program in the block. NULL without memory. */
struct mt_plan *mt_plan_make(void *drcontext, instrlist_t *bb, int repeated);
/* The step of this instruction, NULL if it has none; in order. */
const struct mt_step *mt_plan_step(struct mt_plan *p, const instr_t *instr);
void mt_plan_free(struct mt_plan *p);
#endif
