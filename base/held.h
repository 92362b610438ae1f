/* A write that may fail raises a signal that would end the program: SIGPIPE, SIGXFSZ. It goes to the thread
 * that writes, so it is held back around the write, and swallowed when the write caused it. */
#ifndef MT_COMMON_HELD_H
#define MT_COMMON_HELD_H
#include <signal.h>

struct mt_held {
    int signo, pending;
    sigset_t old;
};
struct mt_held mt_hold(int signo);
/* `error`: the errno value of the write, or 0. errno stays. */
void mt_let_go(const struct mt_held *h, int error);
#endif
