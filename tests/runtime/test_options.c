/* options.def: defaults, values, and what is said about bad ones. */
#include "util.h"
#include "base/options.h"
#include "base/source_name.h"
#include <stdio.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

struct fake {
    const char *pairs[16];
    char complaints[1024];
    int n;
};

static const char *options_get(const char *name, void *ctx)
{
    struct fake *f = ctx;
    for (int i = 0; f->pairs[i]; i += 2)
        if (!strcmp(f->pairs[i], name))
            return f->pairs[i + 1];
    return NULL;
}

static void options_complain(const char *line, void *ctx)
{
    struct fake *f = ctx;
    f->n++;
    strncat(f->complaints, line, sizeof f->complaints - strlen(f->complaints) - 1);
}

static struct mt_options options_parse(struct fake *f)
{
    struct mt_options o;
    mt_options_parse(&o, options_get, options_complain, f);
    return o;
}

static void options_defaults(void **state)
{
    struct fake f = {.n = 0};
    struct mt_options o = options_parse(&f);
    assert_int_equal(f.n, 0);
    assert_string_equal(o.dir, "/tmp");
    assert_string_equal(o.pattern, "MemTrace-pipe-?");
    assert_int_equal(o.device, MT_DEVICE_AUTO);
    assert_int_equal(o.enable, 1);
    assert_int_equal(o.format, 0);
    assert_int_equal(o.cpu_threads, 0);
    assert_int_equal(o.cpu_sms, 4);
    assert_int_equal(o.buffer, 65536);
    assert_int_equal(o.verbose, 0);
    assert_int_equal(o.quiet, 0);
}

static void options_values(void **state)
{
    struct fake f = {.pairs = {"MEMTRACE_DEVICE", "cpu", "MEMTRACE_CPU_SMS", "132", "MEMTRACE_BUFFER", "2M",
                               "MEMTRACE_ENABLE", "0", "MEMTRACE_DIR", "/x y", "MEMTRACE_PATTERN",
                               "t.%p.?.bin"}};
    struct mt_options o = options_parse(&f);
    assert_int_equal(f.n, 0);
    assert_int_equal(o.device, MT_DEVICE_CPU);
    assert_int_equal(o.cpu_sms, 132);
    assert_int_equal(o.buffer, 2 << 20);
    assert_int_equal(o.enable, 0);
    assert_string_equal(o.dir, "/x y");
    assert_string_equal(o.pattern, "t.%p.?.bin");
}

static void empty_is_unset(void **state)
{
    struct fake f = {.pairs = {"MEMTRACE_DEVICE", "", "MEMTRACE_CPU_SMS", "", "MEMTRACE_DIR", ""}};
    struct mt_options o = options_parse(&f);
    assert_int_equal(f.n, 0);
    assert_int_equal(o.cpu_sms, 4);
    assert_string_equal(o.dir, "/tmp");
}

static void options_bad(void **state)
{
    static const char *const cases[][2] = {
        {"MEMTRACE_DEVICE", "tpu"},      {"MEMTRACE_DEVICE", "cp"},           {"MEMTRACE_ENABLE", "yes"},
        {"MEMTRACE_CPU_SMS", "0"},       {"MEMTRACE_CPU_SMS", "1025"},        {"MEMTRACE_CPU_SMS", "-1"},
        {"MEMTRACE_CPU_SMS", "4x"},      {"MEMTRACE_CPU_SMS", " 4"},          {"MEMTRACE_BUFFER", "1Q"},
        {"MEMTRACE_BUFFER", "64KB"},     {"MEMTRACE_BUFFER", "99999999999G"}, {"MEMTRACE_BUFFER", "1"},
        {"MEMTRACE_PATTERN", "noqmark"}, {"MEMTRACE_PATTERN", "a/?"},         {"MEMTRACE_FORMAT", "xml"},
    };
    struct fake none = {.n = 0};
    struct mt_options def = options_parse(&none);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fake f = {.pairs = {cases[i][0], cases[i][1]}};
        struct mt_options o = options_parse(&f);
        assert_int_equal(f.n, 1);
        assert_non_null(strstr(f.complaints, cases[i][0]));
        assert_non_null(strstr(f.complaints, cases[i][1]));
        assert_int_equal(o.device, def.device);
        assert_int_equal(o.enable, def.enable);
        assert_int_equal(o.cpu_sms, def.cpu_sms);
        assert_int_equal(o.buffer, def.buffer);
        assert_int_equal(o.format, def.format);
        assert_string_equal(o.pattern, def.pattern);
    }
}

/* ---- a setuid program does not take orders from its caller's environment ---- */

static int copy_of_us(const char *to)
{
    char block[65536];
    int in = open("/proc/self/exe", O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0700), rc = -1;
    ssize_t n;
    while (in >= 0 && out >= 0 && (n = read(in, block, sizeof block)) > 0 &&
           write(out, block, (size_t)n) == n)
        rc = 0;
    close(in);
    close(out);
    return rc;
}

/* 0: it has the default folder; 1: the caller's; 2: the system takes it for an ordinary program. */
static int run_setuid(void *path)
{
    setenv("MEMTRACE_DIR", "/somewhere/else", 1);
    execl(path, path, "--secure", (char *)NULL);
    return 9;
}

static void setuid_program(void **state)
{
    const char *dir = fresh_dir(), *path = in_dir(dir, "ours");
    if (geteuid() || copy_of_us(path) || chmod(dir, 0755) || chown(path, 65534, 65534) || chmod(path, 04755))
        skip();
    int rc = in_child(run_setuid, (void *)(uintptr_t)path);
    if (rc == 2 || rc == 9 || rc == 127) /* a file system without setuid, or a library that nobody may read */
        skip();
    assert_int_equal(rc, 0);
}

static int options_secure(void)
{
    if (!getauxval(AT_SECURE))
        return 2;
    return strcmp(mt_options()->dir, "/tmp") != 0;
}

static int options_read(void *environment)
{
    char *words[] = {"test", "--read", NULL};
    return execve("/proc/self/exe", words, environment);
}

static void options_say(void *environment)
{
    assert_int_equal(in_child(options_read, environment), 0);
}

/* One letter too few, too many, another one, two the wrong way round, small letters: each is told with what
 * is meant. Other tools' variables, and ours, are not. */
static void options_misspelt(void **state)
{
    char *wrong[] = {"MEMTRACE_KERNEL=x",   "MEMTRACE_DIRS=/", "MEMTRACE_FORMAR=raw",
                     "MEMTRACE_FROMAT=raw", "memtrace_dir=/",  NULL};
    const char *meant[] = {"is MEMTRACE_KERNELS meant", "is MEMTRACE_DIR meant", "is MEMTRACE_FORMAT meant",
                           "is MEMTRACE_FORMAT meant", "is MEMTRACE_DIR meant"};
    for (int i = 0; wrong[i]; i++) {
        char *one[] = {wrong[i], NULL}, name[40];
        char *text = said(options_say, one);
        snprintf(name, sizeof name, "memtrace: %.*s is not", (int)strcspn(wrong[i], "="), wrong[i]);
        assert_int_equal(count_lines(text, "", NULL), 1);
        assert_int_equal(count_lines(text, name, meant[i], NULL), 1);
        free(text);
    }
    char *right[] = {"MEMTRACE_KERNELS=x", "MEMTRACE_DIR",        "MEMTRACE_CLANG=y",   "MEMTRACE_CUDA=/c",
                     "MEMTRACE_QEMU=q",    "MEMTRACE_PIN_TOOL=p", "MEMTRACE=1",         "MEMTRACE_TIDY_ALL=1",
                     "PATH=/bin",          "MEMTRACE_=",          "MEMTRACE_OVERLAY=o", NULL};
    char *text = said(options_say, right);
    assert_string_equal(text, "");
    free(text);
}

/* The brackets of a long name are emptied, the inner ones first, and what is then too long loses its middle.
 * Operators' signs are no brackets; what nothing closes is none, and takes no time. */
static void names_short(void **state)
{
    static char deep[1 << 20], box[4096], want[4096];
    const char *same[] = {"k", "f<int>(float*)", "", NULL};
    for (int i = 0; same[i]; i++)
        assert_string_equal(mt_short(same[i]).text, same[i]);
    assert_string_equal(mt_short(NULL).text, "");
    memset(deep, 'x', 2000);
    snprintf(box, sizeof box, "foo<%.2000s, Box<int> >::bar<3>((anonymous namespace)::T*)", deep);
    assert_string_equal(mt_short(box).text, "foo<…>::bar<3>(…)");
    snprintf(box, sizeof box, "A<%.2000s>::operator<< <%.200s>::(anonymous namespace)::f", deep, deep);
    assert_string_equal(mt_short(box).text, "A<…>::operator<< <…>::(anonymous namespace)::f");
    snprintf(box, sizeof box, "void at::kernel<4, at::add<float>, std::array<char*, 3ul> >(%.200s)", deep);
    assert_string_equal(mt_short(box).text, "void at::kernel<4, at::add<float>, std::array<char*, 3ul> >(…)");
    snprintf(box, sizeof box, "k<4, F<G<%.200s>, H<%.30s> >, 5>(int)", deep, deep);
    assert_string_equal(mt_short(box).text, "k<4, F<G<…>, H<…> >, 5>(int)");
    snprintf(box, sizeof box, "k<4, F<G<%.30s>, %.120s>, 5>(int)", deep, deep);
    assert_string_equal(mt_short(box).text, "k<4, F<…>, 5>(int)");
    snprintf(want, sizeof want, "%.60s…%.60s", deep, deep);
    snprintf(box, sizeof box, "%.2000s", deep);
    assert_string_equal(mt_short(box).text, want);
    memset(deep, '<', sizeof deep - 1);
    snprintf(want, sizeof want, "%.60s…%.60s", deep, deep);
    assert_string_equal(mt_short(deep).text, want);
    for (size_t i = 0; i < 500; i++) /* no character is cut: 60 bytes begin with x and 29 whole ones */
        memcpy(box + 1 + 2 * i, "é", 3);
    *box = 'x';
    snprintf(want, sizeof want, "%.59s…%.60s", box, box + 1);
    assert_string_equal(mt_short(box).text, want);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--secure"))
        _exit(options_secure());
    if (argc == 2 && !strcmp(argv[1], "--read"))
        return !mt_options();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_defaults), cmocka_unit_test(options_values),
        cmocka_unit_test(empty_is_unset),   cmocka_unit_test(options_bad),
        cmocka_unit_test(setuid_program),   cmocka_unit_test(options_misspelt),
        cmocka_unit_test(names_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
