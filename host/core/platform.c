/* Platform layer of the core: system calls, time, memory, spin locks, messages. */
#define _GNU_SOURCE
#include "platform.h"
#include "format/container/syscall.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define SPINS 64       /* pauses before yielding the processor */
#define YIELDS 4096    /* yields before sleeping */
#define SLEEP_NS 50000 /* length of each sleep */

static void (*engine_report)(const char *line);
static void (*engine_yield)(void);

long mt_sys(long number, long a, long b, long c, long d, long e, long f)
{
    return mt_base_syscall(number, a, b, c, d, e, f);
}

static uint64_t clock_ns(int which)
{
    struct timespec ts = {0, 0};
    clock_gettime(which, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t mt_plat_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

void mt_plat_sleep_ns(uint64_t ns)
{
    long ts[2] = {(long)(ns / 1000000000u), (long)(ns % 1000000000u)};
    mt_sys(__NR_nanosleep, (long)ts, 0, 0, 0, 0, 0);
}

/* the engine's, or sched_yield */
static void plat_yield(void)
{
    if (engine_yield)
        engine_yield();
    else
        mt_sys(__NR_sched_yield, 0, 0, 0, 0, 0, 0);
}

uint32_t mt_plat_pid(void)
{
    return (uint32_t)mt_sys(__NR_getpid, 0, 0, 0, 0, 0, 0);
}

long mt_plat_program(char *path, size_t size)
{
    return mt_sys(__NR_readlink, (long)"/proc/self/exe", (long)path, (long)size - 1, 0, 0, 0);
}

void *mt_plat_map(size_t bytes)
{
    long p = mt_sys(__NR_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p < 0 && p > -4096 ? NULL : (void *)p;
}

void mt_plat_unmap(void *p, size_t bytes)
{
    if (p)
        mt_sys(__NR_munmap, (long)p, (long)bytes, 0, 0, 0, 0);
}

int mt_plat_pread(int fd, void *data, size_t bytes, uint64_t offset)
{
    for (char *p = data; bytes;) {
        long n = mt_sys(__NR_pread64, fd, (long)p, (long)bytes, (long)offset, 0, 0);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n ? (int)-n : EIO;
        p += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

#define WAIT_PRIVATE 128 /* FUTEX_WAIT | FUTEX_PRIVATE_FLAG */
#define WAKE_PRIVATE 129

void mt_plat_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
    long ts[2] = {(long)(ns / 1000000000u), (long)(ns % 1000000000u)};
    mt_sys(__NR_futex, (long)word, WAIT_PRIVATE, (long)value, (long)ts, 0, 0);
}

void mt_plat_wake(uint32_t *word)
{
    mt_sys(__NR_futex, (long)word, WAKE_PRIVATE, 1, 0, 0, 0);
}

#define SET_MASK 2 /* SIG_SETMASK */
#define BIT(signal) (1ull << ((signal) - 1))

uint64_t mt_plat_signals_off(void)
{
    uint64_t before = 0, mask = ~(BIT(4) | BIT(5) | BIT(7) | BIT(8) | BIT(11) | BIT(31)); /* ILL … SYS */
    mt_sys(__NR_rt_sigprocmask, SET_MASK, (long)&mask, (long)&before, sizeof mask, 0, 0);
    return before;
}

void mt_plat_signals_back(uint64_t mask)
{
    mt_sys(__NR_rt_sigprocmask, SET_MASK, (long)&mask, 0, sizeof mask, 0, 0);
}

#define BARRIER_EXPEDITED 8 /* MEMBARRIER_CMD_PRIVATE_EXPEDITED */
#define BARRIER_REGISTER 16 /* registration that it needs */

int mt_plat_barrier(void)
{
    static int registered;
    if (!registered && mt_sys(__NR_membarrier, BARRIER_REGISTER, 0, 0, 0, 0, 0))
        return -1;
    registered = 1;
    return mt_sys(__NR_membarrier, BARRIER_EXPEDITED, 0, 0, 0, 0, 0) ? -1 : 0;
}

void mt_plat_pause(unsigned step)
{
    if (step < SPINS)
        __asm__ volatile("pause" ::: "memory");
    else if (step < SPINS + YIELDS)
        plat_yield();
    else
        mt_plat_sleep_ns(SLEEP_NS);
}

void mt_spin_wait(struct mt_spin *l)
{
    for (unsigned step = 0; !mt_spin_try(l); step++)
        mt_plat_pause(step);
}

int mt_spin_lock_for(struct mt_spin *l, uint64_t ns, int (*busy)(void))
{
    uint64_t since = 0;
    for (unsigned step = 0; !mt_spin_try(l); step++) {
        mt_plat_pause(step);
        if (step < SPINS)
            continue;
        uint64_t now = mt_plat_now_ns();
        if (!since || busy())
            since = now;
        else if (now - since > ns)
            return -1;
    }
    return 0;
}

void mt_plat_engine(void (*report)(const char *line), void (*yield)(void))
{
    engine_report = report;
    engine_yield = yield;
}

void mt_plat_report(const char *format, ...)
{
    char line[1200];
    va_list args;
    va_start(args, format);
    int n = snprintf(line, 11, "memtrace: ");
    n += vsnprintf(line + n, sizeof line - 2 - (size_t)n, format, args);
    va_end(args);
    if (n > (int)sizeof line - 3)
        n = (int)sizeof line - 3;
    line[n] = 0;
    if (engine_report) {
        engine_report(line + 10);
        return;
    }
    line[n++] = '\n';
    mt_sys(__NR_write, 2, (long)line, n, 0, 0, 0);
}
