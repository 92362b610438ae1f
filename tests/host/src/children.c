/* Children that do all the work: two of fork, one of posix_spawn; a thread is none. */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void *children_thread(void *arg)
{
    return arg;
}

int main(void)
{
    char *const words[] = {"true", NULL};
    pthread_t thread;
    pid_t pid;
    int status, bad = 0;
    for (int c = 0; c < 2; c++)
        if (fork() == 0) {
            long sum = 0, *a = malloc(1000 * sizeof *a);
            for (int i = 0; i < 1000; i++)
                a[i] = i;
            for (int i = 0; i < 1000; i++)
                sum += a[i];
            _exit(sum != 499500);
        }
    if (posix_spawnp(&pid, words[0], NULL, NULL, words, environ))
        return 1;
    if (pthread_create(&thread, NULL, children_thread, NULL) || pthread_join(thread, NULL))
        return 1;
    while (wait(&status) > 0)
        bad += status != 0;
    printf("bad %d\n", bad);
    return bad;
}
