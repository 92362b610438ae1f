/* A program that installs handlers after its first launch: faults of kernels are failed launches, its own are
 * its own, and a handler that calls the one that was there before is not called by that again. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"

static struct sigaction found;
static volatile int calls, chains;
static sigjmp_buf back;
static void *volatile nowhere = (void *)16;

static void signals_handler(int sig, siginfo_t *info, void *context)
{
    calls++;
    if (chains)
        found.sa_sigaction(sig, info, context);
    else
        siglongjmp(back, 1);
}

static void own_fault(void)
{
    if (!sigsetjmp(back, 1))
        *(volatile int *)nowhere = 1;
}

static void signals_expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "FAILED: %s: %d calls\n", what, calls);
        exit(1);
    }
}

static int signals_run(const struct mt_image *image, int *null)
{
    struct mt_cpu_launch l = {0};
    void *args[] = {&null};
    return launch(&l, image, "bad_address", (struct dim){8, 1, 1}, (struct dim){64, 1, 1}, 0, args);
}

int main(void)
{
    mt_cpu_init(2, 4);
    struct mt_image *image = load_test_image();
    struct sigaction sa = {.sa_sigaction = signals_handler, .sa_flags = SA_SIGINFO | SA_NODEFER};
    signals_expect(signals_run(image, NULL) == 700, "a fault before there is a handler");
    sigaction(SIGSEGV, &sa, &found);
    signals_expect(signals_run(image, NULL) == 700 && calls == 0, "a fault of a kernel");
    for (int i = 1; i < 4; i++) {
        own_fault();
        signals_expect(calls == i, "a fault of the program's");
        signals_expect(signals_run(image, NULL) == 700 && calls == i, "a fault of a kernel after it");
    }
    pid_t pid = fork();
    if (!pid) {
        chains = 1;
        alarm(20);
        own_fault();
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    signals_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
                   "the default action, by the handler before ours");
    return 0;
}
