/* cuSOLVER's eigenvalues and singular values: what comes out is multiplied again. And the functions with
 * sizes of 64 bits, next to those with 32, which cusolver.c compares with textbooks. */
#include "model.h"
#include <complex.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 4, M = 6, LD = 7, R = 2 };
static void *handle, *params;
static char name[64];
typedef void *out;

static char real_of(char t)
{
    return t == 'C' ? 'S' : t == 'Z' ? 'D' : t;
}

static int more_type(char t)
{
    return t == 'S' ? 0 : t == 'D' ? 1 : t == 'C' ? 4 : 5;
}

static double loose(char t)
{
    return t == 'S' || t == 'C' ? 2e-4 : 1e-10;
}

/* What the call left there: its elements as numbers. */
static void bring(struct memory *m, number *v)
{
    char bytes[16 * 64];
    cudaMemcpy(bytes, m->device, m->count * element(m->letter), cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < m->count; i++)
        v[i] = m->letter == 'S'   ? ((float *)bytes)[i]
               : m->letter == 'D' ? ((double *)bytes)[i]
               : m->letter == 'C' ? ((float _Complex *)bytes)[i]
                                  : ((double _Complex *)bytes)[i];
}

static int near(number a, number b, char t)
{
    return cabs(a - b) <= loose(t) * 20;
}

/* Hermitian; the other triangle and what is behind it have other numbers. */
static struct memory *hermitian(char t, int fill, number H[N][N])
{
    number v[N * LD];
    for (int j = 0; j < N; j++)
        for (int i = 0; i < LD; i++)
            v[j * LD + i] = 50 + i;
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) {
            H[i][j] = i == j ? 3 * i - 4 : (i + 2 * j) % 5 - 2 + (is_complex(t) ? (i - j) * 0.5 * I : 0);
            H[j][i] = conj(H[i][j]);
            v[fill ? i * LD + j : j * LD + i] = fill ? H[j][i] : H[i][j];
        }
    return memory_of(t, N * LD, v);
}

enum { EVD, EVJ, X64 };

static void test_eigen(char t, int how, int vectors, int fill)
{
    number H[N][N], a[N * LD], w[N];
    struct memory *A = hermitian(t, fill, H), *W = memory_new(real_of(t), N),
                  *info = memory_of('I', 1, (number[]){9});
    void *work = memory_new('D', 8)->device, *more;
    check(!((int (*)(void **))function("cusolverDnCreateSyevjInfo"))(&more), "how");
    snprintf(name, sizeof name, how == X64 ? "cusolverDnXsyevd" : "cusolverDn%c%s%s", t,
             is_complex(t) ? "he" : "sy", how == EVJ ? "evj" : "evd");
    begin();
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++)
            get(A, fill ? i * LD + j : j * LD + i);
    typedef int evd(void *, int, int, int, out, int, out, out, int, out, void *);
    typedef int x(void *, void *, int, int, int64_t, int, out, int64_t, int, out, int, out, size_t, out,
                  size_t, out);
    if (how == X64)
        CALL(name, ((x *)function("%s", name))(handle, params, vectors, fill, N, more_type(t), A->device, LD,
                                               more_type(real_of(t)), W->device, more_type(t), work, 32, NULL,
                                               0, info->device));
    else
        CALL(name, ((evd *)function("%s", name))(handle, vectors, fill, N, A->device, LD, W->device, work, 32,
                                                 info->device, more));
    cudaDeviceSynchronize();
    bring(A, a), bring(W, w);
    number trace = 0, sum = 0;
    for (int k = 0; k < N; k++) {
        trace += H[k][k], sum += w[k];
        check(k == 0 || creal(w[k]) >= creal(w[k - 1]), "%s: ascending", name);
        for (int i = 0; vectors && i < N; i++) {
            number left = 0, right = w[k] * a[k * LD + i];
            for (int j = 0; j < N; j++)
                left += H[i][j] * a[k * LD + j];
            check(near(left, right, t), "%s: vector %d", name, k);
        }
    }
    check(near(trace, sum, t), "%s: the trace", name);
    for (int k = 0; k < N; k++)
        put(W, k, w[k]);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            if (vectors || (fill ? i <= j : i >= j))
                put(A, j * LD + i, a[j * LD + i]);
    put(info, 0, 0);
    end(name, 0);
}

enum { SVD, JACOBI, JACOBI_FEW, SVD64 };

/* A = U S V^H of M x N, with all of U or its first N columns. */
static void test_singular(char t, int how, int few)
{
    struct memory *A = memory_new(t, N * LD), *S = memory_new(real_of(t), N), *U = memory_new(t, M * LD),
                  *V = memory_new(t, N * LD), *info = memory_of('I', 1, (number[]){9});
    number before[N * LD], a[N * LD], s[N], u[M * LD], v[N * LD];
    void *work = memory_new('D', 8)->device, *more;
    int jacobi = how == JACOBI || how == JACOBI_FEW, columns = few ? N : M;
    check(!((int (*)(void **))function("cusolverDnCreateGesvdjInfo"))(&more), "how");
    bring(A, before);
    snprintf(name, sizeof name, how == SVD64 ? "cusolverDnXgesvd" : "cusolverDn%cgesvd%s", t,
             jacobi ? "j" : "");
    begin();
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++)
            get(A, j * LD + i);
    typedef int svd(void *, signed char, signed char, int, int, out, int, out, out, int, out, int, out, int,
                    out, out);
    typedef int svdj(void *, int, int, int, int, out, int, out, out, int, out, int, out, int, out, void *);
    typedef int x(void *, void *, signed char, signed char, int64_t, int64_t, int, out, int64_t, int, out,
                  int, out, int64_t, int, out, int64_t, int, out, size_t, out, size_t, out);
    char job = few ? 'S' : 'A';
    if (how == SVD64)
        CALL(name, ((x *)function("%s", name))(handle, params, job, job, M, N, more_type(t), A->device, LD,
                                               more_type(real_of(t)), S->device, more_type(t), U->device, LD,
                                               more_type(t), V->device, LD, more_type(t), work, 32, NULL, 0,
                                               info->device));
    else if (jacobi)
        CALL(name, ((svdj *)function("%s", name))(handle, 1, few, M, N, A->device, LD, S->device, U->device,
                                                  LD, V->device, LD, work, 32, info->device, more));
    else
        CALL(name, ((svd *)function("%s", name))(handle, job, job, M, N, A->device, LD, S->device, U->device,
                                                 LD, V->device, LD, work, 32, NULL, info->device));
    cudaDeviceSynchronize();
    bring(A, a), bring(S, s), bring(U, u), bring(V, v);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            number sum = 0;
            for (int k = 0; k < N; k++)
                sum += u[k * LD + i] * s[k] * (jacobi ? conj(v[k * LD + j]) : v[j * LD + k]);
            check(near(sum, before[j * LD + i], t), "%s: row %d, column %d", name, i, j);
        }
    for (int k = 0; k < N; k++)
        put(S, k, s[k]);
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < M; i++)
            put(U, j * LD + i, u[j * LD + i]);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            put(V, j * LD + i, v[j * LD + i]);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++)
            put(A, j * LD + i, a[j * LD + i]);
    put(info, 0, 0);
    end(name, 0);
}

/* Without vectors there is no memory for them. */
static void test_values(char t)
{
    struct memory *A = memory_new(t, N * LD), *S = memory_new(real_of(t), N),
                  *info = memory_of('I', 1, (number[]){9});
    number a[N * LD], s[N], before[N * LD];
    double squares = 0, sum = 0;
    bring(A, before);
    snprintf(name, sizeof name, "cusolverDn%cgesvd", t);
    begin();
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++)
            squares += creal(get(A, j * LD + i) * conj(peek(A, j * LD + i)));
    typedef int svd(void *, signed char, signed char, int, int, out, int, out, out, int, out, int, out, int,
                    out, out);
    CALL(name, ((svd *)function("%s", name))(handle, 'N', 'N', M, N, A->device, LD, S->device, NULL, M, NULL,
                                             N, S->device, 32, NULL, info->device));
    cudaDeviceSynchronize();
    bring(A, a), bring(S, s);
    for (int k = 0; k < N; k++) {
        put(S, k, s[k]);
        sum += creal(s[k] * s[k]);
    }
    check(fabs(sum - squares) <= loose(t) * squares, "%s: squares", name);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++)
            put(A, j * LD + i, a[j * LD + i]);
    put(info, 0, 0);
    end(name, 0);
}

/* A X = B through factors with 64-bit pivots; X is known. */
static void test_solve(char t)
{
    struct memory *A = memory_new(t, N * LD), *B = memory_new(t, R * LD),
                  *info = memory_of('I', 1, (number[]){9}), *pivots = memory_new('D', N);
    number before[N * LD], a[N * LD];
    int64_t rows[N];
    void *work = memory_new('D', 8)->device;
    typedef int getrf(void *, void *, int64_t, int64_t, int, out, int64_t, out, int, out, size_t, out, size_t,
                      out);
    typedef int getrs(void *, void *, int, int64_t, int64_t, int, out, int64_t, out, int, out, int64_t, out);
    strcpy(name, "cusolverDnXgetrf");
    bring(A, before);
    begin();
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            get(A, j * LD + i);
    CALL(name,
         ((getrf *)function("%s", name))(handle, params, N, N, more_type(t), A->device, LD, pivots->device,
                                         more_type(t), work, 32, NULL, 0, info->device));
    cudaDeviceSynchronize();
    bring(A, a);
    cudaMemcpy(rows, pivots->device, sizeof rows, cudaMemcpyDeviceToHost);
    for (int i = 0; i < N; i++) {
        double as_number;
        memcpy(&as_number, &rows[i], sizeof as_number);
        check(rows[i] > i && rows[i] <= N, "%s: pivot %d", name, i);
        put(pivots, i, as_number);
    }
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            put(A, j * LD + i, a[j * LD + i]);
    put(info, 0, 0);
    end(name, 0);
    for (int r = 0; r < R; r++)
        for (int i = 0; i < N; i++) {
            number sum = 0;
            for (int k = 0; k < N; k++)
                sum += before[k * LD + i] * (number)(k - 2 * r);
            set(t, B->expected, r * LD + i, sum);
        }
    cudaMemcpy(B->device, B->expected, B->count * element(t), cudaMemcpyHostToDevice);
    strcpy(name, "cusolverDnXgetrs");
    begin();
    for (int i = 0; i < N; i++)
        get(pivots, i);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            get(A, j * LD + i);
    for (int r = 0; r < R; r++)
        for (int i = 0; i < N; i++)
            get(B, r * LD + i), put(B, r * LD + i, i - 2 * r);
    put(info, 0, 0);
    CALL(name, ((getrs *)function("%s", name))(handle, params, 0, N, R, more_type(t), A->device, LD,
                                               pivots->device, more_type(t), B->device, LD, info->device));
    end(name, loose(t) * 10);
}

/* potrf, potrs and geqrf with 64 bits do what those with 32 do. */
static void test_same(char t)
{
    number H[N][N], a[N * LD], b[R * LD];
    typedef int potrf(void *, int, int, out, int, out, int, out);
    typedef int x_potrf(void *, void *, int, int64_t, int, out, int64_t, int, out, size_t, out, size_t, out);
    typedef int potrs(void *, int, int, int, out, int, out, int, out);
    typedef int x_potrs(void *, void *, int, int64_t, int64_t, int, out, int64_t, int, out, int64_t, out);
    struct memory *A = hermitian(t, 0, H), *twin = hermitian(t, 0, H), *B = memory_new(t, R * LD),
                  *C = memory_new(t, R * LD), *info = memory_of('I', 1, (number[]){9}),
                  *other = memory_of('I', 1, (number[]){9});
    void *work = memory_new('D', 8)->device;
    for (int i = 0; i < N; i++)
        set(t, A->expected, i * LD + i, 30 + i);
    cudaMemcpy(A->device, A->expected, A->count * element(t), cudaMemcpyHostToDevice);
    cudaMemcpy(twin->device, A->expected, A->count * element(t), cudaMemcpyHostToDevice);
    cudaMemcpy(C->device, B->expected, B->count * element(t), cudaMemcpyHostToDevice);
    snprintf(name, sizeof name, "cusolverDn%cpotrf", t);
    for (int twice = 0; twice < 2; twice++) {
        struct memory *m = twice ? A : twin, *i32 = twice ? info : other;
        if (twice)
            strcpy(name, "cusolverDnXpotrf");
        begin();
        for (int j = 0; j < N; j++)
            for (int i = j; i < N; i++)
                get(m, j * LD + i);
        if (twice)
            CALL(name, ((x_potrf *)function("%s", name))(handle, params, 0, N, more_type(t), m->device, LD,
                                                         more_type(t), work, 32, NULL, 0, i32->device));
        else
            CALL(name, ((potrf *)function("%s", name))(handle, 0, N, m->device, LD, work, 32, i32->device));
        cudaDeviceSynchronize();
        if (!twice) {
            bring(m, a);
            memcpy(m->expected, A->expected, m->count * element(t));
        }
        for (int j = 0; j < N; j++)
            for (int i = j; i < N; i++)
                put(m, j * LD + i, a[j * LD + i]);
        put(i32, 0, 0);
        end(name, 0);
    }
    snprintf(name, sizeof name, "cusolverDn%cpotrs", t);
    for (int twice = 0; twice < 2; twice++) {
        struct memory *m = twice ? B : C;
        if (twice)
            strcpy(name, "cusolverDnXpotrs");
        begin();
        for (int j = 0; j < N; j++)
            for (int i = j; i < N; i++)
                get(A, j * LD + i);
        for (int r = 0; r < R; r++)
            for (int i = 0; i < N; i++)
                get(m, r * LD + i);
        if (twice)
            CALL(name, ((x_potrs *)function("%s", name))(handle, params, 0, N, R, more_type(t), A->device, LD,
                                                         more_type(t), m->device, LD, info->device));
        else
            CALL(name, ((potrs *)function("%s", name))(handle, 0, N, R, A->device, LD, m->device, LD,
                                                       info->device));
        cudaDeviceSynchronize();
        if (!twice) {
            bring(m, b);
            memcpy(m->expected, B->expected, m->count * element(t));
        }
        for (int r = 0; r < R; r++)
            for (int i = 0; i < N; i++)
                put(m, r * LD + i, b[r * LD + i]);
        put(info, 0, 0);
        end(name, 0);
    }
}

/* A = Q R: R's columns have the lengths of A's, and the result is that of 32 bits. */
static void test_reflect(char t)
{
    number before[N * LD], a[N * LD], tau[N];
    struct memory *A = memory_new(t, N * LD), *T = memory_new(t, N), *twin = memory_new(t, N * LD),
                  *U = memory_new(t, N), *info = memory_of('I', 1, (number[]){9}),
                  *other = memory_of('I', 1, (number[]){9});
    void *work = memory_new('D', 8)->device;
    typedef int geqrf(void *, int, int, out, int, out, out, int, out);
    typedef int x(void *, void *, int64_t, int64_t, int, out, int64_t, int, out, int, out, size_t, out,
                  size_t, out);
    cudaMemcpy(twin->device, A->expected, A->count * element(t), cudaMemcpyHostToDevice);
    memcpy(twin->expected, A->expected, A->count * element(t));
    bring(A, before);
    for (int twice = 0; twice < 2; twice++) {
        struct memory *m = twice ? A : twin, *v = twice ? T : U, *i32 = twice ? info : other;
        snprintf(name, sizeof name, twice ? "cusolverDnXgeqrf" : "cusolverDn%cgeqrf", t);
        begin();
        for (int j = 0; j < N; j++)
            for (int i = 0; i < M; i++)
                get(m, j * LD + i);
        if (twice)
            CALL(name,
                 ((x *)function("%s", name))(handle, params, M, N, more_type(t), m->device, LD, more_type(t),
                                             v->device, more_type(t), work, 32, NULL, 0, i32->device));
        else
            CALL(name, ((geqrf *)function("%s", name))(handle, M, N, m->device, LD, v->device, work, 32,
                                                       i32->device));
        cudaDeviceSynchronize();
        if (!twice)
            bring(m, a), bring(v, tau);
        for (int j = 0; j < N; j++) {
            double have = 0, want = 0;
            put(v, j, tau[j]);
            for (int i = 0; i < M; i++) {
                put(m, j * LD + i, a[j * LD + i]);
                have += i <= j ? creal(a[j * LD + i] * conj(a[j * LD + i])) : 0;
                want += creal(before[j * LD + i] * conj(before[j * LD + i]));
            }
            check(fabs(have - want) <= loose(t) * want, "%s: column %d", name, j);
        }
        put(i32, 0, 0);
        end(name, 0);
    }
}

int main(void)
{
    check(!((int (*)(void **))function("cusolverDnCreate"))(&handle) &&
              !((int (*)(void **))function("cusolverDnCreateParams"))(&params),
          "handles");
    for (const char *t = "SDCZ"; *t; t++) {
        for (int i = 0; i < 12; i++)
            test_eigen(*t, i % 3, i / 3 & 1, i / 6);
        for (int i = 0; i < 8; i++)
            test_singular(*t, i & 3, i >> 2);
        test_values(*t);
        test_solve(*t);
        test_same(*t);
        test_reflect(*t);
    }
    return failures ? 1 : 0;
}
