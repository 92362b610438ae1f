/* Instructions that qemu cannot run: it gives the program SIGILL there,
 * without a word of which one it was. */
#ifndef MT_HOST_QEMU_REFUSED_H
#define MT_HOST_QEMU_REFUSED_H
#include <stdint.h>
#include "../core/core.h"

/* qemu has translated `size` bytes at `ip`, which are not a whole instruction. Says so, once, if it is one
 * for Zydis; the program is about to get there. */
void mt_refused_look(uint64_t ip, unsigned size, enum mt_core_mode mode);
#endif
