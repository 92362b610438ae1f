/* False sharing, and what is none though threads touch one cache line: what memtrace says is in
 * tests/host/cases_answers.py. Each array is a cache line (or more) of its own. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { N = 20000 };
#define LINE __attribute__((aligned(64)))

static pthread_barrier_t both LINE;
static LINE volatile long late[8]; /* neighbours; the second thread comes when the first has done all */
static LINE volatile long limit[8] = {1}; /* one reads [0], the other one stores [1] */
static LINE volatile int ticket[16];      /* neighbours, atomic */
static LINE volatile long apart[16];      /* 64 bytes from each other */
static LINE volatile long table[8];       /* filled by main before the threads are there */
static LINE volatile long phases[8];      /* filled by one thread, used by the other after a barrier */
static LINE volatile long guarded[8];     /* neighbours under a lock */
static LINE volatile long serial[8];      /* neighbours; the second thread is made when the first has ended */
static LINE volatile long once[8];        /* each thread's result, stored once */
static LINE volatile long handed[8];      /* made by a thread for a thread that it makes */
static pthread_mutex_t lock LINE = PTHREAD_MUTEX_INITIALIZER;

static void *first(void *arg)
{
    long sum = 0;
    pthread_barrier_wait(&both);
    for (int i = 0; i < N; i++)
        late[0]++; /* LATEA */
    for (int i = 0; i < N; i++)
        sum += limit[0]; /* LIMITA */
    for (int i = 0; i < N; i++)
        __atomic_fetch_add(&ticket[0], 1, __ATOMIC_SEQ_CST); /* TICKETA */
    for (int i = 0; i < N; i++)
        apart[0]++;
    for (int i = 0; i < N; i++)
        sum += table[0];
    for (int i = 0; i < 8; i++)
        phases[i] = i;
    pthread_barrier_wait(&both);
    for (int i = 0; i < N; i++) {
        pthread_mutex_lock(&lock);
        guarded[0]++;
        pthread_mutex_unlock(&lock);
    }
    once[0] = sum;
    sleep(1);
    return arg;
}

static void *second(void *arg)
{
    long sum = 0;
    pthread_barrier_wait(&both);
    for (int i = 0; i < 64; i++) /* a thread's first accesses are not looked at */
        sum += table[i % 8];
    sleep(1);
    for (int i = 0; i < N; i++)
        late[1]++; /* LATEB */
    for (int i = 0; i < N; i++)
        limit[1]++; /* LIMITB */
    for (int i = 0; i < N; i++)
        __atomic_fetch_add(&ticket[1], 1, __ATOMIC_SEQ_CST); /* TICKETB */
    for (int i = 0; i < N; i++)
        apart[8]++;
    for (int i = 0; i < N; i++)
        sum += table[1];
    pthread_barrier_wait(&both);
    for (int i = 0; i < N; i++)
        phases[1] += phases[0];
    for (int i = 0; i < N; i++) {
        pthread_mutex_lock(&lock);
        guarded[1]++;
        pthread_mutex_unlock(&lock);
    }
    once[1] = sum;
    return arg;
}

static void *one_after(void *arg)
{
    for (int i = 0; i < N; i++)
        serial[(long)arg]++;
    return NULL;
}

static void *child(void *arg)
{
    volatile long *mine = arg;
    for (int i = 0; i < N; i++)
        mine[1] += mine[0];
    return NULL;
}

static void *parent(void *arg)
{
    pthread_t t;
    for (int i = 0; i < N; i++)
        handed[2]++;
    handed[0] = 1;
    pthread_create(&t, NULL, child, (void *)handed);
    pthread_join(t, NULL);
    return arg;
}

int main(void)
{
    pthread_t t[2];
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 8 * N; i++)
        table[i % 8] = i;
    pthread_create(&t[0], NULL, first, NULL);
    pthread_create(&t[1], NULL, second, NULL);
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    for (long i = 0; i < 2; i++) {
        pthread_create(&t[0], NULL, one_after, (void *)i);
        pthread_join(t[0], NULL);
    }
    pthread_create(&t[0], NULL, parent, NULL);
    pthread_join(t[0], NULL);
    printf("%ld\n",
           late[0] + late[1] + limit[1] + ticket[0] + ticket[1] + guarded[0] + guarded[1] + serial[1]);
    return 0;
}
