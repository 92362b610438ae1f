/* The program of bench/host: a mix of typical memory accesses. Usage: mt-bench-host REPEATS [THREADS]
 * Prints the seconds of the work, and a checksum that depends on all of it. Each thread works on buffers of
 * its own, and adds to shared counters after each part. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CELLS = 20000, MATRIX = 72, NUMBERS = 20000, SLOTS = 32768, WORDS = 3000, NODES = 4000 };

static uint64_t counters[64];
static long repeats;

struct node {
    struct node *left, *right;
    uint32_t key, hits;
};

struct buffers {
    double *from, *to, a[MATRIX][MATRIX], b[MATRIX][MATRIX], c[MATRIX][MATRIX];
    uint32_t numbers[NUMBERS], slots[SLOTS];
    struct node nodes[NODES];
    char text[WORDS][24];
    uint32_t random;
};

static uint32_t host_next(struct buffers *m)
{
    m->random = m->random * 1664525u + 1013904223u;
    return m->random >> 8;
}

/* Stencil: two streams of doubles. */
static uint64_t host_smooth(struct buffers *m)
{
    for (int i = 0; i < CELLS; i++)
        m->from[i] = (double)(i % 97);
    for (int step = 0; step < 4; step++) {
        for (int i = 1; i < CELLS - 1; i++)
            m->to[i] = 0.25 * m->from[i - 1] + 0.5 * m->from[i] + 0.25 * m->from[i + 1];
        double *was = m->from;
        m->from = m->to;
        m->to = was;
    }
    return (uint64_t)(m->from[CELLS / 2] * 1000);
}

/* Matrix product: rows times columns. */
static uint64_t host_multiply(struct buffers *m)
{
    for (int i = 0; i < MATRIX; i++)
        for (int j = 0; j < MATRIX; j++) {
            double sum = 0;
            for (int k = 0; k < MATRIX; k++)
                sum += m->a[i][k] * m->b[k][j];
            m->c[i][j] = sum;
        }
    return (uint64_t)m->c[MATRIX / 2][MATRIX / 3];
}

static void host_quicksort(uint32_t *v, int n)
{
    while (n > 12) {
        uint32_t pivot = v[n / 2];
        int i = 0, j = n - 1;
        for (;; i++, j--) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i >= j)
                break;
            uint32_t was = v[i];
            v[i] = v[j];
            v[j] = was;
        }
        host_quicksort(v, i);
        v += i;
        n -= i;
    }
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && v[j - 1] > v[j]; j--) {
            uint32_t was = v[j];
            v[j] = v[j - 1];
            v[j - 1] = was;
        }
}

static uint64_t host_sort(struct buffers *m)
{
    for (int i = 0; i < NUMBERS; i++)
        m->numbers[i] = host_next(m);
    host_quicksort(m->numbers, NUMBERS);
    return m->numbers[NUMBERS / 2];
}

/* Hash table: random accesses. */
static uint64_t host_hash(struct buffers *m)
{
    uint64_t found = 0;
    memset(m->slots, 0, sizeof m->slots);
    for (int i = 0; i < NUMBERS; i++) {
        uint32_t key = host_next(m) % 30000 + 1, at = key * 2654435761u % SLOTS;
        while (m->slots[at] && m->slots[at] != key)
            at = (at + 1) % SLOTS;
        found += m->slots[at] == key;
        m->slots[at] = key;
    }
    return found;
}

/* Tree: pointer chasing. */
static uint64_t host_tree(struct buffers *m)
{
    struct node *root = NULL;
    for (int i = 0; i < NODES; i++) {
        struct node **at = &root, *fresh = &m->nodes[i];
        uint32_t key = host_next(m);
        while (*at)
            at = key < (*at)->key ? &(*at)->left : &(*at)->right;
        *fresh = (struct node){NULL, NULL, key, 0};
        *at = fresh;
    }
    for (int i = 0; i < NODES; i++)
        for (struct node *n = root; n; n = m->nodes[i].key < n->key ? n->left : n->right)
            n->hits++;
    return root->hits;
}

/* Strings with functions of the C library, and small allocations. */
static uint64_t host_strings(struct buffers *m)
{
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i++) {
        int n = (int)(host_next(m) % 16 + 4);
        memset(m->text[i], 'a' + i % 26, (size_t)n);
        m->text[i][n] = 0;
    }
    for (int i = 1; i < WORDS; i++) {
        char *copy = malloc(strlen(m->text[i]) + strlen(m->text[i - 1]) + 1);
        strcpy(copy, m->text[i - 1]);
        strcat(copy, m->text[i]);
        sum += (uint64_t)copy[strlen(copy) - 1] + (strcmp(copy, m->text[i]) > 0);
        free(copy);
    }
    return sum;
}

static void *host_work(void *arg)
{
    static uint64_t (*const part[])(struct buffers *) = {host_smooth, host_multiply, host_sort,
                                                         host_hash,   host_tree,     host_strings};
    struct buffers *m = calloc(1, sizeof *m);
    m->from = calloc(CELLS, sizeof *m->from);
    m->to = calloc(CELLS, sizeof *m->to);
    m->random = (uint32_t)(size_t)arg + 1;
    for (int i = 0; i < MATRIX; i++)
        for (int j = 0; j < MATRIX; j++) {
            m->a[i][j] = (i + j) % 7;
            m->b[i][j] = (i - j) % 5;
        }
    for (long r = 0; r < repeats; r++)
        for (int i = 0; i < (int)(sizeof part / sizeof *part); i++)
            __atomic_fetch_add(&counters[i * 8], part[i](m), __ATOMIC_SEQ_CST);
    free(m->from);
    free(m->to);
    free(m);
    return NULL;
}

int main(int argc, char **argv)
{
    struct timespec begin, end;
    pthread_t thread[64];
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    repeats = argc > 1 ? atol(argv[1]) : 1;
    if (threads < 1 || threads > 64)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 1; i < threads; i++)
        pthread_create(&thread[i], NULL, host_work, (void *)(size_t)i);
    host_work(NULL);
    for (int i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    uint64_t sum = 0;
    for (int i = 0; i < 64; i += 8)
        sum = sum * 31 + counters[i];
    printf("%.6f %lu\n", (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9,
           sum);
    return 0;
}
