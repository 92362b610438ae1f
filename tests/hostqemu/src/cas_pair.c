/* Compare-and-swap of pairs of words (cmpxchg8b, cmpxchg16b), of which some succeed and some do not: because
 * the low word differs, the high word, or both. Prints for each of the two variables its address, how often
 * it was swapped, and how often not. With an argument a second thread sleeps meanwhile, so that qemu
 * translates for several. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static struct {
    uint64_t low, high;
} __attribute__((aligned(64))) pair16;
static uint64_t pair8 __attribute__((aligned(64)));
static uint64_t swapped[2], kept[2];

/* The address is made in the same block, in front of the instruction, if `late`. */
#define CAS_PAIR(bytes, T)                                                                                   \
    static int cas_pair_swap##bytes(char *base, long late, T low, T high, T new_low, T new_high)             \
    {                                                                                                        \
        unsigned char done;                                                                                  \
        if (late)                                                                                            \
            __asm__ volatile("lea (%[base], %[late]), %%rsi\n\tlock cmpxchg" #bytes                          \
                             "b -8(%%rsi)\n\tsetz %[done]"                                                   \
                             : [done] "=q"(done), "+a"(low), "+d"(high)                                      \
                             : [base] "r"(base), [late] "r"(late), "b"(new_low), "c"(new_high)               \
                             : "memory", "cc", "rsi");                                                       \
        else                                                                                                 \
            __asm__ volatile("lock cmpxchg" #bytes "b (%[base])\n\tsetz %[done]"                             \
                             : [done] "=q"(done), "+a"(low), "+d"(high)                                      \
                             : [base] "r"(base), "b"(new_low), "c"(new_high)                                 \
                             : "memory", "cc");                                                              \
        return done;                                                                                         \
    }
CAS_PAIR(16, uint64_t)
CAS_PAIR(8, uint32_t)

static void cas_pair_count(int which, int done)
{
    swapped[which] += done != 0;
    kept[which] += done == 0;
}

/* Expects what is there, and then other things; the words count up by 1 and 3. */
static void cas_pair_go(long late)
{
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t l = pair16.low, h = pair16.high;
        cas_pair_count(0, cas_pair_swap16((char *)&pair16, late, l, h + 1, 90, 91));
        cas_pair_count(0, cas_pair_swap16((char *)&pair16, late, l, h, l + 1, h + 3));
        cas_pair_count(0, cas_pair_swap16((char *)&pair16, late, l, h, 92, 93));
        uint32_t l8 = (uint32_t)pair8, h8 = (uint32_t)(pair8 >> 32);
        cas_pair_count(1, cas_pair_swap8((char *)&pair8, late, l8, h8 + 1, 90, 91));
        cas_pair_count(1, cas_pair_swap8((char *)&pair8, late, l8, h8, l8 + 1, h8 + 3));
        cas_pair_count(1, cas_pair_swap8((char *)&pair8, late, l8 + 1, h8, 92, 93));
    }
}

static void *cas_pair_sleeper(void *arg)
{
    usleep(20000);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    (void)argv;
    if (argc > 1)
        pthread_create(&thread, NULL, cas_pair_sleeper, NULL);
    cas_pair_go(0);
    cas_pair_go(8);
    if (argc > 1)
        pthread_join(thread, NULL);
    printf("%lu %lu %lu\n", (unsigned long)(uintptr_t)&pair16, (unsigned long)swapped[0],
           (unsigned long)kept[0]);
    printf("%lu %lu %lu\n", (unsigned long)(uintptr_t)&pair8, (unsigned long)swapped[1],
           (unsigned long)kept[1]);
    return 0;
}
