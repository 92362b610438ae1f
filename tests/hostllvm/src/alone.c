/* What ends and begins the time in which one thread is alone. usage: alone WHAT ROUNDS
 *   create, timer   each round a thread sets a flag for which main waits; timer: one that the C library makes
 *   signals         a handler that looks at main's counter
 *   faults          stores into a page that a handler opens, and ones that a handler leaves by siglongjmp
 *   fork            children that go on
 * Prints addresses and what the accesses saw. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 256 };

static volatile int flag[ROUNDS], answer[ROUNDS], counter;
static int rounds, seen[1 << 12];
static volatile sig_atomic_t ticks;
static char *page;
static sigjmp_buf back;
static volatile int may_open;

/* Some time without an access: a shorter trace. */
static void alone_pause(int n)
{
    for (int i = 0; i < n; i++)
        __builtin_ia32_pause();
}

static void *alone_thread(void *arg)
{
    int round = (int)(long)arg;
    flag[round] = 1;
    while (!answer[round])
        alone_pause(200);
    return NULL;
}

static void alone_expired(union sigval v)
{
    alone_thread((void *)(long)v.sival_int);
}

static void alone_start(int round, int timer)
{
    struct sigevent e = {
        .sigev_notify = SIGEV_THREAD, .sigev_notify_function = alone_expired, .sigev_value.sival_int = round};
    struct itimerspec soon = {{0, 0}, {0, 100000 + 1000 * round}};
    pthread_t thread;
    timer_t t;
    if (timer) {
        if (timer_create(CLOCK_MONOTONIC, &e, &t) || timer_settime(t, 0, &soon, NULL))
            exit(1);
    } else if (pthread_create(&thread, NULL, alone_thread, (void *)(long)round) || pthread_detach(thread)) {
        exit(1);
    }
}

/* Each line: how often main found the flag down. */
static void alone_flags(int timer)
{
    printf("%p %p\n", (void *)flag, (void *)answer);
    for (int i = 0; i < rounds; i++) {
        long down = 0;
        alone_start(i, timer);
        while (!flag[i]) {
            down++;
            alone_pause(20 + i);
        }
        answer[i] = 1;
        printf("%ld\n", down);
        if (i % 3 == 0)
            usleep(2000); /* the thread has ended: alone again */
    }
}

static void alone_tick(int sig)
{
    (void)sig;
    seen[ticks] = counter;
    ticks = ticks + 1;
}

static void alone_signals(void)
{
    struct sigaction a = {.sa_handler = alone_tick, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &a, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    while (ticks < rounds) {
        counter = counter + 1;
        alone_pause(10);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%p %d %d\n", (void *)&counter, (int)ticks, counter);
    for (int i = 0; i < ticks; i++)
        printf("%d\n", seen[i]);
}

static void alone_fault(int sig)
{
    (void)sig;
    ticks = ticks + 1;
    if (!may_open)
        siglongjmp(back, 1);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void alone_faults(void)
{
    struct sigaction a = {.sa_handler = alone_fault, .sa_flags = SA_NODEFER};
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &a, NULL);
    for (int i = 0; i < rounds; i++) {
        mprotect(page, 4096, PROT_NONE);
        may_open = i % 2;
        if (!sigsetjmp(back, 1))
            *(volatile char *)(page + i) = 1;
        counter = counter + 1;
    }
    printf("%p %p %p\n", (void *)page, (void *)&counter, (void *)&ticks);
}

static void alone_forks(void)
{
    int bad = 0, status;
    for (int i = 0; i < rounds; i++) {
        counter = counter + 1;
        pid_t child = fork();
        if (!child) {
            for (int k = 0; k < 1000; k++)
                counter = counter + 1;
            _exit(counter != i + 1001);
        }
        bad += waitpid(child, &status, 0) != child || status;
    }
    printf("%p %d\n", (void *)&counter, bad);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    rounds = argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(what, "create") || !strcmp(what, "timer"))
        alone_flags(*what == 't');
    else if (!strcmp(what, "signals"))
        alone_signals();
    else if (!strcmp(what, "faults"))
        alone_faults();
    else
        alone_forks();
    return 0;
}
