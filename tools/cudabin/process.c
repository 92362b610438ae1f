/* Children, and an end that leaves nothing behind. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cudabin.h"

static volatile sig_atomic_t child;
static const int guarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU, SIGXFSZ};
#define NGUARDED (sizeof guarded / sizeof *guarded)

static void on_signal(int number)
{
    if (child > 0) {
        kill(child, SIGTERM);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    mt_cudabin_temp_remove();
    signal(number, SIG_DFL);
    raise(number); /* delivered when the handler returns */
}

static void guarded_set(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < NGUARDED; i++) {
        sigaddset(set, guarded[i]);
    }
}

void mt_cudabin_process_guard(void)
{
    struct sigaction action = {.sa_handler = on_signal}, old;
    guarded_set(&action.sa_mask);
    for (size_t i = 0; i < NGUARDED; i++) {
        /* What the caller ignores (nohup) stays ignored. */
        if (sigaction(guarded[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
            sigaction(guarded[i], &action, NULL);
        }
    }
}

int mt_cudabin_process_run(char *const argv[])
{
    sigset_t block, old;
    posix_spawnattr_t attr;
    pid_t pid = 0;
    int status;
    /* No signal between the child's birth and its number in `child`. */
    guarded_set(&block);
    sigprocmask(SIG_BLOCK, &block, &old);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, &old);
    int error = posix_spawnp(&pid, argv[0], NULL, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    if (error == 0) {
        child = pid;
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (error != 0) {
        errno = error;
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    child = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int mt_cudabin_process_exit_code(int code)
{
    if (code > 128 && code < 128 + NSIG) {
        signal(code - 128, SIG_DFL);
        raise(code - 128);
    }
    return code;
}
