/* cuSPARSE's products next to sums over all entries: of the dense factor only rows that have an entry are
 * read. */
#include "model.h"
#include <complex.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 5, COLS = 6, ENTRIES = 8, N = 3 };
/* Row 1 and column 3 are empty; entries of a row are in no order. */
static const int rows[ENTRIES] = {0, 0, 2, 2, 2, 3, 4, 4}, cols[ENTRIES] = {4, 0, 5, 1, 0, 2, 2, 5};
static const int starts[ROWS + 1] = {0, 2, 2, 5, 6, 8};
static void *handle;

static int cuda_type(char t)
{
    return t == 'S' ? 0 : t == 'D' ? 1 : t == 'C' ? 4 : 5;
}

struct sparse {
    struct memory *offsets, *columns, *values;
    void *matrix;
};

static struct memory *cusparse_integers(const int *v, int n, int base, int wide)
{
    number list[16] = {0};
    for (int i = 0; i < n; i++)
        list[i] = v[i] + base;
    struct memory *m = memory_of(wide ? 'D' : 'I', (size_t)n, list);
    for (int i = 0; wide && i < n; i++)
        ((int64_t *)m->expected)[i] = v[i] + base;
    if (wide)
        cudaMemcpy(m->device, m->expected, 8 * (size_t)n, cudaMemcpyHostToDevice);
    return m;
}

static struct sparse cusparse_sparse(char t, int coordinates, int base, int wide)
{
    struct sparse s = {
        cusparse_integers(coordinates ? rows : starts, coordinates ? ENTRIES : ROWS + 1, base, wide),
        cusparse_integers(cols, ENTRIES, base, wide), memory_new(t, ENTRIES), NULL};
    int index = wide ? 3 : 2, status;
    if (coordinates)
        status =
            ((int (*)(void **, int64_t, int64_t, int64_t, void *, void *, void *, int, int, int))function(
                "cusparseCreateCoo"))(&s.matrix, ROWS, COLS, ENTRIES, s.offsets->device, s.columns->device,
                                      s.values->device, index, base, cuda_type(t));
    else
        status = ((int (*)(void **, int64_t, int64_t, int64_t, void *, void *, void *, int, int, int,
                           int))function("cusparseCreateCsr"))(
            &s.matrix, ROWS, COLS, ENTRIES, s.offsets->device, s.columns->device, s.values->device, index,
            index, base, cuda_type(t));
    check(!status, "sparse matrix: %d", status);
    return s;
}

static void read_all(struct memory *m)
{
    for (size_t i = 0; i < m->count; i++)
        get(m, (long)i);
}

struct dense {
    struct memory *m;
    void *matrix;
    long ld;
    int row_major;
};

static struct dense cusparse_dense(char t, long r, long c, int row_major)
{
    struct dense d = {memory_new(t, 60), NULL, (row_major ? c : r) + 1, row_major};
    int (*create)(void **, int64_t, int64_t, int64_t, void *, int, int) = function("cusparseCreateDnMat");
    check(!create(&d.matrix, r, c, d.ld, d.m->device, cuda_type(t), row_major ? 2 : 1), "dense matrix");
    return d;
}

static long cusparse_at(const struct dense *d, int op, long i, long j)
{
    long r = op ? j : i, c = op ? i : j;
    return d->row_major ? r * d->ld + c : c * d->ld + r;
}

static number conjugate_if(int op, number v)
{
    return op == 2 ? conj(v) : v;
}

static void cusparse_model(const struct sparse *s, int opa, int opb, number beta, struct dense *b,
                           struct dense *c, long n)
{
    read_all(s->offsets), read_all(s->columns), read_all(s->values);
    for (long i = 0; i < (opa ? COLS : ROWS); i++)
        for (long j = 0; j < n; j++) {
            number sum = 0;
            for (int e = 0; e < ENTRIES; e++)
                if ((opa ? cols[e] : rows[e]) == i)
                    sum += conjugate_if(opa, peek(s->values, e)) *
                           conjugate_if(opb, get(b->m, cusparse_at(b, opb, opa ? rows[e] : cols[e], j)));
            sum *= 2;
            put(c->m, cusparse_at(c, 0, i, j),
                sum + (beta != 0 ? beta * get(c->m, cusparse_at(c, 0, i, j)) : 0));
        }
}

static void cusparse_test(char t, int opa, int opb, int order_b, int order_c, int coordinates, int wide,
                          number b)
{
    struct sparse s = cusparse_sparse(t, coordinates, wide, wide);
    long inner = opa ? ROWS : COLS, outer = opa ? COLS : ROWS;
    struct dense B = cusparse_dense(t, opb ? N : inner, opb ? inner : N, order_b),
                 C = cusparse_dense(t, outer, N, order_c);
    char alpha[16], beta[16];
    size_t bytes = 1;
    set(t, alpha, 0, 2);
    set(t, beta, 0, b);
    typedef int sizes(void *, int, int, const void *, void *, void *, const void *, void *, int, int,
                      size_t *);
    check(!((sizes *)function("cusparseSpMM_bufferSize"))(handle, opa, opb, alpha, s.matrix, B.matrix, beta,
                                                          C.matrix, cuda_type(t), 0, &bytes),
          "size of a buffer");
    begin();
    cusparse_model(&s, opa, opb, b, &B, &C, N);
    typedef int multiply(void *, int, int, const void *, void *, void *, const void *, void *, int, int,
                         void *);
    int status = ((multiply *)function("cusparseSpMM"))(handle, opa, opb, alpha, s.matrix, B.matrix, beta,
                                                        C.matrix, cuda_type(t), 0, NULL);
    check(!status, "cusparseSpMM: %d", status);
    end("cusparseSpMM", tolerance_of(t));
}

static void test_vector(char t, int op, number b)
{
    struct sparse s = cusparse_sparse(t, 0, 0, 0);
    long inner = op ? ROWS : COLS, outer = op ? COLS : ROWS;
    struct dense x = {memory_new(t, 8), NULL, inner, 0}, y = {memory_new(t, 8), NULL, outer, 0};
    char alpha[16], beta[16];
    set(t, alpha, 0, 2);
    set(t, beta, 0, b);
    int (*create)(void **, int64_t, void *, int) = function("cusparseCreateDnVec");
    check(!create(&x.matrix, inner, x.m->device, cuda_type(t)) &&
              !create(&y.matrix, outer, y.m->device, cuda_type(t)),
          "vectors");
    begin();
    cusparse_model(&s, op, 0, b, &x, &y, 1);
    typedef int multiply(void *, int, const void *, void *, void *, const void *, void *, int, int, void *);
    int status = ((multiply *)function("cusparseSpMV"))(handle, op, alpha, s.matrix, x.matrix, beta, y.matrix,
                                                        cuda_type(t), 0, NULL);
    check(!status, "cusparseSpMV: %d", status);
    end("cusparseSpMV", tolerance_of(t));
    check(((multiply *)function("cusparseSpMV"))(handle, !op, alpha, s.matrix, x.matrix, beta, y.matrix,
                                                 cuda_type(t), 0, NULL) == 3,
          "vectors of other sizes");
}

int main(void)
{
    check(!((int (*)(void **))function("cusparseCreate"))(&handle), "cusparseCreate");
    for (const char *t = "SDCZ"; *t; t++) {
        for (int op = 0; op < 3; op++)
            test_vector(*t, op, op);
        for (int i = 0; i < 32; i++)
            cusparse_test(*t, i % 3, i / 3 % 3, i & 1, i >> 1 & 1, i >> 2 & 1, i >> 3 & 1, i >> 4);
    }
    check(!((int (*)(void *))function("cusparseDestroy"))(handle), "cusparseDestroy");
    return failures ? 1 : 0;
}
