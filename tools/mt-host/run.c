/* Runs the command as a shell would, and is transparent to signals: what is sent to mt-host reaches the
 * program; what a terminal sends to all of the foreground reaches it anyway. */
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                                SIGUSR2, SIGCONT, SIGALRM, SIGWINCH};
enum { PASSED = sizeof passed_on / sizeof *passed_on };

static volatile pid_t child;

static void pass_on(int number, siginfo_t *info, void *context)
{
    (void)context;
    int kept = errno;
    /* From the terminal (SI_KERNEL): the program, in the same process group, has it already. */
    if (info->si_code != SI_KERNEL && child > 0)
        kill(child, number);
    errno = kept;
}

static void run_catch(struct sigaction before[PASSED])
{
    struct sigaction sa = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&sa.sa_mask);
    for (size_t i = 0; i < PASSED; i++) {
        sigaction(passed_on[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) /* nohup: stays ignored, in the program too */
            sigaction(passed_on[i], &sa, NULL);
    }
}

/* In the child: never returns. */
static void run_become(const struct command *c, const struct sigaction before[PASSED], const sigset_t *mask,
                       int report, pid_t parent)
{
    /* Whoever kills mt-host means the program. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_ENGINE);
    for (size_t i = 0; i < PASSED; i++)
        sigaction(passed_on[i], &before[i], NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    for (size_t i = 0; i < c->env.count; i++)
        putenv(c->env.word[i]);
    execv(c->path, c->argv.word);
    int why = errno;
    ssize_t n = write(report, &why, sizeof why);
    _exit(n == (ssize_t)sizeof why ? EXIT_ENGINE : EXIT_ENGINE + 1);
}

int mt_hostrun_command_become(const struct command *c)
{
    for (size_t i = 0; i < c->env.count; i++)
        putenv(c->env.word[i]);
    execv(c->path, c->argv.word);
    mt_hostrun_say("%s cannot be run: %s", c->path, strerror(errno));
    return EXIT_ENGINE;
}

static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) {
            mt_hostrun_say("the program cannot be waited for: %s", strerror(errno));
            return EXIT_ENGINE;
        }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int mt_hostrun_command_run(const struct command *c)
{
    struct sigaction before[PASSED];
    sigset_t all, mask;
    int report[2], why = 0, code = EXIT_ENGINE;
    if (pipe2(report, O_CLOEXEC) != 0) {
        mt_hostrun_say("no pipe: %s", strerror(errno));
        return EXIT_ENGINE;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask); /* no signal gets lost between fork and the child's exec */
    run_catch(before);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        run_become(c, before, &mask, report[1], parent);
    child = pid;
    why = pid < 0 ? errno : 0;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    close(report[1]);
    if (pid > 0) {
        int failed = TEMP_FAILURE_RETRY(read(report[0], &why, sizeof why)) == (ssize_t)sizeof why;
        code = wait_for(pid);
        if (!failed)
            why = 0;
        child = 0;
    }
    close(report[0]);
    if (why) {
        mt_hostrun_say("%s cannot be run: %s", c->path, strerror(why));
        return EXIT_ENGINE;
    }
    return code;
}
