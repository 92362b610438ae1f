/* A timer's handler stores into its own array all the time while main fills another:
 * nothing of either may be missing. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

static volatile int mine[1 << 16];
static volatile int yours[4096];
static volatile sig_atomic_t ticks;

static void signals_tick(int sig)
{
    (void)sig;
    int at = ticks;
    for (int i = 0; i < 4; i++)
        yours[(at * 4 + i) & 4095] = at;
    ticks = at + 1;
}

int main(void)
{
    struct sigaction a = {.sa_handler = signals_tick, .sa_flags = SA_RESTART}, old;
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &a, &old);
    sigaction(SIGALRM, NULL, &old);
    setitimer(ITIMER_REAL, &every, NULL);
    for (unsigned round = 1; ticks < 40; round++)
        for (int i = 0; i < 1 << 16; i++) {
            unsigned x = round;
            for (int k = 0; k < 64; k++) /* some time without an access: a shorter trace */
                x = x * 1664525u + (x >> 7);
            mine[i] = (int)x;
        }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%p %p %d %d\n", (void *)mine, (void *)yours, (int)ticks, old.sa_handler == signals_tick);
    return 0;
}
