/* --signal: SIGUSR1 turns tracing on, SIGUSR2 off; and the end of a program that a signal kills. */
#ifndef MT_HOST_QEMU_SIGNALS_H
#define MT_HOST_QEMU_SIGNALS_H
#include <stdint.h>

/* Once, after qemu has set its own handlers: at the first translation. `switching`: --signal was given;
 * `death` is called before a signal ends the process. */
void mt_signals_start(int switching, void (*death)(void));
/* The guest has set the handler of a signal (0: default, 1: ignore, else an address): ours stays in front. */
void mt_signals_changed(int signal, uint64_t handler);
#endif
