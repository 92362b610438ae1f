/* What inc.c and cas.c share: one counter, N threads that start together, a report. Traced functions (-f
 * inc_functions.txt) tell a simulator all it needs: share_start the counter's address, share_thread which of
 * our threads this is, share_finish the final value. */
#ifndef SHARE_H
#define SHARE_H
#include <stdint.h>

struct share_thread {
    uint64_t number, count, even, fails, stop;
};
/* One increment of the counter; returns its value before. */
typedef uint64_t share_increment(volatile uint64_t *counter, struct share_thread *t);

/* main of both programs: PROGRAM THREADS TOTAL. Prints "thread N<TAB>count<TAB>even[<TAB>fails]". */
int share_main(int argc, char **argv, share_increment *increment, int with_fails);
#endif
