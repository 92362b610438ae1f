/* cuFFT next to sums over all elements: results, and which bytes are read and written. */
#include "model.h"
#include <complex.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { C2C = 0x29, R2C = 0x2a, C2R = 0x2c, WIDE = 0x40 };

/* A transform as cufftPlanMany has it. */
struct transform {
    int rank, n[3], inembed[3], istride, idist, onembed[3], ostride, odist, type, batch, sign;
};

static long cufft_place(const struct transform *t, int output, const int *i, int batch)
{
    const int *embed = output ? t->onembed : t->inembed;
    long at = 0;
    for (int d = 0; d < t->rank; d++)
        at = at * embed[d] + i[d];
    return (long)batch * (output ? t->odist : t->idist) + at * (output ? t->ostride : t->istride);
}

static void cufft_unpack(const int *n, int rank, int flat, int *i)
{
    for (int d = rank - 1; d >= 0; flat /= n[d], d--)
        i[d] = flat % n[d];
}

static int cufft_product(const int *n, int rank)
{
    int p = 1;
    for (int d = 0; d < rank; d++)
        p *= n[d];
    return p;
}

static number cufft_turn(const struct transform *t, const int *i, const int *k)
{
    double angle = 0;
    for (int d = 0; d < t->rank; d++)
        angle += 2 * M_PI * i[d] * k[d] / t->n[d];
    return cexp(t->sign * angle * I);
}

/* Element `flat` of the input; of the halves of real transforms the rest follows by symmetry. */
static number cufft_input(const struct transform *t, struct memory *in, const int *half, int flat, int batch)
{
    int i[3] = {0}, mirrored[3], kind = t->type & ~WIDE;
    cufft_unpack(t->n, t->rank, flat, i);
    if (kind != C2R || i[t->rank - 1] < half[t->rank - 1])
        return get(in, cufft_place(t, 0, i, batch));
    for (int d = 0; d < t->rank; d++)
        mirrored[d] = (t->n[d] - i[d]) % t->n[d];
    return conj(get(in, cufft_place(t, 0, mirrored, batch)));
}

static void cufft_model(const struct transform *t, struct memory *in, struct memory *out)
{
    int half[3], total = cufft_product(t->n, t->rank), kind = t->type & ~WIDE;
    memcpy(half, t->n, sizeof half);
    half[t->rank - 1] = t->n[t->rank - 1] / 2 + 1;
    const int *outputs = kind == R2C ? half : t->n;
    number sums[256];
    for (int b = 0; b < t->batch; b++) {
        int count = cufft_product(outputs, t->rank), k[3] = {0}, i[3] = {0};
        for (int o = 0; o < count; o++) {
            cufft_unpack(outputs, t->rank, o, k);
            sums[o] = 0;
            for (int e = 0; e < total; e++) {
                cufft_unpack(t->n, t->rank, e, i);
                sums[o] += cufft_input(t, in, half, e, b) * cufft_turn(t, i, k);
            }
        }
        for (int o = 0; o < count; o++) {
            cufft_unpack(outputs, t->rank, o, k);
            put(out, cufft_place(t, 1, k, b), sums[o]);
        }
    }
}

static const char *name_of(int type)
{
    switch (type) {
    case C2C:
        return "cufftExecC2C";
    case R2C:
        return "cufftExecR2C";
    case C2R:
        return "cufftExecC2R";
    case C2C | WIDE:
        return "cufftExecZ2Z";
    case R2C | WIDE:
        return "cufftExecD2Z";
    default:
        return "cufftExecZ2D";
    }
}

/* Inputs of C2R must be halves of something symmetric: those that are their own mirror images are real. */
static void make_symmetric(const struct transform *t, struct memory *in)
{
    if ((t->type & ~WIDE) != C2R)
        return;
    for (int flat = 0; flat < cufft_product(t->n, t->rank) * t->batch; flat++) {
        int i[3] = {0}, m[3] = {0}, b = flat / cufft_product(t->n, t->rank);
        cufft_unpack(t->n, t->rank, flat % cufft_product(t->n, t->rank), i);
        for (int d = 0; d < t->rank; d++)
            m[d] = (t->n[d] - i[d]) % t->n[d];
        if (i[t->rank - 1] > t->n[t->rank - 1] / 2 || m[t->rank - 1] > t->n[t->rank - 1] / 2)
            continue;
        set(in->letter, in->expected, cufft_place(t, 0, m, b), conj(peek(in, cufft_place(t, 0, i, b))));
        if (cufft_place(t, 0, m, b) == cufft_place(t, 0, i, b))
            set(in->letter, in->expected, cufft_place(t, 0, i, b), creal(peek(in, cufft_place(t, 0, i, b))));
    }
    cudaMemcpy(in->device, in->expected, in->count * element(in->letter), cudaMemcpyHostToDevice);
}

static void cufft_run(struct transform t, int plan)
{
    int kind = t.type & ~WIDE, wide = t.type & WIDE, status;
    char real = wide ? 'D' : 'S', both = wide ? 'Z' : 'C';
    struct memory *in = memory_new(kind == R2C ? real : both, 300),
                  *out = memory_new(kind == C2R ? real : both, 300);
    make_symmetric(&t, in);
    begin();
    cufft_model(&t, in, out);
    if (kind == C2C)
        status = ((int (*)(int, void *, void *, int))function("%s", name_of(t.type)))(plan, in->device,
                                                                                      out->device, t.sign);
    else
        status =
            ((int (*)(int, void *, void *))function("%s", name_of(t.type)))(plan, in->device, out->device);
    check(!status, "%s: status %d", name_of(t.type), status);
    end(name_of(t.type), wide ? 1e-11 : 1e-4);
    check(!((int (*)(int))function("cufftDestroy"))(plan), "cufftDestroy");
}

/* Data close together: what cufftPlan1d, 2d and 3d mean. */
static struct transform close_together(int rank, int x, int y, int z, int type, int batch, int sign)
{
    struct transform t = {rank, {x, y, z}, {x, y, z}, 1, 0, {x, y, z}, 1, 0, type, batch, sign};
    int kind = type & ~WIDE, last = rank - 1;
    if (kind == R2C)
        t.onembed[last] = t.n[last] / 2 + 1;
    if (kind == C2R)
        t.inembed[last] = t.n[last] / 2 + 1;
    t.idist = cufft_product(t.inembed, rank);
    t.odist = cufft_product(t.onembed, rank);
    return t;
}

static void test_close(int type, int sign)
{
    int p = 0;
    check(!((int (*)(int *, int, int, int))function("cufftPlan1d"))(&p, 12, type, 3), "cufftPlan1d");
    cufft_run(close_together(1, 12, 1, 1, type, 3, sign), p);
    check(!((int (*)(int *, int, int, int))function("cufftPlan2d"))(&p, 4, 7, type), "cufftPlan2d");
    cufft_run(close_together(2, 4, 7, 1, type, 1, sign), p);
    check(!((int (*)(int *, int, int, int, int))function("cufftPlan3d"))(&p, 3, 4, 5, type), "cufftPlan3d");
    cufft_run(close_together(3, 3, 4, 5, type, 1, sign), p);
}

/* Gaps between elements, rows and transforms. */
static void test_many(int type, int sign)
{
    struct transform t = {2, {3, 6}, {3, 8}, 2, 60, {4, 7}, 3, 100, type, 2, sign};
    int p = 0;
    int (*many)(int *, int, int *, int *, int, int, int *, int, int, int, int) = function("cufftPlanMany");
    check(!many(&p, 2, t.n, t.inembed, 2, 60, t.onembed, 3, 100, type, 2), "cufftPlanMany");
    cufft_run(t, p);
}

/* In place, rows of real numbers leave room for the complex ones. */
static void test_in_place(void)
{
    struct transform t = close_together(1, 10, 1, 1, R2C | WIDE, 2, -1);
    struct memory *m = memory_new('D', 24);
    number sums[2][6];
    int p;
    check(!((int (*)(int *, int, int, int))function("cufftPlan1d"))(&p, 10, R2C | WIDE, 2), "cufftPlan1d");
    begin();
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < 6; k++) {
            sums[b][k] = 0;
            for (int i = 0; i < 10; i++)
                sums[b][k] += get(m, b * 12 + i) * cufft_turn(&t, &i, &k);
        }
    for (int i = 0; i < 24; i++)
        put(m, i, i % 2 ? cimag(sums[i / 12][i % 12 / 2]) : creal(sums[i / 12][i % 12 / 2]));
    check(!((int (*)(int, void *, void *))function("cufftExecD2Z"))(p, m->device, m->device), "in place");
    end("cufftExecD2Z", 1e-11);
}

static void test_errors(void)
{
    int p = 0, q = -1;
    float *x;
    cudaMalloc((void **)&x, 4096);
    int (*plan_1d)(int *, int, int, int) = function("cufftPlan1d");
    int (*c2c)(int, void *, void *, int) = function("cufftExecC2C");
    check(plan_1d(&p, 0, C2C, 1) == 8, "a plan of no elements");
    check(plan_1d(&p, 8, 5, 1) == 3, "a plan of no type");
    check(c2c(q, x, x, -1) == 1, "no such plan");
    check(!plan_1d(&p, 8, R2C, 1) && c2c(p, x, x, -1) == 4, "a plan of another type");
}

int main(void)
{
    for (int wide = 0; wide <= WIDE; wide += WIDE) {
        test_close(C2C | wide, -1);
        test_close(C2C | wide, 1);
        test_close(R2C | wide, -1);
        test_close(C2R | wide, 1);
        test_many(C2C | wide, -1);
        test_many(R2C | wide, -1);
        test_many(C2R | wide, 1);
    }
    test_in_place();
    test_errors();
    return failures ? 1 : 0;
}
