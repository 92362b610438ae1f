/* Calls of cuBLAS, cuSOLVER and cuSPARSE: what the rows of their tables become. A call is a block without
 * pointers into itself, so that it can wait in a stream or be part of a graph. Statuses are cuBLAS's; numbers
 * of its enumerations are written out in comments, because not every toolkit has its header. */
#ifndef MT_LIBRARIES_CALL_H
#define MT_LIBRARIES_CALL_H
#include "api/launch/library.h"

enum { MT_BLAS_ARGS = 24 };

enum mt_blas_status {
    MT_BLAS_OK = 0,
    MT_BLAS_NOT_INITIALIZED = 1,
    MT_BLAS_ALLOC_FAILED = 3,
    MT_BLAS_INVALID_VALUE = 7,
    MT_BLAS_MAPPING_ERROR = 11,
    MT_BLAS_EXECUTION_FAILED = 13,
    MT_BLAS_NOT_SUPPORTED = 15,
};

/* Types of elements. Their letters: S, D float and double, C, Z complex of them, H half, B bfloat16, I int32,
 * i int8. */
char mt_blas_letter(int64_t cuda_type); /* 0: none of these */
size_t mt_blas_letter_bytes(char letter);

struct mt_blas;
struct mt_blas_walk;
enum mt_blas_value { MT_BLAS_NONE, MT_BLAS_REAL, MT_BLAS_INT }; /* what the Fortran function returns */

/* Parameters: n, i numbers; t, u, s, d enumerations that Fortran has as letters; e, y, z, c those that it
 * does not have, j one of eigenvectors or not, b a letter that says which; A, R scalars; X, Y, I results; P,
 * W memory read or written, M, Q arrays of pointers to such; S, B strides and number of a batch; w, l scratch
 * memory and its length, v one that Fortran does not have; F an int of the device, written. */
struct mt_blas_row {
    const char *kinds;
    enum mt_blas_value value;
    void (*shapes)(struct mt_blas_walk *w, const struct mt_blas *b);
    int (*run)(struct mt_blas *b);     /* NULL: Fortran's function */
    int (*prepare)(struct mt_blas *b); /* sets letter, scalar and types, or returns a status; may be NULL */
};

struct mt_blas_function {
    const char *name, *library, *fortran;
    char letter;
    const struct mt_blas_row *row;
};

struct mt_blas {
    struct mt_library_call call;
    const struct mt_blas_function *f;
    void (*fortran)(void);
    char letter, scalar; /* types of elements, and of scalars */
    char types[3];       /* gemm_ex: of A, B and C */
    int device;          /* scalars and results are on the device */
    int fetched;         /* but what they are is in `value` */
    int wide;            /* results that are indices have 64 bits */
    int64_t a[MT_BLAS_ARGS];
    unsigned char value[MT_BLAS_ARGS][16]; /* scalars of the host */
    /* On a GPU: NVIDIA's function and handle, and copies of the arrays of pointers. */
    void (*real)(void);
    void *handle, **arrays[MT_BLAS_ARGS];
};

/* The call of `f` with these arguments, without the handle, by its exported name. A status. */
int mt_blas_call(void *handle, const struct mt_blas_function *f, const char *exported, int wide,
                 const int64_t *arguments);

/* Of argument i: where its scalar is; where its memory begins in this one of a batch. */
const void *mt_blas_scalar(const struct mt_blas *b, int i);
int mt_blas_is_zero(char letter, const void *p);
char *mt_blas_pointer(const struct mt_blas *b, int i, int stride, size_t bytes, int64_t batch);
int64_t mt_blas_batches(const struct mt_blas *b);
/* The first argument of this kind from `from` on, or -1. */
int mt_blas_find(const struct mt_blas *b, char kind, int from);

/* ---- shapes: goes through the memory of a call */
enum mt_blas_pass { MT_BLAS_CHECK, MT_BLAS_READS, MT_BLAS_WRITES };
enum mt_blas_mode { MT_BLAS_IN = 1, MT_BLAS_OUT = 2, MT_BLAS_IO = 3 };

struct mt_blas_walk {
    enum mt_blas_pass pass;
    struct mt_library_notes *notes;
    int64_t batch;
    const char *p; /* the operand at hand */
    size_t size;   /* of its elements */
    int bad;       /* an argument is wrong, or memory is not there */
};

/* Arguments by number, -1: none; type -2: int, -3: real parts, -4: int64_t. zero: memory is left alone when
 * the scalar is 0, else it is not read. */
struct mt_blas_operand {
    int at, stride, type, scalar;
    enum mt_blas_mode mode;
    int array, zero;
};
/* 1: a shape is to follow. */
int mt_blas_operand(struct mt_blas_walk *w, const struct mt_blas *b, const struct mt_blas_operand *o);
void mt_blas_vec(struct mt_blas_walk *w, int64_t n, int64_t inc);
void mt_blas_mat(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t ld);
/* Of a matrix for which op(it) is rows x cols. */
void mt_blas_opmat(struct mt_blas_walk *w, int64_t op, int64_t rows, int64_t cols, int64_t ld);
/* A triangle: fill 0 the lower, 1 the upper one, 2 both; diag 1: without the diagonal. */
void mt_blas_tri(struct mt_blas_walk *w, int64_t fill, int64_t diag, int64_t n, int64_t ld);
void mt_blas_eig(struct mt_blas_walk *w, int64_t vectors, int64_t fill, int64_t n, int64_t ld);
void mt_blas_sym(struct mt_blas_walk *w, int64_t fill, int64_t n, int64_t ld);
/* Of a matrix with so many diagonals below and above its own one, which is row `above` of what is kept. */
void mt_blas_band(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t below, int64_t above,
                  int64_t ld);
/* What lies below the diagonal. */
void mt_blas_under(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t ld);

/* ---- handles */
struct mt_blas_handle {
    uint64_t magic;
    void *stream, *workspace;
    size_t workspace_bytes;
    int pointer_mode, math_mode, atomics_mode, sms;
};
struct mt_blas_handle *mt_blas_handle(void *handle); /* NULL: it is none */

/* ---- products */
/* C = alpha op(A) op(B) + beta C with elements of any of the types, column-major; alpha and beta are of type
 * `scalar`. 0, or -1, which was said. */
struct mt_gemm {
    int64_t transa, transb, m, n, k, lda, ldb, ldc;
    const void *a, *b, *alpha, *beta;
    void *c;
    char types[3], scalar;
    const char *name;
};

/* ---- elements of any type as complex numbers of double: for what need not be fast */
double _Complex mt_element_get(char letter, const void *p, int64_t i);
/* Rounded to the nearest; integers saturate. */
void mt_element_put(char letter, void *p, int64_t i, double _Complex v);
#endif
