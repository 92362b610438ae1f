/* Calls of cuBLAS: checks the arguments, and queues the call in the stream of its handle, where its accesses
 * are noted and the Fortran function of the same name computes it. */
#include "call.h"
#include "library.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Elements of any type as double complex numbers ---- */

char mt_blas_letter(int64_t cuda_type)
{
    static const char letters[] = {
        [0] = 'S', [1] = 'D', [2] = 'H', [3] = 'i', [4] = 'C', [5] = 'Z', [10] = 'I', [14] = 'B'};
    return cuda_type < 0 || cuda_type >= (int64_t)sizeof letters ? 0 : letters[cuda_type];
}

size_t mt_blas_letter_bytes(char letter)
{
    switch (letter) {
    case 'S':
    case 'I':
        return 4;
    case 'D':
    case 'C':
        return 8;
    case 'Z':
        return 16;
    case 'H':
    case 'B':
        return 2;
    default:
        return 1;
    }
}

static float element_from_bf16(uint16_t v)
{
    float f;
    memcpy(&f, &(uint32_t){(uint32_t)v << 16}, sizeof f);
    return f;
}

/* Rounds to nearest, ties to even. */
static uint16_t element_to_bf16(float f)
{
    uint32_t v;
    memcpy(&v, &f, sizeof v);
    return isnan(f) ? 0x7fff : (uint16_t)((v + 0x7fff + (v >> 16 & 1)) >> 16);
}

double _Complex mt_element_get(char letter, const void *p, int64_t i)
{
    switch (letter) {
    case 'S':
        return ((const float *)p)[i];
    case 'D':
        return ((const double *)p)[i];
    case 'C':
        return ((const float _Complex *)p)[i];
    case 'Z':
        return ((const double _Complex *)p)[i];
    case 'H':
        return (double)((const _Float16 *)p)[i];
    case 'B':
        return element_from_bf16(((const uint16_t *)p)[i]);
    case 'I':
        return ((const int32_t *)p)[i];
    default:
        return ((const int8_t *)p)[i];
    }
}

static int64_t element_whole(double v, int64_t low, int64_t high)
{
    return v<(double)low ? low : v>(double) high ? high : (int64_t)nearbyint(v);
}

void mt_element_put(char letter, void *p, int64_t i, double _Complex v)
{
    double re = __real__ v;
    switch (letter) {
    case 'S':
        ((float *)p)[i] = (float)re;
        break;
    case 'D':
        ((double *)p)[i] = re;
        break;
    case 'C':
        ((float _Complex *)p)[i] = (float _Complex)v;
        break;
    case 'Z':
        ((double _Complex *)p)[i] = v;
        break;
    case 'H':
        ((_Float16 *)p)[i] = (_Float16)re;
        break;
    case 'B':
        ((uint16_t *)p)[i] = element_to_bf16((float)re);
        break;
    case 'I':
        ((int32_t *)p)[i] = (int32_t)element_whole(re, INT32_MIN, INT32_MAX);
        break;
    default:
        ((int8_t *)p)[i] = (int8_t)element_whole(re, INT8_MIN, INT8_MAX);
    }
}

/* Walks through the memory of a cuBLAS call: checks shapes, and notes reads and writes. */

static size_t shapes_size(const struct mt_blas *b, const struct mt_blas_operand *o)
{
    size_t own = mt_blas_letter_bytes(b->letter);
    switch (o->type) {
    case -1:
        return own;
    case -2:
        return sizeof(int);
    case -3:
        return b->letter == 'C' || b->letter == 'Z' ? own / 2 : own;
    case -4:
        return sizeof(int64_t);
    default:
        return mt_blas_letter_bytes(mt_blas_letter(b->a[o->type]));
    }
}

/* Notes an array of pointers, once for a whole batch. */
static void shapes_array(struct mt_blas_walk *w, const struct mt_blas *b, int at)
{
    size_t bytes = (size_t)mt_blas_batches(b) * sizeof(void *);
    if (w->pass == MT_BLAS_READS && !w->batch)
        w->bad |=
            __mt_library_note(w->notes, MT_LIBRARY_READ, (const void *)(intptr_t)b->a[at], bytes, 1, 0) != 0;
}

static int shapes_wanted(const struct mt_blas_walk *w, const struct mt_blas *b,
                         const struct mt_blas_operand *o)
{
    int zero = o->scalar >= 0 && mt_blas_is_zero(b->scalar, mt_blas_scalar(b, o->scalar));
    if (w->pass == MT_BLAS_READS)
        return (o->mode & MT_BLAS_IN) && !zero;
    return (o->mode & MT_BLAS_OUT) && !(zero && o->zero);
}

int mt_blas_operand(struct mt_blas_walk *w, const struct mt_blas *b, const struct mt_blas_operand *o)
{
    w->size = shapes_size(b, o);
    if (w->pass == MT_BLAS_CHECK) {
        w->p = (const char *)(intptr_t)b->a[o->at];
        return 1;
    }
    if (o->array)
        shapes_array(w, b, o->at);
    if (w->bad || !shapes_wanted(w, b, o))
        return 0;
    w->p = mt_blas_pointer(b, o->at, o->stride, w->size, w->batch);
    return 1;
}

static void shapes_note(struct mt_blas_walk *w, int64_t first, int64_t elements, int64_t count,
                        int64_t stride)
{
    if (w->bad || elements <= 0 || count <= 0)
        return;
    w->bad |= __mt_library_note(w->notes, w->pass == MT_BLAS_READS ? MT_LIBRARY_READ : MT_LIBRARY_WRITE,
                                w->p + first * (int64_t)w->size, (size_t)elements * w->size, (size_t)count,
                                stride * (int64_t)w->size) != 0;
}

/* With a negative inc the vector is the same memory, read from its end. */
void mt_blas_vec(struct mt_blas_walk *w, int64_t n, int64_t inc)
{
    if (w->pass == MT_BLAS_CHECK)
        w->bad |= !w->p && n > 0;
    else
        shapes_note(w, 0, 1, inc ? n : n > 0, inc < 0 ? -inc : inc);
}

void mt_blas_mat(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t ld)
{
    if (w->pass == MT_BLAS_CHECK)
        w->bad |= ld < (rows > 1 ? rows : 1) || (!w->p && rows > 0 && cols > 0);
    else
        shapes_note(w, 0, rows, cols, ld);
}

void mt_blas_opmat(struct mt_blas_walk *w, int64_t op, int64_t rows, int64_t cols, int64_t ld)
{
    mt_blas_mat(w, op ? cols : rows, op ? rows : cols, ld);
}

void mt_blas_tri(struct mt_blas_walk *w, int64_t fill, int64_t diag, int64_t n, int64_t ld)
{
    if (w->pass == MT_BLAS_CHECK || fill == 2) {
        mt_blas_mat(w, n, n, ld);
        return;
    }
    for (int64_t j = 0; j < n && !w->bad; j++)
        if (fill)
            shapes_note(w, j * ld, j + 1 - diag, 1, 0);
        else
            shapes_note(w, j * ld + j + diag, n - j - diag, 1, 0);
}

/* Eigenvectors replace the triangle. */
void mt_blas_eig(struct mt_blas_walk *w, int64_t vectors, int64_t fill, int64_t n, int64_t ld)
{
    mt_blas_tri(w, vectors && w->pass == MT_BLAS_WRITES ? 2 : fill, 0, n, ld);
}

void mt_blas_sym(struct mt_blas_walk *w, int64_t fill, int64_t n, int64_t ld)
{
    mt_blas_tri(w, fill, 0, n, ld);
}

void mt_blas_under(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t ld)
{
    if (w->pass == MT_BLAS_CHECK)
        mt_blas_mat(w, rows, cols, ld);
    for (int64_t j = 0; w->pass != MT_BLAS_CHECK && j < cols && !w->bad; j++)
        shapes_note(w, j * ld + j + 1, rows - j - 1, 1, 0);
}

void mt_blas_band(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t below, int64_t above,
                  int64_t ld)
{
    if (w->pass == MT_BLAS_CHECK) {
        w->bad |= ld <= below + above || (!w->p && rows > 0 && cols > 0);
        return;
    }
    for (int64_t j = 0; j < cols && !w->bad; j++) {
        int64_t first = j > above ? j - above : 0, end = j + below < rows ? j + below + 1 : rows;
        shapes_note(w, j * ld + above - j + first, end - first, 1, 0);
    }
}

/* ---- Handles of cuBLAS, and queries of the library ---- */

#define MAGIC 0x6d74626c61730001ull
enum { VERSION_MAJOR = 13, VERSION_MINOR = 0, VERSION_PATCH = 0 };

struct mt_blas_handle *mt_blas_handle(void *handle)
{
    struct mt_blas_handle *h = handle;
    return h && h->magic == MAGIC ? h : NULL;
}

int impl_cublasCreate_v2(void **out)
{
    if (!out)
        return MT_BLAS_INVALID_VALUE;
    struct mt_blas_handle *h = calloc(1, sizeof *h);
    if (!h)
        return MT_BLAS_ALLOC_FAILED;
    h->magic = MAGIC;
    *out = h;
    return MT_BLAS_OK;
}

/* Waits for the work under way, as the library does. */
int impl_cublasDestroy_v2(void *handle)
{
    struct mt_blas_handle *h = mt_blas_handle(handle);
    if (!h)
        return MT_BLAS_NOT_INITIALIZED;
    h->magic = 0;
    free(h);
    return MT_BLAS_OK;
}

/* Set and get of one field; `good` checks the value. */
#define FIELD(set, get, type, field, good)                                                                   \
    int impl_##set(void *handle, type value)                                                                 \
    {                                                                                                        \
        struct mt_blas_handle *h = mt_blas_handle(handle);                                                   \
        if (!h)                                                                                              \
            return MT_BLAS_NOT_INITIALIZED;                                                                  \
        if (!(good))                                                                                         \
            return MT_BLAS_INVALID_VALUE;                                                                    \
        h->field = value;                                                                                    \
        return MT_BLAS_OK;                                                                                   \
    }                                                                                                        \
    int impl_##get(void *handle, type *value)                                                                \
    {                                                                                                        \
        struct mt_blas_handle *h = mt_blas_handle(handle);                                                   \
        if (!h)                                                                                              \
            return MT_BLAS_NOT_INITIALIZED;                                                                  \
        if (!value)                                                                                          \
            return MT_BLAS_INVALID_VALUE;                                                                    \
        *value = h->field;                                                                                   \
        return MT_BLAS_OK;                                                                                   \
    }

FIELD(cublasSetStream_v2, cublasGetStream_v2, void *, stream, 1)
FIELD(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode, value == 0 || value == 1)
FIELD(cublasSetMathMode, cublasGetMathMode, int, math_mode, value >= 0)
FIELD(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics_mode, value == 0 || value == 1)
FIELD(cublasSetSmCountTarget, cublasGetSmCountTarget, int, sms, value >= 0)

/* Stored but not used: nothing is written to it. */
int impl_cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes)
{
    struct mt_blas_handle *h = mt_blas_handle(handle);
    if (!h)
        return MT_BLAS_NOT_INITIALIZED;
    if ((uintptr_t)workspace % 256)
        return MT_BLAS_INVALID_VALUE;
    h->workspace = workspace;
    h->workspace_bytes = bytes;
    return MT_BLAS_OK;
}

int impl_cublasGetVersion_v2(void *handle, int *version)
{
    if (!version)
        return MT_BLAS_INVALID_VALUE;
    *version = VERSION_MAJOR * 10000 + VERSION_MINOR * 100 + VERSION_PATCH;
    return MT_BLAS_OK;
}

size_t impl_cublasGetCudartVersion(void)
{
    return VERSION_MAJOR * 1000 + VERSION_MINOR * 10;
}

int impl_cublasGetProperty(int what, int *value)
{
    static const int parts[] = {VERSION_MAJOR, VERSION_MINOR, VERSION_PATCH};
    if (what < 0 || what > 2 || !value)
        return MT_BLAS_INVALID_VALUE;
    *value = parts[what];
    return MT_BLAS_OK;
}

static const struct {
    int status;
    const char *name, *words;
} statuses[] = {
    {0, "CUBLAS_STATUS_SUCCESS", "success"},
    {1, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {3, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {7, "CUBLAS_STATUS_INVALID_VALUE", "an unsupported value or parameter was passed to the function"},
    {8, "CUBLAS_STATUS_ARCH_MISMATCH", "the device lacks a feature that is needed"},
    {11, "CUBLAS_STATUS_MAPPING_ERROR", "memory could not be accessed"},
    {13, "CUBLAS_STATUS_EXECUTION_FAILED", "the program failed to execute on the device"},
    {14, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {15, "CUBLAS_STATUS_NOT_SUPPORTED", "the functionality is not supported"},
    {16, "CUBLAS_STATUS_LICENSE_ERROR", "a licence could not be checked"},
};

const char *impl_cublasGetStatusName(int status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            return statuses[i].name;
    return "UNKNOWN";
}

const char *impl_cublasGetStatusString(int status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            return statuses[i].words;
    return "unknown status";
}

/* There is no log, so the settings have no effect. */
int impl_cublasLoggerConfigure(int on, int to_stdout, int to_stderr, const char *file)
{
    return MT_BLAS_OK;
}

static void (*logger)(const char *);

int impl_cublasSetLoggerCallback(void (*callback)(const char *))
{
    logger = callback;
    return MT_BLAS_OK;
}

int impl_cublasGetLoggerCallback(void (**callback)(const char *))
{
    if (!callback)
        return MT_BLAS_INVALID_VALUE;
    *callback = logger;
    return MT_BLAS_OK;
}

/* ---- vectors and matrices between host and device: recorded as copies */

int cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                 int kind);
int cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                      int kind, void *stream);

enum { TO_DEVICE = 1, TO_HOST = 2 };

struct copy {
    const void *from;
    void *to;
    int64_t from_ld, to_ld; /* in elements */
    size_t element;
    int64_t rows, cols;
    int kind, async;
    void *stream;
};

static int handle_copy(const struct copy *c)
{
    size_t dpitch = (size_t)c->to_ld * c->element, spitch = (size_t)c->from_ld * c->element;
    size_t width = (size_t)c->rows * c->element, height = (size_t)c->cols;
    if (c->rows < 0 || c->cols < 0 || !c->element || c->from_ld < 1 || c->to_ld < 1)
        return MT_BLAS_INVALID_VALUE;
    if (!c->rows || !c->cols)
        return MT_BLAS_OK;
    if (!c->from || !c->to || c->from_ld < c->rows || c->to_ld < c->rows)
        return MT_BLAS_INVALID_VALUE;
    int e = c->async ? cudaMemcpy2DAsync(c->to, dpitch, c->from, spitch, width, height, c->kind, c->stream)
                     : cudaMemcpy2D(c->to, dpitch, c->from, spitch, width, height, c->kind);
    return e ? MT_BLAS_MAPPING_ERROR : MT_BLAS_OK;
}

/* A vector is a matrix with one row. */
#define COPIES(name, kind_, number, suffix)                                                                  \
    int impl_cublas##name##Vector##suffix(number n, number bytes, const void *x, number incx, void *y,       \
                                          number incy)                                                       \
    {                                                                                                        \
        return handle_copy(                                                                                  \
            &(struct copy){x, y, incx, incy, bytes > 0 ? (size_t)bytes : 0, 1, n, kind_, 0, 0});             \
    }                                                                                                        \
    int impl_cublas##name##VectorAsync##suffix(number n, number bytes, const void *x, number incx, void *y,  \
                                               number incy, void *stream)                                    \
    {                                                                                                        \
        return handle_copy(                                                                                  \
            &(struct copy){x, y, incx, incy, bytes > 0 ? (size_t)bytes : 0, 1, n, kind_, 1, stream});        \
    }                                                                                                        \
    int impl_cublas##name##Matrix##suffix(number rows, number cols, number bytes, const void *a, number lda, \
                                          void *b, number ldb)                                               \
    {                                                                                                        \
        return handle_copy(                                                                                  \
            &(struct copy){a, b, lda, ldb, bytes > 0 ? (size_t)bytes : 0, rows, cols, kind_, 0, 0});         \
    }                                                                                                        \
    int impl_cublas##name##MatrixAsync##suffix(number rows, number cols, number bytes, const void *a,        \
                                               number lda, void *b, number ldb, void *stream)                \
    {                                                                                                        \
        return handle_copy(                                                                                  \
            &(struct copy){a, b, lda, ldb, bytes > 0 ? (size_t)bytes : 0, rows, cols, kind_, 1, stream});    \
    }

COPIES(Set, TO_DEVICE, int, )
COPIES(Get, TO_HOST, int, )
COPIES(Set, TO_DEVICE, int64_t, _64)
COPIES(Get, TO_HOST, int64_t, _64)

static size_t blas_scalar_bytes(const struct mt_blas *b, int i);

static int blas_make(struct mt_blas *b, const struct mt_blas_function *f, int wide, int device,
                     const int64_t *arguments, int *empty);

/* A call of cuBLAS or cuSOLVER on a GPU: NVIDIA's function computes it, after its accesses were noted. Values
 * missing in the arguments (a beta on the device, the pointers of a batch) are fetched from there. */

#define FOUR(a, i) a[i], a[i + 1], a[i + 2], a[i + 3]
#define N4 int64_t, int64_t, int64_t, int64_t
typedef int real_function(void *, N4, N4, N4, N4, N4, N4);

/* All parameters are integers or pointers, and excess ones are harmless. */
static int call_gpu_run(struct mt_library_call *c)
{
    const struct mt_blas *b = (const struct mt_blas *)c;
    const int64_t *a = b->a;
    return ((real_function *)b->real)(b->handle, FOUR(a, 0), FOUR(a, 4), FOUR(a, 8), FOUR(a, 12), FOUR(a, 16),
                                      FOUR(a, 20));
}

/* Reads the state of the handle that a call depends on. Returns 0, or -1 if it is unknown. */
static int call_gpu_ask(void *handle, const struct mt_blas_function *f, void **stream, int *device)
{
    int solver = strcmp(f->library, "cusolver") == 0;
    int (*of_stream)(void *, void **) = (int (*)(void *, void **))mt_lib_real(
        f->library, solver ? "cusolverDnGetStream" : "cublasGetStream_v2");
    int (*of_mode)(void *, int *) =
        solver ? NULL : (int (*)(void *, int *))mt_lib_real(f->library, "cublasGetPointerMode_v2");
    *device = 0;
    return !of_stream || of_stream(handle, stream) || (of_mode && of_mode(handle, device)) ? -1 : 0;
}

/* Returns 0, or -1 if the values are unknown. */
static int call_gpu_fetch(struct mt_blas *b, void *stream)
{
    const char *kinds = b->f->row->kinds;
    int rc = 0;
    for (int i = 0; kinds[i] && !rc; i++) {
        const void *at = (const void *)(intptr_t)b->a[i];
        size_t bytes = (size_t)mt_blas_batches(b) * sizeof(void *);
        if (b->device && strchr("AR", kinds[i]))
            rc = __mt_library_fetch(stream, b->value[i], at, blas_scalar_bytes(b, i));
        if (strchr("MQ", kinds[i]) && !(b->arrays[i] = malloc(bytes)))
            rc = -1;
        else if (strchr("MQ", kinds[i]))
            rc = __mt_library_fetch(stream, b->arrays[i], at, bytes);
    }
    b->fetched = !rc;
    return rc;
}

static int blas_call_gpu(void *handle, const struct mt_blas_function *f, const char *exported, int wide,
                         const int64_t *arguments)
{
    struct mt_blas b;
    void *stream = NULL;
    int device, empty = 0;
    int known =
        !call_gpu_ask(handle, f, &stream, &device) && !blas_make(&b, f, wide, device, arguments, &empty);
    if (!known) {
        b = (struct mt_blas){.f = f};
        memcpy(b.a, arguments, strlen(f->row->kinds) * sizeof *arguments);
    }
    b.handle = handle;
    b.real = mt_lib_real(f->library, exported);
    b.call.run = call_gpu_run;
    known = known && (empty || !call_gpu_fetch(&b, stream));
    int status = known && !empty ? __mt_library_submit(stream, &b.call) : __mt_library_forward(&b.call);
    if (!status && !known)
        __mt_library_miss(f->name);
    for (int i = 0; i < MT_BLAS_ARGS; i++)
        free(b.arrays[i]);
    return status;
}

int cudaStreamSynchronize(void *stream);

int mt_blas_find(const struct mt_blas *b, char kind, int from)
{
    const char *kinds = b->f->row->kinds, *at = from < (int)strlen(kinds) ? strchr(kinds + from, kind) : NULL;
    return at ? (int)(at - kinds) : -1;
}

int64_t mt_blas_batches(const struct mt_blas *b)
{
    int at = mt_blas_find(b, 'B', 0);
    return at < 0 ? 1 : b->a[at];
}

const void *mt_blas_scalar(const struct mt_blas *b, int i)
{
    return b->device && !b->fetched ? (const void *)(intptr_t)b->a[i] : b->value[i];
}

char *mt_blas_pointer(const struct mt_blas *b, int i, int stride, size_t bytes, int64_t batch)
{
    char *p = (char *)(intptr_t)b->a[i], kind = b->f->row->kinds[i];
    if (kind == 'M' || kind == 'Q') /* an array of pointers */
        return (b->arrays[i] ? (char **)b->arrays[i] : (char **)p)[batch];
    return stride < 0 ? p : p + batch * b->a[stride] * (int64_t)bytes;
}

/* ---- computation */

struct call_arguments {
    void *p[16];
    int number[MT_BLAS_ARGS];
    char letter[MT_BLAS_ARGS];
    void *work;
    int lwork;
};

static char call_letter(char kind, int64_t value)
{
    static const char *const letters[] = {['t'] = "NTC", ['u'] = "LU", ['s'] = "LR", ['d'] = "NU"};
    return letters[(unsigned char)kind][value];
}

/* Returns the address of argument i for Fortran, or NULL if it has no such argument. */
static void *call_argument(const struct mt_blas *b, struct call_arguments *f, int i, int64_t batch)
{
    char kind = b->f->row->kinds[i];
    int stride = -1;
    switch (kind) {
    case 'n':
    case 'i':
        f->number[i] = (int)b->a[i];
        return &f->number[i];
    case 't':
    case 'u':
    case 's':
    case 'd':
        f->letter[i] = call_letter(kind, b->a[i]);
        return &f->letter[i];
    case 'A':
    case 'R':
        return (void *)(uintptr_t)mt_blas_scalar(b, i);
    case 'F':
        return (void *)(intptr_t)b->a[i];
    case 'w':
        return f->work;
    case 'l':
        return &f->lwork;
    case 'P':
    case 'W':
    case 'M':
    case 'Q':
        for (int j = i + 1; b->f->row->kinds[j] && !strchr("PWMQ", b->f->row->kinds[j]); j++)
            stride = b->f->row->kinds[j] == 'S' ? j : stride;
        return mt_blas_pointer(b, i, stride, mt_blas_letter_bytes(b->letter), batch);
    default:
        return NULL;
    }
}

#define BLAS_ARGUMENTS(P)                                                                                    \
    P[0], P[1], P[2], P[3], P[4], P[5], P[6], P[7], P[8], P[9], P[10], P[11], P[12], P[13], P[14], P[15]
#define P1 void *
#define P4 P1, P1, P1, P1
#define P16 P4, P4, P4, P4

/* Calls with too many arguments, which is harmless; the first ones in excess are the lengths of its letters,
 * all 1. */
static void call_one(const struct mt_blas *b, struct call_arguments f, int64_t batch)
{
    int n = 0, result = -1;
    for (int i = 0; b->f->row->kinds[i]; i++) {
        void *p = call_argument(b, &f, i, batch);
        if (p)
            f.p[n++] = p;
        else if (strchr("XYI", b->f->row->kinds[i]))
            result = i;
    }
    while (n < 16)
        f.p[n++] = (void *)1;
    void *out = result < 0 ? NULL : (void *)(intptr_t)b->a[result];
    if (b->f->row->value == MT_BLAS_INT) {
        int index = ((int (*)(P16))b->fortran)(BLAS_ARGUMENTS(f.p));
        memcpy(out, &(int64_t){index}, b->wide ? sizeof(int64_t) : sizeof(int));
    } else if (b->f->row->value == MT_BLAS_NONE)
        ((void (*)(P16))b->fortran)(BLAS_ARGUMENTS(f.p));
    else if (b->letter == 'S' || b->letter == 'C')
        *(float *)out = ((float (*)(P16))b->fortran)(BLAS_ARGUMENTS(f.p));
    else
        *(double *)out = ((double (*)(P16))b->fortran)(BLAS_ARGUMENTS(f.p));
}

/* Returns scratch memory of our own: the program's may be too small, and its contents do not matter. */
static void *call_work(const struct mt_blas *b, struct call_arguments *f)
{
    int64_t most = 1;
    for (int i = 0; b->f->row->kinds[i]; i++)
        if (b->f->row->kinds[i] == 'n' && b->a[i] > most)
            most = b->a[i];
    most = most > INT_MAX / 64 ? INT_MAX / 64 : most;
    f->lwork = (int)most * 64;
    return f->work = malloc((size_t)f->lwork * mt_blas_letter_bytes(b->letter));
}

static int call_run(struct mt_library_call *c)
{
    struct mt_blas *b = (struct mt_blas *)c;
    if (b->f->row->run)
        return b->f->row->run(b);
    struct call_arguments f = {.work = NULL};
    if (strchr(b->f->row->kinds, 'w') && !call_work(b, &f)) {
        mt_lib_say("%s: out of memory", b->call.name);
        return -1;
    }
    for (int64_t i = 0; i < mt_blas_batches(b); i++)
        call_one(b, f, i);
    free(f.work);
    return 0;
}

/* ---- accesses */

static size_t blas_scalar_bytes(const struct mt_blas *b, int i)
{
    size_t bytes = mt_blas_letter_bytes(b->scalar);
    char kind = b->f->row->kinds[i];
    if (kind == 'R' || kind == 'Y')
        return b->letter == 'C' || b->letter == 'Z' ? bytes / 2 : bytes;
    if (kind == 'F')
        return sizeof(int);
    return kind == 'A' || kind == 'X' ? bytes : kind == 'I' ? b->wide ? sizeof(int64_t) : sizeof(int) : 0;
}

static void call_scalars(struct mt_blas_walk *w, const struct mt_blas *b, const char *kinds)
{
    for (int i = 0; b->f->row->kinds[i]; i++)
        if ((b->device || b->f->row->kinds[i] == 'F') && strchr(kinds, b->f->row->kinds[i]))
            w->bad |=
                __mt_library_note(w->notes, w->pass == MT_BLAS_READS ? MT_LIBRARY_READ : MT_LIBRARY_WRITE,
                                  (const void *)(intptr_t)b->a[i], blas_scalar_bytes(b, i), 1, 0) != 0;
}

static void call_ranges(struct mt_library_call *c, struct mt_library_notes *notes)
{
    struct mt_blas *b = (struct mt_blas *)c;
    struct mt_blas_walk w = {.pass = MT_BLAS_READS, .notes = notes};
    call_scalars(&w, b, "AR");
    if (!w.bad)
        b->f->row->shapes(&w, b);
    w.pass = MT_BLAS_WRITES;
    if (!w.bad)
        b->f->row->shapes(&w, b);
    if (!w.bad)
        call_scalars(&w, b, "XYIF");
}

/* ---- calls */

/* Checks one number or enumeration. Returns a status. */
static int call_check(const struct mt_blas *b, int i)
{
    static const int most[] = {['t'] = 2, ['u'] = 1, ['s'] = 1, ['d'] = 1, ['j'] = 1};
    char kind = b->f->row->kinds[i];
    int64_t v = b->a[i];
    if (strchr("nB", kind) && v < 0)
        return MT_BLAS_INVALID_VALUE;
    if (strchr("tusdj", kind) && (v < 0 || v > most[(unsigned char)kind]))
        return MT_BLAS_INVALID_VALUE;
    if (kind == 'b' && (v <= 0 || v > 'Z' || !strchr("ASON", (char)v)))
        return MT_BLAS_INVALID_VALUE;
    if (strchr("ARXYIF", kind) && !v)
        return MT_BLAS_INVALID_VALUE;
    if (strchr("ni", kind) && (v > INT_MAX || v < INT_MIN)) {
        if (!__mt_library_on_gpu())
            mt_lib_say("%s: sizes beyond 32 bits are not there on the CPU device", b->call.name);
        return MT_BLAS_NOT_SUPPORTED;
    }
    return MT_BLAS_OK;
}

static int call_check_numbers(const struct mt_blas *b)
{
    int status = MT_BLAS_OK;
    for (int i = 0; b->f->row->kinds[i] && !status; i++)
        status = call_check(b, i);
    return status;
}

static int call_check_shapes(const struct mt_blas *b)
{
    struct mt_blas_walk w = {.pass = MT_BLAS_CHECK};
    b->f->row->shapes(&w, b);
    return w.bad ? MT_BLAS_INVALID_VALUE : MT_BLAS_OK;
}

/* Returns whether there is nothing to do and no result to write: then there is no launch. */
static int call_is_empty(const struct mt_blas *b)
{
    const char *kinds = b->f->row->kinds;
    int first = mt_blas_find(b, 'n', 0), second = mt_blas_find(b, 'n', first + 1);
    if (strpbrk(kinds, "XYIF"))
        return 0;
    /* for a square result (a triangle, no side) the second number is the length of its sums */
    int square = strchr(kinds, 'u') && !strchr(kinds, 's');
    return !b->a[first] || (second >= 0 && !square && !b->a[second]) || !mt_blas_batches(b);
}

static void call_take(struct mt_blas *b, const struct mt_blas_function *f, const int64_t *arguments)
{
    size_t n = strlen(f->row->kinds);
    b->f = f;
    b->letter = b->scalar = f->letter;
    memcpy(b->a, arguments, n * sizeof *arguments);
}

/* Copies the current values of host scalars. */
static void call_take_scalars(struct mt_blas *b)
{
    for (int i = 0; !b->device && b->f->row->kinds[i]; i++)
        if (strchr("AR", b->f->row->kinds[i]))
            memcpy(b->value[i], (const void *)(intptr_t)b->a[i], blas_scalar_bytes(b, i));
}

static int call_submit(struct mt_blas *b, void *stream)
{
    int e = __mt_library_submit(stream, &b->call);
    if (!e && !b->device && strpbrk(b->f->row->kinds, "XYI"))
        e = cudaStreamSynchronize(stream);
    return e ? MT_BLAS_EXECUTION_FAILED : MT_BLAS_OK;
}

/* Fills b for a call, without looking for its CPU function. Returns a status; *empty: nothing to do. */
static int blas_make(struct mt_blas *b, const struct mt_blas_function *f, int wide, int device,
                     const int64_t *arguments, int *empty)
{
    *b = (struct mt_blas){.call = {sizeof *b, f->name, f->library, call_ranges, call_run}};
    call_take(b, f, arguments);
    b->device = device;
    b->wide = wide;
    int status = f->row->prepare ? f->row->prepare(b) : MT_BLAS_OK;
    if (!status)
        status = call_check_numbers(b);
    *empty = !status && call_is_empty(b);
    if (!status && !*empty && !(status = call_check_shapes(b)))
        call_take_scalars(b);
    return status;
}

static int call_begin(struct mt_blas_handle *h, const struct mt_blas_function *f, int wide,
                      const int64_t *arguments)
{
    struct mt_blas b;
    int empty;
    if (!h)
        return MT_BLAS_NOT_INITIALIZED;
    int status = blas_make(&b, f, wide, h->pointer_mode, arguments, &empty);
    if (status || empty)
        return status;
    char fortran[32];
    snprintf(fortran, sizeof fortran, "%s", f->row->run ? "sgemm_" : f->fortran);
    if (!f->row->run && b.letter != f->letter) /* an argument gives the type */
        fortran[0] = (char)(b.letter | 0x20);
    b.fortran = mt_lib_function(MT_LIB_OPENBLAS, fortran, f->name);
    return b.fortran ? call_submit(&b, h->stream) : MT_BLAS_NOT_SUPPORTED;
}

/* Converts a status: cuSOLVER's have other numbers. */
static int call_status(const struct mt_blas_function *f, int status)
{
    static const char solver[] = {
        [MT_BLAS_NOT_INITIALIZED] = 1, [MT_BLAS_ALLOC_FAILED] = 2,     [MT_BLAS_INVALID_VALUE] = 3,
        [MT_BLAS_MAPPING_ERROR] = 5,   [MT_BLAS_EXECUTION_FAILED] = 6, [MT_BLAS_NOT_SUPPORTED] = 9};
    return strcmp(f->library, "cusolver") ? status : solver[status];
}

int mt_blas_call(void *handle, const struct mt_blas_function *f, const char *exported, int wide,
                 const int64_t *arguments)
{
    if (__mt_library_on_gpu())
        return blas_call_gpu(handle, f, exported, wide, arguments);
    return call_status(f, call_begin(mt_blas_handle(handle), f, wide, arguments));
}
