/* Threads that signals or cancellation take out of traced code at any moment, the tracer's included: main by
 * siglongjmp (jump), others by pthread_exit in a handler (exit) or an asynchronous pthread_cancel (cancel).
 * Prints how often that happened, and exits with it. `kill` writes for ever, `work` once; with `memory`, no
 * more is to be had. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TIMES = 20 };
static sigjmp_buf back;
static volatile long sum;
static volatile int cells[4096], own[TIMES][4096];

static void leaves_jump(int sig)
{
    siglongjmp(back, sig);
}

static void leaves_exit(int sig)
{
    (void)sig;
    pthread_exit(NULL);
}

__attribute__((noinline)) static long work(volatile int *cell, int n)
{
    long s = 0;
    for (int i = 0; i < n; i++) {
        cell[i & 4095] += i;
        s += cell[(i * 7) & 4095];
    }
    return s;
}

static void *leaves_write(void *mine)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;)
        sum += work(mine, 500);
    return NULL;
}

static int leaves_jumps(void)
{
    volatile int n = 0;
    signal(SIGALRM, leaves_jump);
    while (n < TIMES)
        if (!sigsetjmp(back, 1)) {
            ualarm(2000, 0);
            for (;;)
                sum += work(cells, 50);
        } else {
            n++;
        }
    return n;
}

static int leaves_threads(int cancels)
{
    int n = 0;
    signal(SIGUSR1, leaves_exit);
    while (n < TIMES) {
        pthread_t t;
        pthread_create(&t, NULL, leaves_write, (void *)(uintptr_t)own[n]);
        usleep(3000);
        if (cancels)
            pthread_cancel(t);
        else
            pthread_kill(t, SIGUSR1);
        pthread_join(t, NULL);
        n++;
    }
    return n;
}

/* No page more than there are now. */
static int leaves_memory(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld", &pages) != 1)
        return 1;
    fclose(f);
    struct rlimit l = {(rlim_t)pages * 4096, (rlim_t)pages * 4096};
    setrlimit(RLIMIT_AS, &l);
    for (int i = 0; i < 100; i++)
        sum += work(cells, 4096);
    return TIMES;
}

int main(int argc, char **argv)
{
    int n = 0;
    if (argc != 2)
        return 1;
    if (!strcmp(argv[1], "jump"))
        n = leaves_jumps();
    else if (!strcmp(argv[1], "memory"))
        n = leaves_memory();
    else if (!strcmp(argv[1], "work"))
        sum += work(cells, 4096);
    else if (!strcmp(argv[1], "kill"))
        for (;;)
            sum += work(cells, 4096);
    else
        n = leaves_threads(!strcmp(argv[1], "cancel"));
    printf("%d\n", n);
    return n;
}
