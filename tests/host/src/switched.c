/* Writes a[i] for i = 0, 1, 2, …; sends itself SIGUSR1 just before i = on and SIGUSR2 just before i = off.
 * usage: switched COUNT ON OFF [POSITION]
 * POSITION: a file of three words, and no signals of its own: i, where it waits, storing a[i] again and
 * again, and the number of these stores. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long count = atol(argv[1]), on = atol(argv[2]), off = atol(argv[3]);
    volatile long *a = malloc((size_t)count * sizeof *a), unused[] = {0, -1, 0}, *position = unused;
    pid_t self = getpid();
    if (argc > 4) {
        int fd = open(argv[4], O_RDWR);
        position = mmap(NULL, 24, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        on = off = -1;
    }
    for (long i = 0; i < count; i++) {
        if (i == on)
            kill(self, SIGUSR1);
        if (i == off)
            kill(self, SIGUSR2);
        a[i] = i;
        for (position[0] = i; position[1] == i; position[2] += 100) {
            for (int k = 0; k < 100; k++)
                a[i] = i;
            sched_yield(); /* a system call: DynamoRIO hands signals on there */
        }
    }
    printf("%ld\n", a[count - 1]);
    return 0;
}
