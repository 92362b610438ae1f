/* The second program of bench/host, which does little but access memory: a stencil of 512 x 512 doubles in
 * one thread, in the caches, with five loads and a store per cell. Usage: STEPS. Prints the seconds of the
 * work, and a checksum. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIDE = 512 };

static void stencil_step(double (*restrict to)[SIDE], double (*restrict from)[SIDE])
{
    for (int i = 1; i < SIDE - 1; i++)
        for (int j = 1; j < SIDE - 1; j++)
            to[i][j] = 0.5 * from[i][j] +
                       0.125 * (from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1]);
}

int main(int argc, char **argv)
{
    long steps = argc > 1 ? atol(argv[1]) : 1;
    struct timespec begin, end;
    double(*a)[SIDE] = calloc(SIDE, sizeof *a), (*b)[SIDE] = calloc(SIDE, sizeof *b);
    for (int i = 0; i < SIDE; i++)
        a[0][i] = b[0][i] = i % 97;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long s = 0; s < steps; s++) {
        stencil_step(b, a);
        double(*was)[SIDE] = a;
        a = b;
        b = was;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.6f %.17g\n", (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9,
           a[SIDE / 2][SIDE / 2] + a[1][7]);
    free(a);
    free(b);
    return 0;
}
