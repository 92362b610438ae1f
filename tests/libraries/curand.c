/* cuRAND next to NVIDIA's generators for the host: the same numbers and statuses, and only they are written.
 * argv[1]: NVIDIA's library; argv[2], if there is one: the generators that take seconds to begin, too. */
#include "model.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    XORWOW = 101,
    MRG32K3A = 121,
    MTGP32 = 141,
    MT19937 = 142,
    PHILOX = 161,
    SOBOL32 = 201,
    SOBOL64 = 203
};
enum { DEFAULT = 101, LEGACY = 103, DYNAMIC = 104, MOST = 64 };

static const struct kind {
    const char *name;
    size_t bytes;
    char form; /* of its parameters: - none, f two floats, d two doubles, l lambda */
} kinds[] = {{"curandGenerate", 4, '-'},          {"curandGenerateLongLong", 8, '-'},
             {"curandGenerateUniform", 4, '-'},   {"curandGenerateUniformDouble", 8, '-'},
             {"curandGenerateNormal", 4, 'f'},    {"curandGenerateNormalDouble", 8, 'd'},
             {"curandGenerateLogNormal", 4, 'f'}, {"curandGenerateLogNormalDouble", 8, 'd'},
             {"curandGeneratePoisson", 4, 'l'}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* A generator of the stand-in, and NVIDIA's for the host. */
struct pair {
    void *ours, *theirs;
};
static void *library;

static void *curand_theirs(const char *name)
{
    return dlsym(library, name);
}

static int curand_generate(void *f, const struct kind *k, void *g, void *out, size_t n, double a, double b)
{
    switch (k->form) {
    case 'f':
        return ((int (*)(void *, void *, size_t, float, float))f)(g, out, n, (float)a, (float)b);
    case 'd':
        return ((int (*)(void *, void *, size_t, double, double))f)(g, out, n, a, b);
    case 'l':
        return ((int (*)(void *, void *, size_t, double))f)(g, out, n, a);
    default:
        return ((int (*)(void *, void *, size_t))f)(g, out, n);
    }
}

static struct pair curand_pair(int type)
{
    struct pair p = {NULL, NULL};
    check(!((int (*)(void **, int))function("curandCreateGenerator"))(&p.ours, type), "a generator %d", type);
    check(!((int (*)(void **, int))curand_theirs("curandCreateGeneratorHost"))(&p.theirs, type), "theirs %d",
          type);
    return p;
}

static void curand_end(struct pair p)
{
    check(!((int (*)(void *))function("curandDestroyGenerator"))(p.ours), "destroy");
    ((int (*)(void *))curand_theirs("curandDestroyGenerator"))(p.theirs);
}

/* The same on both; for a device one may have another name for it. */
static int curand_set(struct pair p, const char *name, uint64_t value, uint64_t theirs)
{
    int ours = ((int (*)(void *, uint64_t))function("%s", name))(p.ours, value);
    int want = ((int (*)(void *, uint64_t))curand_theirs(name))(p.theirs, theirs);
    check(ours == want, "%s %d: status %d, NVIDIA's %d", name, (int)value, ours, want);
    return ours;
}

/* What NVIDIA's makes is what must be in `m`; all of it is whole words. */
static void curand_expect(struct pair p, const struct kind *k, struct memory *m, size_t n, double a, double b)
{
    int32_t words[2 * MOST];
    check(!curand_generate(curand_theirs(k->name), k, p.theirs, words, n, a, b), "NVIDIA's %s", k->name);
    for (size_t i = 0; i < n * k->bytes / 4; i++)
        put(m, (long)i, words[i]);
}

static void curand_draw(struct pair p, const struct kind *k, size_t n, double a, double b)
{
    struct memory *m = memory_new('I', 2 * MOST);
    begin();
    curand_expect(p, k, m, n, a, b);
    int status = curand_generate(function("%s", k->name), k, p.ours, m->device, n, a, b);
    check(!status, "%s: %d", k->name, status);
    end(k->name, 0);
}

static int curand_has(const struct kind *k, int type)
{
    return k->form != '-' || strstr(k->name, "Uniform") || (k->bytes == 8) == (type >= SOBOL64);
}

/* Draws follow each other; then they begin again elsewhere. */
static void test_numbers(int type)
{
    struct pair p = curand_pair(type);
    if (type < SOBOL32)
        curand_set(p, "curandSetPseudoRandomGeneratorSeed", 0x123456789abcdefull, 0x123456789abcdefull);
    else
        curand_set(p, "curandSetQuasiRandomGeneratorDimensions", 3, 3);
    for (int i = 0; i < KINDS; i++)
        if (curand_has(&kinds[i], type)) {
            curand_draw(p, &kinds[i], 6, 2, 0.5);
            curand_draw(p, &kinds[i], 48, 0.5, 3);
        }
    curand_set(p, "curandSetGeneratorOffset", 1000, 1000); /* not all have one */
    curand_draw(p, &kinds[2], 12, 0, 0);
    if (type < SOBOL32) {
        curand_set(p, "curandSetPseudoRandomGeneratorSeed", 7, 7);
        check(!((int (*)(void *))function("curandGenerateSeeds"))(p.ours), "seeds");
        curand_draw(p, &kinds[0], 10, 0, 0);
    }
    curand_end(p);
}

static void test_orders(void)
{
    struct pair p = curand_pair(XORWOW);
    curand_set(p, "curandSetGeneratorOrdering", LEGACY, LEGACY);
    curand_draw(p, &kinds[0], 64, 0, 0);
    curand_set(p, "curandSetGeneratorOrdering", DYNAMIC, DEFAULT); /* which the host's do not know */
    curand_draw(p, &kinds[0], 64, 0, 0);
    curand_set(p, "curandSetGeneratorOrdering", 201, 201);
    curand_set(p, "curandSetQuasiRandomGeneratorDimensions", 2, 2);
    curand_end(p);
}

/* What is refused, and what makes no launch. */
static void test_statuses(int type)
{
    struct pair p = curand_pair(type);
    char out[1024];
    uint64_t dimensions = 1;
    if (type >= 200 && !curand_set(p, "curandSetQuasiRandomGeneratorDimensions", 4, 4))
        dimensions = 4;
    for (uint64_t v = 0; v < 30000; v += 7001)
        if (type < 200 || v > 20000)
            curand_set(p, "curandSetQuasiRandomGeneratorDimensions", v, v);
    curand_set(p, "curandSetGeneratorOrdering", 105, 105);
    begin();
    for (int i = 0; i < KINDS; i++)
        for (size_t n = 0; n < 4 * dimensions; n++) {
            double lambda = n == 3 ? -1 : n == 5 ? 4e5 : n == 6 ? 4.1e5 : n;
            int want = curand_generate(curand_theirs(kinds[i].name), &kinds[i], p.theirs, out, n, lambda, 1);
            if (!want && n)
                continue;
            int status =
                curand_generate(function("%s", kinds[i].name), &kinds[i], p.ours, NULL, n, lambda, 1);
            check(status == want, "generator %d: %s of %zu: status %d, NVIDIA's %d", type, kinds[i].name, n,
                  status, want);
        }
    end_without();
    curand_end(p);
}

/* In a graph each launch goes on where the one before ended. */
static void test_graph(void)
{
    struct pair p = curand_pair(PHILOX);
    struct memory *m = memory_new('I', 2 * MOST);
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    check(!cudaStreamCreate(&s) && !((int (*)(void *, void *))function("curandSetStream"))(p.ours, s),
          "stream");
    check(!cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), "capture");
    check(!curand_generate(function("curandGenerate"), &kinds[0], p.ours, m->device, 8, 0, 0), "captured");
    check(!cudaStreamEndCapture(s, &graph) && !cudaGraphInstantiate(&exec, graph, 0), "graph");
    for (int i = 0; i < 3; i++) {
        begin();
        curand_expect(p, &kinds[0], m, 8, 0, 0);
        check(!cudaGraphLaunch(exec, s) && !cudaStreamSynchronize(s), "launch of the graph");
        end("curandGenerate", 0);
    }
    check(!cudaGraphExecDestroy(exec) && !cudaGraphDestroy(graph), "destroy");
    curand_end(p);
}

/* A generator for the host writes at once, and makes no launch. */
static void test_host(void)
{
    struct pair p;
    unsigned out[8], want[8];
    check(!((int (*)(void **, int))function("curandCreateGeneratorHost"))(&p.ours, XORWOW) &&
              !((int (*)(void **, int))curand_theirs("curandCreateGeneratorHost"))(&p.theirs, XORWOW),
          "for the host");
    begin();
    curand_set(p, "curandSetPseudoRandomGeneratorSeed", 5, 5);
    check(!curand_generate(function("curandGenerate"), &kinds[0], p.ours, out, 8, 0, 0) &&
              !curand_generate(curand_theirs("curandGenerate"), &kinds[0], p.theirs, want, 8, 0, 0) &&
              !memcmp(out, want, sizeof out),
          "numbers for the host");
    end_without();
    curand_end(p);
}

static void test_tables(void)
{
    int ours = 0, theirs = 1;
    void *a = NULL, *b = NULL;
    check(!((int (*)(int *))function("curandGetVersion"))(&ours) &&
              !((int (*)(int *))curand_theirs("curandGetVersion"))(&theirs) && ours == theirs,
          "version");
    int status = ((int (*)(void **, int))function("curandGetDirectionVectors64"))(&a, 103);
    ((int (*)(void **, int))curand_theirs("curandGetDirectionVectors64"))(&b, 103);
    check(!status && a && !memcmp(a, b, 64 * 8 * 100), "direction vectors");
    status = ((int (*)(void **))function("curandGetScrambleConstants32"))(&a);
    ((int (*)(void **))curand_theirs("curandGetScrambleConstants32"))(&b);
    check(!status && a && !memcmp(a, b, 4 * 100), "constants");
    void *g = NULL;
    check(((int (*)(void **, int))function("curandCreateGenerator"))(&g, 131) == 103, "a type that is none");
    check(((int (*)(void *))function("curandDestroyGenerator"))(NULL) == 101, "no generator");
}

int main(int argc, char **argv)
{
    static const int types[] = {XORWOW, MTGP32, PHILOX, 200, SOBOL32, 202, SOBOL64, 204, MRG32K3A, MT19937};
    library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library)
        return 2;
    for (int i = 0; i < (argc > 2 ? 10 : 8); i++) {
        test_numbers(types[i]);
        test_statuses(types[i]);
    }
    test_orders();
    test_graph();
    test_host();
    test_tables();
    return failures ? 1 : 0;
}
