/* Device printf against the C library's, the device heap's hook, large cooperative launches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "harness.h"

static const struct mt_image *image;

/* ---- printf: CUDA's argument block has each promoted value at its natural alignment ---- */
struct block {
    _Alignas(8) char bytes[256];
    size_t n;
};

static void device_put(struct block *b, const void *v, size_t size)
{
    b->n = (b->n + size - 1) & ~(size - 1);
    memcpy(b->bytes + b->n, v, size);
    b->n += size;
}
#define ARG(type, value) device_put(&b, &(type){value}, sizeof(type))

static char *device_captured(const char *format, const void *args, int *result)
{
    static char text[8192];
    char path[] = "/tmp/memtrace-test-XXXXXX";
    int fd = mkstemp(path), saved = dup(1);
    unlink(path);
    fflush(stdout);
    dup2(fd, 1);
    *result = mt_cpu_vprintf(format, args);
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    close(fd);
    text[n < 0 ? 0 : n] = 0;
    return text;
}

static void device_prints(void **state)
{
    char want[8192];
    int count;
    struct block b = {.n = 0};
    ARG(int, -42);
    ARG(double, 3.25);
    ARG(char *, "text");
    ARG(unsigned, 0xdeadbeefu);
    ARG(long long, -1234567890123ll);
    ARG(int, 'z');
    ARG(void *, (void *)0x1234);
    ARG(int, 7);
    ARG(double, -0.001);
    const char *format = "a%db%.3fc%-8sd%08xe%lldf%cg%ph%%i%*.2ej\n";
    snprintf(want, sizeof want, format, -42, 3.25, "text", 0xdeadbeefu, -1234567890123ll, 'z', (void *)0x1234,
             7, -0.001);
    assert_string_equal(device_captured(format, b.bytes, &count), want);
    assert_int_equal(count, 8);

    b.n = 0;
    ARG(int, -1);
    ARG(int, -1);
    ARG(unsigned long long, ~0ull);
    ARG(int, 5);
    ARG(char *, NULL);
    ARG(double, 1e300);
    snprintf(want, sizeof want, "%u %hhd %zx %+05i %s %.0f", -1u, -1, (size_t)~0ull, 5, "(null)", 1e300);
    assert_string_equal(device_captured("%u %hhd %zx %+05i %s %.0f", b.bytes, &count), want);
    assert_int_equal(count, 6);

    assert_string_equal(device_captured("no arguments", NULL, &count), "no arguments");
    assert_int_equal(count, 0);
    assert_string_equal(device_captured("odd %y and %", NULL, &count), "odd %y and %");
    assert_int_equal(mt_cpu_vprintf(NULL, NULL), -1);

    char *big = malloc(5001); /* longer than any buffer inside */
    memset(big, 'x', 5000);
    big[5000] = 0;
    b.n = 0;
    ARG(char *, big);
    snprintf(want, sizeof want, "[%s]", big);
    assert_string_equal(device_captured("[%s]", b.bytes, &count), want);
    free(big);
}

/* ---- heap ---- */
static char device_block[1000];
static void *last_put;
static uint64_t last_bytes, calls;
static void *device_get(uint64_t bytes)
{
    last_bytes = bytes;
    calls++;
    return bytes <= sizeof device_block ? device_block : NULL;
}

static int device_put_back(void *p)
{
    last_put = p;
    calls++;
    return 0;
}

static void device_heap(void **state)
{
    char *p = mt_cpu_malloc(1000); /* the C library's */
    assert_non_null(p);
    memset(p, 1, 1000);
    mt_cpu_free(p);
    mt_cpu_settings.heap_get = device_get;
    mt_cpu_settings.heap_put = device_put_back;
    assert_ptr_equal(mt_cpu_malloc(1000), device_block);
    assert_int_equal(last_bytes, 1000);
    assert_null(mt_cpu_malloc(1001));
    mt_cpu_free(device_block);
    assert_ptr_equal(last_put, device_block);
    assert_null(mt_cpu_malloc(0));
    mt_cpu_free(NULL);
    assert_int_equal(calls, 3);
    mt_cpu_settings.heap_get = NULL;
    mt_cpu_settings.heap_put = NULL;
}

/* ---- more device threads in flight than there are guard pages ---- */
static void large_grid(void **state)
{
    enum { CTAS = 40, N = 1024 };
    uint32_t counter = 0, *pc = &counter, data[CTAS] = {0}, *pd = data, rounds = 2;
    uint32_t *out = calloc(CTAS * CTAS, 4);
    void *args[5] = {&pc, &pd, &out, &rounds, NULL};
    struct mt_cpu_launch l = {.image = image,
                              .kernel = mt_image_find_kernel(image, "grid_barrier"),
                              .args = args,
                              .grid = {CTAS, 1, 1},
                              .block = {N, 1, 1},
                              .cooperative = 1};
    assert_int_equal(run(&l), 0);
    for (uint32_t i = 0; i < CTAS * CTAS; i++)
        assert_int_equal(out[i], 3 * (i % CTAS + 1));
    free(out);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(device_prints), cmocka_unit_test(device_heap),
                                       cmocka_unit_test(large_grid)};
    if (mt_cpu_init(2, 4))
        return 1;
    image = load_test_image();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
