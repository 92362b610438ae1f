/* Platform layer of the core: system calls, time, memory, spin locks, messages. Linux on x86-64. System
 * calls are made directly: those of the C library may be intercepted, are cancellation points and change
 * errno, and this is another program's process. */
#ifndef MT_HOST_PLATFORM_H
#define MT_HOST_PLATFORM_H
#include <stddef.h>
#include <stdint.h>

/* Makes a system call and returns the kernel's result: negative errno values are errors. */
long mt_sys(long number, long a, long b, long c, long d, long e, long f);

uint64_t mt_plat_now_ns(void); /* CLOCK_MONOTONIC */
void mt_plat_sleep_ns(uint64_t ns);
uint32_t mt_plat_pid(void);

/* Returns zeroed pages, or NULL without memory. Never uses malloc: the program may be inside it. */
void *mt_plat_map(size_t bytes);
void mt_plat_unmap(void *p, size_t bytes);

/* Reads all `bytes` at `offset`. Returns 0 or an errno value (EIO: end of file). */
int mt_plat_pread(int fd, void *data, size_t bytes, uint64_t offset);

/* A spin lock, async-signal safe if not contended. Waiters spin, then yield, then sleep in small steps. */
struct mt_spin {
    uint32_t held;
};
void mt_spin_wait(struct mt_spin *l);
static inline int mt_spin_try(struct mt_spin *l)
{
    return !__atomic_load_n(&l->held, __ATOMIC_RELAXED) &&
           !__atomic_exchange_n(&l->held, 1, __ATOMIC_ACQUIRE);
}
static inline void mt_spin_lock(struct mt_spin *l)
{
    if (__builtin_expect(__atomic_exchange_n(&l->held, 1, __ATOMIC_ACQUIRE), 0))
        mt_spin_wait(l);
}
static inline void mt_spin_unlock(struct mt_spin *l)
{
    __atomic_store_n(&l->held, 0, __ATOMIC_RELEASE);
}
/* Takes the lock within `ns`. Returns 0, or -1 on timeout; time during which busy() is not 0 does not
 * count. */
int mt_spin_lock_for(struct mt_spin *l, uint64_t ns, int (*busy)(void));
/* Makes all running threads of the process pass a full memory barrier. Returns 0, or -1 if the kernel
 * cannot. The first call is quick only while there is one thread. */
int mt_plat_barrier(void);
/* Waits one step, by number: pause, then yield, then sleep. */
void mt_plat_pause(unsigned step);

/* Reports one line to the user: through the engine, or to stderr with "memtrace: " in front. */
void mt_plat_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Sets the engine's functions for messages and yielding; NULLs: stderr and sched_yield. */
void mt_plat_engine(void (*report)(const char *line), void (*yield)(void));
#endif
