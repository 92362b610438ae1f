/* Signals of a failed write: SIGPIPE and SIGXFSZ would end the program. They go to the writing thread, so
 * they are blocked around the write, and discarded if the write raised them. */
#ifndef MT_COMMON_HELD_H
#define MT_COMMON_HELD_H
#include <signal.h>

struct mt_held {
    int signo, pending;
    sigset_t old;
};
struct mt_held mt_hold(int signo);
/* Ends mt_hold. `error` is the errno value of the write, or 0. errno is unchanged. */
void mt_let_go(const struct mt_held *h, int error);
#endif
