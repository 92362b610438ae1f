/* cuFFT: plans, whose handles are numbers, and transforms. */
#include "api/launch/library.h"
#include "library.h"
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <stdlib.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MT_FFT_SUCCESS = 0,
    MT_FFT_INVALID_PLAN = 1,
    MT_FFT_ALLOC_FAILED = 2,
    MT_FFT_INVALID_TYPE = 3,
    MT_FFT_INVALID_VALUE = 4,
    MT_FFT_EXEC_FAILED = 6,
    MT_FFT_INVALID_SIZE = 8,
    MT_FFT_NOT_SUPPORTED = 16,
};

/* A cufftType is one of these in its low four bits; the bit 0x40 means double. */
enum { MT_FFT_C2C = 9, MT_FFT_R2C = 10, MT_FFT_C2R = 12 };

struct mt_fft_layout {
    int embed[3], stride;
    int64_t dist;
};

struct mt_fft_plan {
    int made, type, rank, n[3], own_layout;
    int64_t batch;
    struct mt_fft_layout in, out;
    void *stream;
};

/* ---- transforms of a plan with FFTW, as operations of its stream ---- */

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

/* ---- accesses */

/* One side of a transform: its extents and layout. */
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

/* Notes a side; contiguous rows become one piece. Returns 0, or -1 if memory is not allocated. */
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
        fft_side_note(c, notes, 0, MT_LIBRARY_WRITE); /* cuFFT overwrites its input in this case */
    fft_side_note(c, notes, 1, MT_LIBRARY_WRITE);
}

/* ---- computation */

typedef void *fft_c2c(int rank, const int *n, int many, void *in, const int *inembed, int istride, int idist,
                      void *out, const int *onembed, int ostride, int odist, int sign, unsigned flags);
typedef void *fft_real(int rank, const int *n, int many, void *in, const int *inembed, int istride, int idist,
                       void *out, const int *onembed, int ostride, int odist, unsigned flags);
enum { ESTIMATE = 1 << 6 }; /* FFTW_ESTIMATE: making a plan leaves arrays untouched */

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

/* Copies the input, since FFTW's complex to real transform destroys it. */
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

/* ---- calls */

/* Sets the default layout: contiguous data; in-place real data leave room for the complex results. */
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

/* Executes a transform of `type` for the call `name`; p NULL: no such plan. Returns a status. */
static int fft_exec(const struct mt_fft_plan *p, const char *name, int type, const void *in, void *out,
                    int sign)
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

/* Functions without a sign ignore it. */
static int fft_run_gpu(struct mt_library_call *call)
{
    const struct fft_call *c = (const struct fft_call *)call;
    return ((int (*)(int, const void *, void *, int))c->real)(c->handle, c->in, c->out, c->sign);
}

/* Executes it on a GPU, with NVIDIA's plan. */
static int fft_exec_gpu(int handle, const struct mt_fft_plan *p, const char *name, const void *in, void *out,
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

enum { PLANS = 4096 };
static struct {
    int used;
    struct mt_fft_plan plan;
} plans[PLANS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Copies a plan. Returns 0 if there is none. */
static int fft_plan_get(int handle, struct mt_fft_plan *out)
{
    pthread_mutex_lock(&lock);
    int there = handle > 0 && handle < PLANS && plans[handle].used;
    if (there)
        *out = plans[handle].plan;
    pthread_mutex_unlock(&lock);
    return there;
}

static int fft_plan_set(int handle, const struct mt_fft_plan *p)
{
    pthread_mutex_lock(&lock);
    int there = handle > 0 && handle < PLANS && plans[handle].used;
    if (there)
        plans[handle].plan = *p;
    pthread_mutex_unlock(&lock);
    return there ? MT_FFT_SUCCESS : MT_FFT_INVALID_PLAN;
}

/* On a GPU: NVIDIA's function of these parameters, which makes and owns the plan. */
#define REAL(which, parameters) ((int(*) parameters)mt_lib_real("cufft", "cufft" #which))

/* Notes NVIDIA's plan of this number on a GPU. A number beyond our table is unknown when used. */
static int fft_plan_hold(int handle)
{
    pthread_mutex_lock(&lock);
    if (handle > 0 && handle < PLANS && !plans[handle].used) {
        memset(&plans[handle], 0, sizeof plans[handle]);
        plans[handle].used = 1;
    }
    pthread_mutex_unlock(&lock);
    return MT_FFT_SUCCESS;
}

int impl_cufftCreate(int *handle)
{
    int i = 1;
    if (__mt_library_on_gpu()) {
        int status = REAL(Create, (int *))(handle);
        return status ? status : fft_plan_hold(*handle);
    }
    if (!handle)
        return MT_FFT_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    while (i < PLANS && plans[i].used)
        i++;
    if (i < PLANS) {
        memset(&plans[i], 0, sizeof plans[i]);
        plans[i].used = 1;
    }
    pthread_mutex_unlock(&lock);
    if (i < PLANS)
        *handle = i;
    return i < PLANS ? MT_FFT_SUCCESS : MT_FFT_ALLOC_FAILED;
}

int impl_cufftDestroy(int handle)
{
    pthread_mutex_lock(&lock);
    int there = handle > 0 && handle < PLANS && plans[handle].used;
    if (there)
        plans[handle].used = 0;
    pthread_mutex_unlock(&lock);
    if (__mt_library_on_gpu())
        return REAL(Destroy, (int))(handle);
    return there ? MT_FFT_SUCCESS : MT_FFT_INVALID_PLAN;
}

int impl_cufftSetStream(int handle, void *stream)
{
    struct mt_fft_plan p;
    int gpu = __mt_library_on_gpu(), status = gpu ? REAL(SetStream, (int, void *))(handle, stream) : 0;
    if (status || !fft_plan_get(handle, &p))
        return gpu ? status : MT_FFT_INVALID_PLAN;
    p.stream = stream;
    return fft_plan_set(handle, &p);
}

/* ---- creation of plans */

struct request {
    int rank;
    long long n[3], inembed[3], istride, idist, onembed[3], ostride, odist, batch;
    int own_layout, type;
};

static int fft_plan_type_is_known(int type)
{
    int kind = type & 0xf, rest = type & ~0xf;
    return (kind == MT_FFT_C2C || kind == MT_FFT_R2C || kind == MT_FFT_C2R) && (rest == 0x20 || rest == 0x60);
}

static int fft_plan_fits(long long v)
{
    return v > 0 && v <= INT_MAX;
}

static int fft_plan_check(const struct request *r)
{
    if (!fft_plan_type_is_known(r->type))
        return MT_FFT_INVALID_TYPE;
    if (r->rank < 1 || r->rank > 3)
        return MT_FFT_INVALID_VALUE;
    for (int d = 0; d < r->rank; d++)
        if (!fft_plan_fits(r->n[d]) ||
            (r->own_layout && (!fft_plan_fits(r->inembed[d]) || !fft_plan_fits(r->onembed[d]))))
            return MT_FFT_INVALID_SIZE;
    if (!fft_plan_fits(r->batch))
        return MT_FFT_INVALID_SIZE;
    int strides = fft_plan_fits(r->istride) && fft_plan_fits(r->ostride) && r->idist >= 0 && r->odist >= 0 &&
                  r->idist <= INT_MAX && r->odist <= INT_MAX;
    return r->own_layout && !strides ? MT_FFT_INVALID_VALUE : MT_FFT_SUCCESS;
}

static int fft_plan_make(int handle, const struct request *r, size_t *work)
{
    struct mt_fft_plan p;
    if (!fft_plan_get(handle, &p))
        return MT_FFT_INVALID_PLAN;
    int status = p.made ? MT_FFT_INVALID_PLAN : fft_plan_check(r);
    if (status)
        return status;
    p.made = 1;
    p.type = r->type;
    p.rank = r->rank;
    p.batch = r->batch;
    p.own_layout = r->own_layout;
    for (int d = 0; d < r->rank; d++) {
        p.n[d] = (int)r->n[d];
        p.in.embed[d] = (int)r->inembed[d];
        p.out.embed[d] = (int)r->onembed[d];
    }
    p.in.stride = (int)r->istride;
    p.in.dist = r->idist;
    p.out.stride = (int)r->ostride;
    p.out.dist = r->odist;
    if (work)
        *work = 0; /* no device memory is needed */
    return fft_plan_set(handle, &p);
}

/* cufftPlan*: makes a handle and its plan in one call. */
static int fft_plan_new(int *handle, const struct request *r)
{
    int status = impl_cufftCreate(handle);
    if (status || !(status = fft_plan_make(*handle, r, NULL)))
        return status;
    impl_cufftDestroy(*handle);
    return status;
}

/* Notes a plan made by NVIDIA's library on a GPU. One with unknown features counts as unknown when used. */
static int fft_plan_follow(int handle, const struct request *r)
{
    fft_plan_hold(handle);
    fft_plan_make(handle, r, NULL);
    return MT_FFT_SUCCESS;
}

static struct request fft_plan_close(int rank, int x, int y, int z, int type, int batch)
{
    return (struct request){.rank = rank, .n = {x, y, z}, .batch = batch, .type = type};
}

static struct request fft_plan_many_64(int rank, const long long *n, const long long *inembed,
                                       long long istride, long long idist, const long long *onembed,
                                       long long ostride, long long odist, int type, long long batch)
{
    struct request r = {.rank = n ? rank : 0,
                        .istride = istride,
                        .idist = idist,
                        .ostride = ostride,
                        .odist = odist,
                        .batch = batch,
                        .type = type};
    r.own_layout = inembed && onembed;
    for (int d = 0; d < rank && rank <= 3 && n; d++) {
        r.n[d] = n[d];
        r.inembed[d] = r.own_layout ? inembed[d] : 0;
        r.onembed[d] = r.own_layout ? onembed[d] : 0;
    }
    return r;
}

/* Converts extents to 64 bits, in `to`. */
static const long long *fft_plan_wide(int rank, const int *from, long long to[3])
{
    for (int d = 0; from && d < rank && d < 3; d++)
        to[d] = from[d];
    return from ? to : NULL;
}

/* Returns the size of the work area for `r`: 0. */
static int fft_plan_size(const struct request *r, size_t *work)
{
    int status = work ? fft_plan_check(r) : MT_FFT_INVALID_VALUE;
    if (!status)
        *work = 0;
    return status;
}

#define DIMENSIONS(which, parameters, arguments, make)                                                       \
    int impl_cufftPlan##which parameters                                                                     \
    {                                                                                                        \
        if (!__mt_library_on_gpu())                                                                          \
            return fft_plan_new(plan, &make);                                                                \
        int status = REAL(Plan##which, parameters) arguments;                                                \
        return status ? status : fft_plan_follow(*plan, &make);                                              \
    }
#define MAKE(which, parameters, arguments, make)                                                             \
    int impl_cufftMakePlan##which parameters                                                                 \
    {                                                                                                        \
        if (!__mt_library_on_gpu())                                                                          \
            return fft_plan_make(plan, &make, work);                                                         \
        int status = REAL(MakePlan##which, parameters) arguments;                                            \
        return status ? status : fft_plan_follow(plan, &make);                                               \
    }
#define OTHERS(which, parameters, arguments, estimates, make)                                                \
    MAKE(which, parameters, arguments, make)                                                                 \
    int impl_cufftGetSize##which parameters                                                                  \
    {                                                                                                        \
        struct mt_fft_plan p;                                                                                \
        return fft_plan_get(plan, &p) ? fft_plan_size(&make, work) : MT_FFT_INVALID_PLAN;                    \
    }                                                                                                        \
    int impl_cufftEstimate##which estimates                                                                  \
    {                                                                                                        \
        return fft_plan_size(&make, work);                                                                   \
    }
#define REQUEST (struct request[1])
#define WIDE(from) fft_plan_wide(rank, from, (long long[3]){0})
#define MANY_                                                                                                \
    int rank, int *n, int *inembed, int istride, int idist, int *onembed, int ostride, int odist, int type,  \
        int batch
#define MANY_64_                                                                                             \
    int rank, long long *n, long long *inembed, long long istride, long long idist, long long *onembed,      \
        long long ostride, long long odist, int type, long long batch
#define MANY_NAMES rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch
#define CLOSE_1 REQUEST{fft_plan_close(1, nx, 1, 1, type, batch)}[0]
#define CLOSE_2 REQUEST{fft_plan_close(2, nx, ny, 1, type, 1)}[0]
#define CLOSE_3 REQUEST{fft_plan_close(3, nx, ny, nz, type, 1)}[0]
#define MANY                                                                                                 \
    REQUEST{fft_plan_many_64(rank, WIDE(n), WIDE(inembed), istride, idist, WIDE(onembed), ostride, odist,    \
                             type, batch)}[0]
#define MANY_64 REQUEST{fft_plan_many_64(MANY_NAMES)}[0]

DIMENSIONS(1d, (int *plan, int nx, int type, int batch), (plan, nx, type, batch), CLOSE_1)
DIMENSIONS(2d, (int *plan, int nx, int ny, int type), (plan, nx, ny, type), CLOSE_2)
DIMENSIONS(3d, (int *plan, int nx, int ny, int nz, int type), (plan, nx, ny, nz, type), CLOSE_3)
DIMENSIONS(Many, (int *plan, MANY_), (plan, MANY_NAMES), MANY)
OTHERS(1d, (int plan, int nx, int type, int batch, size_t *work), (plan, nx, type, batch, work),
       (int nx, int type, int batch, size_t *work), CLOSE_1)
OTHERS(2d, (int plan, int nx, int ny, int type, size_t *work), (plan, nx, ny, type, work),
       (int nx, int ny, int type, size_t *work), CLOSE_2)
OTHERS(3d, (int plan, int nx, int ny, int nz, int type, size_t *work), (plan, nx, ny, nz, type, work),
       (int nx, int ny, int nz, int type, size_t *work), CLOSE_3)
OTHERS(Many, (int plan, MANY_, size_t *work), (plan, MANY_NAMES, work), (MANY_, size_t *work), MANY)
MAKE(Many64, (int plan, MANY_64_, size_t *work), (plan, MANY_NAMES, work), MANY_64)

int impl_cufftGetSizeMany64(int plan, MANY_64_, size_t *work)
{
    struct mt_fft_plan p;
    return fft_plan_get(plan, &p) ? fft_plan_size(&MANY_64, work) : MT_FFT_INVALID_PLAN;
}

int impl_cufftGetSize(int plan, size_t *work)
{
    struct mt_fft_plan p;
    if (!fft_plan_get(plan, &p) || !work)
        return MT_FFT_INVALID_PLAN;
    *work = 0;
    return MT_FFT_SUCCESS;
}

/* Ignored: there is no work area. */
int impl_cufftSetWorkArea(int plan, void *area)
{
    struct mt_fft_plan p;
    return fft_plan_get(plan, &p) ? MT_FFT_SUCCESS : MT_FFT_INVALID_PLAN;
}

int impl_cufftSetAutoAllocation(int plan, int on)
{
    return impl_cufftSetWorkArea(plan, NULL);
}

int impl_cufftGetVersion(int *version)
{
    if (!version)
        return MT_FFT_INVALID_VALUE;
    *version = 12000;
    return MT_FFT_SUCCESS;
}

int impl_cufftGetProperty(int what, int *value)
{
    if (what < 0 || what > 2 || !value)
        return MT_FFT_INVALID_VALUE;
    *value = what ? 0 : 12;
    return MT_FFT_SUCCESS;
}

/* ---- transforms */

static int fft_plan_exec(int handle, const char *name, int type, const void *in, void *out, int sign)
{
    struct mt_fft_plan p, *there = fft_plan_get(handle, &p) ? &p : NULL;
    return __mt_library_on_gpu() ? fft_exec_gpu(handle, there, name, in, out, sign)
                                 : fft_exec(there, name, type, in, out, sign);
}

#define EXEC_C2C(name, type)                                                                                 \
    int impl_cufftExec##name(int plan, void *in, void *out, int sign)                                        \
    {                                                                                                        \
        return fft_plan_exec(plan, "cufftExec" #name, type, in, out, sign);                                  \
    }
#define EXEC(name, type, sign)                                                                               \
    int impl_cufftExec##name(int plan, void *in, void *out)                                                  \
    {                                                                                                        \
        return fft_plan_exec(plan, "cufftExec" #name, type, in, out, sign);                                  \
    }
EXEC_C2C(C2C, 0x29)
EXEC_C2C(Z2Z, 0x69)
EXEC(R2C, 0x2a, -1)
EXEC(D2Z, 0x6a, -1)
EXEC(C2R, 0x2c, 1)
EXEC(Z2D, 0x6c, 1)
