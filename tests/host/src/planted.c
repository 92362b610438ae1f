/* Planted faults, each on lines of its own: what memtrace says of them is in tests/host/cases_answers.py. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N = 256, THREADS = 4, FALSE_TURNS = 312, LOCKED_TURNS = 125, PARTICLES = 4000, SLOTS = 4096 };
struct particle {
    double x, y, z, mass, charge, vx, vy, vz;
};
struct slot {
    unsigned key, value;
};

static volatile long counters[THREADS] __attribute__((aligned(64))); /* side by side */
static long total __attribute__((aligned(64)));
static __attribute__((aligned(64))) pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int turns[THREADS][2]
    __attribute__((aligned(64))); /* pipes: the kernel's memory, so that nothing else bounces */

/* The thread's next turn; a turn is handed on by turn_end. Threads alternate by this alone, however many
 * processors there are. */
static void turn_begin(long me)
{
    char byte;
    if (read(turns[me][0], &byte, 1) != 1)
        abort();
}

static void turn_end(long me)
{
    if (write(turns[(me + 1) % THREADS][1], "", 1) != 1)
        abort();
}

static void *count(void *arg)
{
    long me = (long)arg;
    for (int turn = 0; turn < FALSE_TURNS; turn++) {
        turn_begin(me);
        for (int i = 0; i < 64; i++)
            counters[me]++; /* FALSE */
        turn_end(me);
    }
    for (int turn = 0; turn < LOCKED_TURNS; turn++) {
        turn_begin(me);
        for (int i = 0; i < 16; i++) {
            pthread_mutex_lock(&lock);
            total++; /* LOCKED */
            pthread_mutex_unlock(&lock);
        }
        turn_end(me);
    }
    return NULL;
}

static double columns(const double *m)
{
    double s = 0;
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            s += m[i * N + j]; /* COLUMNS */
    return s;
}

static double strided(const double *a)
{
    double s = 0;
    for (int i = 0; i < N * N; i += 16)
        s += a[i]; /* STRIDED */
    return s;
}

static unsigned probe(struct slot *table, unsigned key)
{
    unsigned h = key / 64 % SLOTS;              /* neighbours collide */
    while (table[h].key && table[h].key != key) /* PROBE */
        h = (h + 1) % SLOTS;
    table[h].key = key;
    return table[h].value++;
}

/* Nine of ten times nothing has changed. */
static double saved(double *backup, double *from)
{
    for (int i = 0; i < 10; i++) {
        from[7] = i / 9;
        memcpy(backup, from, 4000 * sizeof *from); /* AGAIN */
    }
    return backup[7];
}

static unsigned mapped(const char *path)
{
    unsigned sum = 0;
    int fd = open(path, O_RDONLY);
    off_t bytes = lseek(fd, 0, SEEK_END);
    unsigned char *p = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0); /* MAPPED */
    for (int pass = 0; pass < 2; pass++)
        for (off_t i = 0; i < bytes; i++)
            sum += p[i]; /* TWICE */
    munmap(p, (size_t)bytes);
    close(fd);
    return sum;
}

int main(int argc, char **argv)
{
    double *m = calloc(N * N, sizeof *m);
    double *a = malloc(N * N * sizeof *a);
    double *never = malloc(100000); /* NEVER */
    double *unread = malloc(8000);  /* UNREAD */
    for (int i = 0; i < N * N; i++)
        a[i] = i;
    for (int i = 0; i < 1000; i++)
        unread[i] = i;
    double s = columns(m) + strided(a);
    char *grow = NULL;
    for (int i = 1; i <= 100; i++) {
        grow = realloc(grow, (size_t)i * 100); /* GROW */
        memset(grow + (i - 1) * 100, i, 100);
    }
    struct particle *p = calloc(PARTICLES, sizeof *p);
    for (int i = 0; i < PARTICLES; i++)
        s += p[i].mass; /* MEMBER */
    struct slot *table = calloc(SLOTS, sizeof *table);
    for (unsigned i = 1; i <= 1000; i++)
        s += probe(table, i);
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pipe(turns[i]))
            abort();
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, count, (void *)i);
    turn_end(THREADS - 1); /* the first is the first thread's */
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    double *state = calloc(4000, sizeof *state);    /* STATE */
    double *backup = malloc(4000 * sizeof *backup); /* BACKUP */
    memset(backup, 1, 4000 * sizeof *backup);
    s += saved(backup, state);
    free(state);
    free(backup);
    s += mapped(argv[argc > 1]);
    printf("%f %ld %d\n", s + grow[50], total + counters[1], never != NULL);
    free(m);
    free(a);
    free(grow);
    free(unread);
    free(p);
    free(table);
    return 0; /* `never` leaks */
}
