/* Threads and processes that begin and end in all ways while they are traced. Each thread makes an exact
 * number of atomic additions to a cell of its own; the program prints "cell ADDRESS NAME COUNT" for each.
 * usage: lives many N | exits | cancel | fork | exec PROGRAM | signal | killed NUMBER */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ADDS = 1000, CELLS = 256, SPACING = 8 };
static long *cells; /* a cell is SPACING longs: one address lock each */
static volatile sig_atomic_t alarms;

static void lives_add(int cell, int times)
{
    for (int i = 0; i < times; i++)
        __atomic_fetch_add(&cells[cell * SPACING], 1, __ATOMIC_SEQ_CST);
}

static void lives_tell(int cell, const char *name, long count)
{
    printf("cell %lu %s %ld\n", (unsigned long)(uintptr_t)&cells[cell * SPACING], name, count);
}

static void *lives_plain(void *arg)
{
    lives_add((int)(size_t)arg, ADDS);
    return NULL;
}
static void *lives_exits(void *arg)
{
    lives_add((int)(size_t)arg, ADDS);
    pthread_exit(NULL);
}
static void *lives_leaves(void *arg) /* without a word to the C library */
{
    lives_add((int)(size_t)arg, ADDS);
    syscall(SYS_exit, 0);
    return NULL;
}
static void *lives_waits(void *arg)
{
    lives_add((int)(size_t)arg, ADDS);
    for (;;)
        pause();
    return NULL;
}

static void lives_run(void *(*body)(void *), int first, int n)
{
    pthread_t t[CELLS];
    for (int i = 0; i < n; i++)
        if (pthread_create(&t[i], NULL, body, (void *)(size_t)(first + i)) != 0)
            exit(3);
    for (int i = 0; i < n; i++)
        pthread_join(t[i], NULL);
}

static int lives_many(int n)
{
    for (int begun = 0; begun < n; begun += 64) /* 64 at once */
        lives_run(lives_plain, begun % CELLS, n - begun < 64 ? n - begun : 64);
    for (int i = 0; i < n && i < CELLS; i++)
        lives_tell(i, "thread", cells[i * SPACING]);
    return 0;
}

static void begin_waiting(pthread_t *t, int cell)
{
    pthread_create(t, NULL, lives_waits, (void *)(size_t)cell);
    while (__atomic_load_n(&cells[cell * SPACING], __ATOMIC_SEQ_CST) < ADDS)
        usleep(1000);
}

static int lives_ends(void)
{
    pthread_t waiting;
    lives_run(lives_exits, 0, 4);
    lives_run(lives_leaves, 4, 2); /* pthread_join works: the kernel clears the thread's id */
    begin_waiting(&waiting, 6);    /* lives until the process ends */
    for (int i = 0; i < 7; i++)
        lives_tell(i, "thread", ADDS);
    return 0;
}

static int lives_cancels(void)
{
    pthread_t cancelled;
    begin_waiting(&cancelled, 0);
    pthread_cancel(cancelled);
    pthread_join(cancelled, NULL);
    lives_tell(0, "thread", ADDS);
    return 0;
}

static int lives_forks(void)
{
    pthread_t other;
    pthread_create(&other, NULL, lives_waits, (void *)1);
    for (int i = 0; i < 5; i++) {
        lives_add(0, ADDS / 5);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            lives_add(2, ADDS); /* not in the trace: a child's memory is its own */
            _exit(cells[2 * SPACING] == ADDS ? 7 : 8);
        }
        int status;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
            return 4;
    }
    while (__atomic_load_n(&cells[1 * SPACING], __ATOMIC_SEQ_CST) < ADDS)
        usleep(1000);
    if (system("exit 5") != 5 << 8) /* a child that execs */
        return 5;
    lives_add(0, ADDS);
    lives_tell(0, "parent", 2 * ADDS);
    lives_tell(1, "thread", ADDS);
    lives_tell(2, "child", 0);
    return 0;
}

static void on_alarm(int number)
{
    (void)number;
    lives_add(1, 10);
    alarms++;
}

static int lives_signals(void)
{
    struct sigaction sa = {.sa_handler = on_alarm};
    struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    long adds = 0;
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    while (alarms < 20) {
        lives_add(0, 100);
        adds += 100;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    lives_tell(0, "main", adds);
    lives_tell(1, "handler", alarms * 10L);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    cells = aligned_alloc(64, CELLS * SPACING * sizeof *cells);
    memset(cells, 0, CELLS * SPACING * sizeof *cells);
    if (!strcmp(what, "many") && argc > 2)
        return lives_many(atoi(argv[2]));
    if (!strcmp(what, "exits"))
        return lives_ends();
    if (!strcmp(what, "cancel"))
        return lives_cancels();
    if (!strcmp(what, "fork"))
        return lives_forks();
    if (!strcmp(what, "signal"))
        return lives_signals();
    lives_add(0, ADDS);
    lives_tell(0, "main", ADDS);
    fflush(stdout);
    if (!strcmp(what, "exec") && argc > 2) {
        execl(argv[2], argv[2], "from", "exec", (char *)NULL);
        return errno;
    }
    if (!strcmp(what, "killed") && argc > 2) {
        kill(getpid(), atoi(argv[2]));
        pause();
    }
    return 2;
}
