/* Preloaded: says on standard error which timers a program sets, in milliseconds, and makes them
 * MT_TIMER_FACTOR times as long, so that no test depends on how fast the machine is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static void timer_say(long ms)
{
    char line[64];
    int n = snprintf(line, sizeof line, "timer: %ld ms\n", ms);
    if (getenv("MT_TIMER_SAY") && write(2, line, (size_t)n) < 0)
        _exit(99);
}

static struct timeval timer_longer(struct timeval t)
{
    const char *factor = getenv("MT_TIMER_FACTOR");
    long ms = (t.tv_sec * 1000 + t.tv_usec / 1000) * (factor ? atol(factor) : 1);
    return (struct timeval){ms / 1000, ms % 1000 * 1000};
}

__attribute__((visibility("default"))) int setitimer(__itimer_which_t which, const struct itimerval *new,
                                                     struct itimerval *old)
{
    int (*next)(__itimer_which_t, const struct itimerval *, struct itimerval *) =
        (int (*)(__itimer_which_t, const struct itimerval *, struct itimerval *))dlsym(RTLD_NEXT,
                                                                                       "setitimer");
    struct itimerval longer = {timer_longer(new->it_interval), timer_longer(new->it_value)};
    timer_say(new->it_value.tv_sec * 1000 + new->it_value.tv_usec / 1000);
    return next(which, &longer, old);
}

__attribute__((visibility("default"))) unsigned alarm(unsigned seconds)
{
    unsigned (*next)(unsigned) = (unsigned (*)(unsigned))dlsym(RTLD_NEXT, "alarm");
    timer_say(seconds * 1000L);
    return next((unsigned)timer_longer((struct timeval){.tv_sec = (long)seconds}).tv_sec);
}
