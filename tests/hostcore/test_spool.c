/* The spool with little memory, so that it splits by instruction and by time
 * several times over, against qsort. */
#include "output.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 60000u
#define INSTRUCTIONS 50u

struct known {
    struct mt_host_timed_entry e;
    uint32_t rank, serial;
};
static struct known all[COUNT];
static uint32_t seen, wrong;

static int spool_order(const void *a, const void *b)
{
    const struct known *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->e.time != y->e.time)
        return x->e.time < y->e.time ? -1 : 1;
    return x->serial < y->serial ? -1 : 1;
}

static void spool_entry(void *arg, const struct mt_host_timed_entry *e, uint32_t rank)
{
    (void)arg;
    if (seen < COUNT)
        wrong += rank != all[seen].rank || memcmp(e, &all[seen].e, sizeof *e) != 0;
    seen++;
}

int main(void)
{
    static const uint64_t memory[] = {0, 100000, 3000, 72};
    uint32_t rank[INSTRUCTIONS + 1];
    for (uint32_t i = 0; i <= INSTRUCTIONS; i++)
        rank[i] = INSTRUCTIONS - i;
    for (unsigned m = 0; m < sizeof memory / sizeof *memory; m++) {
        struct mt_spool s;
        char why[300];
        unsigned seed = m, n = memory[m] == 72 ? 1000 : memory[m] == 3000 ? 6000 : COUNT;
        if (mt_spool_open(&s, why, sizeof why))
            return 1;
        seen = wrong = 0;
        for (uint32_t i = 0; i < n; i++) {
            /* one instruction has half of all, one time has many entries */
            uint32_t insn = rand_r(&seed) % 2 ? 7 : 1 + (uint32_t)rand_r(&seed) % INSTRUCTIONS;
            uint64_t time = rand_r(&seed) % 8 ? i / 3 + (uint64_t)rand_r(&seed) % 100 : 12345;
            all[i].e = (struct mt_host_timed_entry){i, time, insn << 2 | (i & 3), i % 9};
            all[i].rank = rank[insn];
            all[i].serial = i;
            if (mt_spool_add(&s, &all[i].e, 1))
                return 1;
        }
        qsort(all, n, sizeof *all, spool_order);
        int rc = mt_spool_read(
            &s, &(struct mt_spool_reader){
                    .rank = rank, .ranks = INSTRUCTIONS + 1, .memory = memory[m], .entry = spool_entry});
        printf("memory %llu: rc %d, %u of %u entries, %u wrong\n", (unsigned long long)memory[m], rc, seen, n,
               wrong);
        if (rc || seen != n || wrong)
            return 1;
    }
    return 0;
}
