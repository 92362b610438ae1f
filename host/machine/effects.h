/* Which registers an instruction reads and writes: Zydis's operands, and what those of 4.0 lack. */
#ifndef MT_HOST_MACHINE_EFFECTS_H
#define MT_HOST_MACHINE_EFFECTS_H
#include <Zydis/Zydis.h>

enum { MT_EFFECT_READ = 1, MT_EFFECT_WRITE = 2 };

/* Calls f for each register, perhaps several times. What makes an address is read. Whether a register that is
 * written in part, or under a condition, keeps the rest of its value is not a read. */
void mt_effects(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o,
                void (*f)(void *arg, ZydisRegister r, unsigned effect), void *arg);
/* 1: names memory that it does not access. */
int mt_effects_untouched(const ZydisDecodedInstruction *i);
#endif
