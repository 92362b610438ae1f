/* Walks whose misses can be told by hand, and by cachegrind. One thread; tests/host/cases_answers.py. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 512, PARTICLES = 20000, DRAWS = 100000 };
struct particle {
    double x, y, z, mass, charge, vx, vy, vz;
};

int main(void)
{
    double *m = malloc(sizeof(double) * N * N), s = 0;
    struct particle *p = malloc(PARTICLES * sizeof *p);
    unsigned x = 1;
    for (int i = 0; i < N * N; i++)
        m[i] = i; /* FILL */
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            s += m[i * N + j]; /* COLUMNS */
    for (int i = 0; i < N * N; i += 16)
        s += m[i]; /* STRIDED */
    for (int i = 0; i < PARTICLES; i++)
        p[i].mass = i; /* MEMBER */
    for (int i = 0; i < DRAWS; i++) {
        x = x * 1664525 + 1013904223;
        s += m[(x >> 8) % (N * N)]; /* RANDOM */
    }
    printf("%f\n", s);
    free(m);
    free(p);
    return 0;
}
