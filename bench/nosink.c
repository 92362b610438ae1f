/* Preloaded by bench/run: blocks of records are written nowhere, so that what is left of a traced launch is
 * the cost of its records. The runtime writes traces with pwrite, and nothing else that is big. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

enum { BIG = 4096 };

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    return bytes >= BIG ? (ssize_t)bytes : (ssize_t)syscall(SYS_pwrite64, fd, data, bytes, at);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at)
{
    return pwrite(fd, data, bytes, at);
}
