/* The same sum three ways: which one walks through memory as it lies there? A memory graph shows it.
 *   particles   an array of structures (40 bytes each) of which one member is needed
 *   masses      that member alone, one after the other
 *   matrix      by rows, then by columns
 * usage: host_strides [particles=5000] [rows=200] [columns=150] */
#include <stdio.h>
#include <stdlib.h>

struct particle {
    double x, y, z, mass, charge;
};

static __attribute__((noinline)) double of_particles(const volatile struct particle *p, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += p[i].mass;
    return sum;
}

static __attribute__((noinline)) double of_masses(const volatile double *mass, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += mass[i];
    return sum;
}

static __attribute__((noinline)) double by_rows(const volatile double *m, long rows, long columns)
{
    double sum = 0;
    for (long r = 0; r < rows; r++)
        for (long c = 0; c < columns; c++)
            sum += m[r * columns + c];
    return sum;
}

static __attribute__((noinline)) double by_columns(const volatile double *m, long rows, long columns)
{
    double sum = 0;
    for (long c = 0; c < columns; c++)
        for (long r = 0; r < rows; r++)
            sum += m[r * columns + c];
    return sum;
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 5000, rows = argc > 2 ? atol(argv[2]) : 200,
         columns = argc > 3 ? atol(argv[3]) : 150;
    struct particle *p = calloc((size_t)n, sizeof *p);
    double *mass = calloc((size_t)n, sizeof *mass),
           *matrix = calloc((size_t)(rows * columns), sizeof *matrix);
    if (n < 2 || rows < 2 || columns < 2 || !p || !mass || !matrix) {
        fprintf(stderr, "usage: host_strides [particles] [rows] [columns], each at least 2\n");
        return 2;
    }
    double one = of_particles(p, n), two = of_masses(mass, n), three = by_rows(matrix, rows, columns),
           four = by_columns(matrix, rows, columns);
    printf("reads of particles: %ld, of masses: %ld, of the matrix: %ld\n", n, n, 2 * rows * columns);
    free(p);
    free(mass);
    free(matrix);
    return one == two && three == four ? 0 : 1;
}
