/* cuBLAS: each call next to a naive algorithm over the model's memory. Functions are looked up by name,
 * because not every toolkit has cublas_v2.h. */
#include "cublas.h"
#include <complex.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *handle;
char name[64];

/* A number on the host, in type t. */
struct scalar {
    char bytes[16];
};

static struct scalar cublas_scalar(char t, number v)
{
    struct scalar s;
    set(t, s.bytes, 0, v);
    return s;
}

static number conjugate_if(int op, number v)
{
    return op == 2 ? conj(v) : v;
}

static long cublas_vec(long n, long inc, long i)
{
    return inc < 0 ? (i - n + 1) * inc : i * inc;
}

/* Element i, j of op(m). */
static number cublas_mat(struct memory *m, long offset, int op, long ld, long i, long j)
{
    return conjugate_if(op, get(m, offset + (op ? i * ld + j : j * ld + i)));
}

void done(char t)
{
    end(name, tolerance_of(t));
}

/* ---- vectors */

static void test_axpy(char t, int n, int incx, int incy)
{
    snprintf(name, sizeof name, "cublas%caxpy", t);
    int (*f)(void *, int, in, in, int, out, int) = function("%s_v2", name);
    struct memory *x = memory_new(t, 40), *y = memory_new(t, 40);
    number a = is_complex(t) ? 2 - I : 2;
    struct scalar alpha = cublas_scalar(t, a);
    begin();
    for (long i = 0; i < n; i++)
        put(y, cublas_vec(n, incy, i), a * get(x, cublas_vec(n, incx, i)) + get(y, cublas_vec(n, incy, i)));
    CALL(name, f(handle, n, &alpha, x->device, incx, y->device, incy));
    done(t);
    begin();
    struct scalar zero = cublas_scalar(t, 0);
    CALL(name, f(handle, n, &zero, x->device, incx, y->device, incy));
    done(t);
}

static void test_sums(char t)
{
    const char *const names[] = {"dot", "nrm2", "asum"};
    int n = 7, index;
    struct memory *x = memory_new(t, 40), *y = memory_new(t, 40);
    for (int k = 0; k < 3; k++) {
        double expected = 0;
        snprintf(name, sizeof name, "cublas%c%s", t, names[k]);
        void *f = function("%s_v2", name);
        char result[16];
        begin();
        for (long i = 0; i < n; i++) {
            double u = creal(get(x, 2 * i)), v = k ? u : creal(get(y, 3 * i));
            expected += k == 2 ? (u < 0 ? -u : u) : u * v;
        }
        if (k == 0)
            CALL(name, ((int (*)(void *, int, in, int, in, int, out))f)(handle, n, x->device, 2, y->device, 3,
                                                                        result));
        else
            CALL(name, ((int (*)(void *, int, in, int, out))f)(handle, n, x->device, 2, result));
        double got = t == 'S' ? *(float *)result : *(double *)result;
        got = k == 1 ? got * got : got;
        check(fabs(got - expected) <= tolerance_of(t) * fabs(expected), "%s: %g, expected %g", name, got,
              expected);
        done(t);
    }
    snprintf(name, sizeof name, "cublasI%camax", t | 0x20);
    begin();
    long best = 0;
    for (long i = 0; i < n; i++)
        best = cabs(get(x, i)) > cabs(peek(x, best)) ? i : best;
    int (*amax)(void *, int, in, int, int *) = function("%s_v2", name);
    CALL(name, amax(handle, n, x->device, 1, &index));
    check(index == best + 1, "%s: %d, expected %ld", name, index, best + 1);
    done(t);
    int64_t wide = -1;
    begin();
    for (long i = 0; i < n; i++)
        get(x, i);
    int (*amax_64)(void *, int64_t, in, int64_t, int64_t *) = function("%s_v2_64", name);
    CALL(name, amax_64(handle, n, x->device, 1, &wide));
    check(wide == best + 1, "%s_64: %ld", name, (long)wide);
    done(t);
}

static void test_dotc(char t)
{
    for (int c = 0; c < 2; c++) {
        snprintf(name, sizeof name, "cublas%cdot%c", t, "uc"[c]);
        int (*f)(void *, int, in, int, in, int, out) = function("%s_v2", name);
        struct memory *x = memory_new(t, 20), *y = memory_new(t, 20);
        struct memory *r = memory_new(t, 1);
        number expected = 0;
        begin();
        for (long i = 0; i < 6; i++)
            expected += conjugate_if(c ? 2 : 0, get(x, cublas_vec(6, -2, i))) * get(y, i);
        put(r, 0, expected);
        int (*mode)(void *, int) = function("cublasSetPointerMode_v2");
        mode(handle, 1);
        CALL(name, f(handle, 6, x->device, -2, y->device, 1, r->device));
        mode(handle, 0);
        done(t);
    }
}

static void test_copies(char t)
{
    struct memory *x = memory_new(t, 40), *y = memory_new(t, 40);
    struct scalar three = cublas_scalar(t, 3);
    snprintf(name, sizeof name, "cublas%cswap", t);
    begin();
    for (long i = 0; i < 5; i++) {
        number u = get(x, 2 * i), v = get(y, 3 * i);
        put(x, 2 * i, v);
        put(y, 3 * i, u);
    }
    CALL(name, ((int (*)(void *, int, out, int, out, int))function("%s_v2", name))(handle, 5, x->device, 2,
                                                                                   y->device, 3));
    done(t);
    snprintf(name, sizeof name, "cublas%ccopy", t);
    begin();
    for (long i = 0; i < 5; i++)
        put(y, i, get(x, 4 * i));
    CALL(name, ((int (*)(void *, int, in, int, out, int))function("%s_v2", name))(handle, 5, x->device, 4,
                                                                                  y->device, 1));
    done(t);
    snprintf(name, sizeof name, "cublas%cscal", t);
    begin();
    for (long i = 0; i < 5; i++)
        put(y, 3 * i, 3 * get(y, 3 * i));
    CALL(name,
         ((int (*)(void *, int, in, out, int))function("%s_v2", name))(handle, 5, &three, y->device, 3));
    done(t);
}

/* ---- matrix and vector */

static void test_gemv(char t, int op, number b)
{
    int m = 5, n = 3, lda = 7;
    snprintf(name, sizeof name, "cublas%cgemv", t);
    struct memory *A = memory_new(t, 40), *x = memory_new(t, 40), *y = memory_new(t, 40);
    struct scalar alpha = cublas_scalar(t, 2), beta = cublas_scalar(t, b);
    int rows = op ? n : m, cols = op ? m : n;
    begin();
    for (long i = 0; i < rows; i++) {
        number sum = 0;
        for (long j = 0; j < cols; j++)
            sum += cublas_mat(A, 0, op, lda, i, j) * get(x, cublas_vec(cols, -2, j));
        put(y, cublas_vec(rows, 3, i), 2 * sum + (b != 0 ? b * get(y, cublas_vec(rows, 3, i)) : 0));
    }
    int (*f)(void *, int, int, int, in, in, int, in, int, in, out, int) = function("%s_v2", name);
    CALL(name, f(handle, op, m, n, &alpha, A->device, lda, x->device, -2, &beta, y->device, 3));
    done(t);
}

/* A band of 1 diagonal below and 2 above, each column with its diagonal in row 2. */
static void test_gbmv(char t, int op, number b)
{
    enum { ROWS = 6, COLUMNS = 5, BELOW = 1, ABOVE = 2, LD = 5 };
    snprintf(name, sizeof name, "cublas%cgbmv", t);
    struct memory *A = memory_new(t, COLUMNS * LD), *x = memory_new(t, 20), *y = memory_new(t, 20);
    struct scalar alpha = cublas_scalar(t, 2), beta = cublas_scalar(t, b);
    int rows = op ? COLUMNS : ROWS, cols = op ? ROWS : COLUMNS;
    begin();
    for (long i = 0; i < rows; i++) {
        number sum = 0;
        for (long j = 0; j < cols; j++) {
            long row = op ? j : i, column = op ? i : j; /* of A itself */
            number v = get(x, cublas_vec(cols, 2, j));
            if (row - column <= BELOW && column - row <= ABOVE)
                sum += conjugate_if(op, get(A, column * LD + ABOVE + row - column)) * v;
        }
        put(y, cublas_vec(rows, -3, i), 2 * sum + (b != 0 ? b * get(y, cublas_vec(rows, -3, i)) : 0));
    }
    int (*f)(void *, int, int, int, int, int, in, in, int, in, int, in, out, int) = function("%s_v2", name);
    CALL(name, f(handle, op, ROWS, COLUMNS, BELOW, ABOVE, &alpha, A->device, LD, x->device, 2, &beta,
                 y->device, -3));
    done(t);
    check(f(handle, op, ROWS, COLUMNS, BELOW, ABOVE, &alpha, A->device, 3, x->device, 2, &beta, y->device,
            -3) == 7,
          "%s: lda of 3 for 4 diagonals", name);
}

static void test_ger(char t)
{
    snprintf(name, sizeof name, is_complex(t) ? "cublas%cgerc" : "cublas%cger", t);
    struct memory *A = memory_new(t, 40), *x = memory_new(t, 20), *y = memory_new(t, 20);
    struct scalar alpha = cublas_scalar(t, 2);
    begin();
    for (long j = 0; j < 3; j++)
        for (long i = 0; i < 4; i++)
            put(A, j * 6 + i, get(A, j * 6 + i) + 2 * get(x, 2 * i) * conj(get(y, j)));
    int (*f)(void *, int, int, in, in, int, in, int, out, int) = function("%s_v2", name);
    CALL(name, f(handle, 4, 3, &alpha, x->device, 2, y->device, 1, A->device, 6));
    done(t);
}

/* ---- matrices */

struct product {
    int ta, tb, m, n, k, lda, ldb, ldc, offset_a, offset_b, offset_c;
    number alpha, beta;
};

static void model_gemm(const struct product *p, struct memory *A, struct memory *B, struct memory *C)
{
    for (long j = 0; j < p->n; j++)
        for (long i = 0; i < p->m; i++) {
            number sum = 0;
            long at = p->offset_c + j * p->ldc + i;
            for (long l = 0; l < p->k && p->alpha != 0; l++)
                sum += cublas_mat(A, p->offset_a, p->ta, p->lda, i, l) *
                       cublas_mat(B, p->offset_b, p->tb, p->ldb, l, j);
            number v = p->alpha * sum;
            if (p->beta != 0)
                v += p->beta * get(C, at);
            put(C, at, v);
        }
}

static void test_gemm(char t, int ta, int tb, number a, number b, int wide)
{
    struct product p = {ta, tb, 4, 3, 5, 6, 7, 9, 1, 2, 3, a, b};
    snprintf(name, sizeof name, "cublas%cgemm", t);
    struct memory *A = memory_new(t, 60), *B = memory_new(t, 60), *C = memory_new(t, 60);
    struct scalar alpha = cublas_scalar(t, a), beta = cublas_scalar(t, b);
    const char *pa = A->device + element(t), *pb = B->device + 2 * element(t);
    char *pc = C->device + 3 * element(t);
    begin();
    model_gemm(&p, A, B, C);
    if (wide) {
        int (*f)(void *, int, int, int64_t, int64_t, int64_t, in, in, int64_t, in, int64_t, in, out,
                 int64_t) = function("%s_v2_64", name);
        CALL(name, f(handle, ta, tb, 4, 3, 5, &alpha, pa, 6, pb, 7, &beta, pc, 9));
    } else {
        int (*f)(void *, int, int, int, int, int, in, in, int, in, int, in, out, int) =
            function("%s_v2", name);
        CALL(name, f(handle, ta, tb, 4, 3, 5, &alpha, pa, 6, pb, 7, &beta, pc, 9));
    }
    done(t);
}

static void test_strided(char t, int ta)
{
    struct product p = {ta, 0, 4, 3, 2, 5, 4, 6, 0, 0, 0, 1, 1};
    snprintf(name, sizeof name, "cublas%cgemmStridedBatched", t);
    struct memory *A = memory_new(t, 90), *B = memory_new(t, 60), *C = memory_new(t, 90);
    struct scalar one = cublas_scalar(t, 1);
    begin();
    for (int i = 0; i < 3; i++) {
        p.offset_a = i * 24, p.offset_b = 0, p.offset_c = i * 20;
        model_gemm(&p, A, B, C);
    }
    int (*f)(void *, int, int, int, int, int, in, in, int, long long, in, int, long long, in, out, int,
             long long, int) = function("%s", name);
    CALL(name, f(handle, ta, 0, 4, 3, 2, &one, A->device, 5, 24, B->device, 4, 0, &one, C->device, 6, 20, 3));
    done(t);
}

/* Pointers to places in device memory, in device memory; they are read. */
static struct memory *cublas_pointers(struct memory *m, const int *offsets, int n)
{
    struct memory *p = memory_new('D', (size_t)n);
    for (int i = 0; i < n; i++) {
        char *at = m->device + (size_t)offsets[i] * element(m->letter);
        memcpy(p->expected + 8 * i, &at, 8);
    }
    cudaMemcpy(p->device, p->expected, 8 * (size_t)n, cudaMemcpyHostToDevice);
    return p;
}

static void read_all(struct memory *p)
{
    for (size_t i = 0; i < p->count; i++)
        get(p, (long)i);
}

static void test_batched(char t)
{
    static const int oa[] = {30, 0}, ob[] = {5, 40}, oc[] = {0, 50};
    struct product p = {0, 1, 4, 3, 2, 5, 4, 6, 0, 0, 0, 1, 0};
    snprintf(name, sizeof name, "cublas%cgemmBatched", t);
    struct memory *A = memory_new(t, 90), *B = memory_new(t, 90), *C = memory_new(t, 90);
    struct memory *pa = cublas_pointers(A, oa, 2), *pb = cublas_pointers(B, ob, 2),
                  *pc = cublas_pointers(C, oc, 2);
    struct scalar one = cublas_scalar(t, 1), zero = cublas_scalar(t, 0);
    begin();
    for (int i = 0; i < 2; i++) {
        p.offset_a = oa[i], p.offset_b = ob[i], p.offset_c = oc[i];
        model_gemm(&p, A, B, C);
    }
    read_all(pa), read_all(pb), read_all(pc);
    int (*f)(void *, int, int, int, int, int, in, in, int, in, int, in, out, int, int) = function("%s", name);
    CALL(name, f(handle, 0, 1, 4, 3, 2, &one, pa->device, 5, pb->device, 4, &zero, pc->device, 6, 2));
    done(t);
}

static void test_gemm_ex(char ab, int ab_type, char c, int c_type, int compute, char s)
{
    struct product p = {1, 0, 4, 3, 5, 6, 7, 9, 0, 0, 0, 2, 1};
    snprintf(name, sizeof name, "cublasGemmEx");
    struct memory *A = memory_new(ab, 60), *B = memory_new(ab, 60), *C = memory_new(c, 60);
    struct scalar two = cublas_scalar(s, 2), one = cublas_scalar(s, 1);
    begin();
    model_gemm(&p, A, B, C);
    int (*f)(void *, int, int, int, int, int, in, in, int, int, in, int, int, in, out, int, int, int, int) =
        function("%s", name);
    CALL(name, f(handle, 1, 0, 4, 3, 5, &two, A->device, ab_type, 6, B->device, ab_type, 7, &one, C->device,
                 c_type, 9, compute, -1));
    done(c);
}

static int in_triangle(int fill, int diag, long i, long j)
{
    return i == j ? !diag : fill ? i < j : i > j;
}

/* Element i, j of a matrix of which a triangle is stored. */
static number cublas_triangle(struct memory *A, int fill, int diag, long ld, long i, long j)
{
    return in_triangle(fill, diag, i, j) ? get(A, j * ld + i) : i == j ? 1 : 0;
}

static number cublas_symmetric(struct memory *A, int fill, long ld, long i, long j)
{
    return in_triangle(fill, 0, i, j) ? get(A, j * ld + i) : get(A, i * ld + j);
}

static void test_syrk(char t, int fill, int op, number b)
{
    snprintf(name, sizeof name, "cublas%csyrk", t);
    struct memory *A = memory_new(t, 60), *C = memory_new(t, 60);
    struct scalar alpha = cublas_scalar(t, 2), beta = cublas_scalar(t, b);
    begin();
    for (long j = 0; j < 4; j++)
        for (long i = 0; i < 4; i++) {
            number sum = 0;
            if (!in_triangle(fill, 0, i, j))
                continue;
            for (long l = 0; l < 3; l++)
                sum += cublas_mat(A, 0, op, 6, i, l) * cublas_mat(A, 0, op, 6, j, l);
            put(C, j * 5 + i, 2 * sum + (b != 0 ? b * get(C, j * 5 + i) : 0));
        }
    int (*f)(void *, int, int, int, int, in, in, int, in, out, int) = function("%s_v2", name);
    CALL(name, f(handle, fill, op, 4, 3, &alpha, A->device, 6, &beta, C->device, 5));
    done(t);
}

static void test_symm(char t, int side, int fill)
{
    snprintf(name, sizeof name, "cublas%csymm", t);
    struct memory *A = memory_new(t, 60), *B = memory_new(t, 60), *C = memory_new(t, 60);
    struct scalar one = cublas_scalar(t, 1), zero = cublas_scalar(t, 0);
    begin();
    for (long j = 0; j < 3; j++)
        for (long i = 0; i < 4; i++) {
            number sum = 0;
            for (long l = 0; l < (side ? 3 : 4); l++)
                sum += side ? get(B, l * 5 + i) * cublas_symmetric(A, fill, 6, l, j)
                            : cublas_symmetric(A, fill, 6, i, l) * get(B, j * 5 + l);
            put(C, j * 7 + i, sum);
        }
    int (*f)(void *, int, int, int, int, in, in, int, in, int, in, out, int) = function("%s_v2", name);
    CALL(name, f(handle, side, fill, 4, 3, &one, A->device, 6, B->device, 5, &zero, C->device, 7));
    done(t);
}

/* A triangle whose diagonal is large, so that solving keeps digits. */
static struct memory *cublas_solvable(char t, long n, long ld)
{
    number v[64];
    for (long i = 0; i < n * ld; i++)
        v[i] = i / ld == i % ld ? 8 + (double)(i % 3) : (double)(i % 5) - 2;
    return memory_of(t, (size_t)(n * ld), v);
}

/* out = op(triangle) * B or B * op(triangle), of 4 x 3. */
static void model_triangle(struct memory *A, int side, int fill, int op, int diag, const number *B, number *R)
{
    for (long j = 0; j < 3; j++)
        for (long i = 0; i < 4; i++) {
            number sum = 0;
            for (long l = 0; l < (side ? 3 : 4); l++) {
                long r = side ? l : i, c = side ? j : l;
                number a = op ? conjugate_if(op, cublas_triangle(A, fill, diag, 6, c, r))
                              : cublas_triangle(A, fill, diag, 6, r, c);
                sum += side ? B[l * 4 + i] * a : a * B[j * 4 + l];
            }
            R[j * 4 + i] = sum;
        }
}

/* trmm says what it must be; trsm of that gives B back. */
static void test_triangle(char t, int side, int fill, int op, int diag)
{
    struct memory *A = cublas_solvable(t, side ? 3 : 4, 6), *B = memory_new(t, 40), *C = memory_new(t, 40);
    struct scalar one = cublas_scalar(t, 1);
    number before[12], after[12];
    snprintf(name, sizeof name, "cublas%ctrmm", t);
    begin();
    for (int k = 0; k < 12; k++)
        before[k] = get(B, k / 4 * 5 + k % 4);
    model_triangle(A, side, fill, op, diag, before, after);
    for (int k = 0; k < 12; k++)
        put(C, k / 4 * 7 + k % 4, after[k]);
    int (*trmm)(void *, int, int, int, int, int, int, in, in, int, in, int, out, int) =
        function("%s_v2", name);
    CALL(name, trmm(handle, side, fill, op, diag, 4, 3, &one, A->device, 6, B->device, 5, C->device, 7));
    done(t);
    snprintf(name, sizeof name, "cublas%ctrsm", t);
    begin();
    model_triangle(A, side, fill, op, diag, before, after); /* notes what is read of A */
    for (int k = 0; k < 12; k++) {
        get(C, k / 4 * 7 + k % 4);
        put(C, k / 4 * 7 + k % 4, before[k]);
    }
    int (*trsm)(void *, int, int, int, int, int, int, in, in, int, out, int) = function("%s_v2", name);
    CALL(name, trsm(handle, side, fill, op, diag, 4, 3, &one, A->device, 6, C->device, 7));
    done(t);
}

static void test_geam(char t, int ta, number b)
{
    snprintf(name, sizeof name, "cublas%cgeam", t);
    struct memory *A = memory_new(t, 40), *B = memory_new(t, 40), *C = memory_new(t, 40);
    struct scalar alpha = cublas_scalar(t, 2), beta = cublas_scalar(t, b);
    begin();
    for (long j = 0; j < 3; j++)
        for (long i = 0; i < 4; i++)
            put(C, j * 7 + i,
                2 * cublas_mat(A, 0, ta, 5, i, j) + (b != 0 ? b * cublas_mat(B, 0, 0, 6, i, j) : 0));
    int (*f)(void *, int, int, int, int, in, in, int, in, in, int, out, int) = function("%s", name);
    CALL(name, f(handle, ta, 0, 4, 3, &alpha, A->device, 5, &beta, B->device, 6, C->device, 7));
    done(t);
    snprintf(name, sizeof name, "cublas%cdgmm", t);
    begin();
    for (long j = 0; j < 3; j++)
        for (long i = 0; i < 4; i++)
            put(C, j * 7 + i, get(A, j * 5 + i) * get(B, 2 * j));
    int (*g)(void *, int, int, int, in, int, in, int, out, int) = function("%s", name);
    CALL(name, g(handle, 1, 4, 3, A->device, 5, B->device, 2, C->device, 7));
    done(t);
}

static void test_type(char t)
{
    test_axpy(t, 7, 1, 1);
    test_axpy(t, 7, 2, -3);
    test_copies(t);
    for (int op = 0; op < 3; op++)
        test_gemv(t, op, op), test_gbmv(t, op, op);
    test_ger(t);
    for (int i = 0; i < 9; i++)
        test_gemm(t, i / 3, i % 3, 2, i % 2, i == 4);
    test_gemm(t, 0, 0, 0, 2, 0);
    test_strided(t, 1);
    test_batched(t);
    for (int i = 0; i < 4; i++)
        test_syrk(t, i & 1, i >> 1, i & 1), test_symm(t, i & 1, i >> 1);
    for (int i = 0; i < 16; i++)
        test_triangle(t, i & 1, i >> 1 & 1, i >> 2 & 1 ? 1 + is_complex(t) : 0, i >> 3);
    test_geam(t, 0, 3);
    test_geam(t, 1, 0);
    if (is_complex(t))
        test_dotc(t);
    else
        test_sums(t);
}

int main(void)
{
    check(!((int (*)(void **))function("cublasCreate_v2"))(&handle), "cublasCreate");
    for (const char *t = "SDCZ"; *t; t++)
        test_type(*t);
    test_gemm_ex('H', 2, 'H', 2, 68, 'S');
    test_gemm_ex('H', 2, 'S', 0, 68, 'S');
    test_gemm_ex('B', 14, 'B', 14, 68, 'S');
    test_gemm_ex('i', 3, 'I', 10, 72, 'I');
    test_gemm_ex('D', 1, 'D', 1, 70, 'D');
    test_gemm_ex('H', 2, 'H', 2, 64, 'H');
    test_vectors_ex();
    test_device_scalars();
    test_graph();
    test_errors();
    test_management();
    check(!((int (*)(void *))function("cublasDestroy_v2"))(handle), "cublasDestroy");
    return failures ? 1 : 0;
}
