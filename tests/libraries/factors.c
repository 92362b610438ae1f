/* Factors of batches, by cuBLAS and cuSOLVER, next to textbook algorithms over the model's memory. */
#include "model.h"
#include <complex.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { N = 4, M = 6, LD = 7, BATCH = 3, R = 2 };
static const int offsets[BATCH] = {2 * N * LD, 0, N *LD}; /* of the matrices, in any order */
static void *blas, *solver;
static char name[64];
typedef void *out;

static double factors_loose(char t)
{
    return t == 'S' || t == 'C' ? 1e-3 : 1e-10;
}

/* The array of pointers to the matrices of a batch; all of it is read. */
static struct memory *factors_pointers(const struct memory *m)
{
    number none[BATCH] = {0};
    struct memory *p = memory_of('D', BATCH, none);
    char *at[BATCH];
    for (int i = 0; i < BATCH; i++)
        at[i] = m->device + (size_t)offsets[i] * element(m->letter);
    memcpy(p->expected, at, sizeof at);
    cudaMemcpy(p->device, at, sizeof at, cudaMemcpyHostToDevice);
    return p;
}

/* Hermitian, and so large on the diagonal that it is positive, and that no row need be exchanged. */
static struct memory *factors_large(char t)
{
    number v[BATCH * N * LD];
    for (int k = 0; k < BATCH * N * LD; k++) {
        int j = k / LD % N, i = k % LD;
        number off = (i + j + k / LD / N) % 3 - 1 + (is_complex(t) ? (i < j ? 0.5 : -0.5) * I : 0);
        v[k] = i == j ? 17 + i : i < N ? off : 55;
    }
    return memory_of(t, BATCH * N * LD, v);
}

static double factors_size(number v)
{
    return fabs(creal(v)) + fabs(cimag(v));
}

/* One matrix of getrfBatched; `pivots` has its N rows, or is NULL. */
static void model_lu(struct memory *A, int at, struct memory *pivots, int first)
{
    number U[N][N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            U[i][j] = get(A, at + j * LD + i);
    for (int k = 0; k < N; k++) {
        int best = k;
        for (int i = k; pivots && i < N; i++)
            best = factors_size(U[i][k]) > factors_size(U[best][k]) * (1 + 1e-6) ? i : best;
        for (int j = 0; j < N; j++) {
            number v = U[k][j];
            U[k][j] = U[best][j], U[best][j] = v;
        }
        if (pivots)
            put(pivots, first + k, best + 1);
        for (int i = k + 1; i < N; i++) {
            U[i][k] /= U[k][k];
            for (int j = k + 1; j < N; j++)
                U[i][j] -= U[i][k] * U[k][j];
        }
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            put(A, at + j * LD + i, U[i][j]);
}

static void test_getrf(char t, int exchange)
{
    number none[BATCH * N] = {0};
    struct memory *A = exchange ? memory_new(t, BATCH * N * LD) : factors_large(t), *at = factors_pointers(A),
                  *pivots = memory_of('I', BATCH * N, none),
                  *info = memory_of('I', BATCH, (number[]){9, 9, 9});
    snprintf(name, sizeof name, "cublas%cgetrfBatched", t);
    begin();
    for (int b = 0; b < BATCH; b++) {
        get(at, b), put(info, b, 0);
        model_lu(A, offsets[b], exchange ? pivots : NULL, b * N);
    }
    int (*f)(void *, int, out, int, out, out, int) = function("%s", name);
    CALL(name, f(blas, N, at->device, LD, exchange ? pivots->device : NULL, info->device, BATCH));
    end(name, factors_loose(t));
}

static void test_potrf(char t, int fill)
{
    struct memory *A = factors_large(t), *at = factors_pointers(A),
                  *info = memory_of('I', BATCH, (number[]){9, 9, 9});
    number L[N][N] = {{0}};
    snprintf(name, sizeof name, "cusolverDn%cpotrfBatched", t);
    begin();
    for (int b = 0; b < BATCH; b++) {
        get(at, b), put(info, b, 0);
        for (int j = 0; j < N; j++)
            for (int i = j; i < N; i++) {
                number sum = fill ? conj(get(A, offsets[b] + i * LD + j)) : get(A, offsets[b] + j * LD + i);
                for (int k = 0; k < j; k++)
                    sum -= L[i][k] * conj(L[j][k]);
                L[i][j] = i == j ? csqrt(sum) : sum / L[j][j];
            }
        for (int j = 0; j < N; j++)
            for (int i = j; i < N; i++)
                put(A, offsets[b] + (fill ? i * LD + j : j * LD + i), fill ? conj(L[i][j]) : L[i][j]);
    }
    int (*f)(void *, int, int, out, int, out, int) = function("%s", name);
    CALL(name, f(solver, fill, N, at->device, LD, info->device, BATCH));
    end(name, factors_loose(t));
}

/* What is in the device's memory now. */
static void factors_bring(const struct memory *m, number *v)
{
    char bytes[16 * BATCH * N * LD];
    cudaMemcpy(bytes, m->device, m->count * element(m->letter), cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < m->count; i++)
        v[i] = m->letter == 'S'   ? ((float *)bytes)[i]
               : m->letter == 'D' ? ((double *)bytes)[i]
               : m->letter == 'C' ? ((float _Complex *)bytes)[i]
                                  : ((double _Complex *)bytes)[i];
}

/* A X = B with more rows than columns: A^H A X = A^H B, by Gauss. */
static void model_least(number a[M][N], number b[M][R], number x[N][R])
{
    number g[N][N + R] = {{0}};
    for (int i = 0; i < N; i++)
        for (int k = 0; k < M; k++) {
            for (int j = 0; j < N; j++)
                g[i][j] += conj(a[k][i]) * a[k][j];
            for (int r = 0; r < R; r++)
                g[i][N + r] += conj(a[k][i]) * b[k][r];
        }
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++) {
            number by = i == k ? 0 : g[i][k] / g[k][k];
            for (int j = k; j < N + R && i != k; j++)
                g[i][j] -= by * g[k][j];
        }
    for (int i = 0; i < N; i++)
        for (int r = 0; r < R; r++)
            x[i][r] = g[i][N + r] / g[i][i];
}

/* |A x - b| squared is what is left below X. R^H R is A^H A. */
static void factors_left(char t, const number *A, const number *C, number a[M][N], number b[M][R],
                         number x[N][R])
{
    for (int r = 0; r < R; r++) {
        double below = 0, due = 0;
        for (int i = 0; i < M; i++) {
            number rest = -b[i][r];
            for (int j = 0; j < N; j++)
                rest += a[i][j] * x[j][r];
            due += creal(rest * conj(rest));
            below += i < N ? 0 : creal(C[r * LD + i] * conj(C[r * LD + i]));
        }
        check(fabs(below - due) <= 100 * factors_loose(t) * (due + 1), "%s: the rest of side %d", name, r);
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            number due = 0, is = 0;
            for (int k = 0; k < M; k++)
                due += conj(a[k][i]) * a[k][j];
            for (int k = 0; k <= i && k <= j; k++)
                is += conj(A[i * LD + k]) * A[j * LD + k];
            check(cabs(due - is) <= 100 * factors_loose(t) * (cabs(due) + 1), "%s: R, row %d, column %d",
                  name, i, j);
        }
}

static void test_gels(char t, int told)
{
    struct memory *A = memory_new(t, BATCH * N * LD), *C = memory_new(t, BATCH * N * LD),
                  *pa = factors_pointers(A), *pc = factors_pointers(C),
                  *info = memory_of('I', BATCH, (number[]){9, 9, 9});
    number a[BATCH][M][N], b[BATCH][M][R], x[N][R], va[BATCH * N * LD], vc[BATCH * N * LD];
    int said = 9;
    snprintf(name, sizeof name, "cublas%cgelsBatched", t);
    begin();
    for (int k = 0; k < BATCH; k++) {
        get(pa, k), get(pc, k);
        for (int i = 0; i < M; i++) {
            for (int j = 0; j < N; j++)
                a[k][i][j] = get(A, offsets[k] + j * LD + i);
            for (int r = 0; r < R; r++)
                b[k][i][r] = get(C, offsets[k] + r * LD + i);
        }
    }
    int (*f)(void *, int, int, int, int, out, int, out, int, int *, out, int) = function("%s", name);
    CALL(name, f(blas, 0, M, N, R, pa->device, LD, pc->device, LD, &said, told ? info->device : NULL, BATCH));
    cudaDeviceSynchronize();
    factors_bring(A, va), factors_bring(C, vc);
    for (int k = 0; k < BATCH; k++) {
        model_least(a[k], b[k], x);
        factors_left(t, va + offsets[k], vc + offsets[k], a[k], b[k], x);
        if (told)
            put(info, k, 0);
        for (int i = 0; i < M; i++) {
            for (int j = 0; j < N; j++)
                put(A, offsets[k] + j * LD + i, va[offsets[k] + j * LD + i]);
            for (int r = 0; r < R; r++)
                put(C, offsets[k] + r * LD + i, i < N ? x[i][r] : vc[offsets[k] + r * LD + i]);
        }
    }
    end(name, 100 * factors_loose(t));
    check(said == 0, "%s: info of the host", name);
    check(f(blas, 1, M, N, R, pa->device, LD, pc->device, LD, &said, NULL, BATCH) == 15, "%s: transposed",
          name);
}

int main(void)
{
    check(!((int (*)(void **))function("cublasCreate_v2"))(&blas), "cublasCreate");
    check(!((int (*)(void **))function("cusolverDnCreate"))(&solver), "cusolverDnCreate");
    for (const char *t = "SDCZ"; *t; t++)
        for (int how = 0; how < 2; how++)
            test_getrf(*t, how), test_potrf(*t, how), test_gels(*t, how);
    return failures ? 1 : 0;
}
