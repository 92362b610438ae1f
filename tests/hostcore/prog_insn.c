/* Executions in insn mode; the truth goes to stdout: "ORDER IP [R|W ADDRESS SIZE]…" (single thread) or the
 * number of executions. usage: prog_insn THREADS COUNT insn OPTIONS… */
#define _GNU_SOURCE
#include "synthetic.h"

#define SITES 40
static uint32_t site[SITES];
static unsigned threads, count;

static void *prog_insn_body(void *arg)
{
    struct mt_core_thread *t = mt_core_thread_start((uintptr_t)arg);
    unsigned seed = (unsigned)(uintptr_t)arg + 7;
    for (unsigned i = 0; i < count; i++) {
        unsigned k = (unsigned)rand_r(&seed) % SITES;
        mt_core_insn(t, site[k]);
        if (threads == 1)
            printf("%u %u", i, 5000 - k * 3);
        for (unsigned operand = 1; operand <= k % 3; operand++)
            for (unsigned again = 0; again <= (k == 8); again++) { /* one gathers */
                uint64_t address = (uint64_t)rand_r(&seed);
                mt_core_insn_operand(t, site[k] + operand, address, operand == 1 ? 8 : 0);
                if (threads == 1)
                    printf(operand == 1 ? " R %llu 8" : " W %llu 4", (unsigned long long)address);
            }
        if (threads == 1)
            printf("\n");
    }
    mt_core_thread_end(t);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t p[64];
    if (argc < 4)
        return 2;
    threads = (unsigned)atoi(argv[1]);
    count = (unsigned)atoi(argv[2]);
    syn_start(3, argc, argv);
    for (unsigned k = 0; k < SITES; k++) {
        char text[32], reads[16];
        snprintf(text, sizeof text, "op%u eax, [rbx]", k);
        snprintf(reads, sizeof reads, "r%u xmm1*", k);
        struct mt_core_site s[3] = {
            {.ip = 5000 - k * 3, .op = MT_HOST_EXEC, .text = text, .reads = reads, .writes = "eax"},
            {.ip = 5000 - k * 3, .op = MT_HOST_LOAD, .size = 8},
            {.ip = 5000 - k * 3, .op = MT_HOST_STORE, .size = 4}};
        site[k] = mt_core_sites(s, 1 + k % 3);
    }
    for (uintptr_t i = 0; i < threads; i++)
        pthread_create(&p[i], NULL, prog_insn_body, (void *)i);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(p[i], NULL);
    mt_core_stop(0);
    mt_core_options_free(&syn_options);
    return 0;
}
