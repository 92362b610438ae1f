/* Threads on shared data through begin and end, as an engine would do it; what really happened goes to
 * stdout. usage: prog_atomic WHAT THREADS COUNT atomic OPTIONS… inc      each thread increments one counter
 * COUNT times: "thread NUMBER INCREMENTS EVEN" cas      the same by compare-and-swap that may fail: also
 * "failed NUMBER COUNT" private  each thread on data of its own; half of the threads sleep in between (lag)
 *   stale    a thread that idles with an old access in its buffer (lag)
 *   come     THREADS threads at a time come and go, COUNT in all
 *   names    registration, region of interest, functions; one thread, and unregistered ones
 *   die      a thread ends between begin and end, another one keeps its locks for ever
 *   fork     a child is forked in the middle of an access and goes on
 *   wide     operands over several blocks, in both directions; more operands than a line takes */
#define _GNU_SOURCE
#include "synthetic.h"
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t counter __attribute__((aligned(64)));
static unsigned threads, count;
static pthread_barrier_t all_here;
static uint32_t site_inc, site_cas, site_load, site_store;
static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned long prog_atomic_number(struct mt_core_thread *t)
{
    return (unsigned long)(uintptr_t)t->engine;
}

/* Numbers of threads are given in order of start: this is the test's, checked against the trace by counts. */
static struct mt_core_thread *begin_thread(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static unsigned long next;
    pthread_mutex_lock(&lock);
    struct mt_core_thread *t = mt_core_thread_start((uint64_t)gettid());
    if (t)
        t->engine = (void *)next++;
    pthread_mutex_unlock(&lock);
    return t;
}

static void maybe_yield(unsigned *seed)
{
    if (rand_r(seed) % 64 == 0)
        sched_yield();
}

static void *prog_atomic_inc(void *arg)
{
    struct mt_core_thread *t = begin_thread();
    unsigned seed = (unsigned)(uintptr_t)arg, even = 0;
    struct mt_core_operand o = {(uint64_t)&counter, site_inc, 8};
    for (unsigned i = 0; i < count; i++) {
        mt_core_atomic_begin(t, &o, 1);
        maybe_yield(&seed);
        even += __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST) % 2 == 0;
        maybe_yield(&seed);
        mt_core_atomic_end(t, NULL, 0, 0);
    }
    pthread_mutex_lock(&print_lock);
    printf("thread %lu %u %u\n", prog_atomic_number(t), count, even);
    pthread_mutex_unlock(&print_lock);
    mt_core_thread_end(t);
    return NULL;
}

static void *prog_atomic_cas(void *arg)
{
    struct mt_core_thread *t = begin_thread();
    unsigned seed = (unsigned)(uintptr_t)arg, failed = 0, even = 0;
    struct mt_core_operand load = {(uint64_t)&counter, site_load, 8}, o = {(uint64_t)&counter, site_cas, 8};
    for (unsigned i = 0; i < count; i++) {
        for (int done = 0; !done;) {
            mt_core_atomic_begin(t, &load, 1);
            uint64_t old = __atomic_load_n(&counter, __ATOMIC_SEQ_CST), now = old;
            mt_core_atomic_end(t, NULL, 0, 0);
            maybe_yield(&seed);
            if (getenv("SYN_LATE"))
                mt_core_atomic_begin(t, NULL, 0);
            else
                mt_core_atomic_begin(t, &o, 1);
            done =
                __atomic_compare_exchange_n(&counter, &now, old + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
            mt_core_atomic_end(t, getenv("SYN_LATE") ? &o : NULL, getenv("SYN_LATE") ? 1 : 0, !done);
            failed += !done;
            even += done && old % 2 == 0;
        }
    }
    pthread_mutex_lock(&print_lock);
    printf("thread %lu %u %u\nfailed %lu %u\n", prog_atomic_number(t), count, even, prog_atomic_number(t),
           failed);
    pthread_mutex_unlock(&print_lock);
    mt_core_thread_end(t);
    return NULL;
}

static void access_once(struct mt_core_thread *t, uint64_t address, uint32_t site)
{
    struct mt_core_operand o = {address, site, 8};
    mt_core_atomic_begin(t, &o, 1);
    mt_core_atomic_end(t, NULL, 0, 0);
}

static void *prog_atomic_private(void *arg)
{
    struct mt_core_thread *t = begin_thread();
    static unsigned progress; /* of the first one: the others find it far ahead, however they are scheduled */
    pthread_barrier_wait(&all_here);
    while ((uintptr_t)arg % 2 && __atomic_load_n(&progress, __ATOMIC_RELAXED) < count / 2)
        usleep(500);
    for (unsigned i = 0; i < count; i++) {
        if ((uintptr_t)arg % 2 && i % 100 == 0)
            usleep(500);
        access_once(t, 4096 * (1 + (uint64_t)arg) + i % 512 * 8, i % 2 ? site_load : site_store);
        if (!arg)
            __atomic_store_n(&progress, i + 1, __ATOMIC_RELAXED);
    }
    mt_core_thread_end(t);
    return NULL;
}

/* One thread plays three: 0 has an old access to write when 2 starts, which moves its clock on; 1 goes on. */
static void prog_atomic_stale(void)
{
    struct mt_core_thread *idle = begin_thread(), *runs = begin_thread();
    access_once(idle, 4096, site_load);
    for (unsigned i = 0; i < count; i++)
        access_once(runs, 4096, site_load);
    struct mt_core_thread *late = begin_thread();
    for (unsigned i = 0; i < count; i++)
        access_once(runs, 4096, site_load);
    mt_core_thread_end(late);
    mt_core_thread_end(runs);
    mt_core_thread_end(idle);
}

static void *prog_atomic_come(void *arg)
{
    struct mt_core_thread *t = begin_thread();
    for (unsigned i = 0; i < 50; i++)
        access_once(t, (uint64_t)&counter + i % 8 * 64, site_inc);
    mt_core_thread_end(t);
    return NULL;
}

static void run_all(void *(*body)(void *))
{
    pthread_t p[256];
    pthread_barrier_init(&all_here, NULL, threads);
    for (uintptr_t i = 0; i < threads; i++)
        pthread_create(&p[i], NULL, body, (void *)i);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(p[i], NULL);
}

static void *prog_atomic_unregistered(void *arg)
{
    struct mt_core_thread *t = begin_thread();
    access_once(t, 4096, site_load); /* not traced under -r */
    mt_core_call(t, mt_core_function("lib::work"), 77, (uint64_t[3]){1, 2, 3});
    mt_core_return(t, mt_core_function("lib::work"), 77, 9);
    mt_core_context_change(t);
    mt_core_thread_end(t);
    return NULL;
}

static void prog_atomic_names(void)
{
    struct mt_core_thread *t = begin_thread();
    uint32_t work = mt_core_function("lib::work");
    printf("numbers %u %u %u %u\n", mt_core_function("atomic_trace::register_thread"), work,
           mt_core_function("nobody"), mt_core_function("atomic_trace::end_roi"));
    access_once(t, 64, site_load);
    mt_core_call(t, MT_CORE_FN_REGISTER, 1, (uint64_t[3]){40, 0, 0});
    access_once(t, 128, site_load);
    mt_core_call(t, work, 1000, (uint64_t[3]){4, 5, 18446744073709551615ull});
    pthread_t p;
    pthread_create(&p, NULL, prog_atomic_unregistered, NULL);
    pthread_join(p, NULL);
    mt_core_return(t, work, 1000, 7);
    mt_core_call(NULL, work, 5, (uint64_t[3]){0, 0, 0});
    mt_core_call(t, MT_CORE_FN_START_ROI, 1, (uint64_t[3]){0, 0, 0});
    access_once(t, 192, site_store);
    mt_core_call(t, MT_CORE_FN_END_ROI, 1, (uint64_t[3]){0, 0, 0});
    access_once(t, 256, site_store);
    mt_core_call(t, MT_CORE_FN_REGISTER, 1, (uint64_t[3]){41, 0, 0});
    mt_core_context_change(t);
    mt_core_thread_end(t);
}

static int stuck;

static void *prog_atomic_dies(void *arg)
{
    struct mt_core_thread *t = begin_thread();
    struct mt_core_operand o = {(uint64_t)&counter, site_inc, 8};
    mt_core_atomic_begin(t, &o, 1);
    __atomic_store_n((struct mt_core_thread **)arg, t, __ATOMIC_RELEASE);
    if (stuck)
        pause();
    return NULL;
}

/* The first one's end is reported by another thread; the second one is never heard of again. */
static void prog_atomic_die(void)
{
    struct mt_core_thread *dead = NULL;
    pthread_t p;
    pthread_create(&p, NULL, prog_atomic_dies, &dead);
    pthread_join(p, NULL);
    mt_core_thread_end(dead);
    struct mt_core_thread *t = begin_thread();
    access_once(t, (uint64_t)&counter, site_inc);
    stuck = 1;
    dead = NULL;
    pthread_create(&p, NULL, prog_atomic_dies, &dead);
    while (!__atomic_load_n(&dead, __ATOMIC_ACQUIRE))
        sched_yield();
    access_once(t, (uint64_t)&counter, site_inc);
    puts("survived");
    mt_core_thread_end(t);
}

static void prog_atomic_forks(void)
{
    struct mt_core_thread *t = begin_thread();
    struct mt_core_operand o = {(uint64_t)&counter, site_inc, 8};
    for (unsigned i = 0; i < count; i++) {
        mt_core_atomic_begin(t, &o, 1);
        pid_t child = i == count / 2 ? fork() : 1;
        if (!child)
            mt_core_forked();
        mt_core_atomic_end(t, NULL, 0, 0);
        if (!child) {
            for (unsigned k = 0; k < 1000; k++)
                access_once(t, (uint64_t)&counter, site_inc);
            mt_core_thread_end(t);
            mt_core_stop(0);
            _exit(0);
        }
    }
    wait(NULL);
    mt_core_thread_end(t);
}

static void prog_atomic_wide(void)
{
    struct mt_core_thread *t = begin_thread();
    struct mt_core_operand over[2] = {{64 - 4, site_load, 8}, {100000, site_store, 200}};
    struct mt_core_operand two[2] = {{8, site_load, 4}, {16, site_load, 4}};
    struct mt_core_operand odd[3] = {{8, site_load, 4}, {16, site_load, 8}, {24, site_store, 4}};
    struct mt_core_operand huge = {0, site_store, 1u << 20}, zero = {8, site_store, 0};
    struct mt_core_operand stores[2] = {{8, site_store, 4}, {16, site_store, 4}};
    const struct {
        struct mt_core_operand *o;
        unsigned n;
    } all[] = {{over, 2}, {two, 2}, {odd, 3}, {&huge, 1}, {&zero, 1}, {stores, 2}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        mt_core_atomic_begin(t, all[i].o, all[i].n);
        mt_core_atomic_end(t, NULL, 0, 0);
    }
    mt_core_atomic_end(t, NULL, 0, 0); /* without a begin: nothing */
    mt_core_atomic_begin(t, two, 2);
    mt_core_atomic_drop(t, NULL); /* did not execute */
    mt_core_atomic_begin(t, two, 2);
    mt_core_atomic_begin(t, two, 1); /* releases the one before */
    mt_core_atomic_end(t, NULL, 0, 0);
    mt_core_thread_end(t);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    threads = (unsigned)atoi(argv[2]);
    count = (unsigned)atoi(argv[3]);
    syn_start(4, argc, argv);
    site_inc = syn_site(1, MT_HOST_ATOMIC, 8);
    site_cas = syn_site(2, MT_HOST_CAS, 8);
    site_load = syn_site(3, MT_HOST_LOAD, 8);
    site_store = syn_site(4, MT_HOST_STORE, 8);
    printf("counter %llu\n", (unsigned long long)(uintptr_t)&counter);
    if (!strcmp(argv[1], "inc"))
        run_all(prog_atomic_inc);
    else if (!strcmp(argv[1], "cas"))
        run_all(prog_atomic_cas);
    else if (!strcmp(argv[1], "private"))
        run_all(prog_atomic_private);
    else if (!strcmp(argv[1], "stale"))
        prog_atomic_stale();
    else if (!strcmp(argv[1], "come"))
        for (unsigned i = 0; i < count; i += threads)
            run_all(prog_atomic_come);
    else if (!strcmp(argv[1], "names"))
        prog_atomic_names();
    else if (!strcmp(argv[1], "die"))
        prog_atomic_die();
    else if (!strcmp(argv[1], "fork"))
        prog_atomic_forks();
    else if (!strcmp(argv[1], "wide"))
        prog_atomic_wide();
    else
        return 2;
    mt_core_stop(0);
    mt_core_options_free(&syn_options);
    return 0;
}
