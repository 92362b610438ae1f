/* A model of memory that notes which bytes are read and written. */
#define _GNU_SOURCE
#include "model.h"
#include <complex.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORIES = 4096 };
static struct memory *memories[MEMORIES];
static unsigned nmemories;
int failures;

void *function(const char *format, ...)
{
    char name[128];
    va_list ap;
    va_start(ap, format);
    vsnprintf(name, sizeof name, format, ap);
    va_end(ap);
    void *f = dlsym(RTLD_DEFAULT, name);
    if (!f) {
        fprintf(stderr, "no function %s\n", name);
        exit(1);
    }
    return f;
}

void check(int good, const char *format, ...)
{
    va_list ap;
    if (good)
        return;
    failures++;
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
}

size_t element(char letter)
{
    static const char sizes[128] = {
        ['S'] = 4, ['D'] = 8, ['C'] = 8, ['Z'] = 16, ['H'] = 2, ['B'] = 2, ['I'] = 4, ['i'] = 1};
    return (size_t)sizes[(unsigned char)letter];
}

double tolerance_of(char letter)
{
    return letter == 'S' || letter == 'C'   ? 2e-5
           : letter == 'D' || letter == 'Z' ? 1e-12
           : letter == 'H'                  ? 2e-3
                                            : 1e-2;
}

void set(char letter, void *p, long i, number v)
{
    switch (letter) {
    case 'S':
        ((float *)p)[i] = (float)creal(v);
        break;
    case 'D':
        ((double *)p)[i] = creal(v);
        break;
    case 'C':
        ((float complex *)p)[i] = (float complex)v;
        break;
    case 'Z':
        ((double complex *)p)[i] = v;
        break;
    case 'H':
        ((_Float16 *)p)[i] = (_Float16)creal(v);
        break;
    case 'B': {
        float f = (float)creal(v);
        memcpy((char *)p + 2 * i, (char *)&f + 2, 2);
        break;
    }
    case 'I':
        ((int32_t *)p)[i] = (int32_t)creal(v);
        break;
    default:
        ((int8_t *)p)[i] = (int8_t)creal(v);
    }
}

static number model_value(char letter, const void *p, long i)
{
    switch (letter) {
    case 'S':
        return ((const float *)p)[i];
    case 'D':
        return ((const double *)p)[i];
    case 'C':
        return ((const float complex *)p)[i];
    case 'Z':
        return ((const double complex *)p)[i];
    case 'H':
        return (double)((const _Float16 *)p)[i];
    case 'B': {
        float f = 0;
        memcpy((char *)&f + 2, (const char *)p + 2 * i, 2);
        return f;
    }
    case 'I':
        return ((const int32_t *)p)[i];
    default:
        return ((const int8_t *)p)[i];
    }
}

struct memory *memory_of(char letter, size_t count, const number *values)
{
    struct memory *m = calloc(1, sizeof *m);
    size_t bytes = count * element(letter);
    m->letter = letter;
    m->count = count;
    m->expected = calloc(1, bytes);
    m->read = calloc(1, bytes);
    m->written = calloc(1, bytes);
    check(!cudaMalloc((void **)&m->device, bytes), "cudaMalloc");
    for (size_t i = 0; i < count; i++)
        set(letter, m->expected, (long)i, values[i]);
    cudaMemcpy(m->device, m->expected, bytes, cudaMemcpyHostToDevice);
    if (nmemories < MEMORIES)
        memories[nmemories++] = m;
    return m;
}

struct memory *memory_new(char letter, size_t count)
{
    static unsigned seed = 1;
    number *v = calloc(count, sizeof *v);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1103515245u + 12345;
        v[i] = (double)((seed >> 16) % 15) - 7 + ((double)((seed >> 20) % 9) - 4) * I;
        if (letter != 'C' && letter != 'Z')
            v[i] = creal(v[i]);
    }
    struct memory *m = memory_of(letter, count, v);
    free(v);
    return m;
}

number peek(const struct memory *m, long i)
{
    return model_value(m->letter, m->expected, i);
}

number get(struct memory *m, long i)
{
    memset(m->read + (size_t)i * element(m->letter), 1, element(m->letter));
    return peek(m, i);
}

void put(struct memory *m, long i, number v)
{
    memset(m->written + (size_t)i * element(m->letter), 1, element(m->letter));
    set(m->letter, m->expected, i, v);
}

void begin(void)
{
    for (unsigned i = 0; i < nmemories; i++) {
        memset(memories[i]->read, 0, memories[i]->count * element(memories[i]->letter));
        memset(memories[i]->written, 0, memories[i]->count * element(memories[i]->letter));
    }
}

static void print_ranges(char what, const struct memory *m, const unsigned char *marks)
{
    size_t bytes = m->count * element(m->letter);
    for (size_t i = 0, n; i < bytes; i += n ? n : 1) {
        for (n = 0; i + n < bytes && marks[i + n];)
            n++;
        if (n)
            printf(" %c%p+%zu", what, (void *)(m->device + i), n);
    }
}

static void model_compare(const char *kernel, const struct memory *m, double tolerance)
{
    size_t bytes = m->count * element(m->letter), bad = 0;
    char *now = malloc(bytes);
    check(!cudaMemcpy(now, m->device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (size_t i = 0; i < m->count; i++) {
        number x = model_value(m->letter, now, (long)i), y = peek(m, (long)i);
        int same = cabs(x - y) <= tolerance * (cabs(y) + 1);
        if (!same && !bad++)
            check(0, "%s: element %zu of %zu: %g %+g i, expected %g %+g i", kernel, i, m->count, creal(x),
                  cimag(x), creal(y), cimag(y));
    }
    /* what differs in the last bits is no reason to differ later */
    memcpy(m->expected, now, bytes);
    free(now);
}

static int model_touched(const struct memory *m)
{
    size_t bytes = m->count * element(m->letter);
    return memchr(m->read, 1, bytes) || memchr(m->written, 1, bytes);
}

void end(const char *kernel, double tolerance)
{
    printf("call %s", kernel);
    for (unsigned i = 0; i < nmemories; i++) {
        print_ranges('r', memories[i], memories[i]->read);
        print_ranges('w', memories[i], memories[i]->written);
    }
    printf("\n");
    for (unsigned i = 0; i < nmemories; i++)
        if (model_touched(memories[i]))
            model_compare(kernel, memories[i], tolerance);
}

void end_without(void)
{
    for (unsigned i = 0; i < nmemories; i++)
        model_compare("no launch", memories[i], 0);
}

int is_complex(char letter)
{
    return letter == 'C' || letter == 'Z';
}
