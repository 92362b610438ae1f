/* Preloaded by bench/run: discards blocks of records, so that the cost of a traced launch is that of its
 * records. The runtime writes traces with pwrite, and no other large data. */
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
