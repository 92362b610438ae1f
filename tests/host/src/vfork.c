/* A child of vfork closes what it must not inherit and becomes another program, as Python's subprocess does.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    int status = -1;
    char *const words[] = {"echo", "child", NULL}, *const none[] = {NULL};
    pid_t child = vfork();
    if (child == 0) {
        syscall(SYS_close_range, 3u, ~0u, 0u);
        execve("/bin/echo", words, none);
        _exit(127);
    }
    waitpid(child, &status, 0);
    printf("status %d\n", status);
    return 6;
}
