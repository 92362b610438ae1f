/* Programs of ours beside the traced one: until they run, they share its memory. What a sanitizer in the
 * program keeps there must stay as it is: its sigaction would forget the program's handlers, its _exit would
 * end its reports, its clone would take us for another process. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/child.h"

static volatile int asked; /* times that the program's own functions were asked */
static int qemu;           /* it runs there: who cannot be started may look as one that ends at once */

/* In place of the C library's, as a sanitizer's are. */
int sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
    (void)sig, (void)new, (void)old;
    asked++;
    return 0;
}

void _exit(int code)
{
    asked++;
    for (;;)
        syscall(SYS_exit_group, code);
}

int clone(int (*run)(void *), void *stack, int flags, void *arg, ...)
{
    extern int __clone(int (*)(void *), void *, int, void *, ...);
    asked++;
    return __clone(run, stack, flags, arg);
}

/* What `words` writes to its standard output, or -1. */
static ssize_t child_says(const char *const *words, char *text, size_t size)
{
    char why[200];
    int out[2];
    assert_int_equal(pipe(out), 0);
    struct mt_child c = {.words = (char *const *)words, .fd = {-1, out[1], 2, -1}};
    pid_t pid = mt_child_start(&c, why, sizeof why);
    close(out[1]);
    ssize_t n = pid < 0 ? -1 : read(out[0], text, size);
    close(out[0]);
    return n;
}

static void test_the_programs_functions_are_left_alone(void **state)
{
    (void)state;
    char text[16];
    assert_int_equal(child_says((const char *const[]){"echo", "here", NULL}, text, sizeof text), 5);
    assert_memory_equal(text, "here\n", 5);
    ssize_t n = child_says((const char *const[]){"/nowhere/at/all", NULL}, text, sizeof text);
    assert_true(n == -1 || (qemu && n == 0));
    assert_int_equal(asked, 0);
}

int main(int argc, char **argv)
{
    (void)argv;
    qemu = argc > 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_programs_functions_are_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
