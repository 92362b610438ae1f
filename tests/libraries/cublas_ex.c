/* cublasAxpyEx and its kind, next to naive loops: types of one call may differ. */
#include "cublas.h"
#include <complex.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Letters, and their cudaDataType. */
static int ex_type(char t)
{
    return t == 'S' ? 0 : t == 'D' ? 1 : t == 'H' ? 2 : t == 'C' ? 4 : t == 'Z' ? 5 : 14;
}

static long ex_at(long n, long inc, long i)
{
    return inc < 0 ? (i - n + 1) * inc : i * inc;
}

/* Of y with t, x with u and scalars with s: alpha is a whole number, so that nothing is rounded twice. */
static void ex_axpy(char u, char t, char s)
{
    typedef int axpy(void *, int, in, int, in, int, int, out, int, int, int);
    struct memory *x = memory_new(u, 20), *y = memory_new(t, 20);
    char alpha[16], zero[16];
    long n = 6;
    set(s, alpha, 0, 2);
    set(s, zero, 0, 0);
    strcpy(name, "cublasAxpyEx");
    axpy *f = (axpy *)function("%s", name);
    begin();
    for (long i = 0; i < n; i++)
        put(y, ex_at(n, -3, i), 2 * get(x, 2 * i) + get(y, ex_at(n, -3, i)));
    CALL(name, f(handle, (int)n, alpha, ex_type(s), x->device, ex_type(u), 2, y->device, ex_type(t), -3,
                 ex_type(s)));
    done(t);
    begin();
    CALL(name, f(handle, (int)n, zero, ex_type(s), x->device, ex_type(u), 2, y->device, ex_type(t), -3,
                 ex_type(s)));
    done(t);
}

static void ex_scal(char t, char s)
{
    typedef int scal(void *, int64_t, in, int, out, int, int64_t, int);
    struct memory *x = memory_new(t, 20);
    char alpha[16];
    set(s, alpha, 0, -3);
    strcpy(name, "cublasScalEx");
    scal *f = (scal *)function("cublasScalEx_64");
    begin();
    for (long i = 0; i < 5; i++)
        put(x, 3 * i, -3 * get(x, 3 * i));
    CALL(name, f(handle, 5, alpha, ex_type(s), x->device, ex_type(t), 3, ex_type(s)));
    done(t);
}

/* The result on the device is an access, too. */
static void ex_sums(char t, char s, int on_device)
{
    struct memory *x = memory_new(t, 20), *y = memory_new(t, 20), *r = memory_new(s, 1);
    int (*mode)(void *, int) = function("cublasSetPointerMode_v2");
    char host[16];
    void *to = on_device ? (void *)r->device : host;
    for (int k = 0; k < 4; k++) {
        number sum = 0;
        snprintf(name, sizeof name, "cublas%sEx", (const char *[]){"Dot", "Dotc", "Nrm2", "Asum"}[k]);
        void *f = function("%s", name);
        begin();
        for (long i = 0; i < 5; i++) {
            number u = get(x, 2 * i), v = k < 2 ? get(y, i) : 0;
            sum += k == 0   ? u * v
                   : k == 1 ? conj(u) * v
                   : k == 2 ? u * conj(u)
                            : fabs(creal(u)) + fabs(cimag(u));
        }
        sum = k == 2 ? sqrt(creal(sum)) : sum;
        if (on_device)
            put(r, 0, sum);
        mode(handle, on_device);
        if (k < 2)
            CALL(name, ((int (*)(void *, int, in, int, int, in, int, int, out, int, int))f)(
                           handle, 5, x->device, ex_type(t), 2, y->device, ex_type(t), 1, to, ex_type(s),
                           ex_type(s)));
        else
            CALL(name, ((int (*)(void *, int, in, int, int, out, int, int))f)(
                           handle, 5, x->device, ex_type(t), 2, to, ex_type(s), ex_type(s)));
        mode(handle, 0);
        done(s == 'H' || t == 'H' ? 'H' : s);
        if (!on_device) {
            char want[16];
            set(s, want, 0, sum);
            double a = s == 'S' ? *(float *)host : *(double *)host,
                   b = s == 'S' ? *(float *)want : *(double *)want;
            check(fabs(a - b) <= 1e-5 * fabs(b), "%s: %g, expected %g", name, a, b);
        }
    }
}

static void ex_moves(char t)
{
    typedef int move(void *, int, out, int, int, out, int, int);
    struct memory *x = memory_new(t, 20), *y = memory_new(t, 20);
    for (int swap = 0; swap < 2; swap++) {
        strcpy(name, swap ? "cublasSwapEx" : "cublasCopyEx");
        move *f = (move *)function("%s", name);
        begin();
        for (long i = 0; i < 6; i++) {
            number u = get(x, 2 * i), v = swap ? get(y, 3 * i) : 0;
            put(y, 3 * i, u);
            if (swap)
                put(x, 2 * i, v);
        }
        CALL(name, f(handle, 6, x->device, ex_type(t), 2, y->device, ex_type(t), 3));
        done(t);
    }
    int index = -1;
    for (int least = 0; least < 2; least++) {
        long best = 0;
        strcpy(name, least ? "cublasIaminEx" : "cublasIamaxEx");
        int (*f)(void *, int, in, int, int, int *) = function("%s", name);
        begin();
        for (long i = 0; i < 6; i++) {
            double u = fabs(creal(get(x, 2 * i))) + fabs(cimag(peek(x, 2 * i))),
                   v = fabs(creal(peek(x, 2 * best))) + fabs(cimag(peek(x, 2 * best)));
            best = (least ? u < v : u > v) ? i : best;
        }
        CALL(name, f(handle, 6, x->device, ex_type(t), 2, &index));
        check(index == best + 1, "%s: %d, expected %ld", name, index, best + 1);
        done(t);
    }
}

static void ex_rot(char t, char s)
{
    typedef int rot(void *, int, out, int, int, out, int, int, in, in, int, int);
    struct memory *x = memory_new(t, 20), *y = memory_new(t, 20);
    char c[16], d[16];
    set(s, c, 0, 2);
    set(s, d, 0, 3);
    strcpy(name, "cublasRotEx");
    rot *f = (rot *)function("%s", name);
    begin();
    for (long i = 0; i < 4; i++) {
        number u = get(x, i), v = get(y, 2 * i);
        put(x, i, 2 * u + 3 * v);
        put(y, 2 * i, 2 * v - 3 * u);
    }
    CALL(name,
         f(handle, 4, x->device, ex_type(t), 1, y->device, ex_type(t), 2, c, d, ex_type(s), ex_type(s)));
    done(t);
}

void test_vectors_ex(void)
{
    static const char pairs[][3] = {"SSS", "DDD", "HHS", "BBS", "CCC", "ZZZ"};
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        ex_axpy(pairs[i][0], pairs[i][1], pairs[i][2]);
        ex_scal(pairs[i][0], pairs[i][2]);
        ex_moves(pairs[i][0]);
    }
    for (int on_device = 0; on_device < 2; on_device++)
        ex_sums('S', 'S', on_device), ex_sums('D', 'D', on_device);
    ex_sums('H', 'H', 1);
    ex_sums('C', 'C', 1);
    ex_rot('S', 'S');
    ex_rot('D', 'D');
    ex_rot('H', 'S');
}
