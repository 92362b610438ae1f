/* Calls of cuBLAS, cuSOLVER and cuSPARSE, described by the rows of their tables. A call is a block without
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

/* Letters of element types: S and D are float and double, C and Z complex of these, H half, B bfloat16, I
 * int32, i int8. */
char mt_blas_letter(int64_t cuda_type); /* returns 0 for other types */
size_t mt_blas_letter_bytes(char letter);

struct mt_blas;
struct mt_blas_walk;
enum mt_blas_value { MT_BLAS_NONE, MT_BLAS_REAL, MT_BLAS_INT }; /* type returned by the Fortran function */

/* Kinds of parameters: n and i numbers; t, u, s and d enumerations that are letters in Fortran; e, y, z and c
 * enumerations unknown to Fortran; j eigenvectors or not; b a letter, which singular vectors; A and R
 * scalars; X, Y and I results; P and W memory read or written; M and Q arrays of such pointers; S and B
 * strides and count of a batch; w and l scratch memory and its length; v scratch memory unknown to Fortran; F
 * an int on the device, written. */
struct mt_blas_row {
    const char *kinds;
    enum mt_blas_value value;
    void (*shapes)(struct mt_blas_walk *w, const struct mt_blas *b);
    int (*run)(struct mt_blas *b);     /* NULL: the Fortran function */
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
    char letter, scalar; /* types of elements and of scalars */
    char types[3];       /* gemm_ex: types of A, B and C */
    int device;          /* scalars and results are on the device */
    int fetched;         /* but copies of the scalars are in `value` */
    int wide;            /* index results have 64 bits */
    int64_t a[MT_BLAS_ARGS];
    unsigned char value[MT_BLAS_ARGS][16]; /* scalars on the host */
    /* On a GPU: NVIDIA's function and handle, and copies of the pointer arrays. */
    void (*real)(void);
    void *handle, **arrays[MT_BLAS_ARGS];
};

/* Makes the call of `f` with these arguments (without the handle) under its exported name. Returns a status.
 */
int mt_blas_call(void *handle, const struct mt_blas_function *f, const char *exported, int wide,
                 const int64_t *arguments);

/* Return the address of the scalar of argument i, and the start of its memory in the current element of a
 * batch. */
const void *mt_blas_scalar(const struct mt_blas *b, int i);
int mt_blas_is_zero(char letter, const void *p);
char *mt_blas_pointer(const struct mt_blas *b, int i, int stride, size_t bytes, int64_t batch);
int64_t mt_blas_batches(const struct mt_blas *b);
/* Returns the first argument of this kind from `from` on, or -1. */
int mt_blas_find(const struct mt_blas *b, char kind, int from);

/* ---- shapes: walk through the memory of a call */
enum mt_blas_pass { MT_BLAS_CHECK, MT_BLAS_READS, MT_BLAS_WRITES };
enum mt_blas_mode { MT_BLAS_IN = 1, MT_BLAS_OUT = 2, MT_BLAS_IO = 3 };

struct mt_blas_walk {
    enum mt_blas_pass pass;
    struct mt_library_notes *notes;
    int64_t batch;
    const char *p; /* the current operand */
    size_t size;   /* size of its elements */
    int bad;       /* an argument is invalid, or memory is not allocated */
};

/* Arguments by number, -1: none; type -2: int, -3: real parts, -4: int64_t. zero 1: memory
 * is left alone if the scalar is 0; zero 0: it is only written then. */
struct mt_blas_operand {
    int at, stride, type, scalar;
    enum mt_blas_mode mode;
    int array, zero;
};
/* Returns 1 if a shape must follow. */
int mt_blas_operand(struct mt_blas_walk *w, const struct mt_blas *b, const struct mt_blas_operand *o);
void mt_blas_vec(struct mt_blas_walk *w, int64_t n, int64_t inc);
void mt_blas_mat(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t ld);
/* Shape of a matrix for which op(matrix) is rows x cols. */
void mt_blas_opmat(struct mt_blas_walk *w, int64_t op, int64_t rows, int64_t cols, int64_t ld);
/* Shape of a triangle: fill 0 lower, 1 upper, 2 both; diag 1: without the diagonal. */
void mt_blas_tri(struct mt_blas_walk *w, int64_t fill, int64_t diag, int64_t n, int64_t ld);
void mt_blas_eig(struct mt_blas_walk *w, int64_t vectors, int64_t fill, int64_t n, int64_t ld);
void mt_blas_sym(struct mt_blas_walk *w, int64_t fill, int64_t n, int64_t ld);
/* Shape of a matrix stored as diagonals, `below` and `above` the main one, which is row `above` of the
 * storage. */
void mt_blas_band(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t below, int64_t above,
                  int64_t ld);
/* Shape of the part below the diagonal. */
void mt_blas_under(struct mt_blas_walk *w, int64_t rows, int64_t cols, int64_t ld);

/* ---- handles */
struct mt_blas_handle {
    uint64_t magic;
    void *stream, *workspace;
    size_t workspace_bytes;
    int pointer_mode, math_mode, atomics_mode, sms;
};
struct mt_blas_handle *mt_blas_handle(void *handle); /* returns NULL if invalid */

/* ---- products */
/* Computes C = alpha op(A) op(B) + beta C for elements of any type, column-major; alpha and beta are of type
 * `scalar`. Returns 0, or -1 after a report. */
struct mt_gemm {
    int64_t transa, transb, m, n, k, lda, ldb, ldc;
    const void *a, *b, *alpha, *beta;
    void *c;
    char types[3], scalar;
    const char *name;
};

/* ---- elements of any type as double complex numbers, for uses without need for speed */
double _Complex mt_element_get(char letter, const void *p, int64_t i);
/* Rounds to nearest; integers saturate. */
void mt_element_put(char letter, void *p, int64_t i, double _Complex v);
#endif
