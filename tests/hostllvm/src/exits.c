/* main ends before the program: by pthread_exit, or by thrd_exit with an argument.
 * The last thread ends the process. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <unistd.h>

static volatile int cell[3000];

static void exits_count(int from)
{
    for (int i = from; i < from + 1000; i++)
        cell[i] = i;
}

static void *exits_work(void *arg)
{
    usleep(50000);
    exits_count(1000);
    puts("thread");
    return arg;
}

static void exits_last(void)
{
    exits_count(2000);
    puts("exit");
}

int main(int argc, char **argv)
{
    pthread_t thread;
    (void)argv;
    printf("%p\n", (void *)cell);
    atexit(exits_last);
    exits_count(0);
    pthread_create(&thread, NULL, exits_work, NULL);
    if (argc > 1)
        thrd_exit(0);
    pthread_exit(NULL);
}
