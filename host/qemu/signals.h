/* --signal: SIGUSR1 turns tracing on, SIGUSR2 off. Also the end of a program killed by a signal. */
#ifndef MT_HOST_QEMU_SIGNALS_H
#define MT_HOST_QEMU_SIGNALS_H
#include <stdint.h>

/* Called once at the first translation, after qemu has set its own handlers. `switching`: --signal was
 * given; `death` is called before a signal ends the process. */
void mt_signals_start(int switching, void (*death)(void));
/* Takes note of a signal handler set by the guest (0: default, 1: ignore, else an address); ours stays in
 * front. */
void mt_signals_changed(int signal, uint64_t handler);
#endif
