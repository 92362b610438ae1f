/* stepper PROGRAM [ARGUMENT]...: executes it one instruction at a time and prints, for each that lies in the
 * program's own file, "ip-base rax rcx rdx rbx rsp rbp rsi rdi r8..r15" in hexadecimal, registers before it.
 * Address randomization is off. Environment and arguments are passed on. */
#define _GNU_SOURCE
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <limits.h>

static int span_of(pid_t pid, const char *program, unsigned long *low, unsigned long *high)
{
    char path[PATH_MAX], maps[64], line[PATH_MAX + 100];
    unsigned long start, end;
    snprintf(maps, sizeof maps, "/proc/%d/maps", pid);
    FILE *f = fopen(maps, "r");
    if (!f || !realpath(program, path))
        return -1;
    *low = *high = 0;
    while (fgets(line, sizeof line, f))
        if (strstr(line, path) && sscanf(line, "%lx-%lx", &start, &end) == 2) {
            *low = *low ? *low : start;
            *high = end;
        }
    fclose(f);
    return *low ? 0 : -1;
}

int main(int argc, char **argv)
{
    int status;
    unsigned long low, high;
    pid_t pid = argc > 1 ? fork() : -1;
    if (pid < 0)
        return 2;
    if (pid == 0) {
        personality(ADDR_NO_RANDOMIZE);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) || span_of(pid, argv[1], &low, &high) != 0)
        return 1;
    while (WIFSTOPPED(status)) {
        struct user_regs_struct r;
        int sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        ptrace(PTRACE_GETREGS, pid, NULL, &r);
        if (r.rip >= low && r.rip < high)
            printf("%llx %llx %llx %llx %llx %llx %llx %llx %llx %llx %llx %llx %llx %llx %llx %llx %llx\n",
                   r.rip - low, r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10,
                   r.r11, r.r12, r.r13, r.r14, r.r15);
        ptrace(PTRACE_SINGLESTEP, pid, NULL, (void *)(long)sig);
        if (waitpid(pid, &status, 0) != pid)
            return 1;
    }
    return 0;
}
