/* cuSOLVER's factorisations next to textbook algorithms, and to what their factors multiply to. */
#include "model.h"
#include <complex.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 5, M = 7, LD = 9, R = 2, LDB = 8 };
static void *handle;
static char name[64];
static char *work;

static double cusolver_loose(char t)
{
    return t == 'S' || t == 'C' ? 1e-3 : 1e-10;
}

/* Hermitian and positive: large on its diagonal. */
static struct memory *cusolver_positive(char t)
{
    number v[N * LD];
    for (int j = 0; j < N; j++)
        for (int i = 0; i < LD; i++) {
            number off = ((i + j) % 3 - 1) + (t == 'C' || t == 'Z' ? (i < j ? 1 : -1) * 0.5 * I : 0);
            v[j * LD + i] = i == j ? 20 + i : i < N ? off : 77;
        }
    return memory_of(t, N * LD, v);
}

static struct memory *zero_info(void)
{
    return memory_of('I', 1, (number[]){99});
}

/* A = L L^H in the lower triangle, by columns; then two right sides are solved. */
static void test_potrf(char t, int fill)
{
    struct memory *A = cusolver_positive(t), *info = zero_info(), *B = memory_new(t, R * LDB);
    number L[N][N] = {{0}};
    snprintf(name, sizeof name, "cusolverDn%cpotrf", t);
    begin();
    for (int j = 0; j < N; j++)
        for (int i = j; i < N; i++) {
            number sum = fill ? conj(get(A, i * LD + j)) : get(A, j * LD + i);
            for (int k = 0; k < j; k++)
                sum -= L[i][k] * conj(L[j][k]);
            L[i][j] = i == j ? csqrt(sum) : sum / L[j][j];
        }
    for (int j = 0; j < N; j++)
        for (int i = j; i < N; i++)
            put(A, fill ? i * LD + j : j * LD + i, fill ? conj(L[i][j]) : L[i][j]);
    put(info, 0, 0);
    int (*potrf)(void *, int, int, void *, int, void *, int, int *) = function("%s", name);
    CALL(name, potrf(handle, fill, N, A->device, LD, work, 32, (int *)info->device));
    end(name, cusolver_loose(t));
    snprintf(name, sizeof name, "cusolverDn%cpotrs", t);
    begin();
    for (int r = 0; r < R; r++) {
        number x[N];
        for (int i = 0; i < N; i++) {
            x[i] = get(B, r * LDB + i);
            for (int k = 0; k < i; k++)
                x[i] -= L[i][k] * x[k];
            x[i] /= L[i][i];
        }
        for (int i = N - 1; i >= 0; i--) {
            for (int k = i + 1; k < N; k++)
                x[i] -= conj(L[k][i]) * x[k];
            x[i] /= conj(L[i][i]);
        }
        for (int i = 0; i < N; i++)
            put(B, r * LDB + i, x[i]);
    }
    for (int j = 0; j < N; j++)
        for (int i = j; i < N; i++)
            get(A, fill ? i * LD + j : j * LD + i);
    put(info, 0, 0);
    int (*potrs)(void *, int, int, int, const void *, int, void *, int, int *) = function("%s", name);
    CALL(name, potrs(handle, fill, N, R, A->device, LD, B->device, LDB, (int *)info->device));
    end(name, cusolver_loose(t));
}

static double cusolver_size1(number v)
{
    return fabs(creal(v)) + fabs(cimag(v));
}

/* P A = L U, rows exchanged for the largest of a column, or A = L U; then one of the systems is solved. */
static void test_getrf(char t, int op, int exchange)
{
    struct memory *A = exchange ? memory_new(t, N * LD) : cusolver_positive(t), *info = zero_info(),
                  *B = memory_new(t, R * LDB);
    struct memory *pivots = memory_of('I', N, (number[N]){0});
    number U[N][N], X[N];
    number original[N][N];
    snprintf(name, sizeof name, "cusolverDn%cgetrf", t);
    begin();
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            original[i][j] = U[i][j] = get(A, j * LD + i);
    for (int k = 0; k < N; k++) {
        int best = k;
        for (int i = k; exchange && i < N; i++)
            best = cusolver_size1(U[i][k]) > cusolver_size1(U[best][k]) * (1 + 1e-6) ? i : best;
        for (int j = 0; j < N; j++) {
            number v = U[k][j];
            U[k][j] = U[best][j];
            U[best][j] = v;
        }
        if (exchange)
            put(pivots, k, best + 1);
        for (int i = k + 1; i < N; i++) {
            U[i][k] /= U[k][k];
            for (int j = k + 1; j < N; j++)
                U[i][j] -= U[i][k] * U[k][j];
        }
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            put(A, j * LD + i, U[i][j]);
    put(info, 0, 0);
    int (*getrf)(void *, int, int, void *, int, void *, int *, int *) = function("%s", name);
    CALL(name, getrf(handle, N, N, A->device, LD, work, exchange ? (int *)pivots->device : NULL,
                     (int *)info->device));
    end(name, cusolver_loose(t));
    snprintf(name, sizeof name, "cusolverDn%cgetrs", t);
    begin();
    for (int r = 0; r < R; r++) { /* right sides for which the solution is known */
        for (int i = 0; i < N; i++)
            X[i] = i + 1 - 3 * r;
        for (int i = 0; i < N; i++) {
            number sum = 0;
            for (int k = 0; k < N; k++)
                sum += (op == 2 ? conj(original[k][i]) : op ? original[k][i] : original[i][k]) * X[k];
            set(t, B->expected, r * LDB + i, sum);
        }
    }
    cudaMemcpy(B->device, B->expected, B->count * element(t), cudaMemcpyHostToDevice);
    for (int r = 0; r < R; r++)
        for (int i = 0; i < N; i++) {
            get(B, r * LDB + i);
            put(B, r * LDB + i, i + 1 - 3 * r);
        }
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            get(A, j * LD + i);
    for (int i = 0; exchange && i < N; i++)
        get(pivots, i);
    put(info, 0, 0);
    int (*getrs)(void *, int, int, int, const void *, int, const int *, void *, int, int *) =
        function("%s", name);
    CALL(name, getrs(handle, op, N, R, A->device, LD, exchange ? (const int *)pivots->device : NULL,
                     B->device, LDB, (int *)info->device));
    end(name, cusolver_loose(t));
}

/* Householder's reflections with LAPACK's choice of signs. */
static void cusolver_reflect(number a[M][N], number *tau)
{
    for (int k = 0; k < N; k++) {
        double below = 0;
        for (int i = k + 1; i < M; i++)
            below += creal(a[i][k] * conj(a[i][k]));
        number alpha = a[k][k];
        double beta = -copysign(sqrt(creal(alpha * conj(alpha)) + below), creal(alpha));
        tau[k] = (beta - alpha) / beta;
        for (int i = k + 1; i < M; i++)
            a[i][k] /= alpha - beta;
        a[k][k] = beta;
        for (int j = k + 1; j < N; j++) { /* H^H from the left */
            number sum = a[k][j];
            for (int i = k + 1; i < M; i++)
                sum += conj(a[i][k]) * a[i][j];
            sum *= conj(tau[k]);
            a[k][j] -= sum;
            for (int i = k + 1; i < M; i++)
                a[i][j] -= a[i][k] * sum;
        }
    }
}

static void test_geqrf(char t)
{
    struct memory *A = memory_new(t, N * LD), *T = memory_new(t, N), *info = zero_info(),
                  *C = memory_new(t, R * LD);
    number a[M][N], tau[N];
    int unitary = t == 'C' || t == 'Z';
    snprintf(name, sizeof name, "cusolverDn%cgeqrf", t);
    begin();
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++)
            a[i][j] = get(A, j * LD + i);
    cusolver_reflect(a, tau);
    for (int j = 0; j < N; j++) {
        put(T, j, tau[j]);
        for (int i = 0; i < M; i++)
            put(A, j * LD + i, a[i][j]);
    }
    put(info, 0, 0);
    int (*geqrf)(void *, int, int, void *, int, void *, void *, int, int *) = function("%s", name);
    CALL(name, geqrf(handle, M, N, A->device, LD, T->device, work, 32, (int *)info->device));
    end(name, cusolver_loose(t));
    /* C = Q^H C */
    snprintf(name, sizeof name, "cusolverDn%c%s", t, unitary ? "unmqr" : "ormqr");
    begin();
    for (int r = 0; r < R; r++) {
        number c[M];
        for (int i = 0; i < M; i++)
            c[i] = get(C, r * LD + i);
        for (int k = 0; k < N; k++) {
            number sum = c[k];
            for (int i = k + 1; i < M; i++)
                sum += conj(get(A, k * LD + i)) * c[i];
            sum *= conj(get(T, k));
            c[k] -= sum;
            for (int i = k + 1; i < M; i++)
                c[i] -= peek(A, k * LD + i) * sum;
        }
        for (int i = 0; i < M; i++)
            put(C, r * LD + i, c[i]);
    }
    put(info, 0, 0);
    int (*mqr)(void *, int, int, int, int, int, const void *, int, const void *, void *, int, void *, int,
               int *) = function("%s", name);
    CALL(name, mqr(handle, 0, unitary ? 2 : 1, M, R, N, A->device, LD, T->device, C->device, LD, work, 32,
                   (int *)info->device));
    end(name, cusolver_loose(t));
}

/* A pivot of 0 that nothing is exchanged for: info says where the first one is. */
static void test_no_pivot(void)
{
    struct memory *A = memory_of('D', 4, (number[]){0, 2, 3, 4}), *info = zero_info();
    snprintf(name, sizeof name, "cusolverDnDgetrf");
    begin();
    for (int i = 0; i < 4; i++)
        put(A, i, get(A, i));
    put(A, 3, 4 - 2 * 3);
    put(info, 0, 1);
    int (*getrf)(void *, int, int, void *, int, void *, int *, int *) = function("%s", name);
    CALL(name, getrf(handle, 2, 2, A->device, 2, work, NULL, (int *)info->device));
    end(name, 1e-12);
}

/* Not positive: info says where. */
static void test_info(void)
{
    struct memory *A = memory_of('D', 4, (number[]){1, 2, 2, 1}), *info = zero_info();
    snprintf(name, sizeof name, "cusolverDnDpotrf");
    begin();
    number a = get(A, 0), b = get(A, 1);
    get(A, 3);
    put(A, 0, a), put(A, 1, b), put(A, 3, -3);
    put(info, 0, 2);
    int (*potrf)(void *, int, int, void *, int, void *, int, int *) = function("%s", name);
    CALL(name, potrf(handle, 0, 2, A->device, 2, work, 32, (int *)info->device));
    end(name, 1e-12);
    check(potrf(handle, 0, 2, A->device, 1, work, 32, (int *)info->device) == 3, "lda < n");
    check(potrf(NULL, 0, 2, A->device, 2, work, 32, (int *)info->device) == 1, "no handle");
}

int main(void)
{
    int lwork = 0;
    cudaMalloc((void **)&work, 4096);
    check(!((int (*)(void **))function("cusolverDnCreate"))(&handle), "cusolverDnCreate");
    check(!((int (*)(void *, int, int, void *, int, int *))function("cusolverDnSgeqrf_bufferSize"))(
              handle, 4, 4, work, 4, &lwork) &&
              lwork > 0,
          "size of a workspace");
    for (const char *t = "SDCZ"; *t; t++) {
        test_potrf(*t, 0);
        test_potrf(*t, 1);
        for (int op = 0; op < 3; op++)
            test_getrf(*t, op, 0), test_getrf(*t, op, 1);
        test_geqrf(*t);
    }
    test_info();
    test_no_pivot();
    check(!((int (*)(void *))function("cusolverDnDestroy"))(handle), "cusolverDnDestroy");
    return failures ? 1 : 0;
}
