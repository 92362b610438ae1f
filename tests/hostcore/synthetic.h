/* A program and its engine in one, for tests of the core: the "engine" calls the core by hand around each
 * access. Options of the core follow "--" on the command line. */
#ifndef SYNTHETIC_H
#define SYNTHETIC_H
#include "core.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static struct mt_core_options syn_options;

static int syn_spawn(void (*run)(void *), void *arg, void **handle)
{
    struct start {
        void (*run)(void *);
        void *arg;
    };
    pthread_t *t = malloc(sizeof *t);
    *handle = t;
    return pthread_create(t, NULL, (void *(*)(void *))(void (*)(void))run, arg);
}

static void syn_join(void *handle)
{
    pthread_join(*(pthread_t *)handle, NULL);
    free(handle);
}

static int syn_locate(uint64_t ip, struct mt_core_location *p)
{
    snprintf(p->file, sizeof p->file, "prog.c");
    snprintf(p->function, sizeof p->function, "f%llu", (unsigned long long)ip);
    snprintf(p->module, sizeof p->module, "prog");
    p->line = (uint32_t)ip;
    return 0;
}

/* Numbers as a CUDA runtime would give them: others take some too. */
static uint64_t syn_numbers = 1000;

static uint64_t syn_sequence(int next)
{
    return next ? __atomic_add_fetch(&syn_numbers, 3, __ATOMIC_SEQ_CST)
                : __atomic_load_n(&syn_numbers, __ATOMIC_SEQ_CST);
}

static struct mt_core_engine syn_engine = {.name = "test", .locate = syn_locate};

/* argv[n..]: mode and options. Exits with 2 on a usage error, 1 when it cannot start. */
static inline void syn_start(int n, int argc, char **argv)
{
    char why[512];
    const char *limit = getenv("SYN_FSIZE"); /* bytes that a file may have */
    if (limit)
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)atol(limit), (rlim_t)atol(limit)});
    if (getenv("SYN_SPAWN")) {
        syn_engine.spawn = syn_spawn;
        syn_engine.join = syn_join;
    }
    if (getenv("SYN_SEQUENCE"))
        syn_engine.sequence = syn_sequence;
    syn_engine.addresses_late = getenv("SYN_LATE") != NULL;
    syn_engine.marks = getenv("SYN_MARKS") != NULL; /* it appends nothing in atomic mode: `open` stays 0 */
    if (mt_core_options_parse(&syn_options, argc - n, argv + n, why, sizeof why)) {
        fprintf(stderr, "%s\n", why);
        exit(2);
    }
    if (mt_core_start(&syn_options, &syn_engine, why, sizeof why)) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
}

static inline uint32_t syn_site(uint64_t ip, enum mt_host_op op, uint32_t size)
{
    struct mt_core_site s = {.ip = ip, .op = op, .size = size};
    return mt_core_sites(&s, 1);
}
#endif
