/* From program counters to sites (runtime/gpu/inject/code.c), for code.py, which compares with other readers.
 * Called with a word and a cubin:
 *
 *   frames    of each instruction: SECTION OFFSET FUNCTION, then FILE LINE FUNCTION of each frame, by tabs
 *   facts     of each function: NAME KERNEL NAMES-OF-INSTRUCTIONS FACTS, by tabs (sass.h)
 *   sites     the lines of the log, after one access of each instruction
 *   trace     a trace with a launch of each kernel: a warp makes one access of every fourth instruction
 *   damaged   every byte changed, cut off at every place: no harm, within seconds
 *   speed     sites per second, of places that are known
 *   tests     (two cubins) placing, threads, modules that go and come
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/source_name.h"
#include "gpu/inject/code.h"
#include "gpu/inject/sass.h"
#include "memtrace/record.h"
#include "memtrace/device.h"
#include "trace/events.h"
#include "trace/trace.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BASE 0x7f1200000000u
enum { FRAMES = 64, APART = 1 << 20, THREADS = 4 };

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    *n = 0;
    if (f && !fseek(f, 0, SEEK_END) && (text = malloc((size_t)ftell(f) + 1))) {
        *n = (size_t)ftell(f);
        rewind(f);
        if (fread(text, 1, *n, f) != *n)
            *n = 0;
    }
    if (f)
        fclose(f);
    if (!text || !*n)
        exit(2);
    return text;
}

static double code_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* others may be busy */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static char *log_text(void)
{
    size_t n = mt_log_size();
    char *text = calloc(1, n + 1);
    for (size_t at = 0, got; at < n && (got = mt_log_read(at, text + at, n - at)) > 0;)
        at += got;
    return text;
}

/* ---- where functions are: sections in the file's order, far from each other ---- */

struct layout {
    const struct mt_cubin *cubin;
    uint64_t base, step; /* step 0: as they are in the file */
    int kernels;         /* only kernels are known */
    const char *hidden;  /* this one is not */
    unsigned asked;
};

static uint64_t layout_pc(const struct layout *l, uint32_t section)
{
    const struct mt_cubin_section *s = &l->cubin->sections[section];
    return l->base + (l->step ? section * l->step : s->offset);
}

static int layout_where(void *data, const char *function, uint64_t *pc, uint64_t *size)
{
    struct layout *l = data;
    l->asked++;
    for (size_t i = 0; i < l->cubin->nfunctions; i++) {
        const struct mt_cubin_function *f = &l->cubin->functions[i];
        if (!strcmp(f->name, function) && (f->kernel || !l->kernels) &&
            (!l->hidden || strcmp(l->hidden, function))) {
            *pc = layout_pc(l, f->section) + f->offset;
            *size = f->bytes;
            return 0;
        }
    }
    return 1;
}

/* ---- what code.py asks for ---- */

static int say_frames(const struct mt_cubin *c)
{
    struct mt_code_lines *l = mt_code_lines_open(c);
    struct mt_code_frame f[FRAMES];
    for (uint32_t s = 0; s < c->nsections; s++)
        for (uint64_t at = 0; at < c->sections[s].bytes; at += 16) {
            const struct mt_cubin_function *around = mt_cubin_around(c, s, at);
            unsigned n = l ? mt_code_lines_at(l, s, at, f, FRAMES) : 0;
            printf("%s\t%llu\t%s", c->sections[s].name, (unsigned long long)at, around ? around->name : "");
            for (unsigned i = 0; i < n; i++)
                printf("\t%s/%s\t%u\t%s", f[i].folder, f[i].file, f[i].line,
                       !f[i].function   ? "-"
                       : *f[i].function ? f[i].function
                                        : "?");
            printf("\n");
        }
    mt_code_lines_close(l);
    return 0;
}

static int say_kernel_facts(void *code, const char *name)
{
    uint32_t facts = mt_code_facts(code, name);
    char names[256];
    printf("%s\t1\t%s\t%s%s%s\n", name, mt_sass_names(facts, names, sizeof names),
           facts & MT_SASS_CALLS ? "calls " : "", facts & MT_SASS_POLLS ? "polls " : "",
           facts & MT_SASS_CANCELS ? "cancels" : "");
    return 0;
}

static int say_facts(const struct mt_cubin *c, const void *data, size_t bytes)
{
    struct mt_gpu_code *code = mt_code_new(data, bytes);
    mt_code_each_kernel(code, say_kernel_facts, code);
    mt_code_unload(code);
    for (size_t i = 0; i < c->nfunctions; i++)
        if (!c->functions[i].kernel)
            printf("%s\t0\t\t\n", c->functions[i].name);
    return 0;
}

static int say_sites(const struct mt_cubin *c, const void *data, size_t bytes)
{
    struct layout l = {.cubin = c, .base = BASE, .step = APART};
    struct mt_gpu_code *code = mt_code_new(data, bytes);
    mt_code_place(code, layout_where, &l);
    for (uint32_t s = 0; s < c->nsections; s++)
        for (uint64_t at = 0; at < c->sections[s].bytes; at += 16)
            mt_code_site(layout_pc(&l, s) + at, mt_rec_meta(MT_LOAD, 4));
    char *text = log_text();
    fputs(text, stdout);
    free(text);
    mt_code_unload(code);
    return 0;
}

static void trace_kernel(struct mt_trace *t, const struct layout *l, const struct mt_cubin_function *f)
{
    char *name = mt_demangle_name(f->name);
    struct mt_launch_line line = {
        .kernel = name, .mangled = f->name, .signature = name, .grid = {1, 1, 1}, .block = {32, 1, 1}};
    mt_trace_begin(t, &line);
    for (uint64_t at = 0; at < f->bytes; at += 64, line.records += 32) {
        struct mt_access_run r = {
            .base = 0x10000 + 4 * at,
            .stride = 4,
            .meta = mt_rec_meta(at / 64 & 1, 4),
            .count = 32,
            .mask = UINT32_MAX,
            .site = mt_code_site(layout_pc(l, f->section) + at, mt_rec_meta(at / 64 & 1, 4))};
        mt_trace_append_runs(t, &r, 1, 0);
    }
    mt_trace_fence(t);
    mt_trace_end(t, &line);
    free(name);
}

static int write_trace(const struct mt_cubin *c, const void *data, size_t bytes)
{
    struct layout l = {.cubin = c, .base = BASE, .step = APART};
    struct mt_gpu_code *code = mt_code_new(data, bytes);
    mt_trace_device("gpu", "none", 1);
    struct mt_trace *t = mt_trace_open();
    mt_code_place(code, layout_where, &l);
    for (size_t i = 0; i < c->nfunctions; i++)
        if (c->functions[i].kernel)
            trace_kernel(t, &l, &c->functions[i]);
    mt_code_unload(code);
    mt_trace_close(t);
    mt_trace_finish();
    return 0;
}

/* ---- damage ---- */

static void use_damaged(const void *data, size_t bytes)
{
    struct mt_cubin c;
    struct mt_code_frame f[FRAMES];
    size_t touched = 0;
    if (mt_cubin_read(&c, data, bytes) != 0)
        return;
    struct mt_code_lines *l = mt_code_lines_open(&c);
    for (uint32_t s = 0; s < c.nsections && s < 64; s++)
        for (uint64_t at = 0; at < c.sections[s].bytes && at < 4096; at += 48) {
            const struct mt_cubin_function *around = mt_cubin_around(&c, s, at);
            const char *name;
            size_t length = 0;
            if (around)
                mt_cubin_name(around->name, &name, &length);
            touched += length;
            for (unsigned i = 0, n = l ? mt_code_lines_at(l, s, at, f, FRAMES) : 0; i < n; i++)
                touched +=
                    strlen(f[i].folder) + strlen(f[i].file) + (f[i].function ? strlen(f[i].function) : 0);
        }
    mt_code_lines_close(l);
    mt_cubin_drop(&c);
    if (touched == SIZE_MAX) /* so that nothing is optimised away */
        abort();
}

/* A copy of just that length, so that a sanitizer sees the end. */
static void use_copy(const char *data, size_t bytes, size_t at, char with)
{
    char *copy = malloc(bytes ? bytes : 1);
    memcpy(copy, data, bytes);
    if (at < bytes)
        copy[at] = with;
    use_damaged(copy, bytes);
    free(copy);
}

static int damage(const char *data, size_t bytes)
{
    static const unsigned char put[] = {0x00, 0xff, 0x80, 0x01, 0x7f};
    double begin = code_now();
    size_t done = 0;
    for (size_t n = 0; n < bytes; n += 7, done++)
        use_copy(data, n, SIZE_MAX, 0);
    for (size_t at = 0; at < bytes; at++)
        for (unsigned i = at % 3; i < sizeof put; i += 3, done++)
            use_copy(data, bytes, at, (char)put[i]);
    printf("%zu damaged cubins in %.1f s\n", done, code_now() - begin);
    return 0;
}

/* ---- speed ---- */

static int code_speed(const struct mt_cubin *c, const void *data, size_t bytes)
{
    struct layout l = {.cubin = c, .base = BASE, .step = APART};
    struct mt_gpu_code *code = mt_code_new(data, bytes);
    uint64_t sum = 0, asked = 0;
    mt_code_place(code, layout_where, &l);
    double begin = 0;
    for (unsigned round = 0; round < 200000; round++) {
        if (round == 1)
            begin = code_now();
        for (uint32_t s = 0; s < c->nsections; s++)
            for (uint64_t at = 0; at < 32; at++, asked += round > 0)
                sum += mt_code_site(layout_pc(&l, s) + (at * 16) % c->sections[s].bytes,
                                    mt_rec_meta((uint32_t)at & 1, 4));
    }
    double seconds = code_now() - begin;
    printf("%.1f million sites per second (%llu)\n", (double)asked / seconds / 1e6,
           (unsigned long long)sum % 10);
    mt_code_unload(code);
    return (double)asked / seconds < 20e6;
}

/* ---- tests ---- */

static struct {
    char *data;
    size_t bytes;
    struct mt_cubin cubin;
} given[2];

static unsigned lines_of(const char *piece)
{
    char *text = log_text();
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, piece)); at++)
        n++;
    free(text);
    return n;
}

struct thread {
    const struct layout *l;
    uint32_t id[64];
};

static void *ask_all(void *data)
{
    struct thread *t = data;
    for (unsigned i = 0; i < 64; i++)
        t->id[i] = mt_code_site(layout_pc(t->l, 0) + 16 * (i % 16), mt_rec_meta(i / 16 % 3, 4));
    return NULL;
}

static void test_threads(void **state)
{
    struct layout l = {.cubin = &given[0].cubin, .base = BASE, .step = APART};
    struct mt_gpu_code *code = mt_code_new(given[0].data, given[0].bytes);
    struct thread t[THREADS] = {{0}};
    pthread_t id[THREADS];
    unsigned before = lines_of("\"ev\":\"site\"");
    mt_code_place(code, layout_where, &l);
    for (unsigned i = 0; i < THREADS; i++) {
        t[i].l = &l;
        pthread_create(&id[i], NULL, ask_all, &t[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    for (unsigned i = 0; i < 64; i++) {
        assert_int_not_equal(t[0].id[i], 0);
        for (unsigned k = 1; k < THREADS; k++)
            assert_int_equal(t[k].id[i], t[0].id[i]);
        for (unsigned k = 0; k < i; k++) /* 48 different ones: 16 places, 3 types */
            assert_int_equal(t[0].id[i] == t[0].id[k], i - k == 48);
    }
    assert_int_equal(lines_of("\"ev\":\"site\"") - before, 48);
    mt_code_unload(code);
}

/* It is gone; another one comes in its place; it comes again elsewhere, with the sites that it had. */
static void test_modules(void **state)
{
    struct layout l = {.cubin = &given[0].cubin, .base = BASE, .step = APART}, m = l;
    const uint32_t meta = mt_rec_meta(MT_STORE, 8);
    struct mt_gpu_code *code = mt_code_new(given[0].data, given[0].bytes), *other;
    const uint64_t pc = layout_pc(&l, 0) + 32;
    assert_int_equal(mt_code_site(pc, meta), 0);
    mt_code_place(code, layout_where, &l);
    uint32_t first = mt_code_site(pc, meta);
    assert_int_not_equal(first, 0); /* that it was not known is forgotten */
    mt_code_unload(code);
    assert_int_equal(mt_code_site(pc, meta), 0);
    m.cubin = &given[1].cubin;
    other = mt_code_new(given[1].data, given[1].bytes);
    mt_code_place(other, layout_where, &m);
    uint32_t second = mt_code_site(pc, meta);
    assert_int_not_equal(second, 0);
    assert_int_not_equal(second, first);
    l.base += 1ull << 57; /* of another context */
    code = mt_code_new(given[0].data, given[0].bytes);
    mt_code_place(code, layout_where, &l);
    assert_int_equal(mt_code_site(layout_pc(&l, 0) + 32, meta), first);
    assert_int_equal(mt_code_site(pc, meta), second);
    mt_code_unload(code);
    /* Nobody said that the second one went: the newer one counts. */
    l.base -= 1ull << 57;
    code = mt_code_new(given[0].data, given[0].bytes);
    mt_code_place(code, layout_where, &l);
    mt_code_unload(other);
    assert_int_equal(mt_code_site(pc, meta), first);
    mt_code_unload(code);
    mt_code_unload(NULL);
}

/* The second cubin has functions in sections of their own, and two kernels. */
static void test_guess(void **state)
{
    struct layout l = {.cubin = &given[1].cubin, .base = BASE, .kernels = 1};
    const struct mt_cubin *c = l.cubin;
    const uint32_t meta = mt_rec_meta(MT_LOAD, 2);
    uint32_t kernel = UINT32_MAX, device = UINT32_MAX;
    for (size_t i = 0; i < c->nfunctions; i++) {
        if (!c->functions[i].kernel)
            device = c->functions[i].section;
        else if (kernel == UINT32_MAX)
            kernel = c->functions[i].section;
    }
    assert_true(kernel != UINT32_MAX && device != UINT32_MAX && kernel != device);
    /* Kernels are as far from each other as in the file: so the others are. */
    struct mt_gpu_code *code = mt_code_new(given[1].data, given[1].bytes);
    mt_code_place(code, layout_where, &l);
    assert_int_not_equal(mt_code_site(layout_pc(&l, device) + 16, meta), 0);
    assert_int_equal(lines_of("\"guess\":true"), 1);
    mt_code_unload(code);
    /* They are not: a function of the module, and no line. */
    l.step = 4096;
    l.hidden = NULL;
    unsigned before = lines_of("\"at\":\"module of ");
    code = mt_code_new(given[1].data, given[1].bytes);
    mt_code_place(code, layout_where, &l);
    uint64_t beside = layout_pc(&l, kernel) + c->sections[kernel].bytes + 16;
    assert_int_not_equal(mt_code_site(beside, meta), 0);
    assert_int_equal(mt_code_site(beside, meta), mt_code_site(beside, meta));
    assert_int_equal(lines_of("\"guess\":true"), 2);
    assert_int_equal(lines_of("\"at\":\"module of ") - before, 1);
    assert_int_equal(mt_code_site(BASE + (1u << 30), meta), 0);
    /* Another module comes to where one was guessed. */
    struct layout other = {.cubin = &given[0].cubin, .base = beside - 16, .step = 1 << 24};
    uint32_t guessed = mt_code_site(beside, meta);
    struct mt_gpu_code *new = mt_code_new(given[0].data, given[0].bytes);
    mt_code_place(new, layout_where, &other);
    assert_int_not_equal(mt_code_site(beside, meta), guessed);
    assert_int_not_equal(mt_code_site(beside, meta), 0);
    mt_code_unload(new);
    mt_code_unload(code);
}

static int count_kernel(void *data, const char *mangled)
{
    return ++*(unsigned *)data == 2 && *mangled;
}

static void test_kernels(void **state)
{
    unsigned n = 0;
    struct mt_gpu_code *code = mt_code_new(given[0].data, given[0].bytes);
    assert_int_equal(mt_code_each_kernel(code, count_kernel, &n), 1);
    assert_int_equal(n, 2);
    mt_code_unload(code);
    assert_null(mt_code_new("no cubin", 8));
    assert_null(mt_code_new(NULL, 0));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads), cmocka_unit_test(test_modules),
                                       cmocka_unit_test(test_guess), cmocka_unit_test(test_kernels)};
    dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL);
    mt_demangle_prepare();
    for (int i = 0; i < 2 && i + 2 < argc; i++) {
        given[i].data = read_all(argv[i + 2], &given[i].bytes);
        if (mt_cubin_read(&given[i].cubin, given[i].data, given[i].bytes) != 0)
            return 2;
    }
    const char *what = argc > 2 ? argv[1] : "";
    int rc = !strcmp(what, "frames")    ? say_frames(&given[0].cubin)
             : !strcmp(what, "facts")   ? say_facts(&given[0].cubin, given[0].data, given[0].bytes)
             : !strcmp(what, "sites")   ? say_sites(&given[0].cubin, given[0].data, given[0].bytes)
             : !strcmp(what, "trace")   ? write_trace(&given[0].cubin, given[0].data, given[0].bytes)
             : !strcmp(what, "damaged") ? damage(given[0].data, given[0].bytes)
             : !strcmp(what, "speed")   ? code_speed(&given[0].cubin, given[0].data, given[0].bytes)
             : !strcmp(what, "tests") && argc == 4 ? cmocka_run_group_tests(tests, NULL, NULL)
                                                   : 2;
    for (int i = 0; i < 2; i++) {
        mt_cubin_drop(&given[i].cubin);
        free(given[i].data);
    }
    return rc;
}
