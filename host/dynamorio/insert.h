/* Insertion of code into a block, always before the instruction of a step. */
#ifndef MT_HOST_DYNAMORIO_INSERT_H
#define MT_HOST_DYNAMORIO_INSERT_H
#include "plan.h"

void mt_insert_start_room(void);
void mt_insert_stop_room(void);
/* mat mode: inserts the entries of a MT_STEP_APPEND. *window is the register that points into the buffer,
 * kept from the step that opens a window to the one that closes it; DR_REG_NULL outside. */
void mt_insert_append(void *drcontext, instrlist_t *bb, const struct mt_step *s, reg_id_t *window);
/* mat mode: inserts notes (no code) for faults. From here on, a signal finds `entries` entries at and after
 * cur; a negative number counts entries before cur of an instruction that did not end. */
void mt_insert_filled(void *drcontext, instrlist_t *bb, instr_t *where, int entries);
/* Returns the value of the last note before `pc`, an address in the copy of one or several blocks that
 * begins at `start`. */
int mt_insert_filled_at(void *drcontext, instrlist_t *copy, const byte *start, const byte *pc);
/* Inserts code that counts accesses left out. */
void mt_insert_left(void *drcontext, instrlist_t *bb, instr_t *where, unsigned count);
/* mat mode: inserts code before a compare-and-swap, and before the instruction after it (`where`). */
void mt_insert_swap(void *drcontext, instrlist_t *bb, const struct mt_step *s);
void mt_insert_swapped(void *drcontext, instrlist_t *bb, instr_t *where, const struct mt_insn *n);
/* Inserts a probe of mt_client.slot, by which the thread may leave the cache (leave.c). */
void mt_insert_probe(void *drcontext, instrlist_t *bb, instr_t *where);
/* Inserts a check of the thread's buffer, if it was requested. */
void mt_insert_look(void *drcontext, instrlist_t *bb, instr_t *where);
/* block.c: a function of interest that is being entered returns to `to`; the block there checks from now
 * on. The caller holds no lock, since this waits for threads that are about to execute new code. */
void mt_insert_return(app_pc to);
/* Reserves a register and puts the address of operand[i] into it; the caller frees it (drreg). */
reg_id_t mt_insert_address(void *drcontext, instrlist_t *bb, const struct mt_step *s, unsigned i);
#endif
