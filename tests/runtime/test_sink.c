/* The raw trace's writer: bytes, threads, and everything that can go wrong with a file. */
#define _GNU_SOURCE
#include "sink.h"
#include "util.h"
#include "memtrace/record.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <cmocka.h>

static void expect_refused(const char *path, const char *word)
{
    char why[512] = "";
    struct mt_sink *s = mt_sink_open(path, why, sizeof why);
    assert_null(s);
    if (!strstr(why, word) || !strstr(why, path))
        fail_msg("\"%s\" does not say \"%s\"", why, word);
}

/* ---- bytes ---- */

static void sink_bytes(void **state)
{
    static const unsigned char expect[] = "\x18"
                                          "f<int>\n"
                                          "\x04\x00\x00\x10\x03\x00\x00\x00" /* SM 3, store, 4 bytes */
                                          "\x08\x07\x06\x05\x04\x03\x02\x01"
                                          "\x09\x00\x02\x00\x01\x00\x00\x00" /* CTA (1, 2, 9) */
                                          "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                          "g\n"
                                          "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    const char *path = in_dir(fresh_dir(), "t");
    struct mt_sink *s = open_ok(path);
    struct mt_raw_record r = mt_rec_pack(3, MT_STORE, 4, 0x0102030405060708u, mt_rec_cta(1, 2, 9));
    assert_int_equal(sink_begin(s, "f<int>"), 0);
    mt_sink_ops.append(s, &r, 1);
    assert_int_equal(sink_end(s), 1);
    assert_int_equal(sink_begin(s, "g"), 0);
    assert_int_equal(sink_end(s), 0);
    mt_sink_ops.close(s);
    size_t n;
    char *got = slurp(path, &n);
    assert_int_equal(n, sizeof expect - 1);
    assert_memory_equal(got, expect, n);
    struct stat st;
    stat(path, &st);
    assert_int_equal(st.st_mode & 0777, 0600);
    free(got);
}

/* Whatever anybody let others do with the file: what is in it from now on is nobody else's business. */
static void old_modes_go(void **state)
{
    const mode_t modes[] = {0644, 0666, 04755, 0400 | 0200 | 0040};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct stat st;
        const char *path = in_dir(fresh_dir(), "t");
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_int_equal(fchmod(fd, modes[i]), 0);
        close(fd);
        struct mt_sink *s = open_ok(path);
        stat(path, &st);
        assert_int_equal(st.st_mode & 07777, 0600);
        mt_sink_ops.close(s);
    }
}

static void newline_in_name(void **state)
{
    const char *path = in_dir(fresh_dir(), "t");
    struct mt_sink *s = open_ok(path);
    sink_begin(s, "a\nb");
    sink_end(s);
    mt_sink_ops.close(s);
    struct raw r;
    raw_read(path, &r);
    assert_string_equal(r.launch[0].name, "a b");
    assert_int_equal(r.whole, r.bytes);
}

static void old_contents_go(void **state)
{
    const char *path = in_dir(fresh_dir(), "t");
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 1000; i++)
        fputs("something else", f);
    fclose(f);
    mt_sink_ops.close(open_ok(path));
    size_t n;
    free(slurp(path, &n));
    assert_int_equal(n, 1);
}

/* ---- threads ---- */

enum { THREADS = 4, BLOCKS = 300 };
struct part {
    struct mt_sink *sink;
    unsigned id;
    uint64_t records, sum;
};

static void *append_many(void *arg)
{
    struct part *p = arg;
    struct mt_raw_record block[97];
    uint64_t x = p->id * 7919u + 1;
    for (int b = 0; b < BLOCKS; b++) {
        size_t n = 1 + (x >> 33) % 97;
        for (size_t i = 0; i < n; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            block[i] = mt_rec_pack(p->id, MT_LOAD, 1 + (x & 7), x, (uint64_t)b << 32);
            p->sum += block[i].w[0] + block[i].w[1] + block[i].w[2];
        }
        mt_sink_ops.append(p->sink, block, n);
        p->records += n;
    }
    return NULL;
}

static void append_from_threads(struct mt_sink *s, uint64_t *records, uint64_t *sum)
{
    pthread_t t[THREADS];
    struct part part[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        part[i] = (struct part){s, i, 0, 0};
        pthread_create(&t[i], NULL, append_many, &part[i]);
    }
    *records = *sum = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        *records += part[i].records;
        *sum += part[i].sum;
    }
}

/* What the launch at `at` of a file is known by: records 0 to 128, 256, 512 … as the format's page has it. */
static uint64_t sample_of(const char *at, uint64_t records)
{
    char picked[200 * 24];
    size_t n = 0;
    for (uint64_t i = 0; i < records; i++)
        if (i <= 128 || (i & (i - 1)) == 0)
            memcpy(picked + 24 * n++, at + 24 * i, 24);
    return XXH3_64bits(picked, 24 * n);
}

static void sink_concurrent(void **state)
{
    const char *path = in_dir(fresh_dir(), "t");
    struct mt_sink *s = open_ok(path);
    uint64_t records[3], sum[3], sample[3];
    for (int l = 0; l < 3; l++) {
        sink_begin(s, "k");
        append_from_threads(s, &records[l], &sum[l]);
        assert_int_equal(sink_end(s), records[l]);
        assert_true(mt_sink_ops.sample(s, &sample[l]));
    }
    mt_sink_ops.close(s);
    size_t n, at = 1;
    char *bytes = slurp(path, &n);
    for (int l = 0; l < 3; at += 24 * (records[l++] + 1))
        assert_int_equal(sample[l], sample_of(bytes + (at += 2), records[l]));
    assert_int_equal(at, n);
    free(bytes);
    struct raw r;
    assert_int_equal(raw_read(path, &r), 0);
    assert_int_equal(r.launches, 3);
    for (int l = 0; l < 3; l++) {
        assert_int_equal(r.launch[l].records, records[l]);
        assert_int_equal(r.launch[l].sum, sum[l]);
        assert_true(r.launch[l].ended);
    }
    assert_int_equal(r.whole, r.bytes);
}

/* ---- FIFO ---- */

struct reader {
    const char *path;
    const char *out;
    int delay_ms;      /* -1: until something is on stderr, a file then */
    size_t stop_after; /* 0: read to the end */
};

static void *copy_fifo(void *arg)
{
    struct reader *r = arg;
    char buffer[4096];
    size_t total = 0;
    struct stat words = {0};
    if (r->delay_ms >= 0)
        usleep((unsigned)r->delay_ms * 1000);
    else
        while (fstat(2, &words) || !S_ISREG(words.st_mode) || !words.st_size)
            usleep(10000);
    int in = open(r->path, O_RDONLY), out = open(r->out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t n;
    while ((n = read(in, buffer, sizeof buffer)) > 0) {
        if (write(out, buffer, (size_t)n) != n)
            abort();
        total += (size_t)n;
        if (r->stop_after && total >= r->stop_after)
            break;
    }
    close(in);
    close(out);
    return NULL;
}

static void sink_fifo(void **state)
{
    const char *dir = fresh_dir();
    char path[64], out[64];
    snprintf(path, sizeof path, "%s", in_dir(dir, "fifo"));
    snprintf(out, sizeof out, "%s", in_dir(dir, "out"));
    mkfifo(path, 0600);
    struct reader reader = {path, out, 50, 0};
    pthread_t t;
    pthread_create(&t, NULL, copy_fifo, &reader);
    struct mt_sink *s = open_ok(path);
    uint64_t records, sum;
    sink_begin(s, "k");
    append_from_threads(s, &records, &sum);
    assert_int_equal(sink_end(s), records);
    mt_sink_ops.close(s);
    pthread_join(t, NULL);
    struct raw r;
    assert_int_equal(raw_read(out, &r), 0);
    assert_int_equal(r.launch[0].records, records);
    assert_int_equal(r.launch[0].sum, sum);
    assert_int_equal(r.whole, r.bytes);
}

static void open_fifo(void *path)
{
    mt_sink_ops.close(open_ok(path));
}

static void fifo_says_that_it_waits(void **state)
{
    const char *dir = fresh_dir();
    char path[64], out[64];
    snprintf(path, sizeof path, "%s", in_dir(dir, "fifo"));
    snprintf(out, sizeof out, "%s", in_dir(dir, "out"));
    mkfifo(path, 0600);
    struct reader reader = {path, out, -1, 0};
    pthread_t t;
    pthread_create(&t, NULL, copy_fifo, &reader);
    char *text = said(open_fifo, path);
    pthread_join(t, NULL);
    assert_int_equal(count_lines(text, "waiting for a reader", path, NULL), 1);
    free(text);
}

struct broken {
    struct mt_sink *s;
    uint64_t records, kept;
};

static void run_broken(void *arg)
{
    struct broken *b = arg;
    uint64_t sum;
    sink_begin(b->s, "k");
    append_from_threads(b->s, &b->records, &sum);
    b->kept = sink_end(b->s);
    assert_int_equal(sink_begin(b->s, "later"), -1);
    mt_sink_ops.append(b->s, &sum, 0);
    assert_int_equal(sink_end(b->s), 0);
}

static void reader_goes(void **state)
{
    const char *dir = fresh_dir();
    char path[64], out[64];
    snprintf(path, sizeof path, "%s", in_dir(dir, "fifo"));
    snprintf(out, sizeof out, "%s", in_dir(dir, "out"));
    mkfifo(path, 0600);
    struct reader reader = {path, out, 0, 30000};
    pthread_t t;
    pthread_create(&t, NULL, copy_fifo, &reader);
    signal(SIGPIPE, SIG_DFL); /* a raised SIGPIPE would end this program */
    struct broken b = {.s = open_ok(path)};
    char *text = said(run_broken, &b);
    pthread_join(t, NULL);
    assert_int_equal(count_lines(text, "memtrace: ", NULL), 1);
    assert_int_equal(count_lines(text, "closed the FIFO", path, NULL), 1);
    assert_false(mt_sink_ops.on(b.s));
    assert_true(b.kept < b.records);
    sigset_t pending;
    sigpending(&pending);
    assert_false(sigismember(&pending, SIGPIPE));
    mt_sink_ops.close(b.s);
    free(text);
}

/* ---- full ---- */

static void check_cut(const char *path, struct broken *b, const char *text, const char *word)
{
    struct raw r;
    assert_int_equal(count_lines(text, "memtrace: ", NULL), 1);
    assert_int_equal(count_lines(text, word, path, NULL), 1);
    assert_false(mt_sink_ops.on(b->s));
    assert_true(b->kept < b->records);
    assert_int_equal(raw_read(path, &r), 0);
    assert_int_equal(r.launches, 1);
    assert_int_equal(r.launch[0].records, b->kept);
    assert_false(r.launch[0].ended);
    assert_int_equal(r.whole, r.bytes); /* cut to whole records */
}

static int size_limit(void *arg)
{
    const char *path = in_dir(fresh_dir(), "t");
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){100001, 100001});
    signal(SIGXFSZ, SIG_DFL);
    struct broken b = {.s = open_ok(path)};
    run_broken(&b);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){100001, 100001});
    int ok = b.kept == (100001 - 3) / 24 && !mt_sink_ops.on(b.s);
    mt_sink_ops.close(b.s);
    struct raw r;
    ok = ok && !raw_read(path, &r) && r.whole == r.bytes && r.launch[0].records == b.kept;
    unlink(path);
    return ok ? 0 : 1;
}

static void file_size_limit(void **state)
{
    assert_int_equal(in_child(size_limit, NULL), 0);
}

static void no_space(void **state)
{
    char dir[64], path[80];
    snprintf(dir, sizeof dir, "%s", fresh_dir());
    if (mount("none", dir, "tmpfs", 0, "size=200k")) {
        print_message("cannot mount a small tmpfs: %s\n", strerror(errno));
        skip();
    }
    snprintf(path, sizeof path, "%s/t", dir);
    struct broken b = {.s = open_ok(path)};
    char *text = said(run_broken, &b);
    check_cut(path, &b, text, "No space left");
    mt_sink_ops.close(b.s);
    free(text);
    umount2(dir, MNT_DETACH);
}

/* ---- paths ---- */

static void symlink_refused(void **state)
{
    const char *dir = fresh_dir();
    char path[64], target[64];
    snprintf(path, sizeof path, "%s", in_dir(dir, "link"));
    snprintf(target, sizeof target, "%s", in_dir(dir, "target"));
    close(open(target, O_WRONLY | O_CREAT, 0600));
    assert_int_equal(truncate(target, 77), 0);
    assert_int_equal(symlink(target, path), 0);
    expect_refused(path, "symbolic link");
    size_t n;
    free(slurp(target, &n));
    assert_int_equal(n, 77);
    unlink(path);
    assert_int_equal(symlink("/nowhere/at/all", path), 0);
    expect_refused(path, "symbolic link");
}

static void hard_link_refused(void **state)
{
    const char *dir = fresh_dir();
    char path[64], target[64];
    snprintf(path, sizeof path, "%s", in_dir(dir, "link"));
    snprintf(target, sizeof target, "%s", in_dir(dir, "target"));
    close(open(target, O_WRONLY | O_CREAT, 0600));
    assert_int_equal(link(target, path), 0);
    expect_refused(path, "hard links");
}

static void others_refused(void **state)
{
    const char *dir = fresh_dir();
    char path[64];
    expect_refused(dir, "neither a regular file nor a FIFO");
    expect_refused("/dev/full", "neither a regular file nor a FIFO");
    expect_refused("/tmp/mt-no-such-folder/x", "folder does not exist");
    snprintf(path, sizeof path, "%s", in_dir(dir, "theirs"));
    close(open(path, O_WRONLY | O_CREAT, 0666));
    if (chown(path, 12345, 12345))
        skip(); /* not root */
    expect_refused(path, "belongs to user 12345");
    unlink(path);
    mkfifo(path, 0666);
    assert_int_equal(chown(path, 12345, 12345), 0);
    expect_refused(path, "belongs to user 12345");
}

static int open_busy(void *path)
{
    char why[512] = "";
    /* a process of its own, not a fork of a tracing one: the handlers are not installed yet */
    return mt_sink_open(path, why, sizeof why) ? 1 : strstr(why, "another traced process") ? 0 : 2;
}

static void two_processes(void **state)
{
    static char path[64];
    snprintf(path, sizeof path, "%s", in_dir(fresh_dir(), "t"));
    int go[2], done[2];
    char c;
    assert_int_equal(pipe(go) | pipe(done), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct mt_sink *s = open_ok(path);
        sink_begin(s, "k");
        if (write(go[1], "x", 1) != 1 || read(done[0], &c, 1) != 1)
            _exit(1);
        sink_end(s);
        mt_sink_ops.close(s);
        _exit(0);
    }
    assert_int_equal(read(go[0], &c, 1), 1);
    assert_int_equal(open_busy(path), 0);
    assert_int_equal(write(done[1], "x", 1), 1);
}

/* ---- fork ---- */

static int write_in_child(void *s)
{
    struct mt_raw_record r = mt_rec_pack(0, MT_LOAD, 4, 1, 1);
    mt_sink_ops.append(s, &r, 1);
    sink_end(s);
    sink_begin(s, "child");
    sink_end(s);
    mt_sink_ops.close(s);
    return 0;
}

static void child_writes_nothing(void **state)
{
    const char *path = in_dir(fresh_dir(), "t");
    struct mt_sink *s = open_ok(path);
    struct mt_raw_record r = mt_rec_pack(0, MT_LOAD, 4, 1, 1);
    sink_begin(s, "k");
    assert_int_equal(in_child(write_in_child, s), 0);
    mt_sink_ops.append(s, &r, 1);
    assert_int_equal(sink_end(s), 1);
    mt_sink_ops.close(s);
    struct raw raw;
    raw_read(path, &raw);
    assert_int_equal(raw.launches, 1);
    assert_int_equal(raw.launch[0].records, 1);
    assert_int_equal(raw.whole, raw.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_processes), /* first: its child must not be one that may not write */
        cmocka_unit_test(file_size_limit), cmocka_unit_test(sink_bytes),
        cmocka_unit_test(old_modes_go),    cmocka_unit_test(newline_in_name),
        cmocka_unit_test(old_contents_go), cmocka_unit_test(sink_concurrent),
        cmocka_unit_test(sink_fifo),       cmocka_unit_test(fifo_says_that_it_waits),
        cmocka_unit_test(reader_goes),     cmocka_unit_test(no_space),
        cmocka_unit_test(symlink_refused), cmocka_unit_test(hard_link_refused),
        cmocka_unit_test(others_refused),  cmocka_unit_test(child_writes_nothing),
    };
    setenv("MEMTRACE_QUIET", "0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
