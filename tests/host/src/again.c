/* again WAY: becomes itself once more, by a name that the kernel has for its file alone. The second time it
 * stores 77 words and ends with 5. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile long words[77];

static int again_second(const char *name)
{
    for (int i = 0; i < 77; i++)
        words[i] = i;
    printf("second, %s\n", name);
    return 5;
}

/* The program in memory; the descriptor is closed by exec. */
static int again_memory(void)
{
    int from = open("/proc/self/exe", O_RDONLY), to = memfd_create("again", MFD_CLOEXEC);
    while (sendfile(to, from, NULL, 1 << 20) > 0)
        ;
    close(from);
    return to;
}

static int again_script(void)
{
    int fd = memfd_create("script", 0);
    dprintf(fd, "#!/bin/sh\necho a script with $1\nexit 5\n");
    return fd;
}

int main(int argc, char **argv)
{
    char name[64], *again[] = {"named", "second", NULL};
    const char *way = argc > 1 ? argv[1] : "";
    if (!strcmp(way, "second"))
        return again_second(argv[0]);
    puts("first");
    fflush(stdout);
    snprintf(name, sizeof name, "/proc/%d/exe", (int)getpid());
    if (!strcmp(way, "self"))
        execv("/proc/self/exe", again);
    else if (!strcmp(way, "pid"))
        execv(name, again);
    else if (!strcmp(way, "memory"))
        fexecve(again_memory(), again, environ);
    else if (!strcmp(way, "at"))
        syscall(SYS_execveat, again_memory(), "", again, environ, AT_EMPTY_PATH);
    else if (!strcmp(way, "script"))
        fexecve(again_script(), again, environ);
    else if (!strcmp(way, "child") && fork() == 0)
        execv("/proc/self/exe", again);
    else if (!strcmp(way, "parent") && fork() == 0) { /* its file by the parent's number */
        execv(name, again);
    }
    int status = 0;
    wait(&status);
    return WEXITSTATUS(status);
}
