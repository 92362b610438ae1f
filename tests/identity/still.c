/* Preloaded: clocks stand still, and memory that is mapped anew lies where it lay the last time, whatever the
 * size of the libraries before it: two runs of a program leave the same bytes in a trace. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){.tv_sec = 1700000000};
    return 0;
}

time_t time(time_t *t)
{
    if (t)
        *t = 1700000000;
    return 1700000000;
}

void *mmap(void *at, size_t bytes, int rights, int flags, int fd, off_t offset)
{
    static _Atomic uintptr_t next = 0x300000000000;
    if (!at && fd < 0)
        at = (void *)atomic_fetch_add(&next, (bytes + 0x1fffff) & ~(uintptr_t)0xfffff);
    return (void *)syscall(SYS_mmap, at, bytes, rights, flags, fd, offset);
}
