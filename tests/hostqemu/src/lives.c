/* lives HOW: ways for a program to live and end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void lives_handler(int s)
{
    caught = s;
}

static void *lives_thread(void *arg)
{
    volatile char *p = malloc(321);
    for (int i = 0; i < 321; i++)
        p[i] = (char)i;
    free((void *)p);
    return arg;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    volatile char *p = malloc(123);
    for (int i = 0; i < 123; i++)
        p[i] = (char)i;
    if (!strcmp(how, "fork")) {
        if (fork() == 0) {
            volatile char *q = malloc(456);
            q[0] = 1;
            _exit(q[0] + 4);
        }
        int status;
        wait(&status);
        printf("%d\n", WEXITSTATUS(status));
        fflush(stdout);
        lives_thread(NULL);
    } else if (!strcmp(how, "exec")) {
        execl("/bin/echo", "echo", "other", (char *)NULL);
    } else if (!strcmp(how, "noexec")) {
        execl("/does/not/exist", "x", (char *)NULL);
        lives_thread(NULL);
    } else if (!strcmp(how, "thread")) {
        pthread_t t;
        for (int i = 0; i < 20; i++) {
            pthread_create(&t, NULL, lives_thread, NULL);
            pthread_join(t, NULL);
        }
    } else if (!strcmp(how, "exit_thread")) {
        pthread_t t;
        pthread_create(&t, NULL, lives_thread, NULL);
        pthread_exit(NULL);
    } else if (!strcmp(how, "segv")) {
        *(volatile int *)8 = 1;
    } else if (!strcmp(how, "term")) {
        raise(SIGTERM);
    } else if (!strcmp(how, "abort")) {
        abort();
    } else if (!strcmp(how, "handlers")) {
        signal(SIGUSR1, lives_handler);
        raise(SIGUSR1);
        printf("%d\n", caught == SIGUSR1);
        signal(SIGUSR1, SIG_DFL);
        raise(SIGUSR2);
        p[0]++;
    }
    return 0;
}
