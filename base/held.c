/* Holds back SIGPIPE and SIGXFSZ, which a failed write raises and which would end the program. */
#include "held.h"
#include <errno.h>
#include <pthread.h>
#include <time.h>

struct mt_held mt_hold(int signo)
{
    struct mt_held h = {.signo = signo};
    sigset_t mine, pending;
    sigemptyset(&mine);
    sigaddset(&mine, signo);
    sigpending(&pending);
    h.pending = sigismember(&pending, signo) == 1;
    pthread_sigmask(SIG_BLOCK, &mine, &h.old);
    return h;
}

void mt_let_go(const struct mt_held *h, int error)
{
    int saved = errno;
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, h->signo);
    if ((error == EPIPE || error == EFBIG) && !h->pending)
        while (sigtimedwait(&mine, NULL, &(struct timespec){0, 0}) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &h->old, NULL);
    errno = saved;
}
