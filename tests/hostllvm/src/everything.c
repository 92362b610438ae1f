/* Accesses of every kind, to memory of its own (`world`) and to the stack. Prints where `world` lies and a
 * checksum. Built twice: traced, and with clang's own callbacks for loads and stores (counter.c). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct point {
    float x, y, z;
    short tag;
    char c;
};
struct world {
    double grid[64][64];
    int keys[1000];
    struct point points[200];
    unsigned char bytes[4096];
    long longs[512];
    struct node {
        struct node *next;
        int64_t value;
    } nodes[256];
    _Atomic long counter;
    void *table[16];
};
static struct world w;
struct world *volatile where = &w;

static unsigned state = 12345;
static unsigned everything_next(void)
{
    return state = state * 1664525u + 1013904223u;
}

__attribute__((noinline)) static double stencil(double (*g)[64])
{
    double sum = 0;
    for (int y = 1; y < 63; y++)
        for (int x = 1; x < 63; x++)
            sum += g[y][x] = 0.25 * (g[y - 1][x] + g[y + 1][x] + g[y][x - 1] + g[y][x + 1]) + 1;
    return sum;
}

__attribute__((noinline)) static void sort(int *a, int n)
{
    if (n < 2)
        return;
    int p = a[n / 2], i = 0, j = n - 1;
    for (;; i++, j--) {
        while (a[i] < p)
            i++;
        while (a[j] > p)
            j--;
        if (i >= j)
            break;
        int t = a[i];
        a[i] = a[j];
        a[j] = t;
    }
    sort(a, i);
    sort(a + i, n - i);
}

__attribute__((noinline)) static long walk(const struct node *n, int steps)
{
    long sum = 0;
    while (steps--) {
        sum += n->value;
        n = n->next;
    }
    return sum;
}

__attribute__((noinline)) static long points(struct point *p, int n)
{
    long sum = 0;
    for (int i = 0; i < n; i++) {
        p[i].x += p[i].y * 2;
        p[i].tag = (short)(p[i].tag + i);
        p[i].c ^= 3;
        sum += p[i].tag + p[i].c;
    }
    return sum;
}

static int everything_twice(int x)
{
    return 2 * x;
}
static int everything_thrice(int x)
{
    return 3 * x;
}

__attribute__((noinline)) static int indirect(void **table, int n)
{
    int (*volatile f)(int) = (int (*)(int))table[n & 15];
    return f(n);
}

__attribute__((noinline)) static int deep(int n, int *up)
{
    int local[8];
    for (int i = 0; i < 8; i++)
        local[i] = *up + i;
    int sum = n ? deep(n - 1, &local[n & 7]) : 0;
    return sum + local[3];
}

int main(void)
{
    struct world *a = where;
    double sum = 0;
    printf("world %p %zu\n", (void *)a, sizeof *a);
    for (int i = 0; i < 1000; i++)
        a->keys[i] = (int)(everything_next() >> 4);
    for (int i = 0; i < 200; i++)
        a->points[i] = (struct point){(float)i, 1, 2, (short)i, (char)i};
    for (int i = 0; i < 256; i++) {
        a->nodes[i].next = &a->nodes[everything_next() % 256];
        a->nodes[i].value = i;
    }
    for (int i = 0; i < 16; i++)
        a->table[i] = i & 1 ? (void *)everything_twice : (void *)everything_thrice;
    for (int i = 0; i < 5; i++)
        sum += stencil(a->grid);
    sort(a->keys, 1000);
    sum += (double)points(a->points, 200) + (double)walk(a->nodes, 1000);
    for (unsigned i = 0; i < sizeof a->bytes; i++)
        a->bytes[i] = (unsigned char)(everything_next() >> 24);
    for (int i = 0; i < 512; i += 3)
        a->longs[i] += a->bytes[i * 7 & 4095];
    for (int i = 0; i < 20; i++)
        sum += indirect(a->table, i) + deep(i, &a->keys[i]);
    printf("%.17g %d %d\n", sum, a->keys[0], a->keys[999]);
    return 0;
}
