/* Turns of threads by a ticket lock: see baton.h. */
#define _GNU_SOURCE
#include "baton.h"
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 1024, SPINS = 500, SLEEPER_US = 4000, LONGEST_US = 100000 };

uint32_t mt_baton_blocks = 1;
struct mt_baton_hand *mt_baton_holder;
void (*mt_baton_stolen)(struct mt_baton_hand *from);
void (*mt_baton_asked)(struct mt_baton_hand *holder);
uint32_t mt_baton_step_us = 2000;

static struct {
    _Alignas(64) uint32_t next;    /* next free ticket */
    _Alignas(64) uint32_t serving; /* ticket whose turn it is */
    uint32_t slot[SLOTS];          /* waiters of ticket % SLOTS sleep on it */
} b;

static void baton_become(struct mt_baton_hand *h, uint32_t ticket)
{
    h->ticket = ticket;
    h->blocks = mt_baton_blocks;
    __atomic_store_n(&mt_baton_holder, h, __ATOMIC_RELAXED);
}

static int baton_sleeps(int thread)
{
    char path[48], text[128];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 1; /* not any more */
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' && state[2] == 'S';
}

/* Wakes the thread with that ticket. */
static void baton_wake(uint32_t ticket)
{
    uint32_t *slot = &b.slot[ticket % SLOTS];
    __atomic_fetch_add(slot, 1, __ATOMIC_RELEASE);
    if ((int32_t)(__atomic_load_n(&b.next, __ATOMIC_ACQUIRE) - ticket) > 0)
        syscall(SYS_futex, slot, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Takes the turn from a holder that cannot hand it on; called by the next in line. */
static int take_from_sleeper(uint32_t ticket)
{
    struct mt_baton_hand *h = __atomic_load_n(&mt_baton_holder, __ATOMIC_ACQUIRE);
    uint32_t before = ticket - 1;
    /* A new holder is noted late: until then h is the one before it, whose ticket is older. */
    if (!h || h->inside || h->ticket != before || __atomic_load_n(&b.serving, __ATOMIC_ACQUIRE) != before ||
        !baton_sleeps(h->thread) || h->inside)
        return 0;
    if (!__atomic_compare_exchange_n(&b.serving, &before, ticket, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return 0;
    if (mt_baton_stolen)
        mt_baton_stolen(h);
    baton_wake(ticket + 1);
    return 1;
}

static void baton_ask(uint32_t ticket)
{
    struct mt_baton_hand *h = __atomic_load_n(&mt_baton_holder, __ATOMIC_ACQUIRE);
    if (mt_baton_asked && h && __atomic_load_n(&b.serving, __ATOMIC_ACQUIRE) == ticket - 1)
        mt_baton_asked(h);
}

/* Returns the sleep time: the next in line asks the holder every step; those behind are woken when they
 * are next, and must not take the processor from the holder before. */
static uint32_t baton_sleep_us(uint32_t ahead)
{
    uint32_t far = ahead < LONGEST_US / SLEEPER_US ? ahead * SLEEPER_US : LONGEST_US;
    return ahead <= 1 ? mt_baton_step_us : far;
}

int mt_baton_take(struct mt_baton_hand *h, unsigned ms)
{
    uint32_t ticket = __atomic_fetch_add(&b.next, 1, __ATOMIC_ACQ_REL);
    unsigned waited = 0, next = 0;
    for (unsigned step = 0;; step++) {
        uint32_t *slot = &b.slot[ticket % SLOTS], seen = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
        uint32_t ahead = ticket - __atomic_load_n(&b.serving, __ATOMIC_ACQUIRE);
        if (!ahead)
            break;
        if (step < SPINS && ahead == 1) {
            __builtin_ia32_pause();
            continue;
        }
        uint32_t us = baton_sleep_us(ahead);
        struct timespec t = {0, us * 1000l};
        syscall(SYS_futex, slot, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
        waited += us;
        next += ahead == 1 ? us : 0;
        baton_ask(ticket);
        if (next >= SLEEPER_US && take_from_sleeper(ticket))
            break;
        if (ms && waited >= 1000 * ms)
            return -1; /* only the thread that ends the process: others may wait for this ticket for ever */
    }
    baton_become(h, ticket);
    return 0;
}

void mt_baton_give(struct mt_baton_hand *h)
{
    if (__atomic_load_n(&mt_baton_holder, __ATOMIC_RELAXED) != h)
        return;
    uint32_t mine = h->ticket;
    struct mt_baton_hand *me = h;
    __atomic_compare_exchange_n(&mt_baton_holder, &me, NULL, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    if (!__atomic_compare_exchange_n(&b.serving, &mine, mine + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return; /* it was taken away */
    baton_wake(h->ticket + 1);
    baton_wake(h->ticket + 2);
}

int mt_baton_wanted(const struct mt_baton_hand *h)
{
    return __atomic_load_n(&b.next, __ATOMIC_RELAXED) != h->ticket + 1;
}
