/* Code that is put into a block. All of it comes before the instruction of a step. */
#ifndef MT_HOST_DYNAMORIO_INSERT_H
#define MT_HOST_DYNAMORIO_INSERT_H
#include "plan.h"

void mt_insert_start_room(void);
void mt_insert_stop_room(void);
/* mat mode: the entries of a MT_STEP_APPEND. *window: the register that points into the buffer, kept from the
 * step that opens a window to the one that closes it; DR_REG_NULL before and after. */
void mt_insert_append(void *drcontext, instrlist_t *bb, const struct mt_step *s, reg_id_t *window);
/* mat mode: notes without code, of what a fault leaves: from here on, a signal finds
 * so many entries at and after cur; fewer than 0: so many before cur are of an instruction that did not end.
 */
void mt_insert_filled(void *drcontext, instrlist_t *bb, instr_t *where, int entries);
/* What the last note before `pc` says, an address in the copy of a block (or several) that begins at `start`.
 */
int mt_insert_filled_at(void *drcontext, instrlist_t *copy, const byte *start, const byte *pc);
/* So many accesses that are left out are counted. */
void mt_insert_left(void *drcontext, instrlist_t *bb, instr_t *where, unsigned count);
/* mat mode: a compare-and-swap, before it, and before the instruction that follows it (`where`). */
void mt_insert_swap(void *drcontext, instrlist_t *bb, const struct mt_step *s);
void mt_insert_swapped(void *drcontext, instrlist_t *bb, instr_t *where, const struct mt_insn *n);
/* A look at mt_client.slot, by which the thread may leave the cache (leave.c). */
void mt_insert_probe(void *drcontext, instrlist_t *bb, instr_t *where);
/* Looks after the thread's buffer, if somebody asked for it. */
void mt_insert_look(void *drcontext, instrlist_t *bb, instr_t *where);
/* block.c: a function of interest that is being entered comes back to `to`; the block there looks from now
 * on. The caller holds no lock: other threads are waited for that are about to execute new code. */
void mt_insert_return(app_pc to);
/* Reserves a register and puts the address of operand[i] into it; the caller gives it back (drreg). */
reg_id_t mt_insert_address(void *drcontext, instrlist_t *bb, const struct mt_step *s, unsigned i);
#endif
