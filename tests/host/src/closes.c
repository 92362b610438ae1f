/* Opens two files, and prints their numbers and the address of `cell`; stores to one half of it; gets rid of
 * all descriptors that it may have, as the argument says; opens one file; stores to the other half. Its exit
 * code is the number that the last file has, or less than it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int cell[20000];

static void closes_store(int from, int to)
{
    for (int i = from; i < to; i++)
        cell[i] = i;
}

static void closes_overwrite(int limit)
{
    int null = open("/dev/null", O_RDWR);
    for (int fd = 3; fd < limit; fd++)
        if (fd != null)
            dup2(null, fd);
    for (int fd = 3; fd < limit; fd++)
        close(fd);
}

/* As programs do that want to be thorough. */
static void closes_listed(void)
{
    DIR *d = opendir("/proc/self/fd");
    int all[256], n = 0;
    for (struct dirent *e; (e = readdir(d)) && n < 256;)
        if (*e->d_name != '.')
            all[n++] = atoi(e->d_name);
    closedir(d);
    for (int i = 0; i < n; i++)
        if (all[i] > 2)
            close(all[i]);
}

int main(int argc, char **argv)
{
    int limit = (int)sysconf(_SC_OPEN_MAX);
    int a = open("/dev/null", O_RDONLY), b = open("/dev/null", O_RDONLY);
    printf("%d %d %lu\n", a, b, (unsigned long)cell);
    fflush(stdout);
    closes_store(0, 10000);
    switch (argc > 1 ? *argv[1] : ' ') {
    case 'c':
        for (int fd = 3; fd < limit; fd++)
            close(fd);
        break;
    case 'd':
        closes_overwrite(limit);
        break;
    case 'f':
        closefrom(3);
        break;
    case 'r':
        syscall(SYS_close_range, 3u, ~0u, 0u);
        break;
    case 'l':
        closes_listed();
        break;
    }
    int last = open("/dev/null", O_RDONLY);
    closes_store(10000, 20000);
    return last;
}
