/* What the core needs from below: system calls, time, memory, spin locks, words for the user. Linux on
 * x86-64. System calls are made directly: the C library's may be intercepted, are cancellation points and
 * change errno, and we live in somebody else's process. */
#ifndef MT_HOST_PLATFORM_H
#define MT_HOST_PLATFORM_H
#include <stddef.h>
#include <stdint.h>

/* The kernel's answer: negative errno values are errors. */
long mt_sys(long number, long a, long b, long c, long d, long e, long f);

uint64_t mt_plat_now_ns(void); /* CLOCK_MONOTONIC */
void mt_plat_sleep_ns(uint64_t ns);
uint32_t mt_plat_pid(void);
long mt_plat_program(char *path, size_t size); /* bytes, without NUL */

/* Zeroed pages; NULL without memory. Never from malloc: the program may be inside it. */
void *mt_plat_map(size_t bytes);
void mt_plat_unmap(void *p, size_t bytes);

/* Reads all `bytes` at `offset`: 0 or an errno value (EIO: the file ends before). */
int mt_plat_pread(int fd, void *data, size_t bytes, uint64_t offset);

/* Sleeps while *word == value, at most `ns`; wakes one sleeper. */
void mt_plat_wait(uint32_t *word, uint32_t value, uint64_t ns);
void mt_plat_wake(uint32_t *word);

/* No signal but faults interrupts the thread until the mask is put back. */
uint64_t mt_plat_signals_off(void);
void mt_plat_signals_back(uint64_t mask);

/* Async-signal safe when not contended. Waiters spin, then yield, then sleep in small steps. */
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
/* 0, or -1 when it is not free for `ns`; time in which busy() is not 0 does not count. */
int mt_spin_lock_for(struct mt_spin *l, uint64_t ns, int (*busy)(void));
/* All running threads of the process pass a full memory barrier before it returns. 0, or -1: the kernel does
 * not do that here. The first call is quick only as long as there is one thread. */
int mt_plat_barrier(void);
/* One step of waiting, the `step`th: pause, then yield, then sleep. */
void mt_plat_pause(unsigned step);

/* One line for the user: the engine's report, or stderr with "memtrace: " in front. */
void mt_plat_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Who gets the words and the processor; NULLs: stderr and sched_yield. */
void mt_plat_engine(void (*report)(const char *line), void (*yield)(void));
#endif
