/* Descriptors of ours among the program's: their numbers, and what happens when the program closes them;
 * words on a stderr that nobody reads. */
#define _GNU_SOURCE
#include "sink.h"
#include "util.h"
#include "base/report.h"
#include "memtrace/record.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* The number under which this process has the file open, or -1. */
static int number_of(const char *path)
{
    struct stat want, st;
    assert_int_equal(stat(path, &want), 0);
    for (int fd = 0; fd < 256; fd++)
        if (!fstat(fd, &st) && st.st_dev == want.st_dev && st.st_ino == want.st_ino)
            return fd;
    return -1;
}

/* A program that closes every descriptor, and opens a file of its own with our number. */
static void closed_by_the_program(void **state)
{
    const char *dir = fresh_dir(), *path = in_dir(dir, "t"), *other = in_dir(dir, "theirs");
    struct mt_raw_record r = mt_rec_pack(0, MT_LOAD, 4, 1, 1);
    struct mt_sink *s = open_ok(path);
    sink_begin(s, "k");
    mt_sink_ops.append(s, &r, 1);
    int ours = number_of(path), theirs = open(other, O_RDWR | O_CREAT, 0600);
    assert_true(ours > 2);
    assert_int_equal(dup2(theirs, ours), ours);
    close(theirs);
    assert_int_equal(chdir("/"), 0);
    mt_sink_ops.append(s, &r, 1);
    assert_int_equal(sink_end(s), 2);
    int again = number_of(path);
    close(again); /* and once more, with nothing in its place */
    sink_begin(s, "l");
    mt_sink_ops.append(s, &r, 1);
    assert_int_equal(sink_end(s), 1);
    mt_sink_ops.close(s);
    struct stat st;
    assert_int_equal(fstat(ours, &st), 0); /* theirs is not closed, and empty */
    assert_int_equal(st.st_size, 0);
    close(ours);
    struct raw raw;
    raw_read(path, &raw);
    assert_int_equal(raw.launches, 2);
    assert_int_equal(raw.launch[0].records, 2);
    assert_int_equal(raw.launch[1].records, 1);
    assert_int_equal(raw.whole, raw.bytes);
}

/* A FIFO cannot be opened again: the trace ends there, and the program's file stays as it is. */
static void closed_fifo(void **state)
{
    const char *dir = fresh_dir(), *path = in_dir(dir, "f"), *other = in_dir(dir, "theirs");
    struct mt_raw_record r = mt_rec_pack(0, MT_LOAD, 4, 1, 1);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    struct mt_sink *s = open_ok(path);
    sink_begin(s, "k");
    int theirs = open(other, O_RDWR | O_CREAT, 0600), ours = 3;
    struct stat want, st;
    assert_int_equal(stat(path, &want), 0);
    while (ours == reader || fstat(ours, &st) || st.st_ino != want.st_ino || st.st_dev != want.st_dev)
        ours++;
    assert_int_equal(dup2(theirs, ours), ours);
    mt_sink_ops.append(s, &r, 1);
    sink_end(s);
    assert_non_null(strstr(mt_sink_ops.error(s), "closed its descriptor"));
    mt_sink_ops.close(s);
    assert_int_equal(fstat(ours, &st), 0);
    assert_int_equal(st.st_size, 0);
    close(ours);
    close(theirs);
    close(reader);
}

/* Programs that start without stdin, stdout and stderr open them later. */
static int open_without_stdio(void *path)
{
    char why[512];
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    struct mt_sink *s = mt_sink_open(path, why, sizeof why);
    struct stat st;
    int taken = 0;
    for (int fd = 0; fd < 3; fd++)
        taken += !fstat(fd, &st);
    mt_sink_ops.close(s);
    return s ? taken : 9;
}

static void without_stdio(void **state)
{
    /* Not in a child of ours: that may not write. */
    char path[64];
    snprintf(path, sizeof path, "%s", in_dir(fresh_dir(), "t"));
    int saved[3];
    for (int fd = 0; fd < 3; fd++)
        saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
    int rc = open_without_stdio(path);
    for (int fd = 0; fd < 3; fd++) {
        if (saved[fd] >= 0)
            dup2(saved[fd], fd);
        close(saved[fd]);
    }
    assert_int_equal(rc, 0);
}

/* What is said on stderr must not end the program when nobody reads it. */
static int say_to_nobody(void *arg)
{
    int p[2];
    if (pipe(p) || dup2(p[1], STDERR_FILENO) < 0)
        return 1;
    close(p[0]);
    close(p[1]);
    mt_report("nobody hears this");
    _exit(0); /* whatever else wants to say something at the end */
}

static void reader_of_stderr_goes(void **state)
{
    assert_int_equal(in_child(say_to_nobody, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_by_the_program),
        cmocka_unit_test(closed_fifo),
        cmocka_unit_test(without_stdio),
        cmocka_unit_test(reader_of_stderr_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
