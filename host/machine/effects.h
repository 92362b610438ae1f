/* Registers that an instruction reads and writes: Zydis's operands, and those that version 4.0 lacks. */
#ifndef MT_HOST_MACHINE_EFFECTS_H
#define MT_HOST_MACHINE_EFFECTS_H
#include <Zydis/Zydis.h>

enum { MT_EFFECT_READ = 1, MT_EFFECT_WRITE = 2 };

/* Calls f for each register, perhaps several times. Registers of an address count as read. A register
 * written in part or conditionally does not count as read. */
void mt_effects(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o,
                void (*f)(void *arg, ZydisRegister r, unsigned effect), void *arg);
/* Returns 1 if the instruction names memory but does not access it. */
int mt_effects_untouched(const ZydisDecodedInstruction *i);
#endif
