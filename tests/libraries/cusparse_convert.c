/* cuSPARSE's functions that make matrices of others, next to loops over a matrix of 5 x 6 with 8 entries:
 * those that CuPy's csr_matrix needs to be made, sorted, turned, added, multiplied and made dense. */
#include "model.h"
#include <complex.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 5, COLS = 6, ENTRIES = 8 };
/* By rows, columns of a row in no order; row 1 and column 3 are empty. */
static const int at_row[ENTRIES] = {0, 0, 2, 2, 2, 3, 4, 4}, at_col[ENTRIES] = {4, 0, 5, 1, 0, 2, 2, 5};
static const int at_start[ROWS + 1] = {0, 2, 2, 5, 6, 8};
static void *handle;
typedef const void *in;
typedef void *out;

static int convert_type(char t)
{
    return t == 'S' ? 0 : t == 'D' ? 1 : t == 'C' ? 4 : 5;
}

static struct memory *convert_ints(const int *v, int n, int base)
{
    number list[64];
    for (int i = 0; i < n; i++)
        list[i] = v[i] + base;
    return memory_of('I', (size_t)n, list);
}

static void read_all(struct memory *m)
{
    for (size_t i = 0; i < m->count; i++)
        get(m, (long)i);
}

static void put_all(struct memory *m, const int *v, int base)
{
    for (size_t i = 0; i < m->count; i++)
        put(m, (long)i, v[i] + base);
}

static void *convert_descriptor(int base)
{
    void *d;
    check(!((int (*)(void **))function("cusparseCreateMatDescr"))(&d) &&
              !((int (*)(void *, int))function("cusparseSetMatIndexBase"))(d, base) &&
              ((int (*)(void *))function("cusparseGetMatIndexBase"))(d) == base,
          "a descriptor");
    return d;
}

/* ---- forms and orders of indices */

static void test_forms(int base)
{
    typedef int form(void *, in, int, int, out, int);
    struct memory *rows = convert_ints(at_row, ENTRIES, base), *starts = memory_new('I', ROWS + 1);
    begin();
    read_all(rows), put_all(starts, at_start, base);
    CALL("coo2csr",
         ((form *)function("cusparseXcoo2csr"))(handle, rows->device, ENTRIES, ROWS, starts->device, base));
    end("cusparseXcoo2csr", 0);
    struct memory *back = memory_new('I', ENTRIES);
    begin();
    read_all(starts), put_all(back, at_row, base);
    CALL("csr2coo",
         ((form *)function("cusparseXcsr2coo"))(handle, starts->device, ENTRIES, ROWS, back->device, base));
    end("cusparseXcsr2coo", 0);
}

static void test_orders(void)
{
    static const int count[ENTRIES] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const int by_row[ENTRIES] = {1, 0, 4, 3, 2, 5, 6, 7}; /* within each row by columns */
    static const int by_col[ENTRIES] = {1, 4, 3, 5, 6, 0, 2, 7}; /* by columns, within each by rows */
    struct memory *order = memory_new('I', ENTRIES), *starts = convert_ints(at_start, ROWS + 1, 1);
    struct memory *cols = convert_ints(at_col, ENTRIES, 1), *rows = convert_ints(at_row, ENTRIES, 0),
                  *plain = convert_ints(at_col, ENTRIES, 0);
    size_t bytes = 0;
    int sorted[ENTRIES], other[ENTRIES];
    begin();
    put_all(order, count, 0);
    CALL("identity", ((int (*)(void *, int, out))function("cusparseCreateIdentityPermutation"))(
                         handle, ENTRIES, order->device));
    end("cusparseCreateIdentityPermutation", 0);
    typedef int size(void *, int, int, int, in, in, size_t *);
    CALL("size", ((size *)function("cusparseXcsrsort_bufferSizeExt"))(handle, ROWS, COLS, ENTRIES,
                                                                      starts->device, cols->device, &bytes));
    check(bytes > 0, "a size");
    typedef int csr(void *, int, int, int, in, in, out, out, out);
    begin();
    for (int i = 0; i < ENTRIES; i++)
        sorted[i] = at_col[by_row[i]];
    read_all(starts), read_all(cols), read_all(order);
    put_all(cols, sorted, 1), put_all(order, by_row, 0);
    CALL("csrsort", ((csr *)function("cusparseXcsrsort"))(handle, ROWS, COLS, ENTRIES, convert_descriptor(1),
                                                          starts->device, cols->device, order->device, NULL));
    end("cusparseXcsrsort", 0);
    struct memory *fresh = convert_ints(count, ENTRIES, 0);
    typedef int coo(void *, int, int, int, out, out, out, out);
    begin();
    for (int i = 0; i < ENTRIES; i++)
        sorted[i] = at_col[by_col[i]], other[i] = at_row[by_col[i]];
    read_all(rows), read_all(plain), read_all(fresh);
    put_all(rows, other, 0), put_all(plain, sorted, 0), put_all(fresh, by_col, 0);
    CALL("coosort", ((coo *)function("cusparseXcoosortByColumn"))(handle, ROWS, COLS, ENTRIES, rows->device,
                                                                  plain->device, fresh->device, NULL));
    end("cusparseXcoosortByColumn", 0);
    begin();
    for (int i = 0; i < ENTRIES; i++) /* back */
        sorted[i] = at_col[by_row[i]];
    read_all(rows), read_all(plain);
    put_all(rows, at_row, 0), put_all(plain, sorted, 0);
    CALL("coosort", ((coo *)function("cusparseXcoosortByRow"))(handle, ROWS, COLS, ENTRIES, rows->device,
                                                               plain->device, NULL, NULL));
    end("cusparseXcoosortByRow", 0);
}

/* ---- matrices */

struct csr {
    struct memory *starts, *cols, *values;
};

static struct csr convert_csr(char t, int base)
{
    return (struct csr){convert_ints(at_start, ROWS + 1, base), convert_ints(at_col, ENTRIES, base),
                        memory_new(t, ENTRIES)};
}

static void read_csr(struct csr *a, int with_values)
{
    read_all(a->starts), read_all(a->cols);
    if (with_values)
        read_all(a->values);
}

static number convert_at(const struct csr *a, int row, int col)
{
    for (int e = 0; e < ENTRIES; e++)
        if (at_row[e] == row && at_col[e] == col)
            return peek(a->values, e);
    return 0;
}

static void test_turn(char t, int base, int numeric)
{
    typedef int turn(void *, int, int, int, in, in, in, out, out, out, int, int, int, int, out);
    struct csr a = convert_csr(t, base);
    struct memory *starts = memory_new('I', COLS + 1), *rows = memory_new('I', ENTRIES),
                  *values = memory_new(t, ENTRIES);
    int n = 0;
    begin();
    read_csr(&a, numeric);
    for (int c = 0; c < COLS; c++) {
        put(starts, c, n + base);
        for (int e = 0; e < ENTRIES; e++)
            if (at_col[e] == c) {
                put(rows, n, at_row[e] + base);
                if (numeric)
                    put(values, n, peek(a.values, e));
                n++;
            }
    }
    put(starts, COLS, n + base);
    CALL("csr2csc", ((turn *)function("cusparseCsr2cscEx2"))(handle, ROWS, COLS, ENTRIES, a.values->device,
                                                             a.starts->device, a.cols->device, values->device,
                                                             starts->device, rows->device, convert_type(t),
                                                             numeric, base, 1, NULL));
    end("cusparseCsr2cscEx2", tolerance_of(t));
}

/* 2 a + 3 b, where b has one entry in each row, in column 4; its first one is in a, too. */
static void test_sum(char t, int on_device)
{
    static const int starts_b[ROWS + 1] = {0, 1, 2, 3, 4, 5}, cols_b[ROWS] = {4, 4, 4, 4, 4};
    static const int starts_c[ROWS + 1] = {0, 2, 3, 7, 9, 12};
    enum { ALL = 12 };
    struct csr a = convert_csr(t, 0);
    struct csr b = {convert_ints(starts_b, ROWS + 1, 1), convert_ints(cols_b, ROWS, 1), memory_new(t, ROWS)};
    struct memory *starts = memory_new('I', ROWS + 1), *cols = memory_new('I', ALL),
                  *values = memory_new(t, ALL), *count = memory_new('I', 1);
    void *d0 = convert_descriptor(0), *d1 = convert_descriptor(1);
    int entries = -1, n = 0, (*mode)(void *, int) = function("cusparseSetPointerMode");
    typedef int nnz(void *, int, int, in, int, in, in, in, int, in, in, in, out, out, out);
    begin();
    read_csr(&a, 0), read_csr(&b, 0);
    put_all(starts, starts_c, 0);
    if (on_device)
        put(count, 0, ALL);
    mode(handle, on_device);
    CALL("nnz",
         ((nnz *)function("cusparseXcsrgeam2Nnz"))(
             handle, ROWS, COLS, d0, ENTRIES, a.starts->device, a.cols->device, d1, ROWS, b.starts->device,
             b.cols->device, d0, starts->device, on_device ? (void *)count->device : &entries, NULL));
    mode(handle, 0);
    end("cusparseXcsrgeam2Nnz", 0);
    check(on_device || entries == ALL, "entries of a sum: %d", entries);
    char alpha[16], beta[16], name[32];
    set(t, alpha, 0, 2), set(t, beta, 0, 3);
    begin();
    read_csr(&a, 1), read_csr(&b, 1), read_all(starts);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++) {
            int here = c == 4;
            for (int e = 0; e < ENTRIES; e++)
                here |= at_row[e] == r && at_col[e] == c;
            if (!here)
                continue;
            put(cols, n, c);
            put(values, n++, 2 * convert_at(&a, r, c) + (c == 4 ? 3 * peek(b.values, r) : 0));
        }
    snprintf(name, sizeof name, "cusparse%ccsrgeam2", t);
    typedef int geam(void *, int, int, in, in, int, in, in, in, in, in, int, in, in, in, in, out, in, out,
                     out);
    CALL(name, ((geam *)function("%s", name))(handle, ROWS, COLS, alpha, d0, ENTRIES, a.values->device,
                                              a.starts->device, a.cols->device, beta, d1, ROWS,
                                              b.values->device, b.starts->device, b.cols->device, d0,
                                              values->device, starts->device, cols->device, NULL));
    end(name, tolerance_of(t));
}

/* ---- dense ones; form 1 CSR, 2 CSC, 3 COO */

static void *convert_matrix(int form, int64_t entries, out starts, out others, out values, char t)
{
    typedef int compressed(void **, int64_t, int64_t, int64_t, out, out, out, int, int, int, int);
    typedef int coordinates(void **, int64_t, int64_t, int64_t, out, out, out, int, int, int);
    void *m = NULL;
    int status = form == 3 ? ((coordinates *)function("cusparseCreateCoo"))(
                                 &m, ROWS, COLS, entries, starts, others, values, 2, 0, convert_type(t))
                           : ((compressed *)function(form == 1 ? "cusparseCreateCsr" : "cusparseCreateCsc"))(
                                 &m, ROWS, COLS, entries, starts, others, values, 2, 2, 0, convert_type(t));
    int64_t r, c, n;
    int what = 0;
    check(!status &&
              !((int (*)(in, int64_t *, int64_t *, int64_t *))function("cusparseSpMatGetSize"))(m, &r, &c,
                                                                                                &n) &&
              r == ROWS && c == COLS && n == entries &&
              !((int (*)(in, int *))function("cusparseSpMatGetFormat"))(m, &what) && what == form,
          "matrix of form %d", form);
    return m;
}

/* From a dense matrix with the values of a, and back. */
static void test_dense(char t, int form, int row_major)
{
    typedef int pass(void *, in, out, int, out);
    long ld = (row_major ? COLS : ROWS) + 1;
    struct csr a = convert_csr(t, 0);
    struct memory *dense = memory_new(t, (size_t)(ld * (row_major ? ROWS : COLS))),
                  *again = memory_new(t, dense->count);
    int lines = form == 2 ? COLS : form == 1 ? ROWS : 0, n = 0;
    struct memory *starts = memory_new('I', (size_t)(form == 3 ? ENTRIES : lines + 1)),
                  *others = memory_new('I', ENTRIES), *values = memory_new(t, ENTRIES);
    void *d, *e, *m = convert_matrix(form, 0, starts->device, NULL, NULL, t);
    int (*create)(void **, int64_t, int64_t, int64_t, out, int, int) = function("cusparseCreateDnMat");
    check(!create(&d, ROWS, COLS, ld, dense->device, convert_type(t), row_major ? 2 : 1) &&
              !create(&e, ROWS, COLS, ld, again->device, convert_type(t), row_major ? 2 : 1),
          "dense matrices");
    for (int r = 0; r < ROWS; r++) /* what is in it */
        for (int c = 0; c < COLS; c++)
            set(t, dense->expected, row_major ? r * ld + c : c * ld + r, convert_at(&a, r, c));
    cudaMemcpy(dense->device, dense->expected, dense->count * element(t), cudaMemcpyHostToDevice);
    for (int phase = 0; phase < 2; phase++) {
        begin();
        n = 0;
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLS; c++)
                get(dense, row_major ? r * ld + c : c * ld + r);
        for (int i = 0; i < (form == 2 ? COLS : ROWS); i++) {
            if (form != 3)
                put(starts, i, n);
            for (int k = 0; k < (form == 2 ? ROWS : COLS); k++) {
                number v = form == 2 ? convert_at(&a, k, i) : convert_at(&a, i, k);
                if (v == 0)
                    continue;
                if (phase && form == 3)
                    put(starts, n, i);
                if (phase)
                    put(others, n, k), put(values, n, v);
                n++;
            }
        }
        if (form != 3)
            put(starts, lines, n);
        const char *name = phase ? "cusparseDenseToSparse_convert" : "cusparseDenseToSparse_analysis";
        CALL(name, ((pass *)function("%s", name))(handle, d, m, 0, NULL));
        end(name, tolerance_of(t));
        const char *pointers = form == 1   ? "cusparseCsrSetPointers"
                               : form == 2 ? "cusparseCscSetPointers"
                                           : "cusparseCooSetPointers";
        if (!phase)
            check(!((int (*)(out, out, out, out))function("%s", pointers))(m, starts->device, others->device,
                                                                           values->device),
                  "%s", pointers);
    }
    begin();
    for (int i = 0; i < (form == 3 ? n : lines + 1); i++)
        get(starts, i);
    for (int i = 0; i < n; i++) /* one of the values may be 0 */
        get(others, i), get(values, i);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            put(again, row_major ? r * ld + c : c * ld + r, convert_at(&a, r, c));
    CALL("dense", ((pass *)function("cusparseSparseToDense"))(handle, m, e, 0, NULL));
    end("cusparseSparseToDense", tolerance_of(t));
}

/* y = a x and x' = a^H y for a by columns, as SpMV. */
static void test_by_columns(char t, int op)
{
    struct csr a = {convert_ints(at_start, ROWS + 1, 0), convert_ints(at_col, ENTRIES, 0),
                    memory_new(t, ENTRIES)};
    void *m, *x, *y; /* COLS x ROWS: the transpose of what is by rows */
    typedef int compressed(void **, int64_t, int64_t, int64_t, out, out, out, int, int, int, int);
    int (*create)(void **, int64_t, out, int) = function("cusparseCreateDnVec");
    long inner = op ? COLS : ROWS, outer = op ? ROWS : COLS;
    struct memory *from = memory_new(t, 8), *to = memory_new(t, 8);
    char alpha[16], beta[16];
    set(t, alpha, 0, 2), set(t, beta, 0, 0);
    check(!((compressed *)function("cusparseCreateCsc"))(&m, COLS, ROWS, ENTRIES, a.starts->device,
                                                         a.cols->device, a.values->device, 2, 2, 0,
                                                         convert_type(t)) &&
              !create(&x, inner, from->device, convert_type(t)) &&
              !create(&y, outer, to->device, convert_type(t)),
          "by columns");
    begin();
    read_csr(&a, 1);
    for (long i = 0; i < outer; i++) {
        number sum = 0;
        for (int e = 0; e < ENTRIES; e++)
            if ((op ? at_row[e] : at_col[e]) == i)
                sum += (op == 2 ? conj(peek(a.values, e)) : peek(a.values, e)) *
                       get(from, op ? at_col[e] : at_row[e]);
        put(to, i, 2 * sum);
    }
    typedef int multiply(void *, int, in, in, in, in, out, int, int, out);
    CALL("SpMV",
         ((multiply *)function("cusparseSpMV"))(handle, op, alpha, m, x, beta, y, convert_type(t), 0, NULL));
    end("cusparseSpMV", tolerance_of(t));
}

/* c = 2 a b, where b is a's transpose by rows: symmetric in its pattern. */
static void test_product(char t)
{
    static const int b_start[COLS + 1] = {0, 2, 3, 5, 5, 6, 8}, b_row[ENTRIES] = {0, 2, 2, 3, 4, 0, 2, 4};
    typedef int step(void *, int, int, in, in, in, in, out, int, int, out, size_t *, out);
    typedef int copy(void *, int, int, in, in, in, in, out, int, int, out);
    struct csr a = convert_csr(t, 0), b = {convert_ints(b_start, COLS + 1, 0),
                                           convert_ints(b_row, ENTRIES, 0), memory_new(t, ENTRIES)};
    typedef int compressed(void **, int64_t, int64_t, int64_t, out, out, out, int, int, int, int);
    compressed *create = (compressed *)function("cusparseCreateCsr");
    void *ma = convert_matrix(1, ENTRIES, a.starts->device, a.cols->device, a.values->device, t), *mb, *mc,
         *kept, *buffer;
    struct memory *starts = memory_new('I', ROWS + 1), *cols = memory_new('I', 32),
                  *values = memory_new(t, 32);
    size_t bytes = 0;
    int64_t r, c, n = 0;
    char alpha[16], beta[16];
    int ty = convert_type(t), k = 0;
    set(t, alpha, 0, 2), set(t, beta, 0, 0);
    check(
        !create(&mb, COLS, ROWS, ENTRIES, b.starts->device, b.cols->device, b.values->device, 2, 2, 0, ty) &&
            !create(&mc, ROWS, ROWS, 0, NULL, NULL, NULL, 2, 2, 0, ty) &&
            !((int (*)(void **))function("cusparseSpGEMM_createDescr"))(&kept),
        "a product");
    step *compute = (step *)function("cusparseSpGEMM_compute");
    CALL("work", ((step *)function("cusparseSpGEMM_workEstimation"))(handle, 0, 0, alpha, ma, mb, beta, mc,
                                                                     ty, 0, kept, &bytes, NULL));
    CALL("size", compute(handle, 0, 0, alpha, ma, mb, beta, mc, ty, 0, kept, &bytes, NULL));
    check(bytes > 0 && !cudaMalloc(&buffer, bytes), "a buffer");
    begin();
    read_csr(&a, 1), read_csr(&b, 1);
    CALL("compute", compute(handle, 0, 0, alpha, ma, mb, beta, mc, ty, 0, kept, &bytes, buffer));
    end("cusparseSpGEMM_compute", 0);
    check(!((int (*)(in, int64_t *, int64_t *, int64_t *))function("cusparseSpMatGetSize"))(mc, &r, &c, &n) &&
              n > 0 && n <= 32,
          "entries");
    check(!((int (*)(out, out, out, out))function("cusparseCsrSetPointers"))(mc, starts->device, cols->device,
                                                                             values->device),
          "pointers");
    begin();
    for (int i = 0; i < ROWS; i++) {
        put(starts, i, k);
        for (int j = 0; j < ROWS; j++) {
            number sum = 0;
            int there = 0;
            for (int e = 0; e < ENTRIES; e++)
                for (int f = 0; at_row[e] == i && f < ENTRIES; f++)
                    if (f >= b_start[at_col[e]] && f < b_start[at_col[e] + 1] && b_row[f] == j)
                        sum += peek(a.values, e) * peek(b.values, f), there = 1;
            if (there)
                put(cols, k, j), put(values, k++, 2 * sum);
        }
    }
    put(starts, ROWS, k);
    check(k == n, "%d entries of a product, expected %d", (int)n, k);
    CALL("copy",
         ((copy *)function("cusparseSpGEMM_copy"))(handle, 0, 0, alpha, ma, mb, beta, mc, ty, 0, kept));
    end("cusparseSpGEMM_copy", tolerance_of(t));
    check(!((int (*)(void *))function("cusparseSpGEMM_destroyDescr"))(kept), "the descriptor");
}

static void test_vectors(char t)
{
    static const int where[3] = {5, 1, 7};
    struct memory *indices = convert_ints(where, 3, 0), *values = memory_new(t, 3), *dense = memory_new(t, 9);
    void *x, *y;
    check(!((int (*)(void **, int64_t, int64_t, out, out, int, int, int))function("cusparseCreateSpVec"))(
              &x, 9, 3, indices->device, values->device, 2, 0, convert_type(t)) &&
              !((int (*)(void **, int64_t, out, int))function("cusparseCreateDnVec"))(&y, 9, dense->device,
                                                                                      convert_type(t)),
          "vectors");
    begin();
    read_all(indices);
    for (int i = 0; i < 3; i++)
        put(values, i, get(dense, where[i]));
    CALL("gather", ((int (*)(void *, in, out))function("cusparseGather"))(handle, y, x));
    end("cusparseGather", tolerance_of(t));
    begin();
    read_all(indices), read_all(values);
    for (int i = 0; i < 3; i++)
        put(dense, where[i], peek(values, i));
    CALL("scatter", ((int (*)(void *, in, out))function("cusparseScatter"))(handle, x, y));
    end("cusparseScatter", tolerance_of(t));
}

/* y = alpha x + beta y, where a beta of 1 leaves alone what x has nothing for. */
static void test_axpby(char t, number beta)
{
    static const int where[3] = {5, 1, 7};
    struct memory *indices = convert_ints(where, 3, 1), *values = memory_new(t, 3), *dense = memory_new(t, 8);
    char alpha_bytes[16], beta_bytes[16];
    void *x, *y;
    number v[8];
    set(t, alpha_bytes, 0, 3), set(t, beta_bytes, 0, beta);
    check(!((int (*)(void **, int64_t, int64_t, out, out, int, int, int))function("cusparseCreateSpVec"))(
              &x, 8, 3, indices->device, values->device, 2, 1, convert_type(t)) &&
              !((int (*)(void **, int64_t, out, int))function("cusparseCreateDnVec"))(&y, 8, dense->device,
                                                                                      convert_type(t)),
          "vectors");
    begin();
    read_all(indices);
    for (int i = 0; i < 8; i++)
        v[i] = peek(dense, i) * beta;
    for (int i = 0; i < 8; i++)
        if (beta != 1)
            put(dense, i, beta == 0 ? 0 : get(dense, i) * beta);
    for (int i = 0; i < 3; i++) {
        if (beta == 1)
            get(dense, where[i]);
        put(dense, where[i], v[where[i]] + 3 * get(values, i));
    }
    CALL("axpby", ((int (*)(void *, in, in, in, out))function("cusparseAxpby"))(handle, alpha_bytes, x,
                                                                                beta_bytes, y));
    end("cusparseAxpby", tolerance_of(t));
}

int main(void)
{
    check(!((int (*)(void **))function("cusparseCreate"))(&handle), "cusparseCreate");
    test_forms(0), test_forms(1);
    test_orders();
    for (const char *t = "SDCZ"; *t; t++) {
        for (int i = 0; i < 4; i++)
            test_turn(*t, i & 1, i >> 1);
        test_sum(*t, *t == 'D');
        for (int form = 1; form <= 3; form++)
            test_dense(*t, form, form & 1);
        for (int op = 0; op < 3; op++)
            test_by_columns(*t, op);
        test_product(*t);
        test_vectors(*t);
        test_axpby(*t, 1), test_axpby(*t, 0), test_axpby(*t, 2);
    }
    return failures ? 1 : 0;
}
