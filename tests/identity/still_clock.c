/* Preloaded: clocks stand still, so that two runs of a program leave the same bytes in a trace. */
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){.tv_sec = 1700000000};
    return 0;
}

time_t time(time_t *t)
{
    if (t)
        *t = 1700000000;
    return 1700000000;
}
