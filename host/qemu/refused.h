/* Instructions that qemu cannot run: it raises SIGILL there without naming the instruction. */
#ifndef MT_HOST_QEMU_REFUSED_H
#define MT_HOST_QEMU_REFUSED_H
#include <stdint.h>
#include "../core/core.h"

/* Reports once that the `size` bytes translated at `ip` are an instruction that Zydis knows and qemu does
 * not; the program is about to reach it. */
void mt_refused_look(uint64_t ip, unsigned size, enum mt_core_mode mode);
#endif
