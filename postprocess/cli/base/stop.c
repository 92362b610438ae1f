/* Signals: reading ends, what was read is told, and all is over within three seconds. */
#define _GNU_SOURCE
#include "stop.h"
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum { LIMIT_MS = 2000, READ_MS = 800 };

volatile sig_atomic_t mt_cli_stop;
static volatile sig_atomic_t stopped_by, all_together;
static const char *volatile scratch;

void mt_stop_together(int together)
{
    all_together = together;
}

void mt_stop_scratch(const char *folder)
{
    scratch = folder;
}

/* As the kernel gives them: readdir may not be called by a signal handler. */
struct entry {
    uint64_t inode;
    int64_t next;
    unsigned short length;
    unsigned char kind;
    char name[];
};

void mt_stop_remove(const char *folder)
{
    _Alignas(struct entry) char list[4096];
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    long n;
    while (fd >= 0 && (n = syscall(SYS_getdents64, fd, list, sizeof list)) > 0)
        for (long at = 0; at < n; at += ((struct entry *)(list + at))->length)
            unlinkat(fd, ((struct entry *)(list + at))->name, 0); /* fails for . and .. */
    if (fd >= 0)
        close(fd);
    rmdir(folder);
}

static void stop_write(const char *text)
{
    ssize_t wrote = write(STDERR_FILENO, text, strlen(text));
    (void)wrote;
}

/* Nothing is left that looks whole and is not. By the signal, as if nobody had caught it; `late`: unless all
 * is written and only memory has to be freed. */
static void stop_end(int number, int late)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t only;
    int cut = mt_output_cut();
    if (scratch)
        mt_stop_remove(scratch);
    if (late && !cut)
        _exit(MT_EXIT_INPUT);
    if (cut && !mt_cli_quiet) {
        stop_write(mt_cli_name);
        stop_write(
            ": interrupted, and no results: they take longer than three seconds, or a second signal came "
            "(--launches=A..B reads less)\n");
    }
    sigaction(number, &by_default, NULL);
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
}

static void stop_arm(int ms, int again)
{
    struct itimerval t = {.it_value = {ms / 1000, ms % 1000 * 1000},
                          .it_interval = {again / 1000, again % 1000 * 1000}};
    setitimer(ITIMER_REAL, &t, NULL);
}

static void stop_on_signal(int number)
{
    if (mt_cli_stop)
        stop_end(number, 0);
    stopped_by = number;
    __atomic_store_n(&mt_cli_stop, 1, __ATOMIC_RELAXED);
    if (!all_together)
        stop_arm(LIMIT_MS, 0);
}

/* A few records can ask for years of work. */
static void stop_on_alarm(int number)
{
    (void)number;
    if (mt_cli_stop)
        stop_end(stopped_by, 1);
    __atomic_store_n(&mt_cli_stop, 1, __ATOMIC_RELAXED);
}

void mt_stop_soon(int number)
{
    stopped_by = number;
    stop_arm(READ_MS, LIMIT_MS - READ_MS);
}

void mt_stop_begin(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction sa = {.sa_handler = stop_on_signal}, late = {.sa_handler = stop_on_alarm};
    sigfillset(&sa.sa_mask);
    sigfillset(&late.sa_mask);
    sigaction(SIGALRM, &late, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction old;
        /* nohup and background jobs of a script have these ignored: so they stay. */
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &sa, NULL);
    }
}
