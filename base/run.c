/* Runs a program as a shell would, and forwards signals to it. */
#include "run.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                                SIGUSR2, SIGCONT, SIGALRM, SIGWINCH};
enum {
    PASSED = sizeof passed_on / sizeof *passed_on,
    ENDING = 4 /* number of signals, at the start of the list, that end programs */
};

static volatile pid_t child;
static volatile sig_atomic_t passed;

static void child_pass_on(int number, siginfo_t *info, void *context)
{
    int kept = errno;
    /* The terminal (SI_KERNEL) has already sent the signal to the whole process group. */
    if (info->si_code != SI_KERNEL && child > 0)
        kill(child, number);
    for (int i = 0; i < ENDING && info->si_code != SI_KERNEL; i++)
        if (passed_on[i] == number)
            passed = number;
    errno = kept;
}

static void child_catch(struct sigaction before[PASSED])
{
    struct sigaction sa = {.sa_sigaction = child_pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&sa.sa_mask);
    for (size_t i = 0; i < PASSED; i++) {
        sigaction(passed_on[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) /* under nohup the signal stays ignored, also in the program */
            sigaction(passed_on[i], &sa, NULL);
    }
}

static void child_restore(const struct sigaction before[PASSED])
{
    for (size_t i = 0; i < PASSED; i++)
        sigaction(passed_on[i], &before[i], NULL);
}

/* Runs in the child; never returns. */
static void child_become(const struct mt_program_run *c, const struct sigaction before[PASSED],
                         const sigset_t *mask, int report, pid_t parent)
{
    /* The program dies with its parent. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    child_restore(before);
    sigprocmask(SIG_SETMASK, mask, NULL);
    for (char *const *e = c->env; e && *e; e++)
        putenv(*e);
    execv(c->path, c->argv);
    int why = errno;
    ssize_t n = write(report, &why, sizeof why);
    _exit(n == (ssize_t)sizeof why ? 1 : 2);
}

/* Waits for the child. Returns the exit code, or -1 with an errno value in *why. */
static int child_wait(struct mt_program_run *c, pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) {
            c->why = errno;
            return -1;
        }
    c->ended = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return c->ended ? 128 + c->ended : WEXITSTATUS(status);
}

int mt_child_run(struct mt_program_run *c)
{
    struct sigaction before[PASSED];
    sigset_t all, mask;
    int report[2], code = -1, why = 0;
    c->why = c->passed = c->ended = 0;
    passed = 0;
    if (pipe2(report, O_CLOEXEC) != 0) {
        c->why = errno;
        return -1;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask); /* keeps signals between fork and exec from being lost */
    child_catch(before);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        child_become(c, before, &mask, report[1], parent);
    child = pid;
    c->why = pid < 0 ? errno : 0;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    close(report[1]);
    if (pid > 0) {
        int failed = TEMP_FAILURE_RETRY(read(report[0], &why, sizeof why)) == (ssize_t)sizeof why;
        code = child_wait(c, pid);
        child = 0;
        if (failed) {
            c->why = why;
            code = -1;
        }
    }
    close(report[0]);
    child_restore(before);
    c->passed = passed;
    return code;
}
