/* Handles and descriptors of cuBLASLt. */
#include "call.h"
#include "library.h"
#include "element.h"
#include <stdlib.h>
#include <string.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

struct mt_lt_layout {
    int32_t type, order, batches; /* order: 0 columns, 1 rows */
    int32_t unused;
    uint64_t rows, cols;
    int64_t ld, stride; /* elements */
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

/* ---- cublasLtMatmul: D = f(alpha op(A) op(B) + beta C + bias), f nothing, max(0, x) or GELU ---- */

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

/* Can it be done? A status; `name` says why not, NULL: nobody. */
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

/* ---- attributes: where each is in a descriptor */

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

/* Those that only say how fast it is to be: of a product, how many SMs and which sums; of a preference, all.
 */
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

/* A new one with these contents, or into the program's memory. */
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

/* All that the table has, and none of the others, whose numbers `others` lists: it ends with -1. */
static int lt_read(const char *name, const void *real, const struct attribute *table, void *to,
                   const int *others)
{
    lt_get_real *get = (lt_get_real *)mt_lib_real("cublasLt", name);
    size_t written;
    uint64_t value = 0;
    int bad = !get || !real;
    for (; !bad && table->number >= 0; table++)
        bad = get(real, table->number, (char *)to + table->at, table->bytes, &written);
    for (; !bad && *others >= 0; others++, value = 0) /* of older libraries some are not there */
        bad = !get(real, *others, &value, sizeof value, &written) && value;
    return bad ? -1 : 0;
}

static int lt_read_desc(struct mt_lt_desc *d, const void *real)
{
    static const int pointers[] = {11, 17, 18, 19, 20, 21, 23, 24, 36, -1};
    *d = lt_desc(0, 0);
    return lt_read("cublasLtMatmulDescGetAttribute", real, of_desc, d, pointers);
}

/* On a GPU: what NVIDIA's descriptors say. 0; -1: something that is not known here. */
static int lt_read_layout(struct mt_lt_layout *l, const void *real)
{
    static const int planes[] = {7, -1};
    *l = lt_layout(0, 0, 0, 0);
    return lt_read("cublasLtMatrixLayoutGetAttribute", real, of_layout, l, planes);
}

/* One way to compute it, which needs no workspace. */
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
