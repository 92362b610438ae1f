/* A call of cuBLAS: its arguments are checked, and it goes into the stream of its handle. There it is noted
 * what it touches, and Fortran's function of the same name computes. */
#include "call.h"
#include "library.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t blas_scalar_bytes(const struct mt_blas *b, int i);

static int blas_make(struct mt_blas *b, const struct mt_blas_function *f, int wide, int device,
                     const int64_t *arguments, int *empty);

/* A call of cuBLAS or cuSOLVER on a GPU: NVIDIA's function computes it, and it is noted before what that will
 * touch. What the call's arguments do not say (a beta on the device, the pointers of a batch) is fetched from
 * there. */

#define FOUR(a, i) a[i], a[i + 1], a[i + 2], a[i + 3]
#define N4 int64_t, int64_t, int64_t, int64_t
typedef int real_function(void *, N4, N4, N4, N4, N4, N4);

/* All parameters are integers or pointers, and more than the function has do no harm. */
static int call_gpu_run(struct mt_library_call *c)
{
    const struct mt_blas *b = (const struct mt_blas *)c;
    const int64_t *a = b->a;
    return ((real_function *)b->real)(b->handle, FOUR(a, 0), FOUR(a, 4), FOUR(a, 8), FOUR(a, 12), FOUR(a, 16),
                                      FOUR(a, 20));
}

/* What of the handle a call depends on. 0, or -1: it is not known. */
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

/* 0, or -1: it cannot be known. */
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

/* ---- computing */

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

/* Where Fortran finds argument i; NULL: it does not have it. */
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

/* More arguments than the function has do no harm; the first that are too many are the lengths of its
 * letters, which are 1. */
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

/* Scratch memory of our own: what the program gave may be small, and what is in it is nobody's. */
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

/* ---- what it touches */

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

/* ---- calling */

/* One number or enumeration. A status. */
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

/* Nothing to do, and no result to write: no launch. */
static int call_is_empty(const struct mt_blas *b)
{
    const char *kinds = b->f->row->kinds;
    int first = mt_blas_find(b, 'n', 0), second = mt_blas_find(b, 'n', first + 1);
    if (strpbrk(kinds, "XYIF"))
        return 0;
    /* of a square result (a triangle, no side) the second number is the length of its sums */
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

/* Scalars of the host are as they are now. */
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

/* Makes b that call; its function on the CPU device is not looked for. A status; *empty: there is nothing to
 * do. */
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
    if (!f->row->run && b.letter != f->letter) /* an argument is the type */
        fortran[0] = (char)(b.letter | 0x20);
    b.fortran = mt_lib_function(MT_LIB_OPENBLAS, fortran, f->name);
    return b.fortran ? call_submit(&b, h->stream) : MT_BLAS_NOT_SUPPORTED;
}

/* cuSOLVER's statuses have other numbers. */
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
