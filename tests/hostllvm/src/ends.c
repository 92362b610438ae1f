/* Ends by a signal that the argument names, most of them sent by the kernel, after 1000 stores to `cell`. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static volatile int cell[1000];

static void ends_later(int which)
{
    struct itimerval t = {{0, 0}, {0, 20000}};
    setitimer(which, &t, NULL);
}

static void ends_limit(void)
{
    struct rlimit r = {1, 10};
    setrlimit(RLIMIT_CPU, &r);
}

/* getppid is not allowed any more; what happens then is `action`. */
static void ends_filter(unsigned action, int by_number)
{
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, action),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (by_number)
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    else
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Only what the program itself needs is allowed: write and exit_group. */
static void ends_narrow(void)
{
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {5, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void ends_once(int sig)
{
    cell[0] = sig;
}

static void ends_count(void)
{
    for (int i = 0; i < 1000; i++)
        cell[i] = i;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    struct sigaction a = {.sa_handler = ends_once, .sa_flags = (int)SA_RESETHAND};
    printf("%p\n", (void *)cell);
    fflush(stdout);
    ends_count();
    if (!strcmp(how, "real"))
        ends_later(ITIMER_REAL);
    else if (!strcmp(how, "virtual"))
        ends_later(ITIMER_VIRTUAL);
    else if (!strcmp(how, "prof"))
        ends_later(ITIMER_PROF);
    else if (!strcmp(how, "cpu"))
        ends_limit();
    else if (!strcmp(how, "trap"))
        __asm__ volatile("int3");
    else if (!strcmp(how, "general"))
        *(volatile int *)(0x5aull << 56) = 1;
    else if (!strcmp(how, "sys") || !strcmp(how, "sysprctl"))
        ends_filter(SECCOMP_RET_TRAP, !strcmp(how, "sys")), syscall(SYS_getppid);
    else if (!strcmp(how, "back"))
        signal(SIGINT, ends_once), signal(SIGINT, SIG_DFL), raise(SIGINT);
    else if (!strcmp(how, "once"))
        sigaction(SIGTERM, &a, NULL), raise(SIGTERM), raise(SIGTERM);
    else if (!strcmp(how, "realtime"))
        raise(SIGRTMIN + 3);
    else if (!strcmp(how, "usr1"))
        raise(SIGUSR1);
    else if (!strcmp(how, "strict")) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        ends_count();
        if (write(1, "done\n", 5) == 5)
            syscall(SYS_exit, 7);
    } else if (!strcmp(how, "narrow")) {
        ends_narrow();
        ends_count();
        if (write(1, "done\n", 5) == 5)
            _exit(7);
    } else if (!strcmp(how, "wait")) {
        puts("counted");
        fflush(stdout);
        for (;;)
            pause();
    }
    for (;;)
        __asm__ volatile("pause");
}
