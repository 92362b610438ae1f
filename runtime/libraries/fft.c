/* cuFFT over FFTW: transforms of a plan, as operations of its stream. */
#include "fft.h"
#include "abi.h"
#include "library.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct fft_call {
    struct mt_library_call call;
    struct mt_fft_plan plan;
    const void *in;
    void *out;
    int sign;
    int handle; /* on a GPU: NVIDIA's plan, and its function */
    void (*real)(void);
};

static int fft_is_double(const struct mt_fft_plan *p)
{
    return p->type & 0x40;
}

static size_t fft_real_bytes(const struct mt_fft_plan *p)
{
    return fft_is_double(p) ? sizeof(double) : sizeof(float);
}

/* ---- what it touches */

/* One side of a transform: its extents, and where they lie. */
struct fft_side {
    const struct mt_fft_layout *at;
    int n[3], rank;
    size_t element;
};

static struct fft_side fft_side(const struct mt_fft_plan *p, int output)
{
    struct fft_side s = {.at = output ? &p->out : &p->in, .rank = p->rank, .element = fft_real_bytes(p)};
    int kind = p->type & 0xf, complex = kind == MT_FFT_C2C || (kind == MT_FFT_R2C) == output;
    memcpy(s.n, p->n, sizeof s.n);
    if (kind != MT_FFT_C2C && complex)
        s.n[p->rank - 1] = p->n[p->rank - 1] / 2 + 1;
    s.element *= complex ? 2 : 1;
    return s;
}

/* Rows that follow each other without a gap are one. 0, or -1: memory is not there. */
static int fft_note(struct mt_library_notes *notes, int type, const struct fft_side *s, const char *p)
{
    int outer = s->rank - 1;
    int64_t inner = s->n[outer], rows = 1, stride = s->at->stride;
    for (; outer > 0 && s->at->embed[outer] == s->n[outer]; outer--)
        inner *= s->n[outer - 1];
    for (int d = 0; d < outer; d++)
        rows *= s->n[d];
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = 0, rest = row, unit = 1;
        for (int d = s->rank - 1; d >= 0; d--) {
            at += d < outer ? rest % s->n[d] * unit : 0;
            rest = d < outer ? rest / s->n[d] : rest;
            unit *= s->at->embed[d];
        }
        if (__mt_library_note(notes, type, p + at * stride * (int64_t)s->element, s->element, (size_t)inner,
                              stride * (int64_t)s->element))
            return -1;
    }
    return 0;
}

static void fft_side_note(const struct fft_call *c, struct mt_library_notes *notes, int output, int type)
{
    struct fft_side s = fft_side(&c->plan, output);
    const char *p = output ? c->out : c->in;
    for (int64_t i = 0; i < c->plan.batch; i++)
        if (fft_note(notes, type, &s, p + i * s.at->dist * (int64_t)s.element))
            return;
}

static void fft_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct fft_call *c = (const struct fft_call *)call;
    fft_side_note(c, notes, 0, MT_LIBRARY_READ);
    if (c->real && (c->plan.type & 0xf) == MT_FFT_C2R && c->plan.rank > 1 && c->in != c->out)
        fft_side_note(c, notes, 0, MT_LIBRARY_WRITE); /* cuFFT overwrites its input then */
    fft_side_note(c, notes, 1, MT_LIBRARY_WRITE);
}

/* ---- computing */

typedef void *fft_c2c(int rank, const int *n, int many, void *in, const int *inembed, int istride, int idist,
                      void *out, const int *onembed, int ostride, int odist, int sign, unsigned flags);
typedef void *fft_real(int rank, const int *n, int many, void *in, const int *inembed, int istride, int idist,
                       void *out, const int *onembed, int ostride, int odist, unsigned flags);
enum { ESTIMATE = 1 << 6 }; /* FFTW_ESTIMATE: arrays are not touched while a plan is made */

/* FFTW makes one plan at a time. */
static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;

static void (*fft_function(const struct mt_fft_plan *p, const char *name, const char *caller))(void)
{
    char full[64] = "fftw_";
    int wide = fft_is_double(p);
    strcpy(full, wide ? "fftw_" : "fftwf_");
    strcat(full, name);
    return mt_lib_function(wide ? MT_LIB_FFTW : MT_LIB_FFTWF, full, caller);
}

static void *fft_plan(const struct fft_call *c, void *in)
{
    static const char *const names[] = {[MT_FFT_C2C] = "plan_many_dft",
                                        [MT_FFT_R2C] = "plan_many_dft_r2c",
                                        [MT_FFT_C2R] = "plan_many_dft_c2r"};
    const struct mt_fft_plan *p = &c->plan;
    const struct mt_fft_layout *i = &p->in, *o = &p->out;
    int kind = p->type & 0xf;
    void (*f)(void) = fft_function(p, names[kind], c->call.name);
    if (!f)
        return NULL;
    if (kind == MT_FFT_C2C)
        return ((fft_c2c *)f)(p->rank, p->n, (int)p->batch, in, i->embed, i->stride, (int)i->dist, c->out,
                              o->embed, o->stride, (int)o->dist, c->sign, ESTIMATE);
    return ((fft_real *)f)(p->rank, p->n, (int)p->batch, in, i->embed, i->stride, (int)i->dist, c->out,
                           o->embed, o->stride, (int)o->dist, ESTIMATE);
}

/* FFTW's way from complex to real numbers destroys its input: it gets a copy. */
static void *fft_copy(const struct fft_call *c)
{
    struct fft_side s = fft_side(&c->plan, 0);
    int64_t last = 0, unit = 1;
    for (int d = s.rank - 1; d >= 0; d--) {
        last += (s.n[d] - 1) * unit;
        unit *= s.at->embed[d];
    }
    size_t bytes = (size_t)((c->plan.batch - 1) * s.at->dist + last * s.at->stride + 1) * s.element;
    void *copy = malloc(bytes);
    return copy ? memcpy(copy, c->in, bytes) : NULL;
}

static int fft_run(struct mt_library_call *call)
{
    struct fft_call *c = (struct fft_call *)call;
    int copied = (c->plan.type & 0xf) == MT_FFT_C2R && c->in != c->out;
    void *in = copied ? fft_copy(c) : (void *)(uintptr_t)c->in;
    void (*execute)(const void *) = (void (*)(const void *))fft_function(&c->plan, "execute", c->call.name);
    void (*destroy)(void *) = (void (*)(void *))fft_function(&c->plan, "destroy_plan", c->call.name);
    pthread_mutex_lock(&planner);
    void *plan = in && execute && destroy ? fft_plan(c, in) : NULL;
    pthread_mutex_unlock(&planner);
    if (plan)
        execute(plan);
    else
        mt_lib_say("%s: FFTW makes no plan of it", c->call.name);
    pthread_mutex_lock(&planner);
    if (plan)
        destroy(plan);
    pthread_mutex_unlock(&planner);
    if (copied)
        free(in);
    return plan ? 0 : -1;
}

/* ---- calling */

/* Without layouts of its own a plan's data lie close together; real data that are transformed in place leave
 * room for the complex ones. */
static void fft_pack_layout(struct mt_fft_plan *p, int in_place)
{
    int last = p->rank - 1, kind = p->type & 0xf, half = p->n[last] / 2 + 1;
    struct mt_fft_layout close = {.stride = 1}, *real = kind == MT_FFT_R2C ? &p->in : &p->out;
    if (p->own_layout)
        return;
    memcpy(close.embed, p->n, sizeof close.embed);
    p->in = p->out = close;
    if (kind != MT_FFT_C2C) {
        p->in.embed[last] = p->out.embed[last] = half;
        real->embed[last] = in_place ? 2 * half : p->n[last];
    }
    p->in.dist = p->out.dist = 1;
    for (int d = 0; d < p->rank; d++) {
        p->in.dist *= p->in.embed[d];
        p->out.dist *= p->out.embed[d];
    }
}

int mt_fft_exec(const struct mt_fft_plan *p, const char *name, int type, const void *in, void *out, int sign)
{
    struct fft_call c = {
        .call = {sizeof c, name, "cufft", fft_ranges, fft_run}, .in = in, .out = out, .sign = sign};
    if (!p || !p->made)
        return MT_FFT_INVALID_PLAN;
    if (!in || !out || p->type != type || (sign != 1 && sign != -1))
        return MT_FFT_INVALID_VALUE;
    if (!fft_function(p, "execute", name))
        return MT_FFT_NOT_SUPPORTED;
    c.plan = *p;
    fft_pack_layout(&c.plan, in == out);
    return __mt_library_submit(p->stream, &c.call) ? MT_FFT_EXEC_FAILED : MT_FFT_SUCCESS;
}

/* Those without a sign do not look at it. */
static int fft_run_gpu(struct mt_library_call *call)
{
    const struct fft_call *c = (const struct fft_call *)call;
    return ((int (*)(int, const void *, void *, int))c->real)(c->handle, c->in, c->out, c->sign);
}

int mt_fft_exec_gpu(int handle, const struct mt_fft_plan *p, const char *name, const void *in, void *out,
                    int sign)
{
    struct fft_call c = {.call = {sizeof c, name, "cufft", fft_ranges, fft_run_gpu},
                         .in = in,
                         .out = out,
                         .sign = sign,
                         .handle = handle,
                         .real = mt_lib_real("cufft", name)};
    if (p && p->made) {
        c.plan = *p;
        fft_pack_layout(&c.plan, in == out);
        return __mt_library_submit(p->stream, &c.call);
    }
    int status = __mt_library_forward(&c.call);
    if (!status)
        __mt_library_miss(name);
    return status;
}
