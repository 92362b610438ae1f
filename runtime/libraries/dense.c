/* Dense linear algebra: cuBLAS, cuBLASLt and cuSOLVER, beyond what Fortran's BLAS and LAPACK have. */
#include "call.h"
#include "library.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- matrix products of any types, cuBLASLt, and functions of cuBLAS that Fortran's BLAS lacks ---- */

/* Returns the type to compute in. */
static char gemm_work(const struct mt_gemm *g)
{
    const char used[] = {g->types[0], g->types[1], g->types[2], g->scalar, 0};
    int wide = strpbrk(used, "DZI") != NULL;
    return strpbrk(used, "CZ") ? wide ? 'Z' : 'C' : wide ? 'D' : 'S';
}

/* Returns a contiguous copy of a matrix with rows x cols elements, or NULL if out of memory. */
static void *gemm_in(char from, const void *p, int64_t rows, int64_t cols, int64_t ld, char work)
{
    void *out = malloc((size_t)rows * (size_t)cols * mt_blas_letter_bytes(work) + 1);
    for (int64_t j = 0; out && j < cols; j++)
        for (int64_t i = 0; i < rows; i++)
            mt_element_put(work, out, j * rows + i, mt_element_get(from, p, j * ld + i));
    return out;
}

static void gemm_out(const struct mt_gemm *g, const void *c, char work)
{
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t i = 0; i < g->m; i++)
            mt_element_put(g->types[2], g->c, j * g->ldc + i, mt_element_get(work, c, j * g->m + i));
}

typedef void gemm_function(const char *, const char *, const int *, const int *, const int *, const void *,
                           const void *, const int *, const void *, const int *, const void *, void *,
                           const int *, size_t, size_t);

static int gemm_call(const struct mt_gemm *g, char work)
{
    char name[] = {
        work == 'S' ? 's' : work == 'D' ? 'd' : work == 'C' ? 'c' : 'z', 'g', 'e', 'm', 'm', '_', 0};
    gemm_function *f = (gemm_function *)mt_lib_function(MT_LIB_OPENBLAS, name, g->name);
    int m = (int)g->m, n = (int)g->n, k = (int)g->k, lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    if (!f)
        return -1;
    f(&"NTC"[g->transa], &"NTC"[g->transb], &m, &n, &k, g -> alpha, g -> a, &lda, g -> b, &ldb, g -> beta,
      g -> c, &ldc, 1, 1);
    return 0;
}

static int64_t gemm_least(int64_t n)
{
    return n > 1 ? n : 1;
}

/* Operands that are not read (alpha or beta is 0) are left alone. */
static int gemm_converted(const struct mt_gemm *g, char work)
{
    struct mt_gemm w = *g;
    unsigned char alpha[16], beta[16];
    int product = !mt_blas_is_zero(g->scalar, g->alpha), sum = !mt_blas_is_zero(g->scalar, g->beta), rc = -1;
    mt_element_put(work, alpha, 0, mt_element_get(g->scalar, g->alpha, 0));
    mt_element_put(work, beta, 0, mt_element_get(g->scalar, g->beta, 0));
    int64_t rows_a = g->transa ? g->k : g->m, rows_b = g->transb ? g->n : g->k;
    void *a = gemm_in(g->types[0], g->a, rows_a, product ? g->m + g->k - rows_a : 0, g->lda, work);
    void *b = gemm_in(g->types[1], g->b, rows_b, product ? g->k + g->n - rows_b : 0, g->ldb, work);
    void *c = sum ? gemm_in(g->types[2], g->c, g->m, g->n, g->ldc, work)
                  : malloc((size_t)g->m * (size_t)g->n * mt_blas_letter_bytes(work) + 1);
    w.a = a, w.b = b, w.c = c, w.alpha = alpha, w.beta = beta;
    w.lda = gemm_least(rows_a), w.ldb = gemm_least(rows_b), w.ldc = gemm_least(g->m);
    if (a && b && c && !(rc = gemm_call(&w, work)))
        gemm_out(g, c, work);
    if (!a || !b || !c)
        mt_lib_say("%s: out of memory", g->name);
    free(a);
    free(b);
    free(c);
    return rc;
}

static int gemm_run(const struct mt_gemm *g)
{
    char work = gemm_work(g);
    const char same[] = {work, work, work};
    return !memcmp(g->types, same, sizeof same) && g->scalar == work ? gemm_call(g, work)
                                                                     : gemm_converted(g, work);
}

/* ---- cublasGemmEx and variants */

/* Returns the type of alpha and beta. */
static char gemm_scalar(int64_t compute, char c)
{
    int complex = c == 'C' || c == 'Z';
    switch (compute) {
    case 64: /* CUBLAS_COMPUTE_16F */
    case 65:
        return 'H';
    case 70: /* CUBLAS_COMPUTE_64F */
    case 71:
    case 79:
        return complex ? 'Z' : 'D';
    case 72: /* CUBLAS_COMPUTE_32I */
    case 73:
        return c == 'I' ? 'I' : 'S';
    default: /* CUBLAS_COMPUTE_32F and variants */
        return complex ? 'C' : 'S';
    }
}

static int blas_ex_types(struct mt_blas *b)
{
    int at = -1, compute = mt_blas_find(b, 'c', 0);
    for (int i = 0; i < 3; i++) {
        at = mt_blas_find(b, 'y', at + 1);
        b->types[i] = at < 0 ? b->letter : mt_blas_letter(b->a[at]);
        if (!b->types[i]) {
            if (!__mt_library_on_gpu())
                mt_lib_say("%s: elements of cudaDataType %d are not there on the CPU device", b->call.name,
                           (int)b->a[at]);
            return MT_BLAS_NOT_SUPPORTED;
        }
        if (at < 0)
            at = MT_BLAS_ARGS; /* has no types at all */
    }
    if (compute >= 0)
        b->scalar = gemm_scalar(b->a[compute], b->types[2]);
    return MT_BLAS_OK;
}

static int blas_gemm_ex(struct mt_blas *b)
{
    int at[3] = {-1, -1, -1}, ld[3], stride[3], scalar = mt_blas_find(b, 'A', 0), rc = 0;
    const char *kinds = b->f->row->kinds;
    for (int i = 0, n = 0; kinds[i] && n <= 3; i++) {
        if (strchr("PWMQ", kinds[i])) {
            at[n] = i;
            stride[n++] = -1;
        } else if (n && kinds[i] == 'i') {
            ld[n - 1] = i;
        } else if (n && kinds[i] == 'S') {
            stride[n - 1] = i;
        }
    }
    struct mt_gemm g = {.transa = b->a[0],
                        .transb = b->a[1],
                        .m = b->a[2],
                        .n = b->a[3],
                        .k = b->a[4],
                        .lda = b->a[ld[0]],
                        .ldb = b->a[ld[1]],
                        .ldc = b->a[ld[2]],
                        .alpha = mt_blas_scalar(b, scalar),
                        .beta = mt_blas_scalar(b, mt_blas_find(b, 'A', scalar + 1)),
                        .scalar = b->scalar,
                        .name = b->call.name};
    memcpy(g.types, b->types, sizeof g.types);
    for (int64_t i = 0; i < mt_blas_batches(b) && !rc; i++) {
        g.a = mt_blas_pointer(b, at[0], stride[0], mt_blas_letter_bytes(g.types[0]), i);
        g.b = mt_blas_pointer(b, at[1], stride[1], mt_blas_letter_bytes(g.types[1]), i);
        g.c = mt_blas_pointer(b, at[2], stride[2], mt_blas_letter_bytes(g.types[2]), i);
        rc = gemm_run(&g);
    }
    return rc;
}

/* cublasAxpyEx and variants: operations on vectors whose types are arguments. Computed in double, rounded
 * once. */

/* Checks that the types are supported; `scalar` is that of a scalar or result. */
static int blas_vector_types(struct mt_blas *b)
{
    for (int i = 0; b->f->row->kinds[i]; i++) {
        char kind = b->f->row->kinds[i], letter = strchr("yz", kind) ? mt_blas_letter(b->a[i]) : 'S';
        if (!letter) {
            if (!__mt_library_on_gpu())
                mt_lib_say("%s: elements of cudaDataType %d are not there on the CPU device", b->call.name,
                           (int)b->a[i]);
            return MT_BLAS_NOT_SUPPORTED;
        }
        if (kind == 'z')
            b->scalar = letter;
    }
    return MT_BLAS_OK;
}

struct vector {
    char letter, *p;
    int64_t n, inc;
};

/* Reads pointer, type and increment, which are consecutive arguments; the length is the first argument. */
static struct vector vectors_take(const struct mt_blas *b, int at)
{
    return (struct vector){mt_blas_letter(b->a[at + 1]), (char *)(intptr_t)b->a[at], b->a[0], b->a[at + 2]};
}

static int64_t vectors_at(const struct vector *v, int64_t i)
{
    return v->inc < 0 ? (i - v->n + 1) * v->inc : i * v->inc;
}

static double _Complex vectors_get(const struct vector *v, int64_t i)
{
    return mt_element_get(v->letter, v->p, vectors_at(v, i));
}

static void vectors_put(const struct vector *v, int64_t i, double _Complex value)
{
    mt_element_put(v->letter, v->p, vectors_at(v, i), value);
}

static double _Complex vectors_scalar(const struct mt_blas *b, int at)
{
    return mt_element_get(b->scalar, mt_blas_scalar(b, at), 0);
}

/* n alpha type x type incx y type incy execution */
static int blas_axpy_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 3), y = vectors_take(b, 6);
    double _Complex alpha = vectors_scalar(b, 1);
    for (int64_t i = 0; alpha != 0 && i < x.n; i++)
        vectors_put(&y, i, alpha * vectors_get(&x, i) + vectors_get(&y, i));
    return 0;
}

/* n alpha type x type incx execution */
static int blas_scal_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 3);
    double _Complex alpha = vectors_scalar(b, 1);
    for (int64_t i = 0; i < x.n; i++)
        vectors_put(&x, i, alpha * vectors_get(&x, i));
    return 0;
}

/* n x type incx y type incy result type execution */
static int blas_dot_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 1), y = vectors_take(b, 4);
    int conjugated = strstr(b->call.name, "Dotc") != NULL;
    double _Complex sum = 0;
    for (int64_t i = 0; i < x.n; i++) {
        double _Complex u = vectors_get(&x, i);
        sum += (conjugated ? ~u : u) * vectors_get(&y, i);
    }
    mt_element_put(b->scalar, (void *)(intptr_t)b->a[7], 0, sum);
    return 0;
}

static double vectors_length(double _Complex v)
{
    return fabs(__real__ v) + fabs(__imag__ v);
}

/* n x type incx result type execution */
static int blas_norm_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 1);
    int squares = strstr(b->call.name, "Nrm2") != NULL;
    double sum = 0;
    for (int64_t i = 0; i < x.n; i++) {
        double _Complex v = vectors_get(&x, i);
        sum += squares ? __real__(v * ~v) : vectors_length(v);
    }
    mt_element_put(b->scalar, (void *)(intptr_t)b->a[4], 0, squares ? sqrt(sum) : sum);
    return 0;
}

/* n x type incx y type incy */
static int blas_move_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 1), y = vectors_take(b, 4);
    int both = strstr(b->call.name, "Swap") != NULL;
    for (int64_t i = 0; i < x.n; i++) {
        double _Complex u = vectors_get(&x, i), v = both ? vectors_get(&y, i) : 0;
        vectors_put(&y, i, u);
        if (both)
            vectors_put(&x, i, v);
    }
    return 0;
}

/* n x type incx result: an index from 1, or 0 for an empty vector. */
static int blas_extreme_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 1);
    int least = strstr(b->call.name, "Iamin") != NULL;
    int64_t best = 0;
    for (int64_t i = 1; i < x.n; i++) {
        double have = vectors_length(vectors_get(&x, best)), other = vectors_length(vectors_get(&x, i));
        best = least ? (other < have ? i : best) : (other > have ? i : best);
    }
    best += x.n > 0;
    memcpy((void *)(intptr_t)b->a[4], &best, b->wide ? sizeof(int64_t) : sizeof(int));
    return 0;
}

/* n x type incx y type incy c s type execution */
static int blas_rot_ex(struct mt_blas *b)
{
    struct vector x = vectors_take(b, 1), y = vectors_take(b, 4);
    double _Complex c = vectors_scalar(b, 7), s = vectors_scalar(b, 8);
    for (int64_t i = 0; i < x.n; i++) {
        double _Complex u = vectors_get(&x, i), v = vectors_get(&y, i);
        vectors_put(&x, i, c * u + s * v);
        vectors_put(&y, i, c * v - ~s * u);
    }
    return 0;
}

/* ---- Extensions of cuBLAS: functions missing in BLAS, or different there ---- */

int mt_blas_is_zero(char letter, const void *p)
{
    return mt_element_get(letter, p, 0) == 0;
}

static void *extensions_at(const struct mt_blas *b, int i)
{
    return (void *)(intptr_t)b->a[i];
}

/* n x incx y incy result; Fortran's convention for returning complex numbers differs between compilers. */
static int blas_dot(struct mt_blas *b)
{
    int conjugated = b->call.name[strlen(b->call.name) - 1] == 'c'; /* cublasCdotc */
    const char *x = extensions_at(b, 1), *y = extensions_at(b, 3);
    int64_t n = b->a[0], incx = b->a[2], incy = b->a[4];
    double _Complex sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double _Complex u = mt_element_get(b->letter, x, incx < 0 ? (i - n + 1) * incx : i * incx);
        double _Complex v = mt_element_get(b->letter, y, incy < 0 ? (i - n + 1) * incy : i * incy);
        sum += (conjugated ? ~u : u) * v;
    }
    mt_element_put(b->letter, extensions_at(b, 5), 0, sum);
    return 0;
}

/* side uplo trans diag m n alpha A lda B ldb C ldc. Fortran's function overwrites B, so C begins as a copy of
 * it. */
static int blas_trmm(struct mt_blas *b)
{
    typedef void trmm(const char *, const char *, const char *, const char *, const int *, const int *,
                      const void *, const void *, const int *, void *, const int *, size_t, size_t, size_t,
                      size_t);
    char name[] = {(char)(b->letter | 0x20), 't', 'r', 'm', 'm', '_', 0};
    trmm *f = (trmm *)mt_lib_function(MT_LIB_OPENBLAS, name, b->call.name);
    int m = (int)b->a[4], n = (int)b->a[5], lda = (int)b->a[8], ldc = (int)b->a[12];
    size_t element = mt_blas_letter_bytes(b->letter);
    const char *from = extensions_at(b, 9);
    char *to = extensions_at(b, 11);
    if (!f)
        return -1;
    int zero = mt_blas_is_zero(b->scalar, mt_blas_scalar(b, 6));
    for (int64_t j = 0; j < n; j++) {
        char *column = to + (size_t)(j * ldc) * element;
        if (zero)
            memset(column, 0, (size_t)m * element);
        else if (to != from)
            memmove(column, from + (size_t)(j * b->a[10]) * element, (size_t)m * element);
    }
    if (!zero)
        f(&"LR"[b->a[0]], &"LU"[b->a[1]], &"NTC"[b->a[2]], &"NU"[b->a[3]], &m, &n, mt_blas_scalar(b, 6),
          extensions_at(b, 7), &lda, to, &ldc, 1, 1, 1, 1);
    return 0;
}

/* Returns element i, j of op(p). */
static double _Complex extensions_op(const struct mt_blas *b, const void *p, int64_t op, int64_t ld,
                                     int64_t i, int64_t j)
{
    double _Complex v = mt_element_get(b->letter, p, op ? i * ld + j : j * ld + i);
    return op == 2 ? ~v : v;
}

/* transa transb m n alpha A lda beta B ldb C ldc. C may be A or B if that is not transposed. */
static int blas_geam(struct mt_blas *b)
{
    double _Complex alpha = mt_element_get(b->scalar, mt_blas_scalar(b, 4), 0);
    double _Complex beta = mt_element_get(b->scalar, mt_blas_scalar(b, 7), 0);
    for (int64_t j = 0; j < b->a[3]; j++)
        for (int64_t i = 0; i < b->a[2]; i++) {
            double _Complex v =
                alpha == 0 ? 0 : alpha * extensions_op(b, extensions_at(b, 5), b->a[0], b->a[6], i, j);
            v += beta == 0 ? 0 : beta * extensions_op(b, extensions_at(b, 8), b->a[1], b->a[9], i, j);
            mt_element_put(b->letter, extensions_at(b, 10), j * b->a[11] + i, v);
        }
    return 0;
}

/* mode m n A lda x incx C ldc: multiplies the rows (mode 0) or columns of A by the elements of x. */
static int blas_dgmm(struct mt_blas *b)
{
    int64_t m = b->a[1], n = b->a[2], inc = b->a[6], count = b->a[0] ? n : m;
    int64_t first = inc < 0 ? (1 - count) * inc : 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            double _Complex x =
                mt_element_get(b->letter, extensions_at(b, 5), first + (b->a[0] ? j : i) * inc);
            double _Complex v = x * mt_element_get(b->letter, extensions_at(b, 3), j * b->a[4] + i);
            mt_element_put(b->letter, extensions_at(b, 7), j * b->a[8] + i, v);
        }
    return 0;
}

/* ---- Handles and descriptors of cuBLASLt ---- */

struct mt_lt_layout {
    int32_t type, order, batches; /* order: 0 columns, 1 rows */
    int32_t unused;
    uint64_t rows, cols;
    int64_t ld, stride; /* in elements */
};

struct mt_lt_desc {
    int32_t compute, scale, pointer_mode, transa, transb, transc, fill, bias_type;
    uint32_t epilogue, unused;
    const void *bias;
    int64_t bias_stride;
};

struct mt_lt_preference {
    uint64_t workspace;
};

_Static_assert(sizeof(struct mt_lt_layout) <= 64 && sizeof(struct mt_lt_preference) <= 64,
               "room in the program's");
_Static_assert(sizeof(struct mt_lt_desc) <= 256, "room in the program's");

static int lt_read_layout(struct mt_lt_layout *l, const void *real);

static int lt_read_desc(struct mt_lt_desc *d, const void *real);

/* ---- cublasLtMatmul: D = f(alpha op(A) op(B) + beta C + bias), where f is the identity, max(0, x) or GELU
 * ---- */

enum { RELU = 2, BIAS = 4, GELU = 32 }; /* bits of CUBLASLT_EPILOGUE_*; 1: none */

struct lt_call {
    struct mt_library_call call;
    struct mt_lt_desc d;
    struct mt_lt_layout a, b, c, out;
    const void *pa, *pb, *pc, *alpha, *beta; /* alpha and beta: on the device */
    void *pd;
    char scalar;
    unsigned char value[2][16];
    int fetched; /* alpha and beta are on the device, with copies in `value` */
    void (*real)(void);
    int64_t arguments[16]; /* on a GPU */
};

/* ---- checks */

static char lt_scalar(const struct mt_lt_desc *d)
{
    return mt_blas_letter(d->scale);
}

static int lt_matmul_layout(const struct mt_lt_layout *l)
{
    uint64_t rows = l->order ? l->cols : l->rows;
    return mt_blas_letter(l->type) && (l->order == 0 || l->order == 1) && l->batches >= 0 &&
           l->rows <= INT_MAX && l->cols <= INT_MAX && l->ld <= INT_MAX && l->ld >= (int64_t)rows;
}

static uint64_t lt_matmul_rows(const struct mt_lt_layout *l, int op)
{
    return op ? l->cols : l->rows;
}

static int lt_matmul_fits(const struct mt_lt_desc *d, const struct mt_lt_layout *a,
                          const struct mt_lt_layout *b, const struct mt_lt_layout *c,
                          const struct mt_lt_layout *out)
{
    return lt_matmul_rows(a, d->transa) == out->rows && lt_matmul_rows(b, !d->transb) == out->cols &&
           lt_matmul_rows(a, !d->transa) == lt_matmul_rows(b, d->transb) && c->rows == out->rows &&
           c->cols == out->cols && a->batches == out->batches && b->batches == out->batches &&
           c->batches == out->batches;
}

/* Fortran can transpose, and conjugate while transposing, but not conjugate alone. */
static int lt_matmul_op(int op, int turned)
{
    return op == 2 ? turned ? -1 : 2 : op ^ turned;
}

/* Returns a description of what is missing, or NULL. */
static const char *lt_matmul_lacks(const struct mt_lt_desc *d, const struct mt_lt_layout *a,
                                   const struct mt_lt_layout *b, const struct mt_lt_layout *c,
                                   const struct mt_lt_layout *out)
{
    if (!lt_matmul_layout(a) || !lt_matmul_layout(b) || !lt_matmul_layout(c) || !lt_matmul_layout(out))
        return "this type, order or size of a matrix";
    if (!lt_scalar(d) || d->pointer_mode < 0 || d->pointer_mode > 1)
        return "this type or place of alpha and beta";
    if ((d->epilogue & ~(unsigned)(1 | RELU | BIAS | GELU)) || d->transc || d->fill != 2)
        return "this epilogue";
    if (d->bias_type >= 0 && !mt_blas_letter(d->bias_type))
        return "this type of the bias";
    if (c->order != out->order || lt_matmul_op(d->transa, a->order ^ out->order) < 0 ||
        lt_matmul_op(d->transb, b->order ^ out->order) < 0)
        return "this mixture of orders";
    return NULL;
}

/* Checks if the call can be done. Returns a status; `name` reports the reason, NULL: no report. */
static int lt_check(const struct mt_lt_desc *d, const struct mt_lt_layout *a, const struct mt_lt_layout *b,
                    const struct mt_lt_layout *c, const struct mt_lt_layout *out, const char *name)
{
    if (d->transa < 0 || d->transa > 2 || d->transb < 0 || d->transb > 2 || !lt_matmul_fits(d, a, b, c, out))
        return MT_BLAS_INVALID_VALUE;
    const char *lacks = lt_matmul_lacks(d, a, b, c, out);
    if (lacks && !__mt_library_on_gpu())
        mt_lib_say("%s: %s is not there on the CPU device", name, lacks);
    return lacks ? MT_BLAS_NOT_SUPPORTED : MT_BLAS_OK;
}

/* ---- accesses */

static const void *lt_matmul_scalar(const struct lt_call *c, int i)
{
    return c->d.pointer_mode && !c->fetched ? i ? c->beta : c->alpha : c->value[i];
}

static char lt_matmul_bias_letter(const struct lt_call *c)
{
    return mt_blas_letter(c->d.bias_type < 0 ? c->out.type : c->d.bias_type);
}

static int lt_matmul_has_bias(const struct lt_call *c)
{
    return (c->d.epilogue & BIAS) != 0;
}

static int lt_matmul_note(struct mt_library_notes *notes, int type, const struct mt_lt_layout *l,
                          const void *p)
{
    size_t element = mt_blas_letter_bytes(mt_blas_letter(l->type));
    uint64_t run = l->order ? l->cols : l->rows, count = l->order ? l->rows : l->cols;
    int bad = 0;
    for (int64_t i = 0; i < l->batches && !bad; i++)
        bad = __mt_library_note(notes, type, (const char *)p + i * l->stride * (int64_t)element,
                                run * element, count, l->ld * (int64_t)element);
    return bad;
}

static void lt_matmul_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    struct lt_call *c = (struct lt_call *)call;
    size_t scalar = mt_blas_letter_bytes(c->scalar), element = mt_blas_letter_bytes(lt_matmul_bias_letter(c));
    if (c->d.pointer_mode && (__mt_library_note(notes, MT_LIBRARY_READ, c->alpha, scalar, 1, 0) ||
                              __mt_library_note(notes, MT_LIBRARY_READ, c->beta, scalar, 1, 0)))
        return;
    if (!mt_blas_is_zero(c->scalar, lt_matmul_scalar(c, 0))) {
        lt_matmul_note(notes, MT_LIBRARY_READ, &c->a, c->pa);
        lt_matmul_note(notes, MT_LIBRARY_READ, &c->b, c->pb);
    }
    if (!mt_blas_is_zero(c->scalar, lt_matmul_scalar(c, 1)))
        lt_matmul_note(notes, MT_LIBRARY_READ, &c->c, c->pc);
    for (int64_t i = 0; lt_matmul_has_bias(c) && i < c->out.batches; i++)
        if (!i || c->d.bias_stride)
            __mt_library_note(notes, MT_LIBRARY_READ,
                              (const char *)c->d.bias + i * c->d.bias_stride * (int64_t)element,
                              c->out.rows * element, 1, 0);
    lt_matmul_note(notes, MT_LIBRARY_WRITE, &c->out, c->pd);
}

/* ---- computation */

static char *lt_matmul_at(const struct mt_lt_layout *l, const void *p, int64_t batch)
{
    return (char *)(uintptr_t)p + batch * l->stride * (int64_t)mt_blas_letter_bytes(mt_blas_letter(l->type));
}

static double _Complex lt_matmul_finish(const struct lt_call *c, double _Complex v)
{
    double x = __real__ v;
    if (c->d.epilogue & RELU)
        return x > 0 ? x : 0;
    if (c->d.epilogue & GELU)
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return v;
}

/* Returns the product; for results in row order everything is transposed. */
static struct mt_gemm lt_matmul_gemm(const struct lt_call *c, int64_t batch, char work)
{
    int turned = c->out.order;
    const struct mt_lt_layout *a = turned ? &c->b : &c->a, *b = turned ? &c->a : &c->b;
    int transa = turned ? c->d.transb : c->d.transa, transb = turned ? c->d.transa : c->d.transb;
    return (struct mt_gemm){.transa = lt_matmul_op(transa, a->order ^ turned),
                            .transb = lt_matmul_op(transb, b->order ^ turned),
                            .m = (int64_t)(turned ? c->out.cols : c->out.rows),
                            .n = (int64_t)(turned ? c->out.rows : c->out.cols),
                            .k = (int64_t)lt_matmul_rows(&c->b, c->d.transb),
                            .lda = a->ld,
                            .ldb = b->ld,
                            .ldc = turned ? (int64_t)c->out.cols : (int64_t)c->out.rows,
                            .a = lt_matmul_at(a, turned ? c->pb : c->pa, batch),
                            .b = lt_matmul_at(b, turned ? c->pa : c->pb, batch),
                            .alpha = lt_matmul_scalar(c, 0),
                            .beta = lt_matmul_scalar(c, 1),
                            .types = {mt_blas_letter(a->type), mt_blas_letter(b->type), work},
                            .scalar = c->scalar,
                            .name = c->call.name};
}

/* Copies C into `t`, contiguous, before the product, or the result from it into D. */
static void lt_matmul_move(const struct lt_call *c, int64_t batch, void *t, char work, int back)
{
    const struct mt_lt_layout *l = back ? &c->out : &c->c;
    char *p = lt_matmul_at(l, back ? c->pd : c->pc, batch), letter = mt_blas_letter(l->type),
         bias = lt_matmul_bias_letter(c);
    const char *add =
        lt_matmul_has_bias(c)
            ? (const char *)c->d.bias + batch * c->d.bias_stride * (int64_t)mt_blas_letter_bytes(bias)
            : NULL;
    int64_t inner = (int64_t)(l->order ? l->cols : l->rows), outer = (int64_t)(l->order ? l->rows : l->cols);
    for (int64_t j = 0; j < outer; j++)
        for (int64_t i = 0; i < inner; i++) {
            if (!back) {
                mt_element_put(work, t, j * inner + i, mt_element_get(letter, p, j * l->ld + i));
                continue;
            }
            double _Complex v = mt_element_get(work, t, j * inner + i);
            v += add ? mt_element_get(bias, add, l->order ? j : i) : 0;
            mt_element_put(letter, p, j * l->ld + i, lt_matmul_finish(c, v));
        }
}

static char lt_matmul_work(const struct lt_call *c)
{
    const char used[] = {mt_blas_letter(c->a.type), mt_blas_letter(c->out.type), c->scalar, 0};
    int wide = strpbrk(used, "DZI") != NULL;
    return strpbrk(used, "CZ") ? wide ? 'Z' : 'C' : wide ? 'D' : 'S';
}

static int lt_matmul_run(struct mt_library_call *call)
{
    struct lt_call *c = (struct lt_call *)call;
    char work = lt_matmul_work(c);
    void *t = malloc(c->out.rows * c->out.cols * mt_blas_letter_bytes(work) + 1);
    int rc = t ? 0 : -1;
    for (int64_t i = 0; i < c->out.batches && !rc; i++) {
        struct mt_gemm g = lt_matmul_gemm(c, i, work);
        g.c = t;
        if (!mt_blas_is_zero(c->scalar, g.beta))
            lt_matmul_move(c, i, t, work, 0);
        rc = gemm_run(&g);
        if (!rc)
            lt_matmul_move(c, i, t, work, 1);
    }
    if (!t)
        mt_lib_say("%s: out of memory", c->call.name);
    free(t);
    return rc;
}

static void lt_matmul_take(struct lt_call *l, const void *alpha, const void *pa, const void *pb,
                           const void *beta, const void *pc, void *pd)
{
    l->pa = pa, l->pb = pb, l->pc = pc, l->pd = pd, l->alpha = alpha, l->beta = beta;
    l->scalar = lt_scalar(&l->d);
    if (!l->d.pointer_mode) {
        memcpy(l->value[0], alpha, mt_blas_letter_bytes(l->scalar));
        memcpy(l->value[1], beta, mt_blas_letter_bytes(l->scalar));
    }
}

/* Calls NVIDIA's function; all arguments are integers or pointers. */
static int lt_matmul_run_gpu(struct mt_library_call *call)
{
    const struct lt_call *l = (const struct lt_call *)call;
    const int64_t *a = l->arguments;
    typedef int matmul(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
    return ((matmul *)l->real)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
                               a[12], a[13], a[14], a[15]);
}

/* Returns 0, or -1 if the accesses are unknown. */
static int lt_matmul_know(struct lt_call *l, const void *d, const void *a, const void *b, const void *c,
                          const void *out)
{
    return lt_read_desc(&l->d, d) || lt_read_layout(&l->a, a) || lt_read_layout(&l->b, b) ||
                   lt_read_layout(&l->c, c) || lt_read_layout(&l->out, out) ||
                   lt_check(&l->d, &l->a, &l->b, &l->c, &l->out, l->call.name)
               ? -1
               : 0;
}

static int lt_matmul_fetch(struct lt_call *l, void *stream)
{
    size_t bytes = mt_blas_letter_bytes(l->scalar);
    if (!l->d.pointer_mode)
        return 0;
    l->fetched = 1;
    return __mt_library_fetch(stream, l->value[0], l->alpha, bytes) ||
           __mt_library_fetch(stream, l->value[1], l->beta, bytes);
}

int impl_cublasLtMatmul(void *handle, const void *d, const void *alpha, const void *pa, const void *a,
                        const void *pb, const void *b, const void *beta, const void *pc, const void *c,
                        void *pd, const void *out, const void *algorithm, void *workspace, size_t bytes,
                        void *stream)
{
    struct lt_call l = {.call = {sizeof l, "cublasLtMatmul", "cublasLt", lt_matmul_ranges, lt_matmul_run}};
    int gpu = __mt_library_on_gpu(), status;
    if (!gpu && !mt_blas_handle(handle))
        return MT_BLAS_NOT_INITIALIZED;
    if (!gpu && (!d || !alpha || !beta || !a || !b || !c || !out || !pa || !pb || !pd))
        return MT_BLAS_INVALID_VALUE;
    if (gpu) {
        const void *const p[] = {handle, d, alpha, pa, a, pb, b, beta, pc, c, pd, out, algorithm, workspace};
        for (int i = 0; i < 14; i++)
            l.arguments[i] = (int64_t)(intptr_t)p[i];
        l.arguments[14] = (int64_t)bytes;
        l.arguments[15] = (int64_t)(intptr_t)stream;
        l.real = mt_lib_real("cublasLt", l.call.name);
        l.call.run = lt_matmul_run_gpu;
        int known = !lt_matmul_know(&l, d, a, b, c, out);
        if (known) {
            lt_matmul_take(&l, alpha, pa, pb, beta, pc, pd);
            known = !lt_matmul_fetch(&l, stream);
        }
        status = known ? __mt_library_submit(stream, &l.call) : __mt_library_forward(&l.call);
        if (!known && !status)
            __mt_library_miss(l.call.name);
        return status;
    }
    status = lt_check(d, a, b, c, out, l.call.name);
    if (status)
        return status;
    l.d = *(const struct mt_lt_desc *)d;
    l.a = *(const struct mt_lt_layout *)a, l.b = *(const struct mt_lt_layout *)b;
    l.c = *(const struct mt_lt_layout *)c, l.out = *(const struct mt_lt_layout *)out;
    lt_matmul_take(&l, alpha, pa, pb, beta, pc, pd);
    if (lt_matmul_has_bias(&l) && !l.d.bias)
        return MT_BLAS_INVALID_VALUE;
    if (!mt_lib_function(MT_LIB_OPENBLAS, "sgemm_", l.call.name))
        return MT_BLAS_NOT_SUPPORTED;
    return __mt_library_submit(stream, &l.call) ? MT_BLAS_EXECUTION_FAILED : MT_BLAS_OK;
}

int impl_cublasCreate_v2(void **out);
int impl_cublasDestroy_v2(void *handle);
size_t impl_cublasGetCudartVersion(void);
int impl_cublasGetProperty(int what, int *value);
const char *impl_cublasGetStatusName(int status);
const char *impl_cublasGetStatusString(int status);

int impl_cublasLtCreate(void **out)
{
    return impl_cublasCreate_v2(out);
}

int impl_cublasLtDestroy(void *handle)
{
    return impl_cublasDestroy_v2(handle);
}

size_t impl_cublasLtGetVersion(void)
{
    return 130000;
}

size_t impl_cublasLtGetCudartVersion(void)
{
    return impl_cublasGetCudartVersion();
}

int impl_cublasLtGetProperty(int what, int *value)
{
    return impl_cublasGetProperty(what, value);
}

const char *impl_cublasLtGetStatusName(int status)
{
    return impl_cublasGetStatusName(status);
}

const char *impl_cublasLtGetStatusString(int status)
{
    return impl_cublasGetStatusString(status);
}

/* ---- attributes: offset of each in a descriptor */

struct attribute {
    int number;
    size_t at, bytes;
};

#define AT(number, type, field) {number, offsetof(struct type, field), sizeof(((struct type *)0)->field)}
static const struct attribute of_layout[] = {AT(0, mt_lt_layout, type),   AT(1, mt_lt_layout, order),
                                             AT(2, mt_lt_layout, rows),   AT(3, mt_lt_layout, cols),
                                             AT(4, mt_lt_layout, ld),     AT(5, mt_lt_layout, batches),
                                             AT(6, mt_lt_layout, stride), {-1, 0, 0}};
static const struct attribute of_desc[] = {
    AT(0, mt_lt_desc, compute),      AT(1, mt_lt_desc, scale),      AT(2, mt_lt_desc, pointer_mode),
    AT(3, mt_lt_desc, transa),       AT(4, mt_lt_desc, transb),     AT(5, mt_lt_desc, transc),
    AT(6, mt_lt_desc, fill),         AT(7, mt_lt_desc, epilogue),   AT(8, mt_lt_desc, bias),
    AT(10, mt_lt_desc, bias_stride), AT(26, mt_lt_desc, bias_type), {-1, 0, 0}};
static const struct attribute of_preference[] = {AT(1, mt_lt_preference, workspace), {-1, 0, 0}};

static const struct attribute *lt_find(const struct attribute *table, int number)
{
    while (table->number >= 0 && table->number != number)
        table++;
    return table->number < 0 ? NULL : table;
}

/* Returns 1 for attributes that only affect speed: of a product, number of SMs and kind of sums; of a
 * preference, all. */
static int lt_is_hint(const struct attribute *table, int number)
{
    return table == of_preference || (table == of_desc && (number == 15 || number == 25));
}

static int lt_set(void *d, const struct attribute *table, int number, const void *from, size_t bytes)
{
    const struct attribute *a = lt_find(table, number);
    if (!d || !from)
        return MT_BLAS_INVALID_VALUE;
    if (!a && lt_is_hint(table, number))
        return MT_BLAS_OK;
    if (!a) {
        mt_lib_say("cublasLt: attribute %d of a %s is not there on the CPU device", number,
                   table == of_desc ? "product" : "layout");
        return MT_BLAS_NOT_SUPPORTED;
    }
    if (bytes < a->bytes)
        return MT_BLAS_INVALID_VALUE;
    memcpy((char *)d + a->at, from, a->bytes);
    return MT_BLAS_OK;
}

static int lt_get(const void *d, const struct attribute *table, int number, void *to, size_t bytes,
                  size_t *written)
{
    const struct attribute *a = lt_find(table, number);
    if (!a)
        return MT_BLAS_NOT_SUPPORTED;
    if (written)
        *written = a->bytes;
    if (!bytes && written)
        return MT_BLAS_OK;
    if (!d || !to || bytes < a->bytes)
        return MT_BLAS_INVALID_VALUE;
    memcpy(to, (const char *)d + a->at, a->bytes);
    return MT_BLAS_OK;
}

/* Makes an object with these contents, new or in the program's memory. */
static int lt_new(void **out, const void *contents, size_t bytes)
{
    if (!out)
        return MT_BLAS_INVALID_VALUE;
    *out = malloc(bytes);
    if (!*out)
        return MT_BLAS_ALLOC_FAILED;
    memcpy(*out, contents, bytes);
    return MT_BLAS_OK;
}

static int lt_init(void *out, size_t room, const void *contents, size_t bytes)
{
    if (!out || room < bytes)
        return MT_BLAS_INVALID_VALUE;
    memcpy(out, contents, bytes);
    return MT_BLAS_OK;
}

#define ATTRIBUTES(name, table)                                                                              \
    int impl_cublasLt##name##Destroy(void *d)                                                                \
    {                                                                                                        \
        free(d);                                                                                             \
        return MT_BLAS_OK;                                                                                   \
    }                                                                                                        \
    int impl_cublasLt##name##SetAttribute(void *d, int number, const void *from, size_t bytes)               \
    {                                                                                                        \
        return lt_set(d, table, number, from, bytes);                                                        \
    }                                                                                                        \
    int impl_cublasLt##name##GetAttribute(const void *d, int number, void *to, size_t bytes,                 \
                                          size_t *written)                                                   \
    {                                                                                                        \
        return lt_get(d, table, number, to, bytes, written);                                                 \
    }

ATTRIBUTES(MatrixLayout, of_layout)
ATTRIBUTES(MatmulDesc, of_desc)
ATTRIBUTES(MatmulPreference, of_preference)

static struct mt_lt_layout lt_layout(int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    return (struct mt_lt_layout){.type = type, .batches = 1, .rows = rows, .cols = cols, .ld = ld};
}

int impl_cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    struct mt_lt_layout l = lt_layout(type, rows, cols, ld);
    return lt_new(out, &l, sizeof l);
}

int impl_cublasLtMatrixLayoutInit_internal(void *out, size_t room, int type, uint64_t rows, uint64_t cols,
                                           int64_t ld)
{
    struct mt_lt_layout l = lt_layout(type, rows, cols, ld);
    return lt_init(out, room, &l, sizeof l);
}

static struct mt_lt_desc lt_desc(int compute, int scale)
{
    return (struct mt_lt_desc){.compute = compute, .scale = scale, .fill = 2, .bias_type = -1, .epilogue = 1};
}

int impl_cublasLtMatmulDescCreate(void **out, int compute, int scale)
{
    struct mt_lt_desc d = lt_desc(compute, scale);
    return lt_new(out, &d, sizeof d);
}

int impl_cublasLtMatmulDescInit_internal(void *out, size_t room, int compute, int scale)
{
    struct mt_lt_desc d = lt_desc(compute, scale);
    return lt_init(out, room, &d, sizeof d);
}

int impl_cublasLtMatmulPreferenceCreate(void **out)
{
    return lt_new(out, &(struct mt_lt_preference){0}, sizeof(struct mt_lt_preference));
}

int impl_cublasLtMatmulPreferenceInit_internal(void *out, size_t room)
{
    return lt_init(out, room, &(struct mt_lt_preference){0}, sizeof(struct mt_lt_preference));
}

/* ---- on a GPU */

typedef int lt_get_real(const void *, int, void *, size_t, size_t *);

/* Reads all attributes of the table, and checks that those in `others`, a list ending with -1, are unset. */
static int lt_read(const char *name, const void *real, const struct attribute *table, void *to,
                   const int *others)
{
    lt_get_real *get = (lt_get_real *)mt_lib_real("cublasLt", name);
    size_t written;
    uint64_t value = 0;
    int bad = !get || !real;
    for (; !bad && table->number >= 0; table++)
        bad = get(real, table->number, (char *)to + table->at, table->bytes, &written);
    for (; !bad && *others >= 0; others++, value = 0) /* older libraries lack some */
        bad = !get(real, *others, &value, sizeof value, &written) && value;
    return bad ? -1 : 0;
}

static int lt_read_desc(struct mt_lt_desc *d, const void *real)
{
    static const int pointers[] = {11, 17, 18, 19, 20, 21, 23, 24, 36, -1};
    *d = lt_desc(0, 0);
    return lt_read("cublasLtMatmulDescGetAttribute", real, of_desc, d, pointers);
}

/* On a GPU: reads NVIDIA's descriptor. Returns 0, or -1 for an unknown feature. */
static int lt_read_layout(struct mt_lt_layout *l, const void *real)
{
    static const int planes[] = {7, -1};
    *l = lt_layout(0, 0, 0, 0);
    return lt_read("cublasLtMatrixLayoutGetAttribute", real, of_layout, l, planes);
}

/* Returns a single algorithm, which needs no workspace. */
int impl_cublasLtMatmulAlgoGetHeuristic(void *handle, const struct mt_lt_desc *d,
                                        const struct mt_lt_layout *a, const struct mt_lt_layout *b,
                                        const struct mt_lt_layout *c, const struct mt_lt_layout *out,
                                        const void *preference, int room, void *results, int *count)
{
    struct {
        uint64_t algorithm[8];
        size_t workspace;
        int status;
        float waves;
        int reserved[4];
    } one = {.waves = 1};
    if (!mt_blas_handle(handle))
        return MT_BLAS_NOT_INITIALIZED;
    if (!d || !a || !b || !c || !out || room < 1 || !results || !count)
        return MT_BLAS_INVALID_VALUE;
    int status = lt_check(d, a, b, c, out, "cublasLtMatmulAlgoGetHeuristic");
    *count = !status;
    if (!status)
        memcpy(results, &one, sizeof one);
    return status;
}

/* cuSOLVER: handles, which are those of cuBLAS, sizes and factorisations. Statuses are cuSOLVER's. */

/* Factorisations of square and tall matrices beyond LAPACK's functions: without row exchanges, with 64-bit
 * pivots, and batches with an info for each. */

/* Returns OpenBLAS's function of this name for the call's type, or NULL after a report. */
static void (*factors_find(const struct mt_blas *b, const char *name))(void)
{
    char full[16];
    snprintf(full, sizeof full, "%c%s_", b->letter | 0x20, name);
    return mt_lib_function(MT_LIB_OPENBLAS, full, b->call.name);
}

/* Returns the number of the k-th argument of these kinds. */
static int factors_at(const struct mt_blas *b, const char *of, int k)
{
    const char *kinds = b->f->row->kinds;
    int i = 0;
    while (kinds[i] && (!strchr(of, kinds[i]) || k-- > 0))
        i++;
    return i;
}

static int factors_number(const struct mt_blas *b, const char *of, int k)
{
    return (int)b->a[factors_at(b, of, k)];
}

static void *factors_memory(const struct mt_blas *b, int k)
{
    return (void *)(intptr_t)b->a[factors_at(b, "PWMQ", k)];
}

static int factors_failed(const struct mt_blas *b)
{
    mt_lib_say("%s: out of memory", b->call.name);
    return -1;
}

/* ---- A = P L U */

struct factors {
    int m, n, lda;
    char *a;
    int *info; /* index of the first zero pivot, or 0 */
};

static char *factors_element(const struct mt_blas *b, const struct factors *f, int row, int column)
{
    return f->a + ((size_t)column * (size_t)f->lda + (size_t)row) * mt_blas_letter_bytes(b->letter);
}

/* Computes column k of L. Returns 0 if it is undefined because its pivot is 0. */
static int factors_column(const struct mt_blas *b, const struct factors *f, int k)
{
    char *column = factors_element(b, f, 0, k);
    double _Complex pivot = mt_element_get(b->letter, column, k);
    if (pivot == 0)
        return 0;
    for (int i = k + 1; i < f->m; i++)
        mt_element_put(b->letter, column, i, mt_element_get(b->letter, column, i) / pivot);
    return 1;
}

/* Factorises without row exchanges: column by column, everything to the right is updated. */
static int factors_unexchanged(const struct mt_blas *b, const struct factors *f)
{
    typedef void ger(const int *, const int *, const void *, const void *, const int *, const void *,
                     const int *, void *, const int *);
    static const int one = 1;
    int complex = b->letter == 'C' || b->letter == 'Z';
    ger *update = (ger *)factors_find(b, complex ? "geru" : "ger");
    double _Complex minus; /* room for any type */
    if (!update)
        return -1;
    mt_element_put(b->letter, &minus, 0, -1);
    *f->info = 0;
    for (int k = 0; k < f->m && k < f->n; k++) {
        int rows = f->m - k - 1, columns = f->n - k - 1;
        if (!factors_column(b, f, k) && !*f->info)
            *f->info = k + 1;
        if (rows && columns)
            update(&rows, &columns, &minus, factors_element(b, f, k + 1, k), &one,
                   factors_element(b, f, k, k + 1), &f->lda, factors_element(b, f, k + 1, k + 1), &f->lda);
    }
    return 0;
}

static int factors_lu(const struct mt_blas *b, const struct factors *f, int *pivots)
{
    typedef void getrf(const int *, const int *, void *, const int *, int *, int *);
    if (!pivots)
        return factors_unexchanged(b, f);
    getrf *lapack = (getrf *)factors_find(b, "getrf");
    if (lapack)
        lapack(&f->m, &f->n, f->a, &f->lda, pivots, f->info);
    return lapack ? 0 : -1;
}

static int solver_getrf(struct mt_blas *b)
{
    struct factors f = {.m = factors_number(b, "n", 0),
                        .n = factors_number(b, "n", 1),
                        .lda = factors_number(b, "i", 0),
                        .a = factors_memory(b, 0),
                        .info = (int *)(intptr_t)b->a[factors_at(b, "F", 0)]};
    int least = f.m < f.n ? f.m : f.n, *pivots;
    void *out = factors_memory(b, 1);
    if (!b->wide || !out)
        return factors_lu(b, &f, out);
    if (!(pivots = calloc((size_t)least + 1, sizeof *pivots)))
        return factors_failed(b);
    int rc = factors_lu(b, &f, pivots);
    for (int i = 0; !rc && i < least; i++)
        ((int64_t *)out)[i] = pivots[i];
    free(pivots);
    return rc;
}

/* Reads pivots for LAPACK. Invalid ones are clamped, since the program's memory may hold anything. */
static void factors_pivots(const struct mt_blas *b, int *pivots, int n)
{
    const void *in = factors_memory(b, 1);
    for (int i = 0; i < n; i++) {
        int64_t row = !in ? i + 1 : b->wide ? ((const int64_t *)in)[i] : ((const int *)in)[i];
        pivots[i] = row < 1 ? 1 : row > n ? n : (int)row;
    }
}

static int solver_getrs(struct mt_blas *b)
{
    typedef void getrs(const char *, const int *, const int *, const void *, const int *, const int *, void *,
                       const int *, int *, size_t);
    int n = factors_number(b, "n", 0), columns = factors_number(b, "n", 1);
    int lda = factors_number(b, "i", 0), ldb = factors_number(b, "i", 1);
    int *pivots = calloc((size_t)n + 1, sizeof *pivots);
    getrs *f = pivots ? (getrs *)factors_find(b, "getrs") : NULL;
    if (!pivots)
        return factors_failed(b);
    factors_pivots(b, pivots, n);
    if (f)
        f(&"NTC"[factors_number(b, "t", 0)], &n, &columns, factors_memory(b, 0), &lda, pivots,
          factors_memory(b, 2), &ldb, (int *)(intptr_t)b -> a[factors_at(b, "F", 0)], 1);
    free(pivots);
    return f ? 0 : -1;
}

/* ---- batches: an info for each */

static int solver_getrf_batched(struct mt_blas *b)
{
    int n = factors_number(b, "n", 0), *pivots = factors_memory(b, 1), *info = factors_memory(b, 2), rc = 0;
    for (int64_t i = 0; i < mt_blas_batches(b) && !rc; i++) {
        struct factors f = {n, n, factors_number(b, "i", 0),
                            mt_blas_pointer(b, factors_at(b, "Q", 0), -1, 0, i), info + i};
        rc = factors_lu(b, &f, pivots ? pivots + i * n : NULL);
    }
    return rc;
}

static int solver_potrf_batched(struct mt_blas *b)
{
    typedef void potrf(const char *, const int *, void *, const int *, int *, size_t);
    int n = factors_number(b, "n", 0), lda = factors_number(b, "i", 0), *info = factors_memory(b, 1);
    potrf *f = (potrf *)factors_find(b, "potrf");
    for (int64_t i = 0; f && i < mt_blas_batches(b); i++)
        f(&"LU"[factors_number(b, "u", 0)], &n, mt_blas_pointer(b, factors_at(b, "Q", 0), -1, 0, i), &lda,
          info + i, 1);
    return f ? 0 : -1;
}

/* Errors that cuBLAS also returns are reported in its way. */
static int solver_gels_info(struct mt_blas *b)
{
    int *info = (int *)(intptr_t)b->a[factors_at(b, "v", 0)];
    if (!info)
        return MT_BLAS_INVALID_VALUE;
    *info = 0;
    return factors_number(b, "t", 0) || factors_number(b, "n", 0) < factors_number(b, "n", 1)
               ? MT_BLAS_NOT_SUPPORTED
               : MT_BLAS_OK;
}

static int solver_gels_batched(struct mt_blas *b)
{
    typedef void gels(const char *, const int *, const int *, const int *, void *, const int *, void *,
                      const int *, void *, const int *, int *, size_t);
    int m = factors_number(b, "n", 0), n = factors_number(b, "n", 1), columns = factors_number(b, "n", 2);
    int lda = factors_number(b, "i", 0), ldc = factors_number(b, "i", 1), *info = factors_memory(b, 2), none;
    int lwork = 64 * (n + columns) + 1;
    void *work = malloc((size_t)lwork * mt_blas_letter_bytes(b->letter));
    gels *f = work ? (gels *)factors_find(b, "gels") : NULL;
    if (!work)
        return factors_failed(b);
    for (int64_t i = 0; f && i < mt_blas_batches(b); i++)
        f("N", &m, &n, &columns, mt_blas_pointer(b, factors_at(b, "Q", 0), -1, 0, i), &lda,
          mt_blas_pointer(b, factors_at(b, "Q", 1), -1, 0, i), &ldc, work, &lwork, info ? info + i : &none,
          1);
    free(work);
    return f ? 0 : -1;
}

/* cuSOLVER's functions with parameters other than LAPACK's: eigenvalues and singular values. */

/* Reads the types: the first is that of the elements, and determines the others. */
static int solver_type(struct mt_blas *b)
{
    int at = mt_blas_find(b, 'y', 0);
    char letter = mt_blas_letter(b->a[at]);
    if (!letter || !strchr("SDCZ", letter)) {
        if (!__mt_library_on_gpu())
            mt_lib_say("%s: elements of cudaDataType %d are not there on the CPU device", b->call.name,
                       (int)b->a[at]);
        return MT_BLAS_NOT_SUPPORTED;
    }
    b->letter = letter;
    return MT_BLAS_OK;
}

static int solver_is_complex(const struct mt_blas *b)
{
    return b->letter == 'C' || b->letter == 'Z';
}

/* Returns LAPACK's function of this name for the call's type. */
static void (*solver_find(const struct mt_blas *b, const char *name))(void)
{
    char full[16];
    snprintf(full, sizeof full, "%c%s_", b->letter | 0x20, name);
    return mt_lib_function(MT_LIB_OPENBLAS, full, b->call.name);
}

/* Return the k-th argument of this kind, as a number and as an address. */
static int64_t solver_number(const struct mt_blas *b, char kind, int k)
{
    int at = mt_blas_find(b, kind, 0);
    while (k-- > 0)
        at = mt_blas_find(b, kind, at + 1);
    return b->a[at];
}

static void *solver_address(const struct mt_blas *b, char kind, int k)
{
    return (void *)(intptr_t)solver_number(b, kind, k);
}

static int solver_memory(const struct mt_blas *b, int bad)
{
    if (bad)
        mt_lib_say("%s: out of memory", b->call.name);
    return bad ? -1 : 0;
}

static int solver_eigen(struct mt_blas *b)
{
    typedef void real(const char *, const char *, const int *, void *, const int *, void *, void *,
                      const int *, int *, size_t, size_t);
    typedef void complex(const char *, const char *, const int *, void *, const int *, void *, void *,
                         const int *, void *, int *, size_t, size_t);
    int n = (int)solver_number(b, 'n', 0), lda = (int)solver_number(b, 'i', 0), lwork = 66 * n + 1;
    const char *job = solver_number(b, 'j', 0) ? "V" : "N", *uplo = solver_number(b, 'u', 0) ? "U" : "L";
    void *a = solver_address(b, 'W', 0), *w = solver_address(b, 'W', 1), *info = solver_address(b, 'F', 0);
    void (*f)(void) = solver_find(b, solver_is_complex(b) ? "heev" : "syev");
    void *work = malloc((size_t)lwork * mt_blas_letter_bytes(b->letter));
    void *rwork = malloc((size_t)(3 * n + 1) * sizeof(double));
    if (f && work && rwork && solver_is_complex(b))
        ((complex *)f)(job, uplo, &n, a, &lda, w, work, &lwork, rwork, info, 1, 1);
    else if (f && work && rwork)
        ((real *)f)(job, uplo, &n, a, &lda, w, work, &lwork, info, 1, 1);
    int rc = f ? solver_memory(b, !work || !rwork) : -1;
    free(work);
    free(rwork);
    return rc;
}

struct singular {
    char jobs[2];
    int m, n, lda, ldu, ldvt;
    void *a, *s, *u, *vt, *info;
};

static int solver_gesvd(const struct mt_blas *b, const struct singular *g)
{
    typedef void real(const char *, const char *, const int *, const int *, void *, const int *, void *,
                      void *, const int *, void *, const int *, void *, const int *, int *, size_t, size_t);
    typedef void complex(const char *, const char *, const int *, const int *, void *, const int *, void *,
                         void *, const int *, void *, const int *, void *, const int *, void *, int *, size_t,
                         size_t);
    int least = g->m < g->n ? g->m : g->n, most = g->m < g->n ? g->n : g->m, lwork = 70 * (most + least) + 1;
    void (*f)(void) = solver_find(b, "gesvd");
    void *work = malloc((size_t)lwork * mt_blas_letter_bytes(b->letter));
    void *rwork = malloc((size_t)(5 * least + 1) * sizeof(double));
    if (f && work && rwork && solver_is_complex(b))
        ((complex *)f)(&g->jobs[0], &g->jobs[1], &g->m, &g->n, g->a, &g->lda, g->s, g->u, &g->ldu, g->vt,
                       &g->ldvt, work, &lwork, rwork, g->info, 1, 1);
    else if (f && work && rwork)
        ((real *)f)(&g->jobs[0], &g->jobs[1], &g->m, &g->n, g->a, &g->lda, g->s, g->u, &g->ldu, g->vt,
                    &g->ldvt, work, &lwork, g->info, 1, 1);
    int rc = f ? solver_memory(b, !work || !rwork) : -1;
    free(work);
    free(rwork);
    return rc;
}

/* gesvdj returns V, not its conjugate transpose. */
static int solver_jacobi(const struct mt_blas *b, struct singular *g)
{
    int vectors = (int)solver_number(b, 'j', 0), econ = (int)solver_number(b, 'e', 0);
    int rows = econ && g->m < g->n ? g->m : g->n, ldv = g->ldvt;
    char *v = g->vt;
    g->jobs[0] = g->jobs[1] = vectors ? econ ? 'S' : 'A' : 'N';
    g->ldvt = g->n > 1 ? g->n : 1;
    g->vt = malloc((size_t)g->ldvt * (size_t)g->n * mt_blas_letter_bytes(b->letter) + 1);
    int rc = g->vt ? solver_gesvd(b, g) : solver_memory(b, 1);
    for (int64_t i = 0; !rc && vectors && i < rows; i++)
        for (int64_t j = 0; j < g->n; j++)
            mt_element_put(b->letter, v, i * ldv + j, ~mt_element_get(b->letter, g->vt, j * g->ldvt + i));
    free(g->vt);
    return rc;
}

static int solver_singular(struct mt_blas *b)
{
    int jacobi = mt_blas_find(b, 'j', 0) >= 0;
    struct singular g = {.m = (int)solver_number(b, 'n', 0),
                         .n = (int)solver_number(b, 'n', 1),
                         .lda = (int)solver_number(b, 'i', 0),
                         .ldu = (int)solver_number(b, 'i', 1),
                         .ldvt = (int)solver_number(b, 'i', 2),
                         .a = solver_address(b, 'W', 0),
                         .s = solver_address(b, 'W', 1),
                         .u = solver_address(b, 'W', 2),
                         .vt = solver_address(b, 'W', 3),
                         .info = solver_address(b, 'F', 0)};
    for (int i = 0; i < 2 && !jacobi; i++)
        g.jobs[i] = (char)solver_number(b, 'b', i);
    return jacobi ? solver_jacobi(b, &g) : solver_gesvd(b, &g);
}

int impl_cublasCreate_v2(void **out);
int impl_cublasDestroy_v2(void *handle);

enum { NOT_INITIALIZED = 1, ALLOC_FAILED = 2, INVALID_VALUE = 3 };

int impl_cusolverDnCreate(void **out)
{
    return !out ? INVALID_VALUE : impl_cublasCreate_v2(out) ? ALLOC_FAILED : 0;
}

int impl_cusolverDnDestroy(void *handle)
{
    return impl_cublasDestroy_v2(handle) ? NOT_INITIALIZED : 0;
}

int impl_cusolverDnSetStream(void *handle, void *stream)
{
    struct mt_blas_handle *h = mt_blas_handle(handle);
    if (!h)
        return NOT_INITIALIZED;
    h->stream = stream;
    return 0;
}

int impl_cusolverDnGetStream(void *handle, void **stream)
{
    struct mt_blas_handle *h = mt_blas_handle(handle);
    if (!h || !stream)
        return h ? INVALID_VALUE : NOT_INITIALIZED;
    *stream = h->stream;
    return 0;
}

int impl_cusolverGetVersion(int *version)
{
    if (!version)
        return INVALID_VALUE;
    *version = 12000;
    return 0;
}

int impl_cusolverGetProperty(int what, int *value)
{
    if (what < 0 || what > 2 || !value)
        return INVALID_VALUE;
    *value = what ? 0 : 12;
    return 0;
}

/* Workspaces are not used: any size will do, but a program may not be able to allocate 0 bytes. */
static int solver_size(void *handle, int *size)
{
    if (!mt_blas_handle(handle))
        return NOT_INITIALIZED;
    if (!size)
        return INVALID_VALUE;
    *size = 32;
    return 0;
}

#define SIZES(t, q)                                                                                          \
    int impl_cusolverDn##t##potrf_bufferSize(void *h, int uplo, int n, void *a, int lda, int *size)          \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##potri_bufferSize(void *h, int uplo, int n, void *a, int lda, int *size)          \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##getrf_bufferSize(void *h, int m, int n, void *a, int lda, int *size)             \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##geqrf_bufferSize(void *h, int m, int n, void *a, int lda, int *size)             \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##q##gqr_bufferSize(void *h, int m, int n, int k, const void *a, int lda,          \
                                              const void *tau, int *size)                                    \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##q##mqr_bufferSize(void *h, int side, int trans, int m, int n, int k,             \
                                              const void *a, int lda, const void *tau, const void *c,        \
                                              int ldc, int *size)                                            \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }

SIZES(S, or)
SIZES(D, or)
SIZES(C, un)
SIZES(Z, un)

/* ---- eigenvalues and singular values, and the functions with sizes of 64 bits */

#define MORE_SIZES(t, e)                                                                                     \
    int impl_cusolverDn##t##e##evd_bufferSize(void *h, int job, int uplo, int n, const void *a, int lda,     \
                                              const void *w, int *size)                                      \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##e##evj_bufferSize(void *h, int job, int uplo, int n, const void *a, int lda,     \
                                              const void *w, int *size, void *info)                          \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##gesvd_bufferSize(void *h, int m, int n, int *size)                               \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }                                                                                                        \
    int impl_cusolverDn##t##gesvdj_bufferSize(void *h, int job, int econ, int m, int n, const void *a,       \
                                              int lda, const void *s, const void *u, int ldu, const void *v, \
                                              int ldv, int *size, void *info)                                \
    {                                                                                                        \
        return solver_size(h, size);                                                                         \
    }

MORE_SIZES(S, sy)
MORE_SIZES(D, sy)
MORE_SIZES(C, he)
MORE_SIZES(Z, he)

static int solver_sizes(void *handle, size_t *device, size_t *host)
{
    if (!mt_blas_handle(handle))
        return NOT_INITIALIZED;
    if (!device || !host)
        return INVALID_VALUE;
    *device = *host = 32;
    return 0;
}

int impl_cusolverDnXpotrf_bufferSize(void *h, void *params, int uplo, int64_t n, int type, const void *a,
                                     int64_t lda, int compute, size_t *device, size_t *host)
{
    return solver_sizes(h, device, host);
}

int impl_cusolverDnXgetrf_bufferSize(void *h, void *params, int64_t m, int64_t n, int type, const void *a,
                                     int64_t lda, int compute, size_t *device, size_t *host)
{
    return solver_sizes(h, device, host);
}

int impl_cusolverDnXgeqrf_bufferSize(void *h, void *params, int64_t m, int64_t n, int type, const void *a,
                                     int64_t lda, int type_tau, const void *tau, int compute, size_t *device,
                                     size_t *host)
{
    return solver_sizes(h, device, host);
}

int impl_cusolverDnXsyevd_bufferSize(void *h, void *params, int job, int uplo, int64_t n, int type,
                                     const void *a, int64_t lda, int type_w, const void *w, int compute,
                                     size_t *device, size_t *host)
{
    return solver_sizes(h, device, host);
}

int impl_cusolverDnXgesvd_bufferSize(void *h, void *params, signed char jobu, signed char jobvt, int64_t m,
                                     int64_t n, int type, const void *a, int64_t lda, int type_s,
                                     const void *s, int type_u, const void *u, int64_t ldu, int type_vt,
                                     const void *vt, int64_t ldvt, int compute, size_t *device, size_t *host)
{
    return solver_sizes(h, device, host);
}

/* ---- parameter objects: none of their settings changes a result here */

#define OBJECT(name)                                                                                         \
    int impl_cusolverDnCreate##name(void **out)                                                              \
    {                                                                                                        \
        if (!out)                                                                                            \
            return INVALID_VALUE;                                                                            \
        *out = malloc(1);                                                                                    \
        return *out ? 0 : ALLOC_FAILED;                                                                      \
    }                                                                                                        \
    int impl_cusolverDnDestroy##name(void *p)                                                                \
    {                                                                                                        \
        free(p);                                                                                             \
        return 0;                                                                                            \
    }
OBJECT(Params)
OBJECT(SyevjInfo)
OBJECT(GesvdjInfo)

int impl_cusolverDnSetAdvOptions(void *params, int function, int algorithm)
{
    return params ? 0 : INVALID_VALUE;
}

#define SWEEPS(name)                                                                                         \
    int impl_cusolverDnX##name##SetTolerance(void *p, double tolerance)                                      \
    {                                                                                                        \
        return p ? 0 : INVALID_VALUE;                                                                        \
    }                                                                                                        \
    int impl_cusolverDnX##name##SetMaxSweeps(void *p, int most)                                              \
    {                                                                                                        \
        return p ? 0 : INVALID_VALUE;                                                                        \
    }                                                                                                        \
    int impl_cusolverDnX##name##SetSortEig(void *p, int sorted)                                              \
    {                                                                                                        \
        return p ? 0 : INVALID_VALUE;                                                                        \
    }                                                                                                        \
    int impl_cusolverDnX##name##GetResidual(void *h, void *p, double *residual)                              \
    {                                                                                                        \
        if (residual)                                                                                        \
            *residual = 0;                                                                                   \
        return p && residual ? 0 : INVALID_VALUE;                                                            \
    }                                                                                                        \
    int impl_cusolverDnX##name##GetSweeps(void *h, void *p, int *sweeps)                                     \
    {                                                                                                        \
        if (sweeps)                                                                                          \
            *sweeps = 1;                                                                                     \
        return p && sweeps ? 0 : INVALID_VALUE;                                                              \
    }
SWEEPS(syevj)
SWEEPS(gesvdj)

#include "calls.inc" /* the calls of cublas.def and cusolver.def */
