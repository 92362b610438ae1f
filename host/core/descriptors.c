/* File descriptors of the tracer. */
#define _GNU_SOURCE
#include "descriptors.h"
#include "core.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

#define LIMIT_FILES 7       /* RLIMIT_NOFILE */
#define ROOM 4              /* number of descriptors we use */
#define MOST 65536          /* limit, as the kernel's table of descriptors grows to the highest number */
#define WATCHED 2           /* the trace, and a scratch file */
#define DEATH_SIGNAL 1      /* PR_SET_PDEATHSIG */
#define WAIT_ALL 0x40000000 /* __WALL */
#ifndef F_DUPFD_CLOEXEC
#define F_DUPFD_CLOEXEC 1030
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif
#ifndef __NR_pidfd_getfd
#define __NR_pidfd_getfd 438
#endif

static struct mt_core_output *watched[WATCHED];

/* ---- numbers ---- */

long mt_descriptor_copy(long fd)
{
    uint64_t limit[2] = {1024, 1024}, more[2]; /* soft, hard */
    mt_sys(__NR_prlimit64, 0, LIMIT_FILES, 0, (long)limit, 0, 0);
    int lift = limit[0] < limit[1] && limit[0] <= MOST;
    uint64_t from = limit[0] < MOST ? limit[0] : MOST;
    if (lift) {
        more[0] = limit[1] - limit[0] < ROOM ? limit[1] : limit[0] + ROOM;
        more[1] = limit[1];
        mt_sys(__NR_prlimit64, 0, LIMIT_FILES, (long)more, 0, 0, 0);
    } else {
        from = from > ROOM + 3 ? from - ROOM : 3;
    }
    long n = mt_sys(__NR_fcntl, fd, F_DUPFD_CLOEXEC, (long)from, 0, 0, 0);
    if (lift)
        mt_sys(__NR_prlimit64, 0, LIMIT_FILES, (long)limit, 0, 0, 0);
    return n < 0 ? mt_sys(__NR_fcntl, fd, F_DUPFD_CLOEXEC, 3, 0, 0, 0) : n;
}

long mt_descriptor_up(long fd)
{
    if (fd < 0)
        return fd;
    long higher = mt_descriptor_copy(fd);
    if (higher < 0 && fd > 2)
        return fd;
    mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
    return higher;
}

/* ---- descriptors that the program closes ---- */

void mt_descriptor_watch(struct mt_core_output *o)
{
    o->process = mt_plat_pid();
    for (unsigned i = 0; i < WATCHED; i++)
        if (!watched[i]) {
            watched[i] = o;
            return;
        }
}

void mt_descriptor_leave(struct mt_core_output *o)
{
    for (unsigned i = 0; i < WATCHED; i++)
        if (watched[i] == o)
            watched[i] = NULL;
}

/* Returns 1 if ours is in the range. Not in a child that shares our memory (vfork), which has descriptors
 * of its own. */
static int lies_in(const struct mt_core_output *o, uint32_t first, uint32_t last)
{
    return o && o->fd >= 0 && (uint32_t)o->fd >= first && (uint32_t)o->fd <= last &&
           o->process == mt_plat_pid();
}

int mt_core_descriptor(uint32_t first, uint32_t last)
{
    int lowest = -1;
    for (unsigned i = 0; i < WATCHED; i++)
        if (lies_in(watched[i], first, last) && (lowest < 0 || watched[i]->fd < lowest))
            lowest = watched[i]->fd;
    return lowest;
}

/* Starts a child that holds copies of all descriptors and does nothing. Its end does not disturb any wait.
 * Returns 0 if impossible. */
static long descriptors_keeper(void)
{
    long parent = mt_sys(__NR_getpid, 0, 0, 0, 0, 0, 0), child = mt_sys(__NR_clone, 0, 0, 0, 0, 0, 0);
    if (child)
        return child > 0 ? child : 0;
    mt_sys(__NR_prctl, DEATH_SIGNAL, SIGKILL, 0, 0, 0, 0);
    while (mt_sys(__NR_getppid, 0, 0, 0, 0, 0, 0) == parent)
        mt_plat_sleep_ns(10000000);
    for (;;)
        mt_sys(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}

static long kept_by; /* child between closing and closed; under the locks of its files */

void mt_core_descriptors_closing(uint32_t first, uint32_t last)
{
    for (unsigned i = 0; i < WATCHED; i++) {
        struct mt_core_output *o = watched[i];
        if (!lies_in(o, first, last))
            continue;
        mt_spin_lock(&o->lock);
        if (first == last) {
            long n = mt_descriptor_copy(o->fd); /* keeps the file open while the old number goes */
            if (n >= 0)
                o->fd = (int)n;
            mt_spin_unlock(&o->lock);
        } else { /* perhaps no number survives */
            if (!kept_by)
                kept_by = descriptors_keeper();
            o->aside = 1;
        }
    }
}

static void take_back(struct mt_core_output *o, long process)
{
    long fd = mt_sys(__NR_pidfd_getfd, process, o->fd, 0, 0, 0, 0);
    if (fd >= 0)
        o->fd = (int)mt_descriptor_up(fd); /* otherwise it is reopened, or given up, at the next write */
    o->aside = 0;
    mt_spin_unlock(&o->lock);
}

void mt_core_descriptors_closed(void)
{
    long child = kept_by, process = child ? mt_sys(__NR_pidfd_open, child, 0, 0, 0, 0, 0) : -1;
    for (unsigned i = 0; i < WATCHED; i++)
        if (watched[i] && watched[i]->aside)
            take_back(watched[i], process);
    if (!child)
        return;
    kept_by = 0;
    mt_sys(__NR_kill, child, SIGKILL, 0, 0, 0, 0);
    mt_sys(__NR_wait4, child, 0, WAIT_ALL, 0, 0, 0);
    if (process >= 0)
        mt_sys(__NR_close, process, 0, 0, 0, 0, 0);
}
