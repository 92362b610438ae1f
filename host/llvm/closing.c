/* Wrappers for programs that close all descriptors, or reuse the number of one of ours: they act as if
 * ours did not exist. */
#include "entry.h"
#include <errno.h>
#include <unistd.h>

#define CLOSE_ON_EXEC 4 /* CLOSE_RANGE_CLOEXEC, which ours have anyway */

#define REAL(name, type)                                                                                     \
    static type name##_real;                                                                                 \
    if (!__atomic_load_n(&name##_real, __ATOMIC_ACQUIRE))                                                    \
    __atomic_store_n(&name##_real, (type)mt_next(#name), __ATOMIC_RELEASE)

static int is_ours(int fd)
{
    return fd >= 0 && mt_core_descriptor((uint32_t)fd, (uint32_t)fd) >= 0;
}

static int not_open(void)
{
    errno = EBADF;
    return -1;
}

MT_ENTRY int close(int fd)
{
    typedef int function(int);
    REAL(close, function *);
    return is_ours(fd) ? not_open() : close_real(fd);
}

static void make_way(int fd)
{
    if (fd >= 0)
        mt_core_descriptors_closing((uint32_t)fd, (uint32_t)fd);
}

MT_ENTRY int dup2(int fd, int to)
{
    typedef int function(int, int);
    REAL(dup2, function *);
    if (is_ours(fd))
        return not_open();
    make_way(to);
    return dup2_real(fd, to);
}

MT_ENTRY int dup3(int fd, int to, int flags)
{
    typedef int function(int, int, int);
    REAL(dup3, function *);
    if (is_ours(fd))
        return not_open();
    make_way(to);
    return dup3_real(fd, to, flags);
}

/* Closes all but ours. */
MT_ENTRY int close_range(unsigned first, unsigned last, int flags)
{
    typedef int function(unsigned, unsigned, int);
    REAL(close_range, function *);
    for (;;) {
        int ours = first <= last && !(flags & CLOSE_ON_EXEC) ? mt_core_descriptor(first, last) : -1;
        if (!close_range_real) {
            errno = ENOSYS; /* an old C library */
            return -1;
        }
        if (ours < 0)
            return close_range_real(first, last, flags);
        if ((unsigned)ours > first && close_range_real(first, (unsigned)ours - 1, flags))
            return -1;
        if ((unsigned)ours == last)
            return 0;
        first = (unsigned)ours + 1;
    }
}

MT_ENTRY void closefrom(int first)
{
    typedef void function(int);
    REAL(closefrom, function *);
    if (close_range(first < 0 ? 0 : (unsigned)first, ~0u, 0) && closefrom_real)
        closefrom_real(first);
}
