/* Handles and descriptors of cuBLASLt. */
#include "lt.h"
#include "call.h"
#include "library.h"
#include <stdlib.h>
#include <string.h>

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

int mt_lt_read_desc(struct mt_lt_desc *d, const void *real)
{
    static const int pointers[] = {11, 17, 18, 19, 20, 21, 23, 24, 36, -1};
    *d = lt_desc(0, 0);
    return lt_read("cublasLtMatmulDescGetAttribute", real, of_desc, d, pointers);
}

int mt_lt_read_layout(struct mt_lt_layout *l, const void *real)
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
    int status = mt_lt_check(d, a, b, c, out, "cublasLtMatmulAlgoGetHeuristic");
    *count = !status;
    if (!status)
        memcpy(results, &one, sizeof one);
    return status;
}
