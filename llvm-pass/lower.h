/* Turns an instrumented device module into an x86-64 module. */
#ifndef MT_PASS_LOWER_H
#define MT_PASS_LOWER_H
#include "lower/lowering.h"

/* One step: links the builtins in use, which become internal. (For tests.) */
void mt_lower_builtins(struct mt_lowering *l);

/* Takes all steps. vectors 1: warps become vectors where they can be. Returns 0, or -1 after a diagnostic. */
int mt_lower_device(struct mt_unit *u, LLVMModuleRef module, int vectors);
#endif
