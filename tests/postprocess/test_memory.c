/* Limits of memory, from files like those of the kernel: cgroups of both versions and those above, the
 * machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../postprocess/cli/base/memory.h"

static char root[] = "/tmp/mt-memory-XXXXXX", proc[64], cgroup[64];
static const struct mt_memory_files files = {proc, cgroup};

/* Writes a file of the root, making its folders. */
static void kernel_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int memory_root(void **state)
{
    (void)state;
    if (!mkdtemp(root))
        return -1;
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(cgroup, sizeof cgroup, "%s/cgroup", root);
    return 0;
}

static int memory_remove(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

/* 100 MiB resident of 200 MiB of addresses, where pages have 4 KiB. */
static void memory_machine(void **state)
{
    (void)state;
    kernel_file("proc/self/statm", "51200 25600 1 1 0 1 0\n");
    kernel_file("proc/meminfo",
                "MemTotal: 1 kB\nMemFree:  7 kB\nMemAvailable:    20480 kB\nSwapFree: 0 kB\n");
    struct mt_memory m = mt_memory_look(&files);
    assert_true(m.used == (uint64_t)100 << 20 || sysconf(_SC_PAGESIZE) != 4096);
    assert_int_equal(m.left, 40 << 20);
    assert_string_equal(m.limit, "the machine's memory");
    assert_int_equal(m.is_short, 0);
    kernel_file("proc/meminfo", "MemAvailable: 10000 kB\nSwapFree: 2000 kB\n");
    m = mt_memory_look(&files);
    assert_int_equal(m.left, 24000 << 10);
    assert_int_equal(m.is_short, 1);
    kernel_file("proc/meminfo", "MemAvailable: 999999999 kB\nSwapFree: 0 kB\n");
    assert_int_equal(mt_memory_look(&files).is_short, 0);
}

/* The nearest of a cgroup and those above counts; files that the kernel can drop do not. */
static void memory_two(void **state)
{
    (void)state;
    kernel_file("proc/self/cgroup", "0::/a/b\n");
    kernel_file("cgroup/a/b/memory.max", "max\n");
    kernel_file("cgroup/a/b/memory.current", "5\n");
    kernel_file("cgroup/a/memory.max", "200000000\n");
    kernel_file("cgroup/a/memory.current", "190000000\n");
    kernel_file("cgroup/a/memory.stat", "anon 1\nfile 7\ninactive_file 80000000\nactive_file 10000000\n");
    struct mt_memory m = mt_memory_look(&files);
    assert_int_equal(m.left, 100000000);
    assert_string_equal(m.limit, "the limit of its cgroup");
    assert_int_equal(m.is_short, 0);
    kernel_file("cgroup/a/b/memory.max", "20000000\n");
    m = mt_memory_look(&files);
    assert_int_equal(m.left, 19999995);
    assert_int_equal(m.is_short, 1);
}

static void memory_one(void **state)
{
    (void)state;
    kernel_file("proc/self/cgroup", "9:name=systemd:/\n4:memory:/job/7\n1:cpu:/\n0::/\n");
    kernel_file("cgroup/memory/job/7/memory.limit_in_bytes", "9223372036854771712\n");
    kernel_file("cgroup/memory/job/memory.limit_in_bytes", "100000000\n");
    kernel_file("cgroup/memory/job/memory.usage_in_bytes", "99000000\n");
    struct mt_memory m = mt_memory_look(&files);
    assert_int_equal(m.left, 1000000);
    assert_int_equal(m.is_short, 1);
    kernel_file("proc/self/cgroup", "");
    assert_int_equal(mt_memory_look(&files).is_short, 0);
}

static void memory_addresses(void **state)
{
    (void)state;
    struct rlimit was, r = {0};
    assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
    r.rlim_cur = ((uint64_t)51200 + 1000) * (uint64_t)sysconf(_SC_PAGESIZE);
    r.rlim_max = was.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_AS, &r), 0);
    struct mt_memory m = mt_memory_look(&files);
    setrlimit(RLIMIT_AS, &was);
    assert_int_equal(m.left, 1000 * (uint64_t)sysconf(_SC_PAGESIZE));
    assert_string_equal(m.limit, "ulimit -v");
}

static void memory_here(void **state)
{
    (void)state;
    struct mt_memory m = mt_memory_look(NULL);
    assert_true(m.used > 1 << 16 && m.used < (uint64_t)1 << 40);
    assert_true(mt_memory_used() > 1 << 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_machine), cmocka_unit_test(memory_two),
                                       cmocka_unit_test(memory_one), cmocka_unit_test(memory_addresses),
                                       cmocka_unit_test(memory_here)};
    return cmocka_run_group_tests(tests, memory_root, memory_remove);
}
