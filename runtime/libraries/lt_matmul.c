/* cublasLtMatmul: D = f(alpha op(A) op(B) + beta C + bias), f nothing, max(0, x) or GELU. */
#include "call.h"
#include "element.h"
#include "library.h"
#include "lt.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RELU = 2, BIAS = 4, GELU = 32 }; /* bits of CUBLASLT_EPILOGUE_*; 1: nothing */

struct lt_call {
    struct mt_library_call call;
    struct mt_lt_desc d;
    struct mt_lt_layout a, b, c, out;
    const void *pa, *pb, *pc, *alpha, *beta; /* alpha and beta: on the device */
    void *pd;
    char scalar;
    unsigned char value[2][16];
    int fetched; /* alpha and beta are on the device, but what they are is in `value` */
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

/* Fortran can transpose, and conjugate what it transposes, but not conjugate alone. */
static int lt_matmul_op(int op, int turned)
{
    return op == 2 ? turned ? -1 : 2 : op ^ turned;
}

/* What is not there, in words; NULL: all is. */
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

int mt_lt_check(const struct mt_lt_desc *d, const struct mt_lt_layout *a, const struct mt_lt_layout *b,
                const struct mt_lt_layout *c, const struct mt_lt_layout *out, const char *name)
{
    if (d->transa < 0 || d->transa > 2 || d->transb < 0 || d->transb > 2 || !lt_matmul_fits(d, a, b, c, out))
        return MT_BLAS_INVALID_VALUE;
    const char *lacks = lt_matmul_lacks(d, a, b, c, out);
    if (lacks && !__mt_library_on_gpu())
        mt_lib_say("%s: %s is not there on the CPU device", name, lacks);
    return lacks ? MT_BLAS_NOT_SUPPORTED : MT_BLAS_OK;
}

/* ---- what it touches */

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

/* ---- computing */

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

/* Rows before columns where the result is in that order: then all is transposed. */
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

/* Into `t`, without gaps: C before the product, or out of it into D. */
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
        rc = mt_gemm_run(&g);
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

/* NVIDIA's; all arguments are integers or pointers. */
static int lt_matmul_run_gpu(struct mt_library_call *call)
{
    const struct lt_call *l = (const struct lt_call *)call;
    const int64_t *a = l->arguments;
    typedef int matmul(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
    return ((matmul *)l->real)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
                               a[12], a[13], a[14], a[15]);
}

/* 0, or -1: what it touches is not known. */
static int lt_matmul_know(struct lt_call *l, const void *d, const void *a, const void *b, const void *c,
                          const void *out)
{
    return mt_lt_read_desc(&l->d, d) || mt_lt_read_layout(&l->a, a) || mt_lt_read_layout(&l->b, b) ||
                   mt_lt_read_layout(&l->c, c) || mt_lt_read_layout(&l->out, out) ||
                   mt_lt_check(&l->d, &l->a, &l->b, &l->c, &l->out, l->call.name)
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
    status = mt_lt_check(d, a, b, c, out, l.call.name);
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
