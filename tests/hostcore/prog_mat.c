/* Accesses and allocations in mat mode, as an engine would report them; what really happened goes to stdout.
 * Addresses are made up.
 *
 * usage: prog_mat WHAT THREADS COUNT mat OPTIONS…
 *   basic    a few allocations and accesses with known answers
 *   pool     threads share a few slots under mutexes: allocate, free, access; the size of an allocation is
 *            its serial number: "THREAD SERIAL OFFSET" for each access
 *   switch   the signal switch, a routine and a region of interest, around numbered accesses
 *   running  stop while the threads still run
 *   fill     COUNT accesses that do not compress
 *   stream   COUNT accesses of each thread at known addresses, as fast as it can */
#define _GNU_SOURCE
#include "synthetic.h"
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static unsigned threads, count;
static uint32_t load, store, atomic, nowhere;

static void prog_mat_basic(void)
{
    struct mt_core_thread *t = mt_core_thread_start(1);
    mt_core_alloc(t, MT_CORE_MALLOC, 1000, 100, 7);
    mt_core_alloc(t, MT_CORE_MMAP, 8192, 8192, 8);
    mt_core_alloc(t, MT_CORE_NEW, 9000, 50, 9);
    mt_core_access(t, load, 1000, 4);
    mt_core_access(t, store, 1099, 1);
    mt_core_access(t, load, 1100, 4); /* just after */
    mt_core_access(t, atomic, 8192, 8);
    mt_core_access(t, load, 9010, 0); /* as large as the site says */
    mt_core_access(t, load, 9050, 2); /* after the inner one: the map's */
    mt_core_unmap(t, 12288, 4096);
    mt_core_access(t, load, 12287, 1);
    mt_core_access(t, load, 12288, 1); /* gone */
    mt_core_free(t, 9000);
    mt_core_access(t, nowhere, 9010, 4);
    mt_core_realloc_begin(t, 1000);
    mt_core_realloc(t, 1000, 1000, 200, 7);
    mt_core_access(t, load, 1100, 4);
    mt_core_thread_end(t);
    mt_core_access(t, load, 1100, 4); /* after its end: nothing */
}

#define SLOTS 8
#define SLOT(i) ((1ull + (i)) << 30)
static struct {
    pthread_mutex_t lock;
    uint64_t serial; /* 0: free */
} slot[SLOTS];
static uint64_t serials;

static void *prog_mat_pool(void *arg)
{
    struct mt_core_thread *t = mt_core_thread_start((uintptr_t)arg);
    unsigned seed = (unsigned)(uintptr_t)arg + 1;
    uint64_t me = (uintptr_t)arg;
    /* a site of its own, so that the text distinguishes threads */
    uint32_t mine = syn_site(100 + me, MT_HOST_LOAD, 1);
    char *out = malloc(64u * count * 8);
    size_t n = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned s = (unsigned)rand_r(&seed) % SLOTS;
        pthread_mutex_lock(&slot[s].lock);
        if (!slot[s].serial) {
            slot[s].serial = __atomic_add_fetch(&serials, 1, __ATOMIC_SEQ_CST);
            mt_core_alloc(t, MT_CORE_MALLOC, SLOT(s), slot[s].serial, 50);
        } else if (rand_r(&seed) % 4 == 0) {
            mt_core_free(t, SLOT(s));
            slot[s].serial = 0;
        }
        for (unsigned k = 0; k < 8 && slot[s].serial; k++) {
            uint64_t offset = (uint64_t)rand_r(&seed) % slot[s].serial;
            mt_core_access(t, mine, SLOT(s) + offset, 1);
            n += (size_t)sprintf(out + n, "%llu %llu %llu\n", (unsigned long long)me,
                                 (unsigned long long)slot[s].serial, (unsigned long long)offset);
        }
        pthread_mutex_unlock(&slot[s].lock);
        if (rand_r(&seed) % 16 == 0)
            sched_yield();
    }
    mt_core_thread_end(t);
    fwrite(out, 1, n, stdout);
    free(out);
    return NULL;
}

static void on_signal(int signo)
{
    mt_core_switch(signo == SIGUSR1);
}

/* Addresses 1.. are numbers of the accesses; the trace must have those that "on" lines name. */
static void prog_mat_switches(void)
{
    struct mt_core_thread *t = mt_core_thread_start(1);
    uint64_t at = 1 << 20;
    uint32_t routine = mt_core_function("main");
    mt_core_alloc(t, MT_CORE_MALLOC, at, 1u << 30, 7);
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    for (unsigned i = 0; i < count; i++) {
        if (i % 5 == 1)
            raise(SIGUSR1);
        if (i % 7 == 5)
            raise(SIGUSR2);
        if (i % 11 == 3)
            mt_core_call(t, routine, 1000, (uint64_t[3]){0, 0, 0});
        if (i % 11 == 4)
            mt_core_call(t, routine, 900, (uint64_t[3]){0, 0, 0});
        if (i % 11 == 6 || i % 11 == 9)
            mt_core_return(t, routine, 900, 0);
        if (i % 13 == 2)
            mt_core_call(t, MT_CORE_FN_START_ROI, 1, (uint64_t[3]){0, 0, 0});
        if (i % 13 == 8)
            mt_core_call(t, MT_CORE_FN_END_ROI, 1, (uint64_t[3]){0, 0, 0});
        mt_core_access(t, load, at++, 1);
    }
    mt_core_thread_end(t);
}

static pthread_barrier_t turn;

static void *prog_mat_listener(void *arg)
{
    struct mt_core_thread *t = mt_core_thread_start(2);
    for (unsigned i = 0; i < count; i++) {
        pthread_barrier_wait(&turn); /* the call is being made */
        pthread_barrier_wait(&turn); /* it is over */
        mt_core_access(t, store, i, 1);
    }
    mt_core_thread_end(t);
    return NULL;
}

/* The k-th call has number 1000 + 3 (k + 1). */
static void prog_mat_calls(void)
{
    pthread_t p;
    struct mt_core_thread *t = mt_core_thread_start(1);
    pthread_barrier_init(&turn, NULL, 2);
    pthread_create(&p, NULL, prog_mat_listener, NULL);
    for (unsigned i = 0; i < count; i++) {
        pthread_barrier_wait(&turn);
        syn_sequence(1);
        mt_core_moved(t);
        mt_core_access(t, load, i, 1);
        pthread_barrier_wait(&turn);
    }
    pthread_join(p, NULL);
    mt_core_thread_end(t);
}

static uint32_t stopped;

static void *prog_mat_endless(void *arg)
{
    struct mt_core_thread *t = mt_core_thread_start((uintptr_t)arg);
    if (!t)
        return NULL; /* too late */
    while (!__atomic_load_n(&stopped, __ATOMIC_RELAXED)) {
        for (unsigned i = 0; i < 1000; i++)
            mt_core_access(t, load, 1000 + i % 64, 1);
        if (mt_core_on())
            usleep(100); /* less to decode */
    }
    for (unsigned i = 0; i < 1000000; i++)
        mt_core_access(t, load, 1000 + i % 64, 1);
    mt_core_thread_end(t);
    return NULL;
}

static void prog_mat_running(void)
{
    pthread_t p[64];
    mt_core_alloc(NULL, MT_CORE_MALLOC, 1000, 64, 1);
    for (uintptr_t i = 0; i < threads; i++)
        pthread_create(&p[i], NULL, prog_mat_endless, (void *)i);
    usleep(10000);
    mt_core_stop(1);
    __atomic_store_n(&stopped, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(p[i], NULL);
}

static void prog_mat_fill(void)
{
    struct mt_core_thread *t = mt_core_thread_start(1);
    uint64_t state = 1;
    mt_core_alloc(t, MT_CORE_MALLOC, 1, 1ull << 62, 1);
    for (unsigned i = 0; i < count; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        mt_core_access(t, load, state >> 3, 8);
    }
    mt_core_thread_end(t);
    printf("on %d\n", mt_core_on());
}

/* What is the access number `i` of a thread, so that a reader knows it, too. */
static void *prog_mat_stream(void *arg)
{
    uint64_t me = (uintptr_t)arg;
    struct mt_core_thread *t = mt_core_thread_start(me);
    uint32_t mine = syn_site(100 + me, MT_HOST_LOAD, 4);
    for (uint64_t i = 0; i < count; i++)
        mt_core_access(t, mine, (me + 1) << 40 | (i * i * 40503 & 0xffffff), 4);
    mt_core_thread_end(t);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    threads = (unsigned)atoi(argv[2]);
    count = (unsigned)atoi(argv[3]);
    syn_start(4, argc, argv);
    load = syn_site(11, MT_HOST_LOAD, 4);
    store = syn_site(12, MT_HOST_STORE, 8);
    atomic = syn_site(13, MT_HOST_ATOMIC, 8);
    nowhere = syn_site(0, MT_HOST_LOAD, 4);
    if (!strcmp(argv[1], "basic")) {
        prog_mat_basic();
    } else if (!strcmp(argv[1], "pool") || !strcmp(argv[1], "stream")) {
        pthread_t p[64];
        for (unsigned i = 0; i < SLOTS; i++)
            pthread_mutex_init(&slot[i].lock, NULL);
        for (uintptr_t i = 0; i < threads; i++)
            pthread_create(&p[i], NULL, *argv[1] == 'p' ? prog_mat_pool : prog_mat_stream, (void *)i);
        for (unsigned i = 0; i < threads; i++)
            pthread_join(p[i], NULL);
    } else if (!strcmp(argv[1], "switch")) {
        prog_mat_switches();
    } else if (!strcmp(argv[1], "calls")) {
        prog_mat_calls();
    } else if (!strcmp(argv[1], "running")) {
        prog_mat_running();
    } else if (!strcmp(argv[1], "fill")) {
        prog_mat_fill();
    } else {
        return 2;
    }
    mt_core_stop(0);
    mt_core_options_free(&syn_options);
    return 0;
}
