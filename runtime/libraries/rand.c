/* cuRAND over the host generators of NVIDIA's own library: they give the same numbers as its device
 * generators, and need no GPU. Settings of the program are stored here, and applied to such a generator when
 * the stream reaches a call that needs it. */
#include "api/launch/library.h"
#include "library.h"
#include <pthread.h>
#include <stdlib.h>

int cudaDeviceSynchronize(void);

enum {
    OK = 0,
    NOT_INITIALIZED = 101,
    ALLOCATION_FAILED = 102,
    TYPE_ERROR = 103,
    OUT_OF_RANGE = 104,
    LENGTH_NOT_MULTIPLE = 105,
    LAUNCH_FAILURE = 201,
    INITIALIZATION_FAILED = 203,
};
enum { XORWOW = 101, MRG32K3A = 121, MT19937 = 142, QUASI = 200, SOBOL64 = 203, SCRAMBLED_SOBOL64 = 204 };
enum { ORDERING_BEST = 100, ORDERING_DEFAULT = 101, ORDERING_DYNAMIC = 104 };

/* Settings and their functions; GenerateSeeds has no value. */
enum setting { SEED, OFFSET, ORDERING, DIMENSIONS, SEEDS, SETTINGS };
static const char *const setters[SETTINGS] = {
    "curandSetPseudoRandomGeneratorSeed", "curandSetGeneratorOffset", "curandSetGeneratorOrdering",
    "curandSetQuasiRandomGeneratorDimensions", "curandGenerateSeeds"};

struct rand_settings {
    uint64_t value[SETTINGS], times[SETTINGS]; /* number of times it was set */
};

/* Never freed, since a graph may contain calls of a destroyed generator: */
struct rand_generator {
    uint64_t number; /* unique for each generator; 0: none */
    int host, type;
    void *stream;
    void *real, *probe; /* NVIDIA's generator; on the CPU device a device generator has a second one, only to
                           check settings */
    struct rand_settings asked, done;
    pthread_mutex_t lock; /* protects real and done */
    struct rand_generator *next;
};
static struct rand_generator *rand_free;
static pthread_mutex_t rand_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t rand_number;

/* The distributions: their functions, the size of a number, and their form. */
enum rand_form { PLAIN, FLOATS, DOUBLES, LAMBDA, METHOD };
struct rand_kind {
    const char *name;
    size_t bytes;
    enum rand_form form;
    char wide, pairs; /* for 64-bit generators (1: only, 0: not; 2: any); made in pairs */
};
static const struct rand_kind rand_bits = {"curandGenerate", 4, PLAIN, 0, 0},
                              rand_longs = {"curandGenerateLongLong", 8, PLAIN, 1, 0},
                              rand_uniform = {"curandGenerateUniform", 4, PLAIN, 2, 0},
                              rand_uniform_double = {"curandGenerateUniformDouble", 8, PLAIN, 2, 0},
                              rand_normal = {"curandGenerateNormal", 4, FLOATS, 2, 1},
                              rand_normal_double = {"curandGenerateNormalDouble", 8, DOUBLES, 2, 1},
                              rand_log_normal = {"curandGenerateLogNormal", 4, FLOATS, 2, 1},
                              rand_log_normal_double = {"curandGenerateLogNormalDouble", 8, DOUBLES, 2, 1},
                              rand_poisson = {"curandGeneratePoisson", 4, LAMBDA, 2, 0},
                              rand_poisson_method = {"curandGeneratePoissonMethod", 4, METHOD, 2, 0};

struct rand_call {
    struct mt_library_call call;
    const struct rand_kind *kind;
    struct rand_generator *g;
    uint64_t number; /* number of the generator */
    struct rand_settings asked;
    void *out;
    size_t n;
    double a, b; /* mean and deviation, or lambda */
    int method;
};

static void (*rand_function(const char *name))(void)
{
    return mt_lib_function(MT_LIB_CURAND, name, name);
}

/* ---- generation */

static int rand_set(void *real, enum setting s, uint64_t value)
{
    void (*f)(void) = rand_function(setters[s]);
    if (!f)
        return INITIALIZATION_FAILED;
    return s == SEEDS ? ((int (*)(void *))f)(real) : ((int (*)(void *, uint64_t))f)(real, value);
}

static int rand_generate(const struct rand_call *c)
{
    void (*f)(void) = rand_function(c->kind->name), *real = c->g->real;
    if (!f)
        return INITIALIZATION_FAILED;
    switch (c->kind->form) {
    case PLAIN:
        return ((int (*)(void *, void *, size_t))f)(real, c->out, c->n);
    case FLOATS:
        return ((int (*)(void *, void *, size_t, float, float))f)(real, c->out, c->n, (float)c->a,
                                                                  (float)c->b);
    case DOUBLES:
        return ((int (*)(void *, void *, size_t, double, double))f)(real, c->out, c->n, c->a, c->b);
    case LAMBDA:
        return ((int (*)(void *, void *, size_t, double))f)(real, c->out, c->n, c->a);
    case METHOD:
        return ((int (*)(void *, void *, size_t, double, int))f)(real, c->out, c->n, c->a, c->method);
    }
    return TYPE_ERROR;
}

/* Applies the settings made before the call and not applied yet. Called with the lock held. */
static int rand_apply(struct rand_generator *g, const struct rand_settings *asked)
{
    int status = OK;
    for (int s = 0; s < SETTINGS && !status; s++)
        if (asked->times[s] > g->done.times[s]) {
            status = rand_set(g->real, (enum setting)s, asked->value[s]);
            g->done.times[s] = asked->times[s];
        }
    return status;
}

/* On a GPU the generator is NVIDIA's device generator, and has all settings. */
static int rand_run_gpu(struct mt_library_call *call)
{
    return rand_generate((struct rand_call *)call);
}

static int rand_run(struct mt_library_call *call)
{
    struct rand_call *c = (struct rand_call *)call;
    pthread_mutex_lock(&c->g->lock);
    int there = c->g->number == c->number, status = there ? rand_apply(c->g, &c->asked) : NOT_INITIALIZED;
    if (!status)
        status = rand_generate(c);
    pthread_mutex_unlock(&c->g->lock);
    if (status)
        mt_lib_say("%s: %s %d", call->name,
                   there ? "NVIDIA's cuRAND returns" : "its generator was destroyed before: status", status);
    return status ? -1 : 0;
}

static void rand_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct rand_call *c = (const struct rand_call *)call;
    __mt_library_note(notes, MT_LIBRARY_WRITE, c->out, c->n * c->kind->bytes, 1, 0);
}

/* Returns the error that NVIDIA's function would return at once. */
static int rand_check(const struct rand_generator *g, const struct rand_kind *kind, size_t n, double lambda)
{
    int wide = g->type == SOBOL64 || g->type == SCRAMBLED_SOBOL64;
    uint64_t dimensions = g->asked.times[DIMENSIONS] ? g->asked.value[DIMENSIONS] : 1;
    if (kind->wide != 2 && kind->wide != wide)
        return TYPE_ERROR;
    if (kind->form >= LAMBDA && !(lambda > 0 && lambda <= 400000))
        return OUT_OF_RANGE;
    if (g->type >= QUASI ? n % dimensions != 0 : kind->pairs && n % 2 && g->type <= MRG32K3A)
        return LENGTH_NOT_MULTIPLE;
    return OK;
}

static int rand_call(struct rand_generator *g, const struct rand_kind *kind, void *out, size_t n, double a,
                     double b, int method)
{
    struct rand_call c = {.call = {sizeof c, kind->name, "curand", rand_ranges, rand_run},
                          .kind = kind,
                          .g = g,
                          .out = out,
                          .n = n,
                          .a = a,
                          .b = b,
                          .method = method};
    if (!g || !g->number)
        return NOT_INITIALIZED;
    if (g->host)
        return rand_generate(&c);
    if (__mt_library_on_gpu()) {
        c.call.run = rand_run_gpu;
        return n ? __mt_library_submit(g->stream, &c.call) : __mt_library_forward(&c.call);
    }
    int status = n ? rand_check(g, kind, n, a) : OK;
    if (status || !n)
        return status;
    c.number = g->number;
    c.asked = g->asked;
    return __mt_library_submit(g->stream, &c.call) ? LAUNCH_FAILURE : OK;
}

int impl_curandGenerate(struct rand_generator *g, void *out, size_t n)
{
    return rand_call(g, &rand_bits, out, n, 0, 0, 0);
}

int impl_curandGenerateLongLong(struct rand_generator *g, void *out, size_t n)
{
    return rand_call(g, &rand_longs, out, n, 0, 0, 0);
}

int impl_curandGenerateUniform(struct rand_generator *g, void *out, size_t n)
{
    return rand_call(g, &rand_uniform, out, n, 0, 0, 0);
}

int impl_curandGenerateUniformDouble(struct rand_generator *g, void *out, size_t n)
{
    return rand_call(g, &rand_uniform_double, out, n, 0, 0, 0);
}

int impl_curandGenerateNormal(struct rand_generator *g, void *out, size_t n, float mean, float deviation)
{
    return rand_call(g, &rand_normal, out, n, mean, deviation, 0);
}

int impl_curandGenerateNormalDouble(struct rand_generator *g, void *out, size_t n, double mean,
                                    double deviation)
{
    return rand_call(g, &rand_normal_double, out, n, mean, deviation, 0);
}

int impl_curandGenerateLogNormal(struct rand_generator *g, void *out, size_t n, float mean, float deviation)
{
    return rand_call(g, &rand_log_normal, out, n, mean, deviation, 0);
}

int impl_curandGenerateLogNormalDouble(struct rand_generator *g, void *out, size_t n, double mean,
                                       double deviation)
{
    return rand_call(g, &rand_log_normal_double, out, n, mean, deviation, 0);
}

int impl_curandGeneratePoisson(struct rand_generator *g, void *out, size_t n, double lambda)
{
    return rand_call(g, &rand_poisson, out, n, lambda, 0, 0);
}

int impl_curandGeneratePoissonMethod(struct rand_generator *g, void *out, size_t n, double lambda, int method)
{
    return rand_call(g, &rand_poisson_method, out, n, lambda, 0, method);
}

/* ---- generators */

static struct rand_generator *rand_take(void)
{
    pthread_mutex_lock(&rand_lock);
    struct rand_generator *g = rand_free;
    if (g)
        rand_free = g->next;
    else if ((g = calloc(1, sizeof *g)) != NULL)
        pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_unlock(&rand_lock);
    return g;
}

static void rand_give(struct rand_generator *g)
{
    pthread_mutex_lock(&rand_lock);
    g->next = rand_free;
    rand_free = g;
    pthread_mutex_unlock(&rand_lock);
}

static int rand_destroy(void *real)
{
    int (*destroy)(void *) = (int (*)(void *))rand_function("curandDestroyGenerator");
    return !real ? OK : destroy ? destroy(real) : NOT_INITIALIZED;
}

static int rand_create(struct rand_generator **out, int type, int host)
{
    int gpu = __mt_library_on_gpu();
    int (*create)(void **, int) = (int (*)(void **, int))rand_function(
        gpu && !host ? "curandCreateGenerator" : "curandCreateGeneratorHost");
    void *real = NULL, *probe = NULL;
    if (!create)
        return INITIALIZATION_FAILED;
    int status = create(&real, type);
    if (!status && !host && !gpu)
        status = create(&probe, type);
    struct rand_generator *g = status ? NULL : rand_take();
    if (!g) {
        rand_destroy(real);
        return status ? status : ALLOCATION_FAILED;
    }
    pthread_mutex_lock(&g->lock);
    g->host = host;
    g->type = type;
    g->stream = NULL;
    g->real = real;
    g->probe = probe;
    g->asked = g->done = (struct rand_settings){{0}, {0}};
    g->number = __atomic_add_fetch(&rand_number, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&g->lock);
    *out = g;
    return OK;
}

int impl_curandCreateGenerator(struct rand_generator **out, int type)
{
    return rand_create(out, type, 0);
}

int impl_curandCreateGeneratorHost(struct rand_generator **out, int type)
{
    return rand_create(out, type, 1);
}

/* Waits for the work under way, as the library does. */
int impl_curandDestroyGenerator(struct rand_generator *g)
{
    if (!g || !g->number)
        return NOT_INITIALIZED;
    if (g->probe)
        cudaDeviceSynchronize();
    pthread_mutex_lock(&g->lock);
    g->number = 0;
    int status = rand_destroy(g->real);
    rand_destroy(g->probe);
    pthread_mutex_unlock(&g->lock);
    rand_give(g);
    return status;
}

int impl_curandSetStream(struct rand_generator *g, void *stream)
{
    if (!g || !g->number)
        return NOT_INITIALIZED;
    g->stream = stream;
    int (*set)(void *, void *) = g->probe ? NULL : (int (*)(void *, void *))rand_function("curandSetStream");
    return set ? set(g->real, stream) : OK;
}

/* Converts an ordering: a device generator may have a preferred one, which equals the host's default. */
static uint64_t rand_ordering(const struct rand_generator *g, uint64_t order)
{
    int best = order == ORDERING_DYNAMIC || (order == ORDERING_BEST && g->type == MT19937);
    return best && g->type < QUASI ? ORDERING_DEFAULT : order;
}

static int rand_ask(struct rand_generator *g, enum setting s, uint64_t value)
{
    if (!g || !g->number)
        return NOT_INITIALIZED;
    if (!g->probe)
        return rand_set(g->real, s, value);
    if (s == ORDERING)
        value = rand_ordering(g, value);
    int status = s == SEEDS ? OK : rand_set(g->probe, s, value);
    if (!status) {
        g->asked.value[s] = value;
        g->asked.times[s]++;
    }
    return status;
}

int impl_curandSetPseudoRandomGeneratorSeed(struct rand_generator *g, uint64_t seed)
{
    return rand_ask(g, SEED, seed);
}

int impl_curandSetGeneratorOffset(struct rand_generator *g, uint64_t offset)
{
    return rand_ask(g, OFFSET, offset);
}

int impl_curandSetGeneratorOrdering(struct rand_generator *g, int order)
{
    return rand_ask(g, ORDERING, (uint64_t)order);
}

int impl_curandSetQuasiRandomGeneratorDimensions(struct rand_generator *g, unsigned dimensions)
{
    return rand_ask(g, DIMENSIONS, dimensions);
}

int impl_curandGenerateSeeds(struct rand_generator *g)
{
    return rand_ask(g, SEEDS, 0);
}

/* ---- tables and versions */

#define TABLE(name, parameters, ...)                                                                         \
    int impl_curand##name parameters                                                                         \
    {                                                                                                        \
        int(*f) parameters = (int(*) parameters)rand_function("curand" #name);                               \
        return f ? f(__VA_ARGS__) : INITIALIZATION_FAILED;                                                   \
    }
TABLE(GetDirectionVectors32, (void **vectors, int set), vectors, set)
TABLE(GetDirectionVectors64, (void **vectors, int set), vectors, set)
TABLE(GetScrambleConstants32, (void **constants), constants)
TABLE(GetScrambleConstants64, (void **constants), constants)
TABLE(GetVersion, (int *version), version)
TABLE(GetProperty, (int what, int *value), what, value)
